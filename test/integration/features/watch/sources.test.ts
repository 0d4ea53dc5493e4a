import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import {
  appendFileSync,
  mkdtempSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createServer as createHttpsServer } from 'node:https';
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createSemaphore } from '../../../../src/common/semaphore.ts';
import { systemClock } from '../../../../src/common/clock.ts';
import { createSource } from '../../../../src/features/watch/sources.ts';
import { readRequest } from '../../../../src/xmla/request/read-request.ts';
import { faultAnswer, response } from '../../../support/answers.ts';
import { makeAuthority } from '../../../support/certificates.ts';
import { freePort } from '../../../support/free-port.ts';
import { startPostgres, type PostgresServer } from '../../../support/postgres-server.ts';
import {
  sendXml,
  startStubEngine,
  type SeenRequest,
  type StubEngine,
} from '../../../support/stub-engine.ts';
import { load } from '../../../unit/config/fake-files.ts';

const { signal } = new AbortController();
const BASIC = `Basic ${Buffer.from('watcher:good eyes').toString('base64')}`;
const LOGIN = { user: 'watcher', password: 'good eyes' };
const fileGate = createSemaphore(1);
let server: StubEngine;
let folder: string;

beforeAll(async () => {
  server = await startStubEngine(sendXml(''));
  folder = mkdtempSync(join(tmpdir(), 'mdx-watch-'));
});
beforeEach(() => void server.seen.splice(0));
afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

/** As it comes out of the configuration. */
function sourceOf(watch: object, engine: object = { url: server.url }) {
  const { projects } = load({ yaml: JSON.stringify({ engine, projects: { 'A&B': { watch } } }) });
  const [name, project] = [...projects][0] ?? [];
  if (name === undefined || project?.watch === undefined) throw new Error('no watcher');
  const watched = { name, watch: project.watch, engine: project.engine };
  const source = createSource(watched, systemClock, fileGate);
  return () => source(signal);
}

/** What a change does to the signature, and that nothing else does. */
async function changes(ask: () => Promise<string>, change: () => unknown): Promise<boolean> {
  const before = await ask();
  expect(await ask()).toBe(before);
  await change();
  return (await ask()) !== before;
}

