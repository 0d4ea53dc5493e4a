import { afterAll, beforeAll, beforeEach, afterEach, describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { apiOf, dataOf, documentOf, users } from '../contract/api-client.ts';
import {
  configFolder,
  listening,
  runMain,
  type ConfigFolder,
  type Finished,
} from '../support/gateway-process.ts';
import { INJECTION_STRINGS } from '../support/injection-strings.ts';
import { startPostgres, type PostgresServer } from '../support/postgres-server.ts';
import { sizes } from '../support/sizes.ts';

let folders: ConfigFolder[] = [];
let postgres: PostgresServer;

beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres?.close());
beforeEach(() => {
  folders = [];
});
afterEach(() => {
  for (const folder of folders) folder.remove();
});

/** A configuration of its own; without settings over a SQLite file in its folder. */
async function newPlace(storage: Readonly<Record<string, unknown>> = {}) {
  const folder = await configFolder();
  folders.push(folder);
  return { folder, config: folder.write({ storage, log: { level: 'info' } }) };
}

type Place = Awaited<ReturnType<typeof newPlace>>;

const exportStore = ({ config }: Place, ...more: string[]): Promise<Finished> =>
  runMain(['export-store', '--config', config, ...more]).ended;
const importStore = ({ config }: Place, input: string, ...more: string[]): Promise<Finished> =>
  runMain(['import-store', '--config', config, ...more], { input }).ended;

const LARGE = JSON.stringify({
  project: 'p',
  dataset_name: 'large',
  type: 'MDX',
  noise: 'ä🐘'.repeat(sizes.largeDocument / 6),
});

/** Fills a storage through a gateway that serves it, and hands the running gateway to a test. */
async function whileServing<T>(place: Place, work: (url: string) => Promise<T>): Promise<T> {
  const running = runMain(['serve', '--config', place.config]);
  try {
    return await work(await listening(running));
  } finally {
    running.kill('SIGTERM');
    expect((await running.ended).exit).toBe(0);
  }
}

async function fill(url: string): Promise<void> {
  const api = apiOf(url);
  const names = INJECTION_STRINGS.filter((text) => /^[^\p{Cc}\p{Z}\ufeff]+$/u.test(text));
  const id = await api.created({ name: 'Everybody', contains: users(...names) });
  for (const description of INJECTION_STRINGS)
    await api.created({ name: `r${id}${Math.random()}`, description });
  for (const text of INJECTION_STRINGS) dataOf(await api.import(documentOf(text, text, text)));
  dataOf(await api.import(LARGE));
  dataOf(await api.remove(id + 1));
}

async function contentOf(url: string): Promise<unknown> {
  const api = apiOf(url);
  const all = { pageNum: '0', pageSize: '1000', containsDesc: 'true' };
  const { list } = dataOf(await api.list(all)) as { list: { id: number }[] };
  const documents = INJECTION_STRINGS.map((text) => api.export(text, text, text));
  return {
    roles: await Promise.all(list.map(async ({ id }) => [id, dataOf(await api.read(id))])),
    documents: (await Promise.all(documents)).map(({ text }) => text),
    listed: (await api.datasets('p')).text,
    large: (await api.export('p', 'large')).text === LARGE,
  };
}

