import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import { randomBytes, randomUUID } from 'node:crypto';
import { systemClock } from '../../../src/common/clock.ts';
import type { GatewayEvent } from '../../../src/common/events.ts';
import { createFillOrder } from '../../../src/cache/flights.ts';
import { purgedScopes } from '../../../src/cache/projects.ts';
import type { CacheScope } from '../../../src/freshness/freshness-store.ts';
import { createSharedEntries } from '../../../src/cache/shared-entries.ts';
import { createSweep, type SweepStore } from '../../../src/cache/purge/sweep.ts';
import { createRedisCache } from '../../../src/redis/redis-cache.ts';
import type { RedisClient } from '../../../src/redis/redis-connections.ts';
import { NO_SEALER } from '../../../src/common/sealing.ts';
import { startRedisCluster, type RedisCluster } from '../../support/redis-cluster.ts';
import { startRedis, type RedisServer } from '../../support/redis-server.ts';
import { sizes } from '../../support/sizes.ts';
import { bodyAccount, checkpoint, storedAnswer } from '../../unit/cache/fakes.ts';
import { PLAIN } from '../../unit/cache/shared-entries/older-entries.ts';
import { house, unguarded, until, type House } from './redis-house.ts';

const SALES: readonly CacheScope[] = ['everything', 'project:sales'];
const HR: readonly CacheScope[] = ['everything', 'project:hr'];

/**
 * What one gateway has of a Redis, with entries to sweep.
 * @param writer without deadlines, since the machine that tests may be slow
 */
function sweeperOf(one: House, writer: RedisClient, sleep = async (_milliseconds: number) => {}) {
  const events: GatewayEvent[] = [];
  const emit = (event: GatewayEvent) => void events.push(event);
  const entries = createSharedEntries(one.tier, NO_SEALER, {
    clock: systemClock,
    maxEntry: () => 8 * 1024 * 1024,
    emit,
    account: bodyAccount(),
  });
  const { sweepStore: store, fleet } = createRedisCache({
    connections: { ...one.connections, writer },
    run: unguarded,
    namespace: 'test',
    sealer: NO_SEALER,
    newToken: randomUUID,
  });
  const drops: number[] = [];
  const counted: SweepStore = {
    ...store,
    async drop(names) {
      drops.push(names.length);
      return store.drop(names);
    },
  };
  const sweep = createSweep({ store: counted, fleet, clock: systemClock, sleep, emit });
  const order = createFillOrder();
  return {
    events,
    drops,
    sweep,
    hold: () => fleet.hold('sweep', 30_000),
    leave: () => fleet.leave('sweep'),
    /** Adds so many entries that were filled under the epochs of the scopes; resolves to their keys. */
    async add(scopes: readonly CacheScope[], count: number, length = 10): Promise<string[]> {
      const { tokens } = await one.store.read(scopes);
      const keys = Array.from({ length: count }, () => randomBytes(32).toString('base64url'));
      for (const key of keys) {
        const answer = storedAnswer({
          requestedAt: Date.now() - 1_000,
          lifetime: 3_600_000,
          body: randomBytes(length),
        });
        await entries.keep(key, { fill: order.enter(key), answer, tokens, replace: false });
      }
      return keys;
    },
    async found(keys: readonly string[]): Promise<number> {
      let count = 0;
      for (const key of keys) if ((await entries.find(key)) !== undefined) count += 1;
      return count;
    },
    /** Sweeps, and resolves with what it told. */
    async swept(): Promise<GatewayEvent | undefined> {
      const before = events.length;
      sweep.request();
      await until(
        () => events.length,
        (length) => length > before,
      );
      return events[before];
    },
  };
}

