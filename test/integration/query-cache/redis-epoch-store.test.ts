import { afterEach, afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Scope } from '../../../src/query-cache/scopes.ts';
import { askRedis, startRedis, type RedisServer } from '../../support/redis-server.ts';
import { house, until, type House } from './redis-house.ts';

const A: readonly Scope[] = ['everything', 'project:a'];

let redis: RedisServer;
const houses: House[] = [];

async function replica(...args: Parameters<typeof house> extends [string, ...infer R] ? R : never) {
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
    const scopes: readonly Scope[] = ['everything', 'unassigned', 'project:a', 'project:b'];
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

  test('come with one secret for all, unless one is configured', async () => {
    const [one, other] = await Promise.all([replica(), replica({ secret: 'configured' })]);
    const { keySecret } = await one.store.read(A);
    expect((await (await replica()).store.read(A)).keySecret).toBe(keySecret);
    expect((await other.store.read(A)).keySecret).toBe('configured');
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
      () => askRedis(redis.port, 'EXISTS {test}:epoch:project:a'),
      (reply) => reply === ':0\r\n',
    );
    const [everything, project, unassigned] = (await store.read([...A, 'unassigned'])).tokens;
    expect([everything, unassigned]).toEqual([before.tokens[0], before.tokens[2]]);
    expect(project).not.toBe(before.tokens[1]);
    expect(await askRedis(redis.port, 'PTTL {test}:epoch:everything')).toBe(':-1\r\n');
    expect(await askRedis(redis.port, 'PTTL {test}:epoch:unassigned')).toBe(':-1\r\n');
  });

  test('live on with every read', async () => {
    const { store } = await replica({ unusedAfter: 3_600_000 });
    await store.read(A);
    await askRedis(redis.port, 'PEXPIRE {test}:epoch:project:a 1000');
    await store.read(A);
    const ttl = Number((await askRedis(redis.port, 'PTTL {test}:epoch:project:a')).slice(1));
    expect(ttl).toBeGreaterThan(1_000);
  });

  test('whose key holds something else are unknown, until a purge heals it', async () => {
    const { store } = await replica();
    await askRedis(redis.port, 'LPUSH {test}:epoch:project:a foreign');
    await expect(store.read(A)).rejects.toThrow('WRONGTYPE');
    await store.renew(['project:a', 'unassigned']);
    expect((await store.read(A)).tokens).toHaveLength(2);
  });

  test.each(['incarnation', 'leases', 'key-secret'])(
    'are neither read nor renewed when the key %s holds something else',
    async (key) => {
      const { store } = await replica();
      await askRedis(redis.port, `HSET {test}:${key} foreign value`);
      await expect(store.read(A)).rejects.toThrow('WRONGTYPE');
      await expect(store.renew(A)).rejects.toThrow('WRONGTYPE');
    },
  );
});

/** What a purge waits for as soon as the longest lease of three (1, 100, 101) has ended. */
async function leaseWhenLongestEnds(namespace: string): Promise<number> {
  const [short, middle, long] = await Promise.all(
    [1, 100, 101].map((lease) => replica({ lease, namespace })),
  );
  await long?.store.read(A);
  for (;;) {
    await middle?.store.read(A);
    const longest = await short?.store.renew(A);
    if (longest !== undefined && longest !== 101) return longest;
  }
}

describe('the lease that a purge waits for', () => {
  test('is the longest of all replicas that read, and of the one that purges', async () => {
    const [short, middle, long] = await Promise.all(
      [1_000, 2_000, 5_000].map((lease) => replica({ lease })),
    );
    expect(await short?.store.renew(A)).toBe(1_000);
    await middle?.store.read(A);
    expect(await short?.store.renew(A)).toBe(2_000);
    await long?.store.read(A);
    await short?.store.read(A);
    await middle?.store.read(A);
    expect(await short?.store.renew(A)).toBe(5_000);
    expect(await long?.store.renew(A)).toBe(5_000);
  });

  test('is the longest that is allowed when Redis may have lost the leases, for as long', async () => {
    const { store } = await replica({ lease: 10, longestLease: 60_000 });
    await askRedis(redis.port, 'SET {test}:incarnation another');
    expect(await store.renew(A)).toBe(60_000);
    expect(await store.renew(A)).toBe(60_000);
    await askRedis(redis.port, 'FLUSHALL');
    const brief = await replica({ lease: 10, longestLease: 200 });
    expect(await brief.store.renew(A)).toBe(200);
    await until(
      () => brief.store.renew(A),
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

describe('an announcement in Redis', () => {
  test('reaches every replica, also the one that made it', async () => {
    const [one, other] = await Promise.all([replica(), replica()]);
    const heard: (readonly Scope[])[] = [];
    const both = new Promise<void>((resolve) => {
      for (const { store } of [one, other]) {
        store.onAnnouncement((scopes) => {
          if (heard.push(scopes) === 2) resolve();
        });
      }
    });
    await until(
      () => askRedis(redis.port, 'PUBSUB NUMSUB {test}:forget'),
      (reply) => reply.endsWith(':2\r\n'),
    );
    await one.store.announce(['project:a', 'unassigned']);
    await both;
    expect(heard).toEqual([
      ['project:a', 'unassigned'],
      ['project:a', 'unassigned'],
    ]);
  });

  test('is heard again after the connection broke, and what is no announcement is not heard', async () => {
    const { store, connections } = await replica();
    const heard: (readonly Scope[])[] = [];
    store.onAnnouncement((scopes) => void heard.push(scopes));
    const subscribed = () =>
      until(
        () => askRedis(redis.port, 'PUBSUB NUMSUB {test}:forget'),
        (reply) => reply.endsWith(':1\r\n'),
      );
    await subscribed();
    await askRedis(redis.port, 'CLIENT KILL TYPE pubsub');
    await until(connections.ready, (ready) => !ready);
    await until(connections.ready, Boolean);
    await subscribed();
    for (const text of ['nonsense', '{}', '[1]', 'null']) {
      await askRedis(redis.port, `PUBLISH {test}:forget ${text}`);
    }
    await store.announce(['everything']);
    await until(
      () => heard.length,
      (count) => count > 0,
    );
    expect(heard).toEqual([['everything']]);
  });

  test('is not heard by a store that was closed', async () => {
    const [one, other] = await Promise.all([replica(), replica()]);
    const heard: string[] = [];
    one.store.onAnnouncement(() => heard.push('closed'));
    other.store.onAnnouncement(() => heard.push('open'));
    await until(
      () => askRedis(redis.port, 'PUBSUB NUMSUB {test}:forget'),
      (reply) => reply.endsWith(':2\r\n'),
    );
    await one.store.close();
    const arrived = new Promise((resolve) => one.connections.subscriber.once('message', resolve));
    await other.store.announce(['everything']);
    await arrived;
    await until(
      () => heard.length,
      (count) => count > 0,
    );
    expect(heard).toEqual(['open']);
  });
});
