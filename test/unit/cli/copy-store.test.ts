import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable, Writable } from 'node:stream';
import { exportStore, importStore } from '../../../src/cli/copy-store.ts';
import { StorageUnavailable } from '../../../src/common/errors.ts';
import type { StorageConfig } from '../../../src/storage/config.ts';
import type { Storage } from '../../../src/storage/sql-storage.ts';
import type { StorageRecord } from '../../../src/storage/sql-database.ts';

const DOCUMENT = Buffer.from('{"project":"p","dataset_name":"n","type":"MDX"}');
const RECORDS: readonly StorageRecord[] = [
  { kind: 'head', roles: 1, datasets: 1, nextRoleId: 2, nextDatasetId: 2 },
  { kind: 'role', role: { id: 1, name: 'Admin', description: '', contains: [] } },
  {
    kind: 'dataset',
    id: 1,
    lastModified: 1,
    dataset: { project: 'p', name: 'n', type: 'MDX', document: DOCUMENT },
  },
];

/** Any file that is there. */
const SQLITE: StorageConfig = { driver: 'sqlite', path: import.meta.filename };

/** What the commands ask of a storage, over a list. */
function fakeStorage(
  dump: () => AsyncIterable<StorageRecord> = async function* () {
    yield* RECORDS;
  },
) {
  const restored: StorageRecord[] = [];
  let closed = 0;
  const storage: Pick<Storage, 'open' | 'dump' | 'restore' | 'close'> = {
    open: async () => {},
    dump,
    async restore(records) {
      restored.push(...(await Array.fromAsync(records)));
    },
    async close() {
      closed += 1;
    },
  };
  return { storage: storage as Storage, restored, closed: () => closed };
}

function parts(storage: Storage, config: StorageConfig = SQLITE) {
  const told: string[] = [];
  const stopping = new AbortController();
  return {
    told,
    stopping,
    common: {
      config,
      createStorage: async () => storage,
      input: new PassThrough(),
      output: new PassThrough(),
      prompts: { write: (text: string) => told.push(text) },
      now: () => 0,
      stopped: stopping.signal,
    },
  };
}

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-copy-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('export-store', () => {
  async function run(file: string | undefined, fake = fakeStorage(), output = new PassThrough()) {
    const { told, stopping, common } = parts(fake.storage);
    const status = exportStore(file, { ...common, output });
    return { status: await status, told, stopping, closed: fake.closed() };
  }

  test('refuses to export a file that is not there instead of making it', async () => {
    const path = join(folder, 'mistyped.sqlite');
    const fake = fakeStorage();
    const { told, common } = parts(fake.storage, { driver: 'sqlite', path });
    expect(await exportStore(undefined, { ...common, output: new PassThrough() })).toBe(1);
    expect(told).toEqual([
      `mdx-gateway export-store: storage.path: ${path} does not exist, so there is nothing to export\n`,
    ]);
    expect(fake.closed()).toBe(1);
  });

  test('writes a file that only its owner reads, and nothing beside it', async () => {
    const file = join(folder, 'store.jsonl');
    const { status, told, closed } = await run(file);
    expect([status, closed]).toEqual([0, 1]);
    expect(told).toEqual([
      'mdx-gateway export-store: 2 of 2 records, 0.0 MiB\n',
      `mdx-gateway export-store: written to ${file}\n`,
    ]);
    expect(readdirSync(folder)).toEqual(['store.jsonl']);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readFileSync(file, 'utf8').split('\n')).toHaveLength(6);
  });

  test('touches no file that is there already', async () => {
    const file = join(folder, 'store.jsonl');
    writeFileSync(file, 'precious');
    const { status, told } = await run(file);
    expect([status, told]).toEqual([
      1,
      [`mdx-gateway export-store: ${file} exists already; name a new file\n`],
    ]);
    expect([readdirSync(folder), readFileSync(file, 'utf8')]).toEqual([
      ['store.jsonl'],
      'precious',
    ]);
  });

  test('nor one that came while it wrote', async () => {
    const file = join(folder, 'store.jsonl');
    const fake = fakeStorage(async function* () {
      yield* RECORDS;
      writeFileSync(file, 'precious');
    });
    const { status } = await run(file, fake);
    expect([status, readdirSync(folder), readFileSync(file, 'utf8')]).toEqual([
      1,
      ['store.jsonl'],
      'precious',
    ]);
  });

  test.each([
    [
      'is away',
      new StorageUnavailable('nothing-done', new Error('connection refused')),
      'the storage cannot be reached (connection refused)',
    ],
    ['fails in two lines', new Error('a\n  b'), 'a b'],
  ])('leaves no file when the storage %s', async (_, error, line) => {
    const fake = fakeStorage(async function* () {
      yield* RECORDS.slice(0, 2);
      throw error;
    });
    const { status, told, closed } = await run(join(folder, 'store.jsonl'), fake);
    expect([status, told, closed]).toEqual([1, [`mdx-gateway export-store: ${line}\n`], 1]);
    expect(readdirSync(folder)).toEqual([]);
  });

  test('leaves no file when it is asked to stop', async () => {
    const fake = fakeStorage(async function* () {
      yield* RECORDS.slice(0, 2);
      stopping.abort();
      yield* RECORDS.slice(2);
    });
    const { told, stopping, common } = parts(fake.storage);
    const output = new PassThrough();
    const status = await exportStore(join(folder, 'store.jsonl'), { ...common, output });
    expect([status, told]).toEqual([1, ['mdx-gateway export-store: stopped\n']]);
    expect(readdirSync(folder)).toEqual([]);
  });

  test('ends with a line when nobody reads its output any more', async () => {
    const gone = new Writable({ write: (_chunk, _encoding, done) => done(new Error('EPIPE')) });
    const { status, told } = await run(undefined, fakeStorage(), gone as PassThrough);
    expect([status, told]).toEqual([1, ['mdx-gateway export-store: EPIPE\n']]);
  });
});

