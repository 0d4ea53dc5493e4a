import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { createSealer, NO_SEALER, type Sealer } from '../../../src/common/sealing.ts';
import { createRedisCache } from '../../../src/redis/redis-cache.ts';
import '../../support/patient-redis.ts';

import { type RedisServer, startRedis } from '../../support/redis-server.ts';
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