describe('export-store and import-store', () => {
  test('move everything from SQLite to PostgreSQL and back, byte for byte', async () => {
    const [first, last] = [await newPlace(), await newPlace()];
    const middle = await newPlace({ driver: 'postgres', url: (await postgres.house()).url });
    const before = await whileServing(first, async (url) => {
      await fill(url);
      return contentOf(url);
    });

    const file = join(first.folder.path, 'store.jsonl');
    const exported = await exportStore(first, '--output', file);
    expect([exported.exit, exported.stdout]).toEqual([0, '']);
    const records = INJECTION_STRINGS.length * 2 + 2;
    const mebibytes = (statSync(file).size / 1024 / 1024).toFixed(1);
    expect(exported.stderr.split('\n').slice(-3)).toEqual([
      `mdx-gateway export-store: ${records} of ${records} records, ${mebibytes} MiB`,
      `mdx-gateway export-store: written to ${file}`,
      '',
    ]);
    expect(statSync(file).mode & 0o777).toBe(0o600);

    const imported = await importStore(middle, '', '--input', file);
    expect([imported.exit, imported.stdout]).toEqual([0, '']);
    expect(imported.stderr.split('\n').slice(-3)).toEqual([
      `mdx-gateway import-store: ${records} of ${records} records, ${mebibytes} of ${mebibytes} MiB`,
      'mdx-gateway import-store: everything is imported',
      '',
    ]);

    const copy = join(middle.folder.path, 'copy.jsonl');
    expect((await exportStore(middle, '--output', copy)).exit).toBe(0);
    expect(readFileSync(copy).equals(readFileSync(file))).toBe(true);
    expect((await importStore(last, readFileSync(copy, 'utf8'))).exit).toBe(0);

    await whileServing(last, async (url) => {
      expect(await contentOf(url)).toEqual(before);
      // Ids that were given away are not given again.
      const ids = before as { roles: [number, unknown][] };
      const newest = Math.max(...ids.roles.map(([id]) => id));
      expect(await apiOf(url).created({ name: 'next' })).toBe(newest + 1);
    });
  });

  test('copy a SQLite file while a gateway serves it', async () => {
    const [place, other] = [await newPlace(), await newPlace()];
    const { exit, stdout } = await whileServing(place, async (url) => {
      const api = apiOf(url);
      await api.created({ name: 'before' });
      const exporting = exportStore(place);
      const ended = { yet: false };
      void exporting.then(() => (ended.yet = true));
      for (let count = 1; !ended.yet; count += 1) await api.created({ name: `meanwhile ${count}` });
      return exporting;
    });
    expect(exit).toBe(0);
    expect((await importStore(other, stdout)).exit).toBe(0);
    await whileServing(other, async (url) => {
      const page = { pageNum: '0', pageSize: '1', containsDesc: 'false', RoleName: 'before' };
      expect(dataOf(await apiOf(url).list(page))).toMatchObject({ total: 1 });
    });
  });

  test('refuse what is broken in one line, and nothing is imported', async () => {
    const place = await newPlace();
    const { stdout } = await exportStore(place);
    const lines = stdout.split('\n');
    const role = lines[1] ?? '';
    const signed = (text: string) =>
      `${text}{"end":"${createHash('sha256').update(text).digest('hex')}"}\n`;
    for (const [input, refusal] of [
      ['', 'line 1: the file ends before its line "end"'],
      [stdout.slice(0, -1), 'line 3: the file ends within this line'],
      [`${lines.slice(0, 2).join('\n')}\n`, 'line 3: the file ends before its line "end"'],
      [stdout.replace('Admin', 'admin'), 'line 3: the digest does not fit'],
      [stdout.replace('"version":1', '"version":9'), 'line 1: the file is of version 9'],
      [signed(`${lines[0]}\n${role}\n${role}\n`), ''],
      [signed(`${lines[0]}\n`), ''],
    ] as const) {
      const target = await newPlace();
      const refused = await importStore(target, input);
      expect([refused.exit, refused.stdout]).toEqual([1, '']);
      expect(refused.stderr).toMatch(/^mdx-gateway import-store: [^\n]+\n$/);
      expect(refused.stderr).toContain(refusal);
      expect((await exportStore(target)).stdout).toBe(stdout);
      expect((await importStore(target, stdout)).exit).toBe(0);
    }
  });

  test('refuse a target that is not empty, a file that is there, and an unknown source', async () => {
    const place = await newPlace();
    const { stdout } = await exportStore(place);
    await whileServing(place, (url) => apiOf(url).created({ name: 'a' }));
    const full = await importStore(place, stdout);
    expect([full.exit, full.stderr]).toEqual([
      1,
      expect.stringMatching(/^mdx-gateway import-store: [^\n]*empty[^\n]*\n$/),
    ]);
    const file = join(place.folder.path, 'there');
    writeFileSync(file, 'precious');
    const exported = await exportStore(place, '--output', file);
    expect([exported.exit, exported.stderr, readFileSync(file, 'utf8')]).toEqual([
      1,
      `mdx-gateway export-store: ${file} exists already; name a new file\n`,
      'precious',
    ]);
    const missing = await importStore(place, '', '--input', join(place.folder.path, 'none'));
    expect([missing.exit, missing.stderr]).toEqual([
      1,
      expect.stringMatching(/^mdx-gateway import-store: [^\n]*none[^\n]*\n$/),
    ]);
  });

  test('with storage.driver http say where to run them', async () => {
    const place = await newPlace({ driver: 'http', url: 'http://127.0.0.1:1' });
    for (const { exit, stderr } of [await exportStore(place), await importStore(place, '')]) {
      expect(exit).toBe(1);
      expect(stderr).toMatch(/^mdx-gateway (ex|im)port-store: [^\n]*run it there\n$/);
    }
  });
});