describe('an engine', () => {
  let dates: Record<string, string>;
  const cubes = () =>
    ['Sales', 'Stock'].map((cube) => {
      const columns = { CATALOG_NAME: 'A&amp;B', CUBE_NAME: cube, ...dates };
      const written = Object.entries(columns).map(([name, text]) => `<${name}>${text}</${name}>`);
      return `<row>${written.join('')}</row>`;
    });
  const answerCubes = () =>
    server.answerWith((...request) =>
      sendXml(response('Discover', 'rowset', cubes().join('')))(...request),
    );

  beforeEach(() => {
    dates = { LAST_SCHEMA_UPDATE: '2026-01-01T00:00:00', LAST_DATA_UPDATE: '2026-01-02T00:00:00' };
    answerCubes();
  });

  test.each([
    ['ssas', 'LAST_DATA_UPDATE', true],
    ['ssas', 'LAST_SCHEMA_UPDATE', true],
    ['generic', 'LAST_DATA_UPDATE', true],
    ['mondrian', 'LAST_SCHEMA_UPDATE', true],
    ['mondrian', 'LAST_DATA_UPDATE', false],
  ])('of kind %s is seen to change by %s: %s', async (kind, column, isSeen) => {
    const ask = sourceOf({ kind: 'xmla' }, { url: server.url, kind });
    expect(await changes(ask, () => (dates[column] = '2026-01-03T00:00:00'))).toBe(isSeen);
  });

  test('is asked for the cubes of the catalog where its URL does not name the project', async () => {
    await sourceOf({ kind: 'xmla' })();
    await sourceOf({ kind: 'xmla' }, { url: `${server.url}/{project}` })();
    const asked = await Promise.all(server.seen.map(({ body }) => readRequest(body)));
    const restrictions = asked.map((read) =>
      read.kind === 'understood' && read.request.method === 'Discover'
        ? [read.request.requestType, read.request.restrictions]
        : read,
    );
    expect(restrictions).toEqual([
      ['MDSCHEMA_CUBES', [expect.objectContaining({ name: 'CATALOG_NAME', values: ['A&B'] })]],
      ['MDSCHEMA_CUBES', []],
    ]);
    expect(server.seen.map(({ url }) => url)).toEqual(['/xmla', '/xmla/A%26B']);
  });

  test.each([
    [{ login: 'none' }, {}, undefined],
    [{ login: 'service', service: { name: 'watcher', password: 'good eyes' } }, {}, BASIC],
    [{ login: 'forward' }, LOGIN, BASIC],
    [{ login: 'service', service: { name: 's', password: 't' } }, LOGIN, BASIC],
  ])('gets the login of the gateway, or of the watcher (%#)', async (engine, login, header) => {
    await sourceOf({ kind: 'xmla', ...login }, { url: server.url, ...engine })();
    expect(server.seen[0]?.headers.authorization).toBe(header);
  });

  test.each([
    ['says nothing', sendXml(''), 'it answered no rowset'],
    [
      'shows no cube',
      sendXml(response('Discover', 'rowset', '')),
      'it shows no cube of the catalog A&B',
    ],
    [
      'shows no date',
      sendXml(response('Discover', 'rowset', '<row><CUBE_NAME>Sales</CUBE_NAME></row>')),
      'it shows no LAST_DATA_UPDATE of its cubes',
    ],
    ['answers with a Fault', sendXml(faultAnswer()), 'it answered with a Fault'],
    [
      'breaks its rows off by an error',
      sendXml(
        response(
          'Discover',
          'rowset',
          '<row><LAST_DATA_UPDATE>2026</LAST_DATA_UPDATE></row><Exception xmlns="urn:schemas-microsoft-com:xml-analysis:exception"/>',
        ),
      ),
      'it answered with an error behind some rows',
    ],
    ['wants another login', sendXml('', { status: 401 }), 'it refused the login (status 401)'],
    [
      'leads elsewhere',
      sendXml('', { status: 302, headers: { location: '/there' } }),
      'it answered with status 302, a redirect, which is not followed',
    ],
  ])('that %s is not seen', async (_what, answer, why) => {
    server.answerWith(answer);
    await expect(sourceOf({ kind: 'xmla' })()).rejects.toThrow(why);
  });

  test('of several replicas is asked at each; one that is away for a while changes nothing', async () => {
    const port = await freePort();
    const away = `http://127.0.0.1:${port}/xmla`;
    const ask = sourceOf({ kind: 'xmla' }, { url: [server.url, away] });
    const one = await ask();
    const other = await startStubEngine(sendXml(response('Discover', 'rowset', cubes()[0] ?? '')), {
      port,
    });
    const both = await ask();
    expect(both).not.toBe(one);
    await other.close();
    expect(await ask()).toBe(both);
    expect(await changes(ask, () => (dates['LAST_DATA_UPDATE'] = 'later'))).toBe(true);
  });
});

describe('a URL', () => {
  let body: Buffer;
  let headers: Record<string, string>;
  const answers = () => server.answerWith((...request) => sendXml(body, { headers })(...request));
  beforeEach(() => {
    [body, headers] = [Buffer.from('one'), {}];
    answers();
  });
  const ask = () => sourceOf({ kind: 'url', url: `${server.url}/loaded/?of=shop`, ...LOGIN })();

  test('is seen to change by its body, and by its ETag where it has one', async () => {
    expect(await changes(ask, () => (body = Buffer.from('two')))).toBe(true);
    headers = { etag: '"1"' };
    expect(await changes(ask, () => (body = Buffer.from('three')))).toBe(false);
    expect(await changes(ask, () => (headers = { etag: '"2"' }))).toBe(true);
    expect(server.seen[0]).toMatchObject({ method: 'GET', url: '/xmla/loaded/?of=shop' });
    expect(server.seen[0]?.headers.authorization).toBe(BASIC);
  });

  test.each([201, 204, 304, 404, 503])(
    'that answers with status %i is not seen',
    async (status) => {
      server.answerWith(sendXml('', { status }));
      await expect(ask()).rejects.toThrow(`it answered with status ${status}`);
    },
  );

  test('is not seen where it has no ETag and is longer than 16 MiB, or breaks off', async () => {
    // Of no use to compress: a coding must not make it short.
    body = randomBytes(16 * 1024 * 1024 + 1);
    await expect(ask()).rejects.toThrow('it has no ETag, and its body is longer than 16MiB');
    server.answerWith((answer) => {
      answer.writeHead(200, { 'content-length': '100' }).write('half');
      setImmediate(() => answer.destroy());
    });
    await expect(ask()).rejects.toThrow('aborted');
    headers = { etag: '"1"' };
    answers();
    expect(await ask()).toBe('ETag "1"');
  });

  test('is trusted by the authority that is named', async () => {
    const authority = makeAuthority();
    const issued = authority.issue('loaded');
    const files = { key: readFileSync(issued.key), cert: readFileSync(issued.certificate) };
    const https = createHttpsServer(files, (_request, answer) => answer.end('one'));
    await new Promise<void>((resolve) => void https.listen(0, '127.0.0.1', resolve));
    const url = `https://127.0.0.1:${(https.address() as AddressInfo).port}/`;
    const engine = { url: server.url };
    const { projects } = load({
      yaml: JSON.stringify({ engine, projects: { a: { watch: { kind: 'url', url } } } }),
    });
    const { watch, engine: own } = projects.get('a') ?? {};
    if (!watch || !own) throw new Error('no watcher');
    const asks = (ca?: string) =>
      createSource(
        { name: 'a', watch: { ...watch, ca }, engine: own },
        systemClock,
        fileGate,
      )(signal);
    expect(await asks(authority.certificate)).toContain('SHA-256');
    await expect(asks()).rejects.toThrow('watch.ca');
    https.close();
    authority.remove();
  });
});

