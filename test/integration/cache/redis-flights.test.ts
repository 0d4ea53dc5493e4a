import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { FlightLocks, Standing } from '../../../src/cache/shared-flights.ts';
import { randomUUID } from 'node:crypto';
import { NO_SEALER } from '../../../src/common/sealing.ts';
import { createRedisCache } from '../../../src/redis/redis-cache.ts';
import { askRedis, startRedis, type RedisServer } from '../../support/redis-server.ts';
import { house, unguarded, until, type House } from './redis-house.ts';

const LOCK = { query: 'query', key: 'key' };
const LIFE = 60_000;
const PATIENCE = 60_000;

let redis: RedisServer;
const houses: House[] = [];
let one: FlightLocks;
let other: FlightLocks;

async function gateway(): Promise<FlightLocks> {
  const its = await house(redis.url);
  houses.push(its);
  return createRedisCache({
    connections: its.connections,
    run: unguarded,
    namespace: 'test',
    sealer: NO_SEALER,
    newToken: randomUUID,
  }).locks;
}

/** Asks again when a deadline of the connection passed, since the machine that tests may be slow. */
async function patiently<T>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!(error as Error).message.includes('timed out')) throw error;
    }
  }
}
const enter = (locks: FlightLocks, token: string, place = LOCK, life = LIFE) =>
  patiently(() => locks.enter(place, token, life, PATIENCE));
const beat = (locks: FlightLocks, token: string, life = LIFE) =>
  patiently(() => locks.beat(LOCK, token, life));
const leave = (locks: FlightLocks, token: string, nothing?: number) =>
  patiently(() => locks.leave(LOCK, token, nothing));
const markSlow = (milliseconds = 1_234) =>
  patiently(() => one.markSlow('query', milliseconds, LIFE));
const lifeOf = async (key: string) =>
  Number((await askRedis(redis.port, `PTTL test:{query}:${key}`)).slice(1));

beforeAll(async () => {
  redis = await startRedis();
  [one, other] = await Promise.all([gateway(), gateway()]);
});
beforeEach(() => askRedis(redis.port, 'FLUSHALL'));
afterAll(async () => {
  for (const its of houses) await its.close();
  await redis?.close();
});

describe('a lock in Redis', () => {
  test('is taken by nobody while the query is not known to be slow', async () => {
    expect(await enter(one, 'a')).toEqual({ kind: 'fast' });
    expect(await askRedis(redis.port, 'DBSIZE')).toBe(':0\r\n');
    await markSlow();
    expect(await enter(one, 'a')).toEqual({ kind: 'lead', expected: 1_234 });
    await patiently(() => other.unmark('query'));
    expect(await enter(other, 'b')).toEqual({ kind: 'fast' });
  });

  test('is given to one gateway, the others wait and are told what the engine needed last', async () => {
    await markSlow(1_234.5);
    const tokens = Array.from({ length: 20 }, (_, i) => `token ${i}`);
    const standings = await Promise.all(
      tokens.map((token, i) => enter(i % 2 === 0 ? one : other, token)),
    );
    const wait: Standing = { kind: 'wait', expected: 1_235 };
    expect(standings.filter(({ kind }) => kind === 'lead')).toHaveLength(1);
    expect(standings.filter(({ kind }) => kind !== 'lead')).toEqual(
      tokens.slice(1).map(() => wait),
    );
    // Under other epochs nobody waits for these.
    expect((await enter(one, 'c', { query: 'query', key: 'other key' })).kind).toBe('lead');
  });

  test('is found again by who took it and did not hear of it', async () => {
    await markSlow();
    expect((await enter(one, 'a')).kind).toBe('lead');
    expect((await enter(one, 'a')).kind).toBe('lead');
  });

  test('becomes free when its life is over, and lives on with each beat', async () => {
    await markSlow();
    await enter(one, 'a', LOCK, 1);
    await until(
      () => enter(other, 'b'),
      ({ kind }) => kind === 'lead',
    );
    expect(await beat(one, 'a')).toBe(false);
    expect(await beat(other, 'b', 1_000_000)).toBe(true);
    expect(await lifeOf('flight:key')).toBeGreaterThan(LIFE);
  });

  test('is left by who holds it, and by nobody else', async () => {
    await markSlow();
    await enter(one, 'a');
    await leave(other, 'b');
    await leave(other, 'b', 1_000);
    expect((await enter(other, 'b')).kind).toBe('wait');
    await leave(one, 'a');
    expect((await enter(other, 'b')).kind).toBe('lead');
  });

  test('says for a while that there is nothing to wait for', async () => {
    await markSlow();
    await enter(one, 'a');
    await leave(one, 'a', LIFE);
    expect(await enter(other, 'b')).toEqual({ kind: 'nothing' });
    expect(await beat(one, 'a')).toBe(false);
    const life = await lifeOf('flight:key');
    expect([life > 0, life <= LIFE]).toEqual([true, true]);
  });

  test('and the mark of its query do not stay for ever', async () => {
    await markSlow();
    await enter(one, 'a');
    for (const key of ['slow', 'flight:key']) {
      const life = await lifeOf(key);
      expect([life > 0, life <= LIFE]).toEqual([true, true]);
    }
  });

  test('lies in one hash slot of a cluster with what is known of its query', async () => {
    const node = await startRedis({ args: ['--cluster-enabled', 'yes'] });
    try {
      const slotOf = (key: string) =>
        askRedis(node.port, `CLUSTER KEYSLOT test:{query}:${key}`).then(String);
      const slots = await Promise.all(['slow', 'flight:key', 'flight:other'].map(slotOf));
      expect(slots[0]).toMatch(/^:\d+\r\n$/u);
      expect(new Set(slots).size).toBe(1);
    } finally {
      await node.close();
    }
  });

  test('cannot be entered when Redis does not answer in the time that is left', async () => {
    await markSlow();
    await redis.pause();
    try {
      await expect(one.enter(LOCK, 'a', LIFE, 1)).rejects.toThrow('time that was left');
    } finally {
      redis.resume();
    }
    // What was sent is carried out all the same: whoever sent it leaves the lock afterwards.
    await leave(one, 'a');
    await until(
      () => enter(other, 'b'),
      ({ kind }) => kind === 'lead',
    );
  });

  test('where something else lies is no lock: the query is asked by itself', async () => {
    await askRedis(redis.port, 'SET test:{query}:slow words');
    await expect(enter(one, 'a')).rejects.toThrow('something else');
    await askRedis(redis.port, 'DEL test:{query}:slow');
    await askRedis(redis.port, 'LPUSH test:{query}:slow x');
    await expect(enter(one, 'a')).rejects.toThrow('WRONGTYPE');
  });
});
