import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { systemClock } from '../../../src/common/clock.ts';
import { createEpochs } from '../../../src/freshness/freshness.ts';
import type { CacheScope } from '../../../src/freshness/freshness-store.ts';
import '../../support/patient-redis.ts';
import { handClock } from '../../unit/cache/fakes.ts';
import { askRedis, startRedis, type RedisServer } from '../../support/redis-server.ts';
import { house, type House } from './redis-house.ts';

const LEASE = 1_000;
const LEASES = 20;
const MANY = 1_000;

let redis: RedisServer;
let gateway: House;
beforeAll(async () => {
  redis = await startRedis();
  gateway = await house(redis.url, { lease: LEASE });
});
afterEach(() => askRedis(redis.port, 'CONFIG RESETSTAT'));
afterAll(async () => {
  await gateway?.close();
  await redis?.close();
});

/** Scripts that Redis has run since its figures were reset. */
async function scripts(): Promise<number> {
  const text = await askRedis(redis.port, 'INFO commandstats');
  const counts = text.matchAll(/cmdstat_(?:eval|evalsha):calls=(\d+)/g);
  return [...counts].reduce((sum, [, calls]) => sum + Number(calls), 0);
}

/** Scripts that it takes to use the epochs of so many projects through many leases, each twice in one. */
async function scriptsFor(projects: number): Promise<number> {
  const clock = { ...systemClock, ...handClock() };
  const epochs = createEpochs({ store: gateway.store, clock, lease: () => LEASE });
  const all = Array.from({ length: projects }, (_, at): CacheScope[] => [
    'everything',
    `project:${at}`,
  ]);
  const use = () =>
    Promise.all(all.map(async (scopes) => epochs.held(scopes) ?? epochs.obtain(scopes)));
  await use();
  await askRedis(redis.port, 'CONFIG RESETSTAT');
  for (let turn = 0; turn < 2 * LEASES; turn += 1) {
    clock.advance(LEASE / 2);
    for (const captured of await use()) expect(captured).toBeDefined();
  }
  epochs.close();
  return scripts();
}

test('a thousand projects in use take at most ten times the scripts of one', async () => {
  const one = await scriptsFor(1);
  expect(one).toBeGreaterThanOrEqual(LEASES);
  expect(await scriptsFor(MANY)).toBeLessThanOrEqual(10 * one);
});
