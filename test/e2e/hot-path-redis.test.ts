import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { systemClock } from '../../src/clock.ts';
import { hitsUntil, watchfulClock, type AnsweringPath } from '../support/answering-path.ts';
import { largeMddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, shortStatus, type Answer } from '../support/http-client.ts';
import { until } from '../integration/query-cache/redis-house.ts';
import '../support/patient-redis.ts';
import { askRedis, startRedis, type RedisServer } from '../support/redis-server.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/** Time stands still for both, so that they say the same ages. */
const clock = { now: systemClock.now, wall: () => 1_800_000_000_000 };
/** Two of them are more than the memory of a gateway holds here, so that each is dropped before it is asked again. */
const BYTES = Buffer.from(largeMddatasetAnswer(400 * 1024));

let redis: RedisServer;
let engine: StubEngine;
let withHotPath: TestGateway;
let without: TestGateway;
const [hot, cold] = [watchfulClock(clock), watchfulClock(clock)];

beforeAll(async () => {
  redis = await startRedis();
  engine = await startStubEngine(sendXml(BYTES));
  const start = (hot_path: boolean, watched: typeof hot, namespace: string) =>
    startTestGateway(
      {
        engine: { url: engine.url },
        listen: { hot_path },
        cache: { memory: '1MiB', max_entry: '512KiB', redis: { url: redis.url, namespace } },
      },
      { clock: watched.clock },
    );
  withHotPath = await start(true, hot, 'hot');
  without = await start(false, cold, 'cold');
});
afterAll(async () => {
  await withHotPath?.close();
  await without?.close();
  await engine?.close();
  await redis?.close();
});

const [QUERY, ...OTHERS] = [1, 2, 3].map((cube) =>
  execute({ statement: `SELECT FROM [Sales ${cube}]`, properties: { Catalog: 'Sales' } }),
);

/** Asks one query after the others, by which time memory has dropped it. */
async function askLast(gateway: TestGateway): Promise<Answer> {
  for (const other of OTHERS) await askXmla(gateway.url, other);
  return askXmla(gateway.url, QUERY ?? Buffer.alloc(0));
}

const entriesOf = (namespace: string) => () =>
  askRedis(redis.port, `EVAL "return #redis.call('KEYS', ARGV[1])" 0 ${namespace}:entry:*`);

/** Until Redis holds them: they are written after their clients have theirs. */
async function allInRedis(gateway: TestGateway, namespace: string): Promise<void> {
  expect(shortStatus(await askLast(gateway))).toBe('miss');
  await until(entriesOf(namespace), (reply) => reply === ':3\r\n');
}

test('a hit from Redis is the same with the hot path and without', async () => {
  const lasts: Answer[] = [];
  for (const [gateway, watched, namespace, by] of [
    [withHotPath, hot, 'hot', 'hot path'],
    [without, cold, 'cold', 'line'],
  ] as const satisfies readonly (readonly [unknown, unknown, string, AnsweringPath])[]) {
    await allInRedis(gateway, namespace);
    lasts.push(...(await hitsUntil(watched, [by], () => askLast(gateway))).slice(-1));
  }
  const [one, other] = lasts.map(comparable);
  expect(one).toEqual(other);
  expect(one?.headers['cache-status']).toMatch(/; hit; ttl; detail=redis$/);
  expect(lasts.map(({ body }) => body.equals(BYTES))).toEqual([true, true]);
  const told = withHotPath.events.findLast(({ type }) => type === 'xmla-answered');
  expect(told).toMatchObject({ outcome: { kind: 'hit', detail: 'redis' }, complete: true });
});

test('what Redis holds of before a purge is not found by the hot path any more', async () => {
  const asked = engine.seen.length;
  const order = { user: 'ADMIN', method: 'GET', path: '/mdx/xmla/clearCache' };
  expect((await askXmla(withHotPath.url, Buffer.alloc(0), order)).status).toBe(200);
  for (const query of [QUERY, ...OTHERS]) {
    const answer = await askXmla(withHotPath.url, query ?? Buffer.alloc(0));
    expect(shortStatus(answer)).toBe('miss');
  }
  expect(engine.seen).toHaveLength(asked + 3);
});

test('without its Redis a gateway asks the engine, also for what the hot path knows', async () => {
  // The last ones may still be on their way to Redis.
  while (shortStatus(await askLast(withHotPath)) !== 'hit');
  await hitsUntil(hot, ['hot path'], () => askLast(withHotPath));
  await redis.close();
  const answer = await askLast(withHotPath);
  expect([answer.status, answer.body.equals(BYTES)]).toEqual([200, true]);
});

function comparable({ status, headers, body }: Answer) {
  const { date: _date, ...others } = headers;
  // Each has drawn a life of its own for its entry.
  const said = String(others['cache-status']).replace(/ttl=\d+/, 'ttl');
  return { status, headers: { ...others, 'cache-status': said }, length: body.length };
}
