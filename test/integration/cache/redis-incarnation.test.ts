import { afterEach, describe, expect, jest, test } from '@jest/globals';
import type { CacheScope } from '../../../src/freshness/freshness-store.ts';
import '../../support/patient-redis.ts';
import { askRedis, startRedis, type RedisServer } from '../../support/redis-server.ts';
import { house, until } from './redis-house.ts';

const A: readonly CacheScope[] = ['everything', 'project:a'];

const open: { close(): Promise<void> }[] = [];

async function redisServer(...args: Parameters<typeof startRedis>): Promise<RedisServer> {
  const server = await startRedis(...args);
  open.push(server);
  return server;
}

async function replica(...args: Parameters<typeof house>) {
  const made = await house(...args);
  open.push(made);
  return made;
}

afterEach(async () => {
  jest.restoreAllMocks();
  for (const one of open.splice(0).toReversed()) await one.close();
});

/** A server that lets others follow it without first waiting for more of them. */
const leader = () => redisServer({ args: ['--repl-diskless-sync-delay', '0'] });

/** A second server that follows the first one and has caught up with it. */
async function follower(master: RedisServer): Promise<RedisServer> {
  const server = await redisServer({ args: ['--replicaof', '127.0.0.1', String(master.port)] });
  await until(
    () => askRedis(server.port, 'INFO replication'),
    (info) => info.includes('master_link_status:up'),
  );
  return server;
}

describe('a Redis that came back', () => {
  test('from a snapshot older than a purge does not bring back the epochs of before', async () => {
    const redis = await redisServer();
    const { store, connections } = await replica(redis.url);
    const before = await store.read(A);
    await askRedis(redis.port, 'SAVE');
    await store.renew(['project:a', 'unassigned']);
    await redis.restart({ signal: 'SIGKILL' });
    expect(await askRedis(redis.port, 'GET {test}:2:epoch:project:a')).toContain(before.tokens[1]);
    await until(connections.ready, Boolean);
    const after = await store.read(A);
    expect(after.tokens[0]).not.toBe(before.tokens[0]);
    // All see the same new one, and it is new only once.
    const other = await replica(redis.url);
    expect(await other.store.read(A)).toEqual(after);
    expect(await store.read(A)).toEqual(after);
  });

  test('with all that it had makes everything new once, which is only one purge more', async () => {
    const redis = await redisServer({ appendonly: true });
    const { store, connections } = await replica(redis.url);
    const before = await store.read(A);
    await redis.restart({ signal: 'SIGKILL' });
    await until(connections.ready, Boolean);
    const after = await store.read(A);
    expect(after.tokens[0]).not.toBe(before.tokens[0]);
    expect(after.tokens[1]).toBe(before.tokens[1]);
    expect(after.keySecret).toBe(before.keySecret);
  });

  test('does not confirm a purge under its old incarnation either', async () => {
    const redis = await redisServer();
    const { store, connections } = await replica(redis.url);
    const before = await store.read(A);
    await askRedis(redis.port, 'SAVE');
    await redis.restart({ signal: 'SIGKILL' });
    await until(connections.ready, Boolean);
    await store.renew(['project:b', 'unassigned']);
    expect((await store.read(A)).tokens[0]).not.toBe(before.tokens[0]);
  });
});

describe('a Redis that follows another one', () => {
  test('gives no epochs and renews none', async () => {
    const master = await leader();
    const { store } = await replica(master.url);
    await store.read(A);
    const server = await follower(master);
    const reader = await replica(server.url);
    await expect(reader.store.read(A)).rejects.toThrow('READONLY');
    await expect(reader.store.renew(A)).rejects.toThrow('READONLY');
  });

  test('and takes over from it begins a new incarnation', async () => {
    const master = await leader();
    const { store } = await replica(master.url);
    const before = await store.read(A);
    const server = await follower(master);
    await until(
      () => askRedis(server.port, 'GET {test}:2:epoch:everything'),
      (reply) => reply.includes(before.tokens[0] ?? 'no epoch'),
    );
    await askRedis(server.port, 'REPLICAOF NO ONE');
    const heir = await replica(server.url);
    expect((await heir.store.read(A)).tokens[0]).not.toBe(before.tokens[0]);
  });
});

describe('a Redis that refuses', () => {
  test('a wrong password leaves nothing known', async () => {
    const redis = await redisServer({ args: ['--requirepass', 'right'] });
    const wrong = await replica(`redis://:wrong@127.0.0.1:${redis.port}`, { patience: 1 });
    await until(
      () => wrong.errors.length,
      (count) => count > 0,
    );
    await expect(wrong.store.read(A)).rejects.toThrow(/WRONGPASS|NOAUTH|writeable/u);
    await expect(wrong.store.renew(A)).rejects.toThrow(/WRONGPASS|NOAUTH|writeable/u);
    await expect(wrong.tier.get('key')).rejects.toThrow(/WRONGPASS|NOAUTH|writeable/u);
    const right = await replica(`redis://:right@127.0.0.1:${redis.port}`);
    expect((await right.store.read(A)).tokens).toHaveLength(2);
  });

  test.each(['-info', '-set', '-evalsha', '-zadd'])(
    'a command of the epochs (%s) leaves nothing known',
    async (rule) => {
      // ioredis tells on the console that it may not ask for INFO.
      jest.spyOn(console, 'warn').mockImplementation(() => {});
      const redis = await redisServer();
      await askRedis(redis.port, `ACL SETUSER limited on >secret ~* &* +@all ${rule}`);
      const limited = await replica(`redis://limited:secret@127.0.0.1:${redis.port}`);
      await expect(limited.store.read(A)).rejects.toThrow(/NOPERM|can't run this command/u);
      await expect(limited.store.renew(A)).rejects.toThrow(/NOPERM|can't run this command/u);
    },
  );

  test('every write because its memory is full leaves nothing known', async () => {
    const redis = await redisServer();
    const { store } = await replica(redis.url);
    await store.read(A);
    await askRedis(redis.port, 'CONFIG SET maxmemory 1');
    await expect(store.read(A)).rejects.toThrow('OOM');
    await expect(store.renew(A)).rejects.toThrow('OOM');
  });
});
