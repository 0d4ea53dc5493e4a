import { afterEach, afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { CacheScope } from '../../../src/freshness/freshness-store.ts';
import '../../support/patient-redis.ts';
import { askRedis, startRedis, type RedisServer } from '../../support/redis-server.ts';
import { house, until, type House } from './redis-house.ts';

const HOUR = 3_600_000;
const A: readonly CacheScope[] = ['everything', 'project:a'];

let redis: RedisServer;
const houses: House[] = [];

async function replica(options: NonNullable<Parameters<typeof house>[1]> = {}): Promise<House> {
  const made = await house(redis.url, { longestLease: HOUR, ...options });
  houses.push(made);
  return made;
}

/** Brings the notes to where nothing was lost of late: the longest lease, which may be any, would hide the others. */
async function nothingLost(namespace = 'test'): Promise<void> {
  const { store } = await replica({ namespace, lease: 1 });
  await store.read(A);
  await askRedis(redis.port, `ZREM "{${namespace}}:2:leases" "lost ${HOUR}"`);
}

beforeAll(async () => {
  redis = await startRedis();
});
beforeEach(() => nothingLost());
afterEach(async () => {
  for (const one of houses.splice(0)) await one.close();
  await askRedis(redis.port, 'FLUSHALL');
});
afterAll(() => redis?.close());

/** What a purge waits for as soon as the longest lease of three (1, 100, 101) has ended. */
async function leaseWhenLongestEnds(namespace: string): Promise<number> {
  await nothingLost(namespace);
  const [short, middle, long] = await Promise.all(
    [1, 100, 101].map((lease) => replica({ lease, namespace })),
  );
  await long?.store.read(A);
  for (;;) {
    const began = performance.now();
    await middle?.store.read(A);
    const longest = await short?.renew(A);
    if (longest === undefined || longest === 101) continue;
    // In so long a time as a machine may stand still what the middle one has noted may end, too: then once more.
    const isOver = performance.now() - began >= 10 * 100;
    return longest === 1 && isOver ? leaseWhenLongestEnds(namespace) : longest;
  }
}

describe('the lease that a purge waits for', () => {
  test('is the longest of all replicas that read, and of the one that purges', async () => {
    const [short, middle, long] = await Promise.all(
      [1_000, 2_000, 5_000].map((lease) => replica({ lease })),
    );
    expect(await short?.renew(A)).toBe(1_000);
    await middle?.store.read(A);
    expect(await short?.renew(A)).toBe(2_000);
    await long?.store.read(A);
    await short?.store.read(A);
    await middle?.store.read(A);
    expect(await short?.renew(A)).toBe(5_000);
    expect(await long?.renew(A)).toBe(5_000);
  });

  test('is the longest that is allowed when Redis may have lost the leases, for as long', async () => {
    const { renew } = await replica({ lease: 10, longestLease: 60_000 });
    await askRedis(redis.port, 'SET {test}:2:incarnation another');
    expect(await renew(A)).toBe(60_000);
    expect(await renew(A)).toBe(60_000);
    await askRedis(redis.port, 'FLUSHALL');
    const brief = await replica({ lease: 10, longestLease: 200 });
    expect(await brief.renew(A)).toBe(200);
    await until(
      () => brief.renew(A),
      (lease) => lease === 10,
    );
  });

  test('still counts a replica that read while one with a longer lease was there', async () => {
    // Where the long lease ends between a read with the middle one and a purge, the middle one must count.
    // Several at one time, since nobody can choose the moment at which Redis lets it end.
    const names = Array.from({ length: 8 }, (_, i) => `test ${i}`);
    expect(await Promise.all(names.map(leaseWhenLongestEnds))).toEqual(names.map(() => 100));
  });
});

/** Does to the notes of leases what a clock does to them that is set forward by so much (ms); negative for back. */
async function setClockForward(by: number): Promise<void> {
  const reply = await askRedis(redis.port, 'ZRANGE {test}:2:leases 0 -1');
  const members = reply.split('\r\n').filter((line) => /^\S+ \d+( again)?$/.test(line));
  for (const member of members) {
    await askRedis(redis.port, `ZINCRBY {test}:2:leases ${-by} "${member}"`);
  }
}

describe('the notes of leases', () => {
  test('that were lost alone, as by eviction, make a purge wait for the longest lease that is allowed', async () => {
    const { store, renew } = await replica({ lease: 10, longestLease: 60_000 });
    await store.read(A);
    await askRedis(redis.port, 'ZREM {test}:2:leases "lost 60000"');
    expect(await renew(A)).toBe(10);
    await askRedis(redis.port, 'DEL {test}:2:leases');
    expect(await renew(A)).toBe(60_000);
    expect(await renew(A)).toBe(60_000);
  });

  test('hold the wait for the longest for about as long as that lease', async () => {
    const { store, renew } = await replica({ lease: 10, longestLease: 200 });
    await store.read(A);
    await askRedis(redis.port, 'DEL {test}:2:leases');
    expect(await renew(A)).toBe(200);
    await until(
      () => renew(A),
      (lease) => lease === 10,
    );
    expect(await askRedis(redis.port, 'ZSCORE {test}:2:leases complete')).toContain('inf');
  });

  test('do not end before the leases when the clock of Redis is set forward', async () => {
    const [short, long] = [await replica({ lease: 1_000 }), await replica({ lease: 60_000 })];
    await long.store.read(A);
    expect(await short.renew(A)).toBe(60_000);
    await setClockForward(HOUR);
    expect(await short.renew(A)).toBe(60_000);
    expect(await short.renew(A)).toBe(60_000);
    // That is once more for as long as the lease; then it is over.
    await setClockForward(HOUR);
    expect(await short.renew(A)).toBe(1_000);
  });

  test('last longer when the clock of Redis is set back', async () => {
    const [short, long] = [await replica({ lease: 1_000 }), await replica({ lease: 60_000 })];
    await long.store.read(A);
    await setClockForward(-HOUR);
    expect(await short.renew(A)).toBe(60_000);
    await short.store.read(A);
    await setClockForward(HOUR);
    expect(await short.renew(A)).toBe(60_000);
  });

  test.each(['inf', 'infinity', '1e10', String(HOUR + 1), '0x7fffffff', 'x'])(
    'with a length that no lease can have let no purge be confirmed, as long as it is there: %s',
    async (length) => {
      const { store, renew } = await replica({ lease: 1_000 });
      await store.read(A);
      await askRedis(redis.port, `ZADD {test}:2:leases +inf "another ${length}"`);
      const why = length === 'x' ? 'nil' : '{test}:2:leases holds';
      await expect(renew(A)).rejects.toThrow(why);
      await expect(renew(A)).rejects.toThrow(why);
      await askRedis(redis.port, `ZREM {test}:2:leases "another ${length}"`);
      expect(await renew(A)).toBe(1_000);
    },
  );

  test.each(['-5', '-inf', 'nan', '0.5'])(
    'never make a purge wait for less than the own lease: %s',
    async (length) => {
      const { store, renew } = await replica({ lease: 1_000 });
      await store.read(A);
      await askRedis(redis.port, `ZADD {test}:2:leases +inf "another ${length}"`);
      expect(await renew(A)).toBe(1_000);
    },
  );

  test('count a lease as long as any may be, and the own one also when it is longer', async () => {
    const { renew } = await replica({ lease: 1_000 });
    await askRedis(redis.port, `ZADD {test}:2:leases +inf "another ${HOUR}"`);
    expect(await renew(A)).toBe(HOUR);
    const longer = await replica({ lease: HOUR + 1 });
    expect(await longer.renew(A)).toBe(HOUR + 1);
    await expect(renew(A)).rejects.toThrow(`the longest is ${HOUR + 1}`);
  });
});