describe('Kylin', () => {
  const PAGE = 100;
  let models: { uuid: string; last_modified: number; segments: Record<string, unknown>[] }[];
  const kylin = (request: SeenRequest) => {
    const { pathname, searchParams } = new URL(request.url, 'http://kylin');
    const [, model] = /^\/kylin\/api\/models\/([^/]+)\/segments$/.exec(pathname) ?? [];
    const all: readonly object[] =
      model === undefined ? models : (models.find(({ uuid }) => uuid === model)?.segments ?? []);
    const [offset, size] = ['page_offset', 'page_size'].map((name) =>
      Number(searchParams.get(name)),
    );
    const from = (offset ?? 0) * (size ?? 0);
    const value = all.slice(from, from + (size ?? 0));
    return JSON.stringify({
      code: '000',
      data: { value, offset, limit: size, total_size: all.length },
    });
  };
  beforeEach(() => {
    models = ['m1', 'm2'].map((uuid) => ({
      uuid,
      last_modified: 1,
      segments: [{ id: `${uuid}-s1`, last_build_time: 1, hit_count: 0 }],
    }));
    server.answerWith((...request) => sendXml(kylin(request[1]))(...request));
  });
  const url = () => `http://127.0.0.1:${server.port}/kylin/`;
  const ask = () => sourceOf({ kind: 'kylin', url: url(), project: 'shop 1', ...LOGIN })();

  test.each<[string, boolean, () => unknown]>([
    [
      'a segment that was built anew',
      true,
      () => Object.assign(models[1]?.segments[0] ?? {}, { last_build_time: 2 }),
    ],
    ['a new segment', true, () => models[0]?.segments.push({ id: 's2', last_build_time: 3 })],
    ['a segment that was dropped', true, () => models[0]?.segments.pop()],
    ['a model that was changed', true, () => Object.assign(models[0] ?? {}, { last_modified: 2 })],
    [
      'how often a segment was read',
      false,
      () => Object.assign(models[1]?.segments[0] ?? {}, { hit_count: 9 }),
    ],
    ['the order of the list', false, () => (models = models.toReversed())],
  ])('is seen to change by %s: %s', async (_what, isSeen, change) => {
    expect(await changes(ask, change)).toBe(isSeen);
    expect(server.seen[0]?.headers).toMatchObject({
      accept: 'application/vnd.apache.kylin-v4+json',
      authorization: BASIC,
    });
    expect(server.seen[0]?.url).toContain('project=shop+1');
  });

  test('is read page by page', async () => {
    const [model] = models;
    for (let i = 0; i < 2 * PAGE; i += 1)
      model?.segments.push({ id: `s ${i}`, last_build_time: i });
    const last = model?.segments.at(-1) ?? {};
    expect(await changes(ask, () => Object.assign(last, { last_build_time: -1 }))).toBe(true);
  });

  test.each([
    ['{}', 'it answered no list as Kylin 5 does'],
    ['<html>', 'it answered no list as Kylin 5 does'],
    ['{"data":{"value":[],"total_size":0}}', 'it shows no model of the project shop 1'],
    ['{"data":{"value":[{"uuid":"m"}]}}', 'it answered no list as Kylin 5 does'],
    ['{"data":{"value":[null],"total_size":1}}', 'it answered no list as Kylin 5 does'],
  ])('that answers %s is not seen', async (text, why) => {
    server.answerWith(sendXml(text));
    await expect(ask()).rejects.toThrow(why);
  });
});

