import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { ask } from '../integration/cache/gateways.ts';
import { until } from '../integration/cache/redis-house.ts';
import '../support/patient-redis.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { sizes } from '../support/sizes.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { startWatchedEngine, type WatchedEngine } from '../support/watched-engine.ts';
import { seeded } from '../unit/features/statistics/answered.ts';

const EVERY = 1_000;
const LEASE = 100;
/** A question and a purge of it, beside the lease, on a machine that is busy. */
const SLACK = 500;
const LATEST = EVERY + 1.1 * LEASE + SLACK;
/** Between two changes at most; short pauses are more frequent (ms). */
const LONGEST_PAUSE = 3_000;
const TICK = 10;

let redis: RedisServer;
let engine: WatchedEngine;
const gateways: TestGateway[] = [];

beforeAll(async () => {
  redis = await startRedis();
  engine = await startWatchedEngine();
  for (let count = 0; count < 2; count += 1) {
    gateways.push(
      await startTestGateway({
        engine: { url: `${engine.url}/{project}` },
        cache: { lease: `${LEASE}ms`, redis: { url: redis.url } },
        projects: { a: { watch: { kind: 'xmla', every: `${EVERY}ms` } } },
      }),
    );
  }
});
afterAll(async () => {
  await Promise.all(gateways.map((one) => one.close()));
  await engine?.close();
  await redis?.close();
});

/** Time in which this process ran: while the machine keeps it from running, it neither changes nor answers anything. */
function livedClock() {
  let lived = 0;
  let last = performance.now();
  const now = () => {
    const time = performance.now();
    lived += Math.min(time - last, 2 * TICK);
    last = time;
    return lived;
  };
  const timer = setInterval(now, TICK);
  return { now, stop: () => clearInterval(timer) };
}

test('what changes without a word is answered by no gateway later than every, a question and a purge', async () => {
  const random = seeded(7);
  const clock = livedClock();
  /** When each version became the data of the engine. */
  const since = [clock.now()];
  engine.data = '0';
  const isOver = () => since.length > sizes.unannouncedLoads;
  const late: string[] = [];
  let hits = 0;

  async function keepAsking(gateway: TestGateway): Promise<void> {
    while (!isOver()) {
      const sent = clock.now();
      const { body, cache, status } = await ask(gateway);
      const version = Number(/a Sales (\d+)/.exec(body)?.[1]);
      const next = since[version + 1] ?? Infinity;
      if (status !== 200 || !(sent <= next + LATEST)) {
        late.push(`${cache}: version ${version}, ${Math.round(sent - next)} ms late`);
      }
      if (cache.startsWith('hit')) hits += 1;
      await delay(1);
    }
  }

  const purged = () =>
    gateways.flatMap(({ events }) => events.filter(({ type }) => type === 'purged'));
  await until(purged, ({ length }) => length > 0);
  const asking = gateways.map(keepAsking);
  while (!isOver()) {
    await delay(random() ** 2 * LONGEST_PAUSE);
    engine.data = String(since.length);
    since.push(clock.now());
  }
  await Promise.all(asking);
  clock.stop();
  expect(late).toEqual([]);
  // The cache was of use, and one gateway alone has asked.
  expect(hits).toBeGreaterThan(10 * sizes.unannouncedLoads);
  const pollers = new Set(
    gateways.filter(({ events }) => events.some(({ type }) => type === 'purged')),
  );
  expect(pollers.size).toBe(1);
}, 1_200_000);
