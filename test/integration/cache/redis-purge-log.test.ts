import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { MAX_PURGES, readPurgeRecord } from '../../../src/cache/purge/purge-log.ts';
import { createRedisCache } from '../../../src/redis/redis-cache.ts';
import { createSealer, NO_SEALER, type Sealer } from '../../../src/common/sealing.ts';
import '../../support/patient-redis.ts';
import { askRedis, startRedis, type RedisServer } from '../../support/redis-server.ts';
import { house, unguarded, type House } from './redis-house.ts';

let redis: RedisServer;
const houses: House[] = [];

beforeAll(async () => {
  redis = await startRedis();
});
afterEach(async () => {
  for (const one of houses.splice(0)) await one.close();
  await askRedis(redis.port, 'FLUSHALL');
});
afterAll(() => redis?.close());

async function lines(sealer: Sealer = NO_SEALER, namespace = 'test') {
  const one = await house(redis.url);
  houses.push(one);
  return createRedisCache({
    connections: one.connections,
    run: unguarded,
    namespace,
    sealer,
    newToken: randomUUID,
  }).purgeLines;
}

const line = (at: number) => JSON.stringify({ at, principal: 'Jörg "the loader"\n' });

const SEALERS = [
  ['plain', NO_SEALER],
  ['sealed', createSealer('a secret of at least thirty-two characters')],
] as const;

describe('the log of purges in Redis', () => {
  test.each(SEALERS)('gives back what gateways wrote, in order (%s)', async (_name, sealer) => {
    const [one, other] = [await lines(sealer), await lines(sealer)];
    expect(await one.all()).toEqual([]);
    await one.add(line(1), 9);
    await other.add(line(2), 9);
    await one.add(line(3), 9);
    expect(await other.all()).toEqual([line(1), line(2), line(3)]);
  });

  test('keeps the latest only', async () => {
    const one = await lines();
    await Promise.all(
      Array.from({ length: MAX_PURGES + 2 }, (_, at) => one.add(line(at), MAX_PURGES)),
    );
    const kept = await one.all();
    expect([kept.length, kept[0]]).toEqual([MAX_PURGES, line(2)]);
  });

  test('skips what was sealed under another key, or not at all, and shows nothing of what is sealed', async () => {
    const [, [, sealer]] = SEALERS;
    const [sealed, other, plain] = [
      await lines(sealer),
      await lines(createSealer('another secret of at least 32 characters')),
      await lines(),
    ];
    await sealed.add(line(1), 9);
    expect(await askRedis(redis.port, 'LRANGE {test}:2:purges 0 -1')).not.toMatch(/loader|at/);
    await other.add(line(2), 9);
    await plain.add(line(3), 9);
    expect(await sealed.all()).toEqual([line(1)]);
    expect(await other.all()).toEqual([line(2)]);
    expect((await plain.all()).filter((text) => readPurgeRecord(text) !== undefined)).toEqual([]);
    expect(await plain.all()).toContain(line(3));
  });

  test('of another namespace is not read where others copy it, when it is sealed', async () => {
    const [, [, sealer]] = SEALERS;
    const [one, other] = [await lines(sealer), await lines(sealer, 'other')];
    await one.add(line(1), 9);
    await askRedis(redis.port, 'COPY {test}:2:purges {other}:2:purges');
    expect([await one.all(), await other.all()]).toEqual([[line(1)], []]);
  });

  test('of one namespace is not that of another', async () => {
    const [one, other] = [await lines(), await lines(NO_SEALER, 'other')];
    await one.add(line(1), 9);
    expect(await other.all()).toEqual([]);
  });

  test('says so when its key holds something else', async () => {
    const one = await lines();
    await askRedis(redis.port, 'SET {test}:2:purges foreign');
    await expect(one.add(line(1), 9)).rejects.toThrow('WRONGTYPE');
    await expect(one.all()).rejects.toThrow('WRONGTYPE');
  });
});
