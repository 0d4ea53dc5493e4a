import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { untilRemembered } from '../support/remembered.ts';
import { largeMddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, shortStatus, type Answer } from '../support/http-client.ts';
import { until } from '../integration/cache/redis-house.ts';
import '../support/patient-redis.ts';
import { askRedis, startRedis, type RedisServer } from '../support/redis-server.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/** Six of them are more than the memory of a gateway holds here, so that each is dropped before it is asked again. */
const BYTES = Buffer.from(largeMddatasetAnswer(200 * 1024));

let redis: RedisServer;
let engine: StubEngine;
let gateway: TestGateway;

beforeAll(async () => {
  redis = await startRedis();
  engine = await startStubEngine(sendXml(BYTES));
  const cache = { memory: '1MiB', max_entry: '512KiB', redis: { url: redis.url } };
  gateway = await startTestGateway({ engine: { url: engine.url }, cache });
});
afterAll(async () => {
  await gateway?.close();
  await engine?.close();
  await redis?.close();
});

const [QUERY, ...OTHERS] = [1, 2, 3, 4, 5, 6].map((cube) =>
  execute({ statement: `SELECT FROM [Sales ${cube}]`, properties: { Catalog: 'Sales' } }),
);

const ask = (query: Buffer | undefined) => askXmla(gateway.url, query ?? Buffer.alloc(0));

/** Asks one query after the others, by which time memory has dropped it. */
async function askLast(): Promise<Answer> {
  for (const other of OTHERS) await ask(other);
  return ask(QUERY);
}

/** Until Redis holds them: they are written after their clients have theirs. */
async function allInRedis(): Promise<void> {
  expect(shortStatus(await askLast())).toBe('miss');
  await until(
    () => askRedis(redis.port, `EVAL "return #redis.call('KEYS', ARGV[1])" 0 mdx:entry:*`),
    (reply) => reply === ':6\r\n',
  );
}

/** Until every query is remembered, as it is found in memory when it is asked twice. */
async function allRemembered(): Promise<void> {
  for (const query of [QUERY, ...OTHERS]) await untilRemembered(() => ask(query));
}

test('a query that is remembered and whose answer memory has dropped is answered from Redis, and then from memory', async () => {
  await allInRedis();
  await allRemembered();
  const fromRedis = await askLast();
  // Where the lease has ended meanwhile, as on a machine that stands still, the first one is found by its key.
  const found = await untilRemembered(() => ask(QUERY));
  const [fromMemory = fromRedis] = found.slice(-1);
  expect(fromRedis.headers['cache-status']).toMatch(/; hit; ttl=\d+; detail=redis$/);
  expect(fromMemory.headers['cache-status']).toMatch(/; hit; ttl=\d+; detail=memory$/);
  expect(comparable(fromRedis)).toEqual(comparable(fromMemory));
  expect(fromRedis.body.equals(BYTES)).toBe(true);
  const answered = gateway.events.filter(({ type }) => type === 'xmla-answered');
  expect(answered.slice(-1 - found.length)).toMatchObject([
    { outcome: { kind: 'hit', detail: 'redis' }, complete: true },
    ...found.map(() => ({ outcome: { kind: 'hit', detail: 'memory' }, complete: true })),
  ]);
});

test('what Redis holds of before a purge is not found any more', async () => {
  const asked = engine.seen.length;
  const order = { user: 'ADMIN', method: 'GET', path: '/mdx/xmla/clearCache' };
  expect((await askXmla(gateway.url, Buffer.alloc(0), order)).status).toBe(200);
  for (const query of [QUERY, ...OTHERS]) expect(shortStatus(await ask(query))).toBe('miss');
  expect(engine.seen).toHaveLength(asked + 1 + OTHERS.length);
});

test('without its Redis a gateway asks the engine, also for what is remembered', async () => {
  // The last ones may still be on their way to Redis.
  while (shortStatus(await askLast()) !== 'hit');
  await allRemembered();
  await redis.close();
  const answer = await askLast();
  expect([answer.status, answer.body.equals(BYTES)]).toEqual([200, true]);
});

function comparable({ status, headers, body }: Answer) {
  const { date: _date, age: _age, 'cache-status': _status, ...rest } = headers;
  const { 'x-request-id': _id, ...others } = rest;
  return { status, headers: others, length: body.length };
}
