import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { discover, execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus } from '../support/http-client.ts';
import '../support/patient-redis.ts';
import { askRedis, startRedis, type RedisServer } from '../support/redis-server.ts';
import { startSessionEngine, type SessionEngine } from '../support/session-engine.ts';
import { beginSession, inSession } from '../support/stamped-client.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const LONG = 'x'.repeat(256);
/** Each letter has 3 bytes as it is sent, and 33 when it is folded. */
const LONG_WHEN_FOLDED = '\uFDFA'.repeat(10);
const HUGE = 'x'.repeat(100_000);

let folder: string;
let redis: RedisServer;
let engine: SessionEngine;
const gateways: TestGateway[] = [];
const inMemory = () => gateways[0]?.url ?? '';
const onRedis = () => gateways[1]?.url ?? '';

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-names-'));
  redis = await startRedis();
  engine = await startSessionEngine({ kind: 'emondrian' });
  for (const url of ['', redis.url]) {
    gateways.push(
      await startTestGateway({
        engine: { url: engine.url, kind: 'emondrian' },
        cache: { lease: '100ms', redis: { url } },
        storage: { path: join(folder, `${gateways.length}.sqlite`) },
        listen: { open: ['metrics'] },
      }),
    );
  }
});
afterAll(async () => {
  for (const gateway of gateways) await gateway.close();
  await engine.close();
  await redis.close();
  rmSync(folder, { recursive: true });
});

const inCatalog = (value: string, statement = 'SELECT FROM [Sales]') =>
  execute({ statement, properties: { Catalog: value } });
const cubes = (restrictions: Readonly<Record<string, string>>) =>
  discover({ requestType: 'MDSCHEMA_CUBES', restrictions });
const statusOf = async (base: string, body: Buffer, user = 'alice') =>
  shortStatus(await askXmla(base, body, { user }));

/** Where a request may name a catalog or a cube. */
const PLACES: readonly (readonly [what: string, body: (name: string) => Buffer])[] = [
  ['the property Catalog', (name) => inCatalog(name)],
  ['the property Cube', (name) => execute({ statement: 'SELECT', properties: { Cube: name } })],
  ['the catalog of a source', (name) => inCatalog('A', `SELECT FROM [${name}].[Sales]`)],
  ['a source', (name) => inCatalog('A', `SELECT FROM [${name}]`)],
  ['a source in a subselect', (name) => inCatalog('A', `SELECT FROM (SELECT FROM [${name}])`)],
  ['CATALOG_NAME', (name) => cubes({ CATALOG_NAME: name })],
  ['CUBE_NAME', (name) => cubes({ CATALOG_NAME: 'A', CUBE_NAME: name })],
];