describe('a file', () => {
  const path = () => join(folder, 'loaded');
  const ask = () => sourceOf({ kind: 'file', path: path() })();
  beforeEach(() => writeFileSync(path(), 'one'));

  test.each<[string, () => unknown]>([
    ['what is written to it', () => appendFileSync(path(), ' more')],
    ['touch', () => utimesSync(path(), new Date(), new Date(1_000))],
    [
      'another file of the same time and size in its place',
      () => {
        const other = `${path()}.new`;
        writeFileSync(other, 'two');
        for (const one of [other, path()]) utimesSync(one, new Date(), new Date(2_000));
        renameSync(other, path());
      },
    ],
  ])('is seen to change by %s', async (_what, change) => {
    expect(await changes(ask, change)).toBe(true);
  });

  test('that is missing is not seen', async () => {
    rmSync(path());
    await expect(ask()).rejects.toThrow('the file is not there');
  });

  test('waits for those that hang, so that they take few threads', async () => {
    const leave = await fileGate.acquire(signal);
    const first = ask();
    const later = ask();
    await expect(Promise.race([first, later, delay(50, 'waits')])).resolves.toBe('waits');
    leave();
    expect(await first).toBe(await later);
  });
});

describe('PostgreSQL', () => {
  let postgres: PostgresServer;
  let url: string;
  beforeAll(async () => {
    postgres = await startPostgres();
    ({ url } = await postgres.house());
    await postgres.ask('CREATE TABLE public.etl_log (loaded_at timestamptz, job text)');
    await postgres.ask('GRANT ALL ON public.etl_log TO PUBLIC');
  }, 60_000);
  afterAll(() => postgres.close());
  const asks = (query: string) => sourceOf({ kind: 'postgres', url, query });

  test('is seen to change by the rows of the query, whatever their order', async () => {
    await postgres.ask(
      `INSERT INTO public.etl_log VALUES ('2026-01-01', 'a'), ('2026-01-02', 'b')`,
    );
    const ask = asks('SELECT max(loaded_at), count(*) FROM public.etl_log');
    const arrive = () => postgres.ask(`INSERT INTO public.etl_log VALUES ('2026-01-03', 'c')`);
    expect(await changes(ask, arrive)).toBe(true);
    const [up, down] = ['ASC', 'DESC'].map((order) =>
      asks(`SELECT job FROM public.etl_log ORDER BY job ${order}`),
    );
    expect(await up?.()).toBe(await down?.());
  });

  test.each([
    [`DELETE FROM public.etl_log`, /read-only/],
    [`SELECT 1; COMMIT; DELETE FROM public.etl_log`, /multiple commands/],
    [`SELECT repeat('x', 70000)`, /more than 64KiB/],
    [`SELECT repeat('x', 1000) FROM generate_series(1, 10000000)`, /more than 64KiB/],
    [`SELECT nothing FROM nowhere`, /does not exist/],
  ])('is not seen by %s', async (query, why) => {
    await expect(asks(query)()).rejects.toThrow(why);
    const [row] = await postgres.ask('SELECT count(*)::int AS rows FROM public.etl_log');
    expect(row?.['rows']).toBeGreaterThan(0);
  });

  test('is left alone when the question is given up, and no connection stays', async () => {
    const { projects } = load({
      yaml: JSON.stringify({
        projects: { a: { watch: { kind: 'postgres', url, query: 'SELECT pg_sleep(60)' } } },
      }),
    });
    const { watch, engine } = projects.get('a') ?? {};
    if (!watch || !engine) throw new Error('no watcher');
    const closing = new AbortController();
    const asked = createSource({ name: 'a', watch, engine }, systemClock, fileGate)(closing.signal);
    const sleeps = () =>
      postgres.ask(
        `SELECT FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)' AND state = 'active'`,
      );
    while ((await sleeps()).length === 0);
    closing.abort();
    await expect(asked).rejects.toThrow('aborted');
  });

  test('that refuses the login says so without the password', async () => {
    const wrong = url.replace(/:[^:@/]*@/, ':QQZZ@');
    const refused = sourceOf({ kind: 'postgres', url: wrong, query: 'SELECT 1' })();
    await expect(refused).rejects.toThrow(/^(?!.*QQZZ).*password/);
  });
});
