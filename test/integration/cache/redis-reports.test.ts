import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { createSealer, NO_SEALER, type Sealer } from '../../../src/common/sealing.ts';
import { createRedisCache } from '../../../src/redis/redis-cache.ts';
import '../../support/patient-redis.ts';

import { type RedisServer, startRedis } from '../../support/redis-server.ts';
import { asked } from '../../support/answered.ts';
import { handClock, statisticsOf } from '../../unit/features/statistics/answered.ts';
import { house, type House, unguarded } from './redis-house.ts';

let redis: RedisServer;
let connected: House;
let client: Redis;

beforeAll(async () => {
  redis = await startRedis();
  connected = await house(redis.url);
  client = new Redis(redis.url);
});
beforeEach(async () => void (await client.flushall()));
afterAll(async () => {
  client.disconnect();
  await connected.close();
  await redis.close();
});

const reportsOf = (sealer: Sealer = NO_SEALER) =>
  createRedisCache({
    connections: connected.connections,
    run: unguarded,
    namespace: 'test',
    sealer,
    newToken: randomUUID,
  }).reports;

test('gateways read the latest report of each, which is forgotten after two minutes', async () => {
  await reportsOf().set('a', 'old');
  await reportsOf().set('a', 'new');
  await reportsOf().set('b', 'other');
  expect((await reportsOf().all()).toSorted()).toEqual(['new', 'other']);
  const names = await client.keys('*statistics*');
  expect(names).toHaveLength(2);
  for (const name of names) {
    const left = await client.pttl(name);
    expect(left).toBeGreaterThan(60_000);
    expect(left).toBeLessThanOrEqual(120_000);
  }
});

test('the report of a gateway that is gone is dropped by those that go on', async () => {
  await reportsOf().set('gone', 'old');
  const [told = ''] = await client.keys('*statistics:told');
  await client.zadd(told, '1', 'gone');
  await reportsOf().set('b', 'other');
  expect(await reportsOf().all()).toEqual(['other']);
  expect(await client.zrange(told, '0', '-1')).toEqual(['b']);
});

test('with a key they lie there sealed, and others cannot put one there', async () => {
  const sealed = reportsOf(createSealer('x'.repeat(32)));
  await sealed.set('a', 'figures of alice');
  expect(await sealed.all()).toEqual(['figures of alice']);
  await reportsOf().set('b', 'forged');
  expect(await sealed.all()).toEqual(['figures of alice']);
  expect((await reportsOf().all()).join()).not.toContain('alice');
});

test('with a key the report of a process counts once, wherever others copy it to', async () => {
  const sealed = reportsOf(createSealer('x'.repeat(32)));
  await sealed.set('a', 'figures');
  const [, report = Buffer.of()] =
    Object.entries(await client.hgetallBuffer('{test}:2:statistics'))[0] ?? [];
  await client.hset('{test}:2:statistics', 'b', report);
  expect(await sealed.all()).toEqual(['figures']);
});

test('each of two gateways tells the figures of both, under the same digests', async () => {
  const [one, other] = ['a', 'b'].map((id) =>
    statisticsOf({ clock: handClock() }, undefined, {
      id,
      store: reportsOf(createSealer('x'.repeat(32))),
    }),
  );
  one?.on(asked(100));
  other?.on(asked(300));
  other?.on(asked(50, { digest: 'theirs' }));
  await Promise.all([one?.shared.share(), other?.shared.share()]);
  for (const gateway of [one, other]) {
    const page = { sort: 'cost', limit: 10, offset: 0 } as const;
    expect(await gateway?.shared.statistics(page)).toMatchObject({
      gateways: 2,
      complete: true,
      totals: { asks: 3, uncached_ms: 450 },
      digests: [
        { digest: 'd', asks: 2, engine_ms: 200, engine_max_ms: 300 },
        { digest: 'theirs', asks: 1, engine_ms: 50 },
      ],
    });
  }
});
