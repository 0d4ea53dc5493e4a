import { afterEach, afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { CacheScope } from '../../../src/freshness/freshness-store.ts';
import '../../support/patient-redis.ts';
import { askRedis, startRedis, type RedisServer } from '../../support/redis-server.ts';
import { house, until, type House } from './redis-house.ts';

const A: readonly CacheScope[] = ['everything', 'project:a'];

let redis: RedisServer;
const houses: House[] = [];

async function replica(
  ...args: Parameters<typeof house> extends [unknown, ...infer R] ? R : never
) {
  const made = await house(redis.url, ...args);
  houses.push(made);
  return made;
}

beforeAll(async () => {
  redis = await startRedis();
});
afterEach(async () => {
  for (const one of houses.splice(0)) await one.close();
  await askRedis(redis.port, 'FLUSHALL');
});
afterAll(() => redis?.close());

describe('epochs in Redis', () => {
  test('are made once, whoever asks first, and are the same for all', async () => {
    const [one, other] = await Promise.all([replica(), replica()]);
    const readings = await Promise.all(
      Array.from({ length: 50 }, (_, i) => (i % 2 === 0 ? one : other).store.read(A)),
    );
    const [first] = readings;
    expect(new Set(first?.tokens).size).toBe(2);
    for (const reading of readings) expect(reading).toEqual(first);
  });

  test('are renewed together, and no others with them', async () => {
    const [one, other] = await Promise.all([replica(), replica()]);
    const scopes: readonly CacheScope[] = ['everything', 'unassigned', 'project:a', 'project:b'];
    const before = await one.store.read(scopes);
    await other.store.renew(['project:a', 'unassigned']);
    const after = await one.store.read(scopes);
    expect(after.tokens.map((token, i) => token === before.tokens[i])).toEqual([
      true,
      false,
      false,
      true,
    ]);
    expect(after.keySecret).toBe(before.keySecret);
  });

  test('tell a renewal whether a project was asked for; a renewal alone makes no project known', async () => {
    const [one, other] = await Promise.all([replica(), replica()]);
    const known = async () => (await other.store.renew(['project:a', 'unassigned'])).known;
    expect([await known(), await known()]).toEqual([false, false]);
    const [before] = (await one.store.read(['project:a'])).tokens;
    expect([await known(), await known()]).toEqual([true, true]);
    expect((await one.store.read(['project:a'])).tokens).not.toEqual([before]);
  });

  test('come with one secret for all', async () => {
    const one = await replica();
    const { keySecret } = await one.store.read(A);
    expect((await (await replica()).store.read(A)).keySecret).toBe(keySecret);
  });

  test('of one namespace are not those of another', async () => {
    const [one, other] = await Promise.all([replica(), replica({ namespace: 'other' })]);
    const before = await one.store.read(A);
    expect((await other.store.read(A)).tokens).not.toEqual(before.tokens);
    await other.store.renew(A);
    expect(await one.store.read(A)).toEqual(before);
  });

  test('are all new when Redis was emptied', async () => {
    const { store } = await replica();
    const before = await store.read(A);
    await askRedis(redis.port, 'FLUSHALL');
    const after = await store.read(A);
    expect(after.tokens.filter((token) => before.tokens.includes(token))).toEqual([]);
  });

  test('survive that Redis forgot its scripts', async () => {
    const { store } = await replica();
    const before = await store.read(A);
    await askRedis(redis.port, 'SCRIPT FLUSH');
    expect(await store.read(A)).toEqual(before);
  });

  test('of projects that nobody asks for are dropped; the others never', async () => {
    const { store } = await replica({ unusedAfter: 50 });
    const before = await store.read([...A, 'unassigned']);
    await until(
      () => askRedis(redis.port, 'EXISTS {test}:2:epoch:project:a'),
      (reply) => reply === ':0\r\n',
    );
    const [everything, project, unassigned] = (await store.read([...A, 'unassigned'])).tokens;
    expect([everything, unassigned]).toEqual([before.tokens[0], before.tokens[2]]);
    expect(project).not.toBe(before.tokens[1]);
    expect(await askRedis(redis.port, 'PTTL {test}:2:epoch:everything')).toBe(':-1\r\n');
    expect(await askRedis(redis.port, 'PTTL {test}:2:epoch:unassigned')).toBe(':-1\r\n');
  });

  test('live on with every read', async () => {
    const { store } = await replica({ unusedAfter: 3_600_000 });
    await store.read(A);
    await askRedis(redis.port, 'PEXPIRE {test}:2:epoch:project:a 1000');
    await store.read(A);
    const ttl = Number((await askRedis(redis.port, 'PTTL {test}:2:epoch:project:a')).slice(1));
    expect(ttl).toBeGreaterThan(1_000);
  });

  test('whose key holds something else are unknown, until a purge heals it', async () => {
    const { store } = await replica();
    await askRedis(redis.port, 'LPUSH {test}:2:epoch:project:a foreign');
    await expect(store.read(A)).rejects.toThrow('WRONGTYPE');
    await store.renew(['project:a', 'unassigned']);
    expect((await store.read(A)).tokens).toHaveLength(2);
  });

  test.each(['incarnation', 'leases', 'key-secret'])(
    'are neither read nor renewed when the key %s holds something else',
    async (key) => {
      const { store } = await replica();
      await askRedis(redis.port, `HSET {test}:2:${key} foreign value`);
      await expect(store.read(A)).rejects.toThrow('WRONGTYPE');
      await expect(store.renew(A)).rejects.toThrow('WRONGTYPE');
    },
  );
});

describe('a key that was lost alone, as by eviction,', () => {
  async function afterLosing(key: string) {
    const [one, other] = [await replica(), await replica()];
    const scopes: readonly CacheScope[] = ['everything', 'project:a', 'unassigned'];
    const before = await one.store.read(scopes);
    expect(await askRedis(redis.port, `DEL {test}:2:${key}`)).toBe(':1\r\n');
    const after = await other.store.read(scopes);
    expect(await one.store.read(scopes)).toEqual(after);
    return {
      same: scopes.filter((_, i) => after.tokens[i] === before.tokens[i]),
      sameSecret: after.keySecret === before.keySecret,
    };
  }

  test.each([
    ['epoch:everything', ['project:a', 'unassigned'], true],
    ['epoch:project:a', ['everything', 'unassigned'], true],
    ['epoch:unassigned', ['everything', 'project:a'], true],
    ['incarnation', ['project:a', 'unassigned'], true],
    ['leases', ['everything', 'project:a', 'unassigned'], true],
    ['key-secret', ['everything', 'project:a', 'unassigned'], false],
  ])('%s, brings back no epoch of before a purge', async (key, same, sameSecret) => {
    expect(await afterLosing(key)).toEqual({ same, sameSecret });
  });
});
