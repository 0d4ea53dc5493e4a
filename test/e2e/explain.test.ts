import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus, until } from '../support/http-client.ts';
import '../support/patient-redis.ts';
import { askRedis, startRedis } from '../support/redis-server.ts';
import { startSessionEngine } from '../support/session-engine.ts';
import { beginSession, inSession } from '../support/stamped-client.ts';
import { gate, sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const engine = shared(() => startStubEngine(() => {}));
let gateway: TestGateway;

const queryOf = (statement: string, properties: Record<string, string> = { Catalog: 'Shop' }) =>
  execute({ statement, properties });
const QUERY = queryOf('SELECT FROM [Sales]');

beforeEach(() => {
  engine.seen.length = 0;
  engine.answerWith(sendXml(mddatasetAnswer()));
});

const start = async () => {
  gateway = await startTestGateway({
    engine: { url: engine.url },
    auth: { purgers: ['bob'] },
    projects: { Shop: { ttl: '10m', cubes: { Live: 'off' } } },
  });
};
const stop = () => gateway.close();

interface Explained {
  readonly classification: Readonly<Record<string, unknown>>;
  readonly cache?: Readonly<Record<string, unknown>>;
}

async function explain(
  body: Buffer | string = QUERY,
  {
    search = '?user=alice',
    headers = {},
  }: { search?: string; headers?: Record<string, string> } = {},
): Promise<Explained> {
  const { status, text } = await send(gateway.url, {
    method: 'POST',
    path: `/admin/explain${search}`,
    headers: {
      authorization: basic('ADMIN'),
      'content-type': 'text/xml; charset=utf-8',
      'content-length': String(Buffer.byteLength(body)),
      ...headers,
    },
    body,
  });
  expect([status, text]).toEqual([200, expect.anything()]);
  return JSON.parse(text) as Explained;
}

describe('a query that nobody has asked', () => {
  beforeEach(start);
  afterEach(stop);

  test('is told to be cacheable and nowhere, and explaining it changes nothing', async () => {
    const told = await explain();
    expect(told).toEqual({
      user: 'alice',
      classification: {
        decision: 'cacheable',
        method: 'Execute',
        subject: 'Execute',
        catalogs: ['Shop'],
        share: 'user',
        ttl_ms: 600_000,
      },
      cache: {
        key: expect.any(String),
        parts: expect.arrayContaining([
          { name: 'statement', digest: expect.any(String) },
          { name: 'identity', digest: expect.any(String) },
        ]),
        epochs: [
          { scope: 'everything', token: expect.any(String) },
          { scope: 'project:shop', token: expect.any(String) },
        ],
        memory: null,
        redis: 'off',
        flight: false,
        not_stored: null,
        nearest: null,
      },
    });
    expect(engine.seen).toEqual([]);
    const log = { type: 'explained', principal: 'ADMIN', user: 'alice', project: '' };
    const ofExplain = gateway.events.filter(({ type }) =>
      /^(?:explained|xmla-answered)$/.test(type),
    );
    expect(ofExplain).toEqual([{ ...log, id: expect.stringMatching(/^[\w-]{22}$/) }]);
    expect(await explain()).toEqual(told);
    expect(shortStatus(await askXmla(gateway.url, QUERY))).toBe('miss stored');
  });

  test('is found where its client takes any media type, as curl does, or says nothing of that', async () => {
    const curl = { headers: { accept: '*/*' } };
    expect(shortStatus(await askXmla(gateway.url, QUERY, curl))).toBe('miss stored');
    expect(shortStatus(await askXmla(gateway.url, QUERY, curl))).toBe('hit');
    expect(shortStatus(await askXmla(gateway.url, QUERY))).toBe('hit');
    for (const asked of [curl, {}]) {
      expect((await explain(QUERY, asked)).cache).toMatchObject({ memory: expect.anything() });
    }
    const json = await explain(QUERY, { headers: { accept: 'application/json' } });
    expect(json.classification).toMatchObject({ decision: 'bypass', reason: 'accept' });
  });

  test('is shown the part by which it differs from what is in memory', async () => {
    await askXmla(gateway.url, QUERY);
    const nearestTo = async (...question: Parameters<typeof explain>) => {
      const { cache } = await explain(...question);
      expect(cache).toMatchObject({ memory: null });
      return cache?.['nearest'];
    };
    const differing = (...differs: string[]) => ({ differs, age_ms: expect.any(Number) });
    const other = queryOf('SELECT FROM [Sales] ');
    expect(await nearestTo(QUERY, { search: '' })).toEqual(differing('identity'));
    expect(await nearestTo(queryOf('SELECT FROM [Costs]'))).toEqual(differing('statement'));
    expect(await nearestTo(QUERY, { headers: { 'user-agent': 'MSOLAP 16' } })).toEqual(
      differing('user-agent'),
    );
    expect(await nearestTo(QUERY, { headers: { accept: 'text/xml' } })).toEqual(
      differing('accept'),
    );
    expect(
      await nearestTo(queryOf('SELECT FROM [Sales]', { Catalog: 'Shop', Format: 'Tabular' })),
    ).toEqual(differing('properties'));
    // Outer white space makes no other question.
    expect((await explain(other)).cache).toMatchObject({ memory: expect.anything() });
    expect(engine.seen).toHaveLength(1);
  });
});

describe('a query that was asked', () => {
  // The nearest entry is known only where the cache was empty before.
  beforeEach(start);
  afterEach(stop);

  test('is told to be in memory, with its age and what it saves', async () => {
    await askXmla(gateway.url, QUERY);
    const { cache } = await explain();
    expect(cache).toMatchObject({
      memory: {
        age_ms: expect.any(Number),
        ttl_ms: expect.any(Number),
        bytes: Buffer.byteLength(mddatasetAnswer()),
        engine_ms: expect.any(Number),
      },
      redis: 'off',
      flight: false,
      not_stored: null,
      nearest: null,
    });
    expect(shortStatus(await askXmla(gateway.url, QUERY))).toBe('hit');
  });

  test('is told to differ by its epochs alone when it was purged', async () => {
    await askXmla(gateway.url, QUERY);
    const before = await explain();
    const purged = await send(gateway.url, {
      path: '/mdx/xmla/Shop/clearCache',
      headers: { authorization: basic('ADMIN') },
    });
    expect(purged.status).toBe(200);
    const { cache } = await explain();
    expect(cache).toMatchObject({ memory: null, nearest: { differs: ['epochs'] } });
    expect(cache?.['key']).not.toBe(before.cache?.['key']);
  });

  test('is told to be under way while the engine is asked', async () => {
    const held = gate();
    engine.answerWith(async (...exchange) => {
      await held.opened;
      await sendXml(mddatasetAnswer())(...exchange);
    });
    const asking = askXmla(gateway.url, QUERY);
    await until(() => engine.seen.length === 1);
    expect((await explain()).cache).toMatchObject({ memory: null, flight: true });
    held.open();
    await asking;
    expect((await explain()).cache).toMatchObject({ flight: false });
  });
});

describe('a request that is not looked up', () => {
  beforeAll(start);
  afterAll(stop);

  test.each([
    ['a volatile function', queryOf('SELECT FROM [Sales] WHERE Now()'), '', 'volatile'],
    ['a statement that changes something', queryOf('REFRESH CUBE [Sales]'), '', 'not-a-query'],
    ['a cube that is off', queryOf('SELECT FROM [live]'), '', 'cache-off'],
    [
      'a cube that is off in its project',
      queryOf('SELECT FROM [Live]', {}),
      '?project=Shop',
      'cache-off',
    ],
    ['text that is no XML', 'SELECT', '', 'malformed'],
  ])('is told why: %s', async (_what, body, search, reason) => {
    const { classification, cache } = await explain(body, { search });
    expect(classification).toMatchObject({ decision: 'bypass', reason });
    expect(cache).toBeUndefined();
    expect(engine.seen).toEqual([]);
  });

  test.each([
    ['a document type declaration', '<!DOCTYPE x><x/>', {}, 'bad-request'],
    ['a session that nobody began', QUERY, { 'x-as-sessionid': 'S1' }, 'unknown-session'],
  ])('is told to be refused: %s', async (_what, body, headers, reason) => {
    const { classification } = await explain(body, { headers });
    expect(classification).toMatchObject({ decision: 'refused', reason });
    expect(engine.seen).toEqual([]);
  });
});

describe('somebody who is no administrator', () => {
  beforeAll(start);
  afterAll(stop);

  test.each([
    ['nobody', {}, 401],
    ['a user', { authorization: basic('alice') }, 403],
    ['a user who may purge', { authorization: basic('bob') }, 403],
  ])('%s is told nothing', async (_who, headers, expected) => {
    await askXmla(gateway.url, QUERY);
    const { status, text } = await send(gateway.url, {
      method: 'POST',
      path: '/admin/explain?user=alice',
      headers: { 'content-type': 'text/xml', ...headers },
      body: QUERY,
    });
    expect(status).toBe(expected);
    expect(Object.keys(JSON.parse(text) as object)).toEqual(['error', 'message']);
  });
});

test('an entry in Redis is shown by every gateway, with the same digests', async () => {
  const redis = await startRedis();
  const settings = { engine: { url: engine.url }, cache: { redis: { url: redis.url } } };
  const gateways = [await startTestGateway(settings), await startTestGateway(settings)];
  try {
    const told: Explained[] = [];
    for (const one of gateways) {
      gateway = one;
      if (told.length === 0) await askXmla(one.url, QUERY);
      let shown = await explain();
      // It is written to Redis after its client has its answer.
      while (shown.cache?.['redis'] === null) shown = await explain();
      told.push(shown);
    }
    const [first, second] = told.map(({ cache }) => cache);
    const entry = { bytes: Buffer.byteLength(mddatasetAnswer()), age_ms: expect.any(Number) };
    expect(first).toMatchObject({ memory: entry, redis: entry });
    expect(second).toMatchObject({ memory: null, redis: entry, nearest: null });
    for (const part of ['key', 'parts', 'epochs']) expect(second?.[part]).toEqual(first?.[part]);
    expect(engine.seen).toHaveLength(1);
  } finally {
    for (const one of gateways) await one.close();
    await redis.close();
  }
});

test('a session in Redis lives no longer for being explained', async () => {
  const redis = await startRedis();
  const sessions = await startSessionEngine({ kind: 'emondrian' });
  gateway = await startTestGateway({
    engine: { url: sessions.url, kind: 'emondrian' },
    cache: { lease: '100ms', redis: { url: redis.url } },
  });
  try {
    const id = await beginSession(gateway.url, { properties: { Catalog: 'Shop' } });
    const [, key = ''] = /(\{mdx\}:2:session:\S+)/.exec(await askRedis(redis.port, 'KEYS *')) ?? [];
    await askRedis(redis.port, `PEXPIRE ${key} 60000`);
    const body = execute({
      statement: 'SELECT FROM [Sales]',
      properties: { Catalog: 'Shop' },
      session: inSession(id),
    });
    // The gateway that began it may still know it without asking Redis.
    for (let asked = 0; asked < 3; asked += 1) {
      const { classification } = await explain(body);
      expect(classification).toMatchObject({ decision: 'cacheable' });
      await delay(100);
    }
    const left = Number((await askRedis(redis.port, `PTTL ${key}`)).slice(1));
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(60_000);
  } finally {
    await gateway.close();
    await sessions.close();
    await redis.close();
  }
});
