import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { createSealer, NO_SEALER } from '../../../src/common/sealing.ts';
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

const gateway = (sealer = NO_SEALER) =>
  createRedisCache({
    connections: connected.connections,
    run: unguarded,
    namespace: 'test',
    sealer,
    newToken: randomUUID,
  }).fleet;

test('one gateway has a task, until it leaves it or its time is over', async () => {
  const [here, there] = [gateway(), gateway()];
  expect(await here.hold('watch', 60_000)).toBe(true);
  expect(await there.hold('watch', 60_000)).toBe(false);
  expect(await here.hold('watch', 60_000)).toBe(true);
  await there.leave('watch');
  expect(await there.hold('watch', 60_000)).toBe(false);
  const [name = ''] = await client.keys('*task*');
  expect(await client.pttl(name)).toBeGreaterThan(50_000);
  await client.del(name);
  expect(await there.hold('watch', 60_000)).toBe(true);
  await there.leave('watch');
  expect(await here.hold('watch', 60_000)).toBe(true);
});

test('a gateway that lost its task writes no note of it', async () => {
  const [here, there] = [gateway(), gateway()];
  expect(await here.note('signature')).toBeUndefined();
  await here.hold('watch', 60_000);
  expect(await here.write('signature', 'one', 'watch')).toBe(true);
  expect(await there.write('signature', 'of another', 'watch')).toBe(false);
  expect(await there.note('signature')).toBe('one');
  expect(await there.write('signature', 'without a task')).toBe(true);
  expect(await here.note('signature')).toBe('without a task');
});

test('with a key notes lie there sealed, and others cannot put one there', async () => {
  const sealed = gateway(createSealer('s'.repeat(32)));
  await sealed.write('signature', 'confidential');
  const [name = ''] = await client.keys('*note*');
  expect(await client.get(name)).not.toContain('confidential');
  expect(await sealed.note('signature')).toBe('confidential');
  await gateway().write('signature', 'forged');
  expect(await sealed.note('signature')).toBeUndefined();
});

test('with a key a note counts under its own name alone: what another writes there of others is no note', async () => {
  const secret = 's'.repeat(32);
  const sealed = gateway(createSealer(secret));
  const value = async (name: string) =>
    (await client.getBuffer(`{test}:2:note:${name}`)) ?? Buffer.of();
  await sealed.write('watch:East', 'of the East');
  await sealed.write('watch:West', 'of the West');
  await client.set('{test}:2:note:watch:East', await value('watch:West'));
  expect(await sealed.note('watch:East')).toBeUndefined();
  expect(await sealed.note('watch:West')).toBe('of the West');
  // As version 0.2.0 left it.
  await client.set(
    '{test}:2:note:watch:East',
    createSealer(secret).seal(Buffer.from('old'), 'notes'),
  );
  expect(await sealed.note('watch:East')).toBeUndefined();
  await sealed.write('watch:East', 'again');
  expect(await sealed.note('watch:East')).toBe('again');
});