describe('import-store', () => {
  async function exported(): Promise<Buffer> {
    const output = new PassThrough();
    const { common } = parts(fakeStorage().storage);
    const writing = exportStore(undefined, { ...common, output });
    expect(await writing).toBe(0);
    return Buffer.concat((await output.end().toArray()) as Buffer[]);
  }

  test('restores what was exported, from a stream and from a file', async () => {
    const bytes = await exported();
    const file = join(folder, 'store.jsonl');
    writeFileSync(file, bytes);
    for (const name of [undefined, file]) {
      const fake = fakeStorage();
      const { told, common } = parts(fake.storage);
      const status = await importStore(name, { ...common, input: Readable.from([bytes]) });
      expect([status, fake.restored, fake.closed()]).toEqual([0, RECORDS, 1]);
      expect(told.at(-1)).toBe(
        'mdx-gateway import-store: everything is imported; now clear the cache of the gateways that serve this storage (clearCache)\n',
      );
    }
  });

  test('names the file that is not there, and does not touch the storage', async () => {
    const fake = fakeStorage();
    const { told, common } = parts(fake.storage);
    const missing = join(folder, 'none.jsonl');
    expect(await importStore(missing, { ...common, input: new PassThrough() })).toBe(1);
    expect(told).toEqual([expect.stringMatching(/^mdx-gateway import-store: .*none\.jsonl.*\n$/)]);
    expect(fake.restored).toEqual([]);
  });

  test('that waits for its input can be stopped', async () => {
    const fake = fakeStorage();
    const { told, stopping, common } = parts(fake.storage);
    const input = new PassThrough();
    const status = importStore(undefined, { ...common, input });
    input.write((await exported()).subarray(0, 10));
    stopping.abort();
    expect([await status, told]).toEqual([1, ['mdx-gateway import-store: stopped\n']]);
    expect([fake.restored, input.destroyed]).toEqual([[], true]);
  });
});

test('with storage.driver http both are refused, and say where to run them', async () => {
  const remote = { driver: 'http', url: 'http://localhost' } as StorageConfig;
  const { told, common } = parts(fakeStorage().storage, remote);
  const [output, input] = [new PassThrough(), new PassThrough()];
  expect(await exportStore(undefined, { ...common, output })).toBe(1);
  expect(await importStore(undefined, { ...common, input })).toBe(1);
  const rest =
    'storage.driver is http: roles and datasets are at the remote server; run it there\n';
  expect(told).toEqual([`mdx-gateway export-store: ${rest}`, `mdx-gateway import-store: ${rest}`]);
});