describe('a sweep of a Redis', () => {
  let redis: RedisServer;
  let one: House;
  let other: House;
  let client: Redis;

  beforeAll(async () => {
    redis = await startRedis();
    client = new Redis(redis.url);
    [one, other] = await Promise.all([house(redis.url), house(redis.url)]);
  });
  beforeEach(() => client.flushall());
  afterAll(async () => {
    client?.disconnect();
    await one?.close();
    await other?.close();
    await redis?.close();
  });

  test('drops the entries of purged epochs, long ones too, and nothing else', async () => {
    const here = sweeperOf(one, client);
    const sales = await here.add(SALES, sizes.sweptEntries);
    const hr = await here.add(HR, sizes.sweptEntries);
    const [longSales, longHr] = [
      await here.add(SALES, 2, 2_000_000),
      await here.add(HR, 2, 2_000_000),
    ];
    await client.set('test:entry:older', Buffer.from(PLAIN, 'base64'));
    await client.set('other:entry:of another namespace', 'x');
    await client.lpush('test:entry:no string', 'x');
    await one.store.renew(purgedScopes({ project: 'Sales' }));

    const scanned = 2 * sizes.sweptEntries + 5;
    const unlinked = sizes.sweptEntries + 2;
    expect(await here.swept()).toEqual({ type: 'swept', scanned, unlinked });
    expect(await here.found([...hr, ...longHr])).toBe(sizes.sweptEntries + 2);
    expect(await client.exists(...[...sales, ...longSales].map((key) => `test:entry:${key}`))).toBe(
      0,
    );
    expect(
      await client.exists(
        'test:entry:older',
        'other:entry:of another namespace',
        'test:entry:no string',
      ),
    ).toBe(3);
    // In small steps.
    expect(Math.max(...here.drops)).toBeLessThanOrEqual(200);
    expect(here.drops.length).toBeGreaterThan(1);
    // The lock is gone, and the epochs are as they were.
    expect(await client.exists('{test}:2:task:sweep')).toBe(0);
    await here.add(HR, 1);
    expect(await here.swept()).toMatchObject({ unlinked: 0 });
  });

  test('after a purge of everything drops all that was there, and what is filled then stays', async () => {
    const here = sweeperOf(one, client);
    const before = [...(await here.add(SALES, 300)), ...(await here.add(HR, 300))];
    await other.store.renew(purgedScopes('everything'));
    const after = await here.add(SALES, 10);
    expect(await here.swept()).toMatchObject({ unlinked: 600 });
    expect(await here.found(before)).toBe(0);
    expect(await here.found(after)).toBe(10);
  });

  test('is made by one gateway at a time', async () => {
    const held = checkpoint();
    const here = sweeperOf(one, client, held.arrive);
    const waited = checkpoint();
    const there = sweeperOf(other, client, waited.arrive);
    await here.add(SALES, 10);
    here.sweep.request();
    await held.arrived;
    expect(await there.hold()).toBe(false);
    there.sweep.request();
    await waited.arrived;
    expect(there.events).toEqual([]);
    held.release();
    await until(
      () => here.events.length,
      (length) => length > 0,
    );
    waited.release();
    await until(
      () => there.events.length,
      (length) => length > 0,
    );
    expect(there.events).toEqual([{ type: 'swept', scanned: 10, unlinked: 0 }]);
  });

  test('loses its task when that has run out and another gateway took it', async () => {
    const here = sweeperOf(one, client);
    const there = sweeperOf(other, client);
    expect(await here.hold()).toBe(true);
    expect(await here.hold()).toBe(true);
    const left = await client.pttl('{test}:2:task:sweep');
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(30_000);
    await client.del('{test}:2:task:sweep');
    expect(await there.hold()).toBe(true);
    expect(await here.hold()).toBe(false);
    await here.leave();
    expect(await there.hold()).toBe(true);
    await there.leave();
  });

  test('stops when it is closed in the middle', async () => {
    const held = checkpoint();
    const here = sweeperOf(one, client, held.arrive);
    const keys = await here.add(SALES, 1_000);
    await one.store.renew(purgedScopes({ project: 'Sales' }));
    here.sweep.request();
    await held.arrived;
    await here.sweep.close();
    expect(await client.exists(...keys.map((key) => `test:entry:${key}`))).toBe(1_000);
    expect(await client.exists('{test}:2:task:sweep')).toBe(0);
    held.release();
  });

  test('ends with an event when Redis goes away, and disturbs nobody', async () => {
    const away = await startRedis();
    const lonely = await house(away.url);
    try {
      const held = checkpoint();
      const here = sweeperOf(lonely, lonely.connections.writer, held.arrive);
      await here.add(SALES, 10);
      here.sweep.request();
      await held.arrived;
      await away.stop('SIGKILL');
      held.release();
      await until(
        () => here.events.length,
        (length) => length > 0,
      );
      expect(here.events).toMatchObject([{ type: 'redis-failed', operation: 'sweep' }]);
      await here.sweep.close();
    } finally {
      await lonely.close();
      await away.close();
    }
  });
});

describe('a sweep of a cluster', () => {
  let cluster: RedisCluster;
  let client: Cluster;
  let one: House;

  beforeAll(async () => {
    // No master is replaced because this machine stands still for a while.
    cluster = await startRedisCluster({ nodeTimeout: 60_000 });
    client = new Cluster([...cluster.urls]);
    one = await house({ url: cluster.urls, mode: 'cluster' });
  });
  afterAll(async () => {
    client?.disconnect();
    await one?.close();
    await cluster?.close();
  });

  test('drops the entries of purged epochs at each of its masters', async () => {
    const here = sweeperOf(one, client);
    const sales = await here.add(SALES, 300);
    const hr = await here.add(HR, 300);
    const [long] = [await here.add(SALES, 2, 2_000_000), await here.add(HR, 1, 2_000_000)];
    await one.store.renew(purgedScopes({ project: 'Sales' }));
    expect(await here.swept()).toEqual({ type: 'swept', scanned: 603, unlinked: 302 });
    expect(await here.found(hr)).toBe(300);
    expect(await here.found([...sales, ...long])).toBe(0);
  });
});
