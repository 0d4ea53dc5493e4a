import { afterEach, describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import '../../support/patient-redis.ts';
import { askRedis, startRedis } from '../../support/redis-server.ts';
import { sessionLeaseContract } from '../../support/session-lease-contract.ts';
import { sessionRecord } from '../../support/session-calls.ts';
import {
  asBegun,
  type LateBeginning,
  lateBeginningContract,
  sessionStoreContract,
} from '../../support/session-store-contract.ts';
import { until } from '../cache/redis-house.ts';
import { sessionHouse, type SessionHouse } from './session-house.ts';
import { shared } from '../../support/opened.ts';

const redis = shared(() => startRedis());
const houses: SessionHouse[] = [];

async function replica(options: Parameters<typeof sessionHouse>[1] = {}): Promise<SessionHouse> {
  const made = await sessionHouse(redis.url, options);
  houses.push(made);
  return made;
}

const SET = { catalog: 'Sales', profile: 'other', version: 'set' };
const keyOf = (name: string) =>
  `{test}:2:session:${createHash('sha256').update(name).digest('base64url')}`;

describe('the store in Redis', () => {
  sessionStoreContract(async () => {
    const made = await sessionHouse(redis.url, { namespace: 'contract' });
    return made;
  });
});

describe('sessions in Redis', () => {
  afterEach(async () => {
    for (const one of houses.splice(0)) await one.close();
    await askRedis(redis.port, 'FLUSHALL');
  });

  test('are the same for all gateways of a namespace, and unknown in others', async () => {
    const [one, other, stranger] = await Promise.all([
      replica(),
      replica(),
      replica({ namespace: 'other' }),
    ]);
    const record = sessionRecord();
    await one.store.begin('name', record);
    expect((await other.store.read('name')).record).toEqual(record);
    await other.store.markDirty('name', 'next');
    expect((await one.store.read('name')).record).toMatchObject({ dirty: true });
    expect((await stranger.store.read('name')).record).toBeUndefined();
    await one.store.end('name');
    expect((await other.store.read('name')).record).toBeUndefined();
  });

  test('do not show their names', async () => {
    const { store } = await replica();
    await store.begin('a secret id', sessionRecord());
    const keys = await askRedis(redis.port, 'KEYS *');
    expect(keys).toContain(keyOf('a secret id'));
    expect(keys).not.toContain('secret');
    expect(await askRedis(redis.port, `HGETALL ${keyOf('a secret id')}`)).not.toContain('secret');
  });

  test('live on with every read, and are dropped when nobody asks for them', async () => {
    const { store } = await replica({ life: 60_000 });
    await store.begin('name', sessionRecord());
    await askRedis(redis.port, `PEXPIRE ${keyOf('name')} 30000`);
    await store.read('name');
    const ttl = Number((await askRedis(redis.port, `PTTL ${keyOf('name')}`)).slice(1));
    expect(ttl).toBeGreaterThan(30_000);
    const brief = await replica({ life: 30 });
    await brief.store.begin('brief', sessionRecord());
    await until(
      () => askRedis(redis.port, `EXISTS ${keyOf('brief')}`),
      (reply) => reply === ':0\r\n',
    );
    expect((await brief.store.read('brief')).record).toBeUndefined();
  });

  test('leave nothing behind that nobody began', async () => {
    const { store } = await replica();
    await store.read('name');
    await store.markDirty('name', 'next');
    await store.setCatalog('name', 'any', SET);
    await store.touch('name', 5);
    await store.end('name');
    expect(await askRedis(redis.port, `EXISTS ${keyOf('name')}`)).toBe(':0\r\n');
    await store.begin('name', sessionRecord());
    await store.end('name');
    const ttl = Number((await askRedis(redis.port, `PTTL ${keyOf('name')}`)).slice(1));
    expect(ttl).toBeGreaterThan(0);
    expect(ttl).toBeLessThanOrEqual(60_000);
  });

  test('survive that Redis forgot its scripts', async () => {
    const { store } = await replica();
    const record = await store.begin('name', sessionRecord());
    await askRedis(redis.port, 'SCRIPT FLUSH');
    expect((await store.read('name')).record).toEqual(record);
  });

  test('are all dirty when the era was lost', async () => {
    const { store } = await replica();
    await store.begin('name', sessionRecord());
    await askRedis(redis.port, 'DEL {test}:2:epoch:sessions');
    expect((await store.read('name')).record).toMatchObject({ dirty: true });
  });

  test.each([
    ['LPUSH', '{test}:2:incarnation'],
    ['LPUSH', '{test}:2:leases'],
    ['LPUSH', '{test}:2:epoch:sessions'],
    ['LPUSH', keyOf('name')],
    ['SET', keyOf('name')],
  ])('are not known when somebody else wrote with %s to %s', async (command, key) => {
    const { store } = await replica();
    await askRedis(redis.port, `${command} ${key} foreign`);
    await expect(store.read('name')).rejects.toThrow('WRONGTYPE');
    await expect(store.markDirty('name', 'next')).rejects.toThrow('WRONGTYPE');
    await expect(store.begin('name', sessionRecord())).rejects.toThrow('WRONGTYPE');
  });

  test.each(['data', 'at'])('are not known when their %s is none', async (field) => {
    const { store } = await replica();
    await store.begin('name', sessionRecord());
    await askRedis(redis.port, `HSET ${keyOf('name')} ${field} {}`);
    await expect(store.read('name')).rejects.toThrow('something else than a session');
  });

  test.each(['era', 'token'])('are not clean when their %s was lost', async (field) => {
    const { store } = await replica();
    await store.begin('name', sessionRecord());
    await askRedis(redis.port, `HDEL ${keyOf('name')} ${field}`);
    expect((await store.read('name')).record).toMatchObject({ dirty: true });
  });

  test('are left as they were by who only looks at them', async () => {
    const [one, other] = await Promise.all([replica({ life: 60_000 }), replica({ life: 90_000 })]);
    const record = await one.store.begin('name', sessionRecord());
    const before = await askRedis(redis.port, `HGETALL ${keyOf('name')}`);
    await askRedis(redis.port, `PEXPIRE ${keyOf('name')} 30000`);
    expect((await other.patient.session('name', { do: 'peek' })).record).toEqual(record);
    const ttl = Number((await askRedis(redis.port, `PTTL ${keyOf('name')}`)).slice(1));
    expect(ttl).toBeLessThanOrEqual(30_000);
    expect(await askRedis(redis.port, `HGETALL ${keyOf('name')}`)).toBe(before);
    expect((await one.store.markDirty('name', 'next')).lease).toBe(0);
  });

  test('that are being begun are not hindered by who only looks at them', async () => {
    const [one, other] = await Promise.all([replica(), replica()]);
    const { dirty, version: token, ...data } = sessionRecord();
    await one.patient.session('name', { do: 'claim', token });
    expect((await other.patient.session('name', { do: 'peek' })).record).toBeUndefined();
    const { record } = await one.patient.session('name', { do: 'put', token, data, dirty });
    expect(record).toEqual({ ...data, dirty, version: token });
  });
});

/** Says that no lease was lost: the longest one, which may be any, would hide those that a test speaks of. */
async function nothingLost(): Promise<void> {
  const info = await askRedis(redis.port, 'INFO replication');
  const [, replid] = /master_replid:(\w+)/.exec(info) ?? [];
  await askRedis(redis.port, `SET {test}:2:incarnation ${replid}`);
  await askRedis(redis.port, 'ZADD {test}:2:leases +inf complete');
}

describe('many stores in one Redis', () => {
  sessionLeaseContract(
    async (lease) => {
      await nothingLost();
      return (await replica({ lease, longestLease: 2_000 })).store;
    },
    async () => {
      for (const one of houses.splice(0)) await one.close();
      await askRedis(redis.port, 'FLUSHALL');
    },
  );
});

describe('the lease that a change waits for', () => {
  afterEach(async () => {
    for (const one of houses.splice(0)) await one.close();
    await askRedis(redis.port, 'FLUSHALL');
  });

  test('still counts who held a session that was lost', async () => {
    const [one, other] = await Promise.all([replica(), replica()]);
    await one.store.begin('name', sessionRecord());
    await other.store.read('name');
    await askRedis(redis.port, `DEL ${keyOf('name')}`);
    expect((await one.store.markDirty('name', 'next')).lease).toBe(1_000);
    await askRedis(redis.port, `DEL ${keyOf('name')}`);
    expect((await one.store.setCatalog('name', 'any', SET)).lease).toBe(1_000);
  });

  test('ends ten leases after somebody held it', async () => {
    const [one, brief] = await Promise.all([replica(), replica({ lease: 5 })]);
    await brief.store.begin('name', sessionRecord());
    await until(
      () => one.store.setCatalog('name', 'wrong version', SET),
      ({ lease }) => lease === 0,
    );
    await until(
      () => one.store.markAllDirty(),
      (lease) => lease === 0,
    );
  });

  test('is no longer for who comes after a catalog was named, where the clock of Redis was set back', async () => {
    await nothingLost();
    const [one, other] = await Promise.all([replica(), replica()]);
    const { version } = await one.store.begin('name', sessionRecord());
    await other.store.read('name');
    await one.store.setCatalog('name', version, SET);
    await askRedis(redis.port, `HINCRBY ${keyOf('name')} settles 3600000`);
    expect((await other.store.read('name')).settles).toBeCloseTo(1_100);
  });

  test('is the longest that is allowed where Redis may have lost the leases', async () => {
    const { store } = await replica({ longestLease: 60_000 });
    expect(await store.markAllDirty()).toBe(60_000);
    await askRedis(redis.port, 'DEL {test}:2:leases');
    expect((await store.markDirty('unknown', 'next')).lease).toBe(60_000);
    await askRedis(redis.port, 'DEL {test}:2:leases');
    await askRedis(redis.port, 'SET {test}:2:incarnation another');
    expect((await store.markDirty('unknown', 'next')).lease).toBe(60_000);
  });
});

describe('a beginning that Redis carries out late', () => {
  afterEach(async () => {
    for (const one of houses.splice(0)) await one.close();
    await askRedis(redis.port, 'FLUSHALL');
  });

  /** A store whose second half of a beginning waits until it is let go. */
  async function lateBeginning(): Promise<LateBeginning> {
    const one = await replica();
    const held = Promise.withResolvers<void>();
    const reached = Promise.withResolvers<void>();
    const { epochs } = one.connections;
    const evalsha = epochs.evalsha.bind(epochs);
    let scripts = 0;
    Object.defineProperty(epochs, 'evalsha', {
      async value(...args: Parameters<typeof evalsha>) {
        scripts += 1;
        if (scripts === 2) {
          reached.resolve();
          await held.promise;
        }
        return await evalsha(...args);
      },
    });
    // So that Redis knows both halves by their digests, and each is one command.
    await (await replica()).store.begin('another', sessionRecord());
    const begun = asBegun(one.hasty.begin('name', sessionRecord()));
    await reached.promise;
    return { begun, letGo: held.resolve };
  }

  lateBeginningContract(async () => ({
    other: (await replica()).store,
    late: lateBeginning,
  }));
});