describe.each([
  ['in memory', inMemory],
  ['on Redis', onRedis],
])('%s', (_where, url) => {
  test.each(PLACES)(
    'a name of 255 bytes is cached as %s, a longer one is not',
    async (_what, body) => {
      const asked = engine.seen.length;
      const statuses: string[] = [];
      for (const name of ['y'.repeat(255), LONG, LONG_WHEN_FOLDED, HUGE]) {
        for (let turn = 0; turn < 3; turn += 1) statuses.push(await statusOf(url(), body(name)));
      }
      const passed = Array.from({ length: 9 }, () => 'bypass long-name');
      expect(statuses).toEqual(['miss stored', 'hit', 'hit', ...passed]);
      expect(engine.seen).toHaveLength(asked + 10);
    },
  );

  test('a longer project in the path is refused, and says what is allowed', async () => {
    const asked = engine.seen.length;
    const long = `/mdx/xmla/${LONG}`;
    const answer = await askXmla(url(), inCatalog('A'), { path: long });
    expect([answer.status, shortStatus(answer)]).toEqual([400, 'gateway bad-request']);
    expect(answer.text).toMatch(/<faultstring>.*longer than 255 bytes.*Allowed is /u);
    const headers = { authorization: basic('ADMIN') };
    for (const project of [LONG, encodeURIComponent(LONG_WHEN_FOLDED)]) {
      const cleared = await send(url(), { path: `/mdx/xmla/${project}/clearCache`, headers });
      expect([cleared.status, cleared.text]).toEqual([400, expect.stringMatching('255 bytes')]);
    }
    expect(engine.seen).toHaveLength(asked);
    const most = await askXmla(url(), inCatalog('A'), { path: `/mdx/xmla/${'p'.repeat(255)}` });
    expect(shortStatus(most)).toBe('miss stored');
  });

  test('a session that begins in such a catalog, or moves to one, counts as changed', async () => {
    const ask = (id: string, properties = {}) =>
      statusOf(
        url(),
        execute({ statement: 'SELECT FROM [S]', session: inSession(id), properties }),
      );
    const begun = await beginSession(url(), { properties: { Catalog: LONG } });
    expect(await ask(begun)).toBe('bypass dirty-session');
    const moved = await beginSession(url());
    expect(await ask(moved, { Catalog: HUGE })).toBe('bypass long-name');
    expect(await ask(moved)).toBe('bypass dirty-session');
    // The order of the two does not count.
    expect(await ask(moved, { Catalog: 'A' })).toBe('bypass dirty-session');
  });

  test('a statement that changes data there makes everything stale', async () => {
    const body = inCatalog('Stale', 'SELECT FROM [Changed]');
    await statusOf(url(), body);
    expect(await statusOf(url(), body)).toBe('hit');
    await statusOf(url(), inCatalog(LONG, 'UPDATE CUBE [Sales] SET ([A]) = 1'), 'ADMIN');
    expect(await statusOf(url(), body)).toBe('miss stored');
  });

  test('a dataset of such a project is written, and its purge ends', async () => {
    const project = '\u{1F5C2}'.repeat(255);
    const written = await send(url(), {
      method: 'POST',
      path: '/api/dataset?createType=import',
      headers: { authorization: basic('ADMIN'), 'content-type': 'application/json' },
      body: JSON.stringify({ project, dataset_name: 'd', type: 'MDX' }),
    });
    expect([written.status, written.text]).toEqual([200, expect.stringMatching('dataset_id')]);
  });

  test('a dataset of a project whose long spelling counts as a short one makes that stale', async () => {
    const short = `Sales${'A'.repeat(100)}`;
    const wide = short.replaceAll(/./g, (letter) =>
      String.fromCodePoint(letter.charCodeAt(0) + 0xfee0),
    );
    const body = inCatalog(short, 'SELECT FROM [Wide]');
    await statusOf(url(), body);
    expect(await statusOf(url(), body)).toBe('hit');
    const written = await send(url(), {
      method: 'POST',
      path: '/api/dataset?createType=import',
      headers: { authorization: basic('ADMIN'), 'content-type': 'application/json' },
      body: JSON.stringify({ project: wide, dataset_name: 'd', type: 'MDX' }),
    });
    expect(written.status).toBe(200);
    expect(await statusOf(url(), body)).toBe('miss stored');
  });

  test('no label of the metrics is longer than a name', async () => {
    const page = (await send(url(), { path: '/metrics' })).text;
    const longest = Math.max(...page.split('\n').map((line) => line.length));
    expect(longest).toBeLessThan(600);
  });
});

test('nothing of what lies in Redis is longer for a longer name', async () => {
  for (const [i, [, body]] of PLACES.entries()) await statusOf(onRedis(), body(`${i}${HUGE}`));
  await beginSession(onRedis(), { properties: { Catalog: HUGE } });
  const longest = await askRedis(
    redis.port,
    "EVAL \"local n = 0 for _, key in ipairs(redis.call('KEYS', '*')) do n = math.max(n, #key, redis.call('MEMORY', 'USAGE', key)) end return n\" 0",
  );
  expect(Number(longest.slice(1))).toBeLessThan(16_384);
});

test('a configuration of such a project starts, and says that it cannot be reached', async () => {
  const gateway = await startTestGateway({
    engine: { url: engine.url },
    projects: { [LONG]: { ttl: '1h' }, A: { ttl: '1h' } },
    storage: { path: join(folder, 'warned.sqlite') },
  });
  try {
    const warnings = gateway.events.flatMap((event) =>
      event.type === 'warning' ? [event.message] : [],
    );
    expect(warnings).toEqual([expect.stringMatching(/^projects\.x+….*255 bytes/u)]);
  } finally {
    await gateway.close();
  }
});
