import { afterEach, describe, expect, test } from '@jest/globals';
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { exportStore, importStore, type StoreCommandParts } from '../../src/cli/copy-store.ts';
import type { SqliteConfig } from '../../src/storage/config.ts';
import { systemClock } from '../../src/common/clock.ts';
import { createStorage } from '../../src/compose/storage.ts';
import { apiOf, dataOf, documentOf, users } from '../contract/api-client.ts';
import {
  configFolder,
  runMain,
  type ConfigFolder,
  type Finished,
} from '../support/gateway-process.ts';
import { INJECTION_STRINGS } from '../support/injection-strings.ts';
import { startPostgres } from '../support/postgres-server.ts';
import { sizes } from '../support/sizes.ts';
import { startTestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const folders: ConfigFolder[] = [];
const postgres = shared(() => startPostgres());

afterEach(() => {
  for (const folder of folders.splice(0)) folder.remove();
});

/** A storage, as the command line and a gateway are told of it; over SQLite in a file of its own by default. */
interface Place {
  readonly path: string;
  /** The path of the configuration. */
  readonly config: string;
  readonly storage: Readonly<Record<string, string>>;
}

async function newPlace(url?: string): Promise<Place> {
  const folder = await configFolder();
  folders.push(folder);
  const storage =
    url === undefined
      ? { driver: 'sqlite', path: join(folder.path, 'gateway.sqlite') }
      : // A busy machine may take its time.
        { driver: 'postgres', url, timeout: '10s' };
  return { path: folder.path, config: folder.write({ storage }), storage };
}

const exportFrom = ({ config }: Place, ...more: string[]): Promise<Finished> =>
  runMain(['export-store', '--config', config, ...more]).ended;
const importInto = ({ config }: Place, ...more: string[]): Promise<Finished> =>
  runMain(['import-store', '--config', config, ...more]).ended;

/** What the commands are made of when they are no processes, and what they wrote to standard error. */
function parts({ storage }: Place) {
  const told: string[] = [];
  const given: StoreCommandParts = {
    config: { driver: 'sqlite', path: storage['path'] ?? '' },
    createStorage: (config) =>
      createStorage(config, ['ADMIN'], { clock: systemClock, randomBytes, emit() {} }),
    input: new PassThrough(),
    output: new PassThrough(),
    prompts: { write: (line) => told.push(line) },
    now: () => 0,
    stopped: new AbortController().signal,
  };
  return { told, given };
}

/** Resolves to the exit status and what was told. */
async function importText(place: Place, text: string): Promise<[number, string]> {
  const { told, given } = parts(place);
  const status = await importStore(undefined, {
    ...given,
    input: Readable.from([Buffer.from(text)]),
  });
  return [status, told.join('')];
}

/** Of a storage that is made if it is not there. */
async function exportedText(place: Place): Promise<string> {
  const { given } = parts(place);
  const storage = await given.createStorage(given.config as SqliteConfig);
  await storage.open();
  await storage.close();
  const output = new PassThrough();
  expect(await exportStore(undefined, { ...given, output })).toBe(0);
  return Buffer.concat((await output.end().toArray()) as Buffer[]).toString();
}

async function whileServing<T>({ storage }: Place, work: (url: string) => Promise<T>): Promise<T> {
  const gateway = await startTestGateway({ storage });
  try {
    return await work(gateway.url);
  } finally {
    await gateway.close();
  }
}

const LARGE = JSON.stringify({
  project: 'p',
  dataset_name: 'large',
  type: 'MDX',
  text: 'ä🐘'.repeat(sizes.largeDocument / 6),
});

async function fill(url: string): Promise<void> {
  const api = apiOf(url);
  const names = INJECTION_STRINGS.filter((text) => /^[^\p{Cc}\p{Z}\ufeff\u202e]+$/u.test(text));
  await api.created({ name: 'Everybody', contains: users(...names) });
  await Promise.all(
    INJECTION_STRINGS.map(async (text, index) => {
      await api.created({ name: `described ${index}`, description: text });
      dataOf(await api.import(documentOf(text, text, text)));
    }),
  );
  dataOf(await api.remove(await api.created({ name: 'the newest' })));
  dataOf(await api.import(LARGE));
}

/** Everything that clients can see. */
async function contentOf(url: string) {
  const api = apiOf(url);
  const all = { pageNum: '0', pageSize: '1000', containsDesc: 'true' };
  const { list } = dataOf(await api.list(all)) as { list: { id: number }[] };
  const documents = INJECTION_STRINGS.map((text) => api.export(text, text, text));
  return {
    roles: await Promise.all(
      list.map(async ({ id }) => ({ id, role: dataOf(await api.read(id)) })),
    ),
    documents: (await Promise.all(documents)).map(({ text }) => text),
    listed: (await api.datasets('p')).text,
    large: (await api.export('p', 'large')).text === LARGE,
  };
}

describe('export-store and import-store', () => {
  test('move everything from SQLite to PostgreSQL and back, and tell how far they are', async () => {
    const [first, last] = [await newPlace(), await newPlace()];
    const middle = await newPlace((await postgres.house()).url);
    const before = await whileServing(first, async (url) => {
      await fill(url);
      return contentOf(url);
    });
    expect(before.large).toBe(true);

    const file = join(first.path, 'store.jsonl');
    const exported = await exportFrom(first, '--output', file);
    const records = 2 * INJECTION_STRINGS.length + 3;
    const mebibytes = (statSync(file).size / 1024 / 1024).toFixed(1);
    expect([exported.exit, exported.stdout]).toEqual([0, '']);
    expect(exported.stderr.split('\n').slice(-3)).toEqual([
      `mdx-gateway export-store: ${records} of ${records} records, ${mebibytes} MiB`,
      `mdx-gateway export-store: written to ${file}`,
      '',
    ]);

    const imported = await importInto(middle, '--input', file);
    expect([imported.exit, imported.stdout]).toEqual([0, '']);
    expect(imported.stderr.split('\n').slice(-3)).toEqual([
      `mdx-gateway import-store: ${records} of ${records} records, ${mebibytes} of ${mebibytes} MiB`,
      expect.stringMatching(/^mdx-gateway import-store: everything is imported; .*clearCache/),
      '',
    ]);

    const copy = join(middle.path, 'copy.jsonl');
    expect((await exportFrom(middle, '--output', copy)).exit).toBe(0);
    expect(readFileSync(copy).equals(readFileSync(file))).toBe(true);
    expect(await importText(last, readFileSync(copy, 'utf8'))).toEqual([0, expect.any(String)]);

    await whileServing(last, async (url) => {
      expect(await contentOf(url)).toEqual(before);
      // The id of the role that was deleted is not given again.
      const [newest] = before.roles;
      expect(await apiOf(url).created({ name: 'next' })).toBe((newest?.id ?? 0) + 2);
    });
  });

  test('take a moment of a SQLite file that a gateway is serving', async () => {
    const [place, other] = [await newPlace(), await newPlace()];
    const { exit, stdout } = await whileServing(place, async (url) => {
      const api = apiOf(url);
      await api.created({ name: 'before' });
      const exporting = exportFrom(place);
      const ended = { yet: false };
      void exporting.then(() => (ended.yet = true));
      for (let count = 1; !ended.yet; count += 1) await api.created({ name: `meanwhile ${count}` });
      return exporting;
    });
    expect(exit).toBe(0);
    expect((await importText(other, stdout))[0]).toBe(0);
    const total = await whileServing(other, async (url) => {
      const page = { pageNum: '0', pageSize: '1', containsDesc: 'false' };
      return (dataOf(await apiOf(url).list(page)) as { total: number }).total;
    });
    expect(total).toBe(stdout.split('\n').filter((line) => line.startsWith('{"role"')).length);
    expect(total).toBeGreaterThanOrEqual(2);
  });

  test('refuse what is broken in one line, and then nothing is imported', async () => {
    const dump = await exportedText(await newPlace());
    const [head = '', role = ''] = dump.split('\n');
    const signed = (...lines: string[]) => {
      const text = lines.map((line) => `${line}\n`).join('');
      return `${text}{"end":"${createHash('sha256').update(text).digest('hex')}"}\n`;
    };
    const target = await newPlace();
    for (const [input, refusal] of [
      ['', 'line 1: the file ends before its line "end"'],
      [dump.slice(0, -1), 'line 3: the file ends within this line'],
      [`${head}\n${role}\n`, 'line 3: the file ends before its line "end"'],
      [dump.replace('Admin', 'Other'), 'line 3: the digest does not fit'],
      [dump.replace('"version":1', '"version":9'), 'line 1: the file is of version 9'],
      // Whole, and yet no dump: the driver sees that.
      [signed(head), ''],
      [signed(head, role, role), ''],
      [signed(role, head), ''],
    ] as const) {
      const [status, told] = await importText(target, input);
      expect([input, status, told]).toEqual([
        input,
        1,
        expect.stringMatching(/^mdx-gateway import-store: [^\n]+\n$/),
      ]);
      expect(told).toContain(refusal);
    }
    expect(await importText(target, dump)).toEqual([0, expect.any(String)]);
    expect(await exportedText(target)).toBe(dump);
  });

  test('refuse a target that holds something already', async () => {
    const place = await newPlace();
    const dump = await exportedText(place);
    await whileServing(place, (url) => apiOf(url).created({ name: 'a' }));
    expect(await importText(place, dump)).toEqual([
      1,
      expect.stringMatching(/^mdx-gateway import-store: [^\n]*empty[^\n]*\n$/),
    ]);
  });
});
