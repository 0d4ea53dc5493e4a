import { afterEach, describe, expect, test } from '@jest/globals';
import { createRedisHealth } from '../../../src/redis/redis-health.ts';
import { withDeadlines } from '../../support/patient-redis.ts';
import { askRedis, startRedis, type RedisServer } from '../../support/redis-server.ts';
import { sessionRecord } from '../../support/session-calls.ts';
import { quiet } from '../../unit/cache/fakes.ts';
import {
  BEGUN,
  ending,
  find,
  known,
  LEASE,
  NAME,
  OTHER,
  replica,
} from '../../unit/sessions/replica.ts';
import { until } from '../cache/redis-house.ts';
import { sessionHouse } from './session-house.ts';

const open: { close(): Promise<void> }[] = [];

async function redisServer(...args: Parameters<typeof startRedis>): Promise<RedisServer> {
  const server = await startRedis(...args);
  open.push(server);
  return server;
}

/** A gateway on that Redis. Its clock and its sleep are in the hands of the test. */
async function gateway(redis: RedisServer, options: Parameters<typeof sessionHouse>[1] = {}) {
  const house = await sessionHouse(redis.url, { lease: LEASE, ...options });
  open.push(house);
  return { ...replica({ behind: house.patient }), house };
}

afterEach(async () => {
  for (const one of open.splice(0).toReversed()) await one.close();
});

/** Lets the sleepers sleep no more until this is over. */
async function wakeUntilOver<T>(
  sleepers: readonly { wake(): void }[],
  promise: Promise<T>,
): Promise<T> {
  const state = ending(promise);
  await until(
    () => {
      for (const sleeper of sleepers) sleeper.wake();
      return state.over;
    },
    (over) => over,
  );
  return await promise;
}

describe('two gateways on one Redis', () => {
  async function both() {
    const redis = await redisServer();
    const [a, b] = await Promise.all([gateway(redis), gateway(redis)]);
    return { redis, a, b };
  }
  type Gateway = Awaited<ReturnType<typeof gateway>>;
  const slept = ({ sleepers }: Gateway) => sleepers.map(({ milliseconds }) => milliseconds);

  test('know the sessions that either has begun', async () => {
    const { a, b } = await both();
    await a.sessions.begin(NAME, BEGUN);
    expect(await known(b.sessions)).toMatchObject({ ...BEGUN, dirty: false });
    await b.sessions.end(NAME);
    a.clock.advance(LEASE);
    expect(await find(a.sessions)).toBe('unknown');
  });

  test('use a session as clean no longer than it takes the other to have made it dirty', async () => {
    const { a, b } = await both();
    await a.sessions.begin(NAME, BEGUN);
    const record = await known(b.sessions);
    const made = a.sessions.dirty([NAME]);
    const state = ending(made);
    await until(
      () => a.sleepers.length,
      (count) => count > 0,
    );
    // B knows nothing of it yet, so A waits; longer than B may go on.
    expect([await find(b.sessions), state.over, slept(a)]).toEqual(['clean', false, [LEASE * 1.1]]);
    expect(await b.sessions.confirm(NAME, record)).toBe(false);
    b.clock.advance(LEASE);
    expect(await find(b.sessions)).toBe('dirty');
    a.sleepers[0]?.wake();
    expect(await made).toBe(true);
  });

  test('wait for nobody when one of them alone has served the session', async () => {
    const { a, b } = await both();
    await b.sessions.begin(OTHER, BEGUN);
    await a.sessions.begin(NAME, BEGUN);
    await known(a.sessions);
    expect(await a.sessions.dirty([NAME])).toBe(true);
    expect(a.sleepers).toEqual([]);
    expect(await find(b.sessions)).toBe('dirty');
  });

  test('both wait before a session that was read by both is changed by both', async () => {
    const { a, b } = await both();
    await a.sessions.begin(NAME, BEGUN);
    await known(b.sessions);
    const made = [a.sessions.dirty([NAME]), b.sessions.dirty([NAME])];
    await until(
      () => a.sleepers.length + b.sleepers.length,
      (count) => count === 2,
    );
    for (const { sleepers } of [a, b]) sleepers[0]?.wake();
    expect(await Promise.all(made)).toEqual([true, true]);
  });

  test('make a session dirty when each takes another first catalog', async () => {
    const { a, b } = await both();
    await a.sessions.begin(NAME, BEGUN);
    const [forA, forB] = [await known(a.sessions), await known(b.sessions)];
    const taken = [
      a.sessions.takeCatalog(NAME, forA, { catalog: 'Sales', profile: 'p+Sales' }),
      b.sessions.takeCatalog(NAME, forB, { catalog: 'HR', profile: 'p+HR' }),
    ];
    await until(
      () => a.sleepers.length + b.sleepers.length,
      (count) => count === 2,
    );
    for (const { sleepers } of [a, b]) sleepers[0]?.wake();
    await Promise.all(taken);
    for (const { sessions, clock } of [a, b]) {
      clock.advance(LEASE);
      expect(await find(sessions)).toBe('dirty');
    }
  });

  test('use a session without its catalog no longer than it takes to have set it', async () => {
    const { a, b } = await both();
    await a.sessions.begin(NAME, BEGUN);
    await known(b.sessions);
    const taken = a.sessions.takeCatalog(NAME, await known(a.sessions), {
      catalog: 'Sales',
      profile: 'p+Sales',
    });
    const state = ending(taken);
    await until(
      () => a.sleepers.length,
      (count) => count > 0,
    );
    expect(await known(b.sessions)).toMatchObject({ catalog: null });
    expect(state.over).toBe(false);
    b.clock.advance(LEASE);
    expect(await known(b.sessions)).toMatchObject({ catalog: 'Sales', profile: 'p+Sales' });
    a.sleepers[0]?.wake();
    expect(await taken).toBe(true);
    expect(await known(a.sessions)).toMatchObject({ catalog: 'Sales', dirty: false });
  });

  test('make all sessions of before dirty, and later ones not', async () => {
    const { a, b } = await both();
    await a.sessions.begin(NAME, BEGUN);
    await known(b.sessions);
    const made = a.sessions.dirtyAll();
    await until(
      () => a.sleepers.length,
      (count) => count > 0,
    );
    expect([await find(b.sessions), slept(a)]).toEqual(['clean', [LEASE * 1.1]]);
    b.clock.advance(LEASE);
    expect(await find(b.sessions)).toBe('dirty');
    a.sleepers[0]?.wake();
    expect(await made).toBe(true);
    expect(await find(a.sessions)).toBe('dirty');
    await b.sessions.begin(OTHER, BEGUN);
    expect(await find(a.sessions, OTHER)).toBe('clean');
  });
});

describe('a session that is named otherwise at another gateway', () => {
  test.each([
    ['its id', { endpoint: NAME.endpoint, id: `{${NAME.id.toUpperCase()}}` }],
    ['its place', { endpoint: 'another', id: NAME.id }],
  ])('is dirty at both when it is made so there: %s', async (_what, name) => {
    const redis = await redisServer();
    const [a, b] = await Promise.all([gateway(redis), gateway(redis)]);
    await a.sessions.begin(NAME, BEGUN);
    expect([await find(b.sessions, name), await find(b.sessions)]).toEqual(['unknown', 'clean']);
    const made = b.sessions.dirty([name]);
    expect(await wakeUntilOver(b.sleepers, made)).toBe(true);
    // A held it as clean, so B waited.
    expect(b.sleepers.map(({ milliseconds }) => milliseconds)).toEqual([LEASE * 1.1]);
    a.clock.advance(LEASE);
    expect(await find(a.sessions)).toBe('dirty');
  });
});

describe('a Redis that came back', () => {
  test('from a snapshot of when a session was clean does not make it clean again: it is dirty where it was known', async () => {
    const redis = await redisServer();
    const a = await gateway(redis);
    await a.sessions.begin(NAME, BEGUN);
    await a.sessions.begin(OTHER, BEGUN);
    const record = await known(a.sessions, OTHER);
    await askRedis(redis.port, 'SAVE');
    expect(await a.sessions.dirty([NAME])).toBe(true);
    await redis.restart({ signal: 'SIGKILL' });
    const b = await gateway(redis);
    await until(a.house.connections.ready, Boolean);
    expect([await find(b.sessions), await find(b.sessions, OTHER)]).toEqual(['unknown', 'unknown']);
    a.clock.advance(LEASE);
    expect([await find(a.sessions), await find(a.sessions, OTHER)]).toEqual(['dirty', 'dirty']);
    expect(await a.sessions.confirm(OTHER, record)).toBe(false);
    await until(
      async () => {
        b.clock.advance(LEASE);
        for (const { wake } of a.noting) wake();
        return [await find(b.sessions), await find(b.sessions, OTHER)].join();
      },
      (found) => found === 'dirty,dirty',
    );
  });

  test('empty knows no session, and makes changes wait for what it may have forgotten', async () => {
    const redis = await redisServer();
    const a = await gateway(redis, { longestLease: 2_000 });
    const b = await gateway(redis, { longestLease: 2_000 });
    await a.sessions.begin(NAME, BEGUN);
    expect(await find(b.sessions)).toBe('clean');
    await redis.restart({ signal: 'SIGKILL' });
    await until(a.house.connections.ready, Boolean);
    const made = a.sessions.dirty([NAME]);
    await until(
      () => a.sleepers.length,
      (count) => count > 0,
    );
    expect(await find(b.sessions)).toBe('clean');
    expect(a.sleepers[0]?.milliseconds).toBe(2_200);
    a.sleepers[0]?.wake();
    expect(await made).toBe(true);
  });
});

describe('a Redis that follows another one', () => {
  test('tells no session and changes none', async () => {
    const leader = await redisServer({ args: ['--repl-diskless-sync-delay', '0'] });
    const follower = await redisServer({
      args: ['--replicaof', '127.0.0.1', String(leader.port)],
    });
    await (await gateway(leader)).sessions.begin(NAME, BEGUN);
    await until(
      () => askRedis(follower.port, 'INFO replication'),
      (info) => info.includes('master_link_status:up'),
    );
    const { store } = (await gateway(follower)).house;
    const set = { catalog: 'Sales', profile: 'other', version: 'set' };
    for (const refused of [
      () => store.read('name'),
      () => store.begin('name', sessionRecord()),
      () => store.markDirty('name', 'next'),
      () => store.markAllDirty(),
      () => store.setCatalog('name', 'any', set),
      () => store.touch('name', 5),
      () => store.end('name'),
    ]) {
      // A connection that was refused is made anew, since its name may lead to the leader by now.
      const told = await until(
        () => refused().then(String, ({ message }: Error) => message),
        (text) => !text.includes('writeable') && !text.includes('closed'),
      );
      expect(told).toContain('READONLY');
    }
  });
});

describe('a Redis that is away', () => {
  test('leaves nothing known, nothing begun clean, nothing confirmed and nothing made dirty', async () => {
    const redis = await redisServer();
    const { sessions, clock, sleepers, house } = await gateway(redis);
    await sessions.begin(NAME, BEGUN);
    await sessions.begin(OTHER, BEGUN);
    const record = await known(sessions);
    await sessions.dirty([OTHER]);
    await redis.stop();
    await until(house.connections.ready, (ready) => !ready);
    clock.advance(LEASE);
    expect(await find(sessions)).toBe('unavailable');
    expect(await find(sessions, OTHER)).toBe('dirty');
    expect(await sessions.confirm(NAME, record)).toBe(false);
    expect(await sessions.begin({ endpoint: 'engine', id: 'new' }, BEGUN)).toBe(false);
    expect(await wakeUntilOver(sleepers, sessions.dirty([NAME]))).toBe(false);
    expect(await wakeUntilOver(sleepers, sessions.dirtyAll())).toBe(false);
    expect(await wakeUntilOver(sleepers, sessions.dirty([OTHER]))).toBe(true);
    await sessions.end(NAME);
    await quiet();
  });

  test('is left alone, but not by what makes dirty', async () => {
    const redis = await redisServer();
    const { run } = createRedisHealth({
      isConnected: () => true,
      probe: () => Promise.reject(new Error('away')),
      sleep: () => new Promise(() => {}),
      onChange: () => {},
    });
    const { hasty } = await sessionHouse(redis.url, { run }).then((house) => {
      open.push(house);
      return house;
    });
    await hasty.begin('name', sessionRecord());
    await redis.pause();
    const asked = async () => {
      await expect(hasty.read('name')).rejects.toThrow('timed out');
      await expect(hasty.touch('name', 5)).rejects.toThrow('not asked for now');
      // Its probe in the background finds nothing.
      const set = { catalog: 'Sales', profile: 'other', version: 'set' };
      await expect(hasty.read('name')).rejects.toThrow('not asked for now');
      await expect(hasty.begin('name', sessionRecord())).rejects.toThrow('not asked for now');
      await expect(hasty.setCatalog('name', 'any', set)).rejects.toThrow('not asked for now');
      await expect(hasty.end('name')).rejects.toThrow('not asked for now');
      await expect(hasty.markDirty('name', 'next')).rejects.toThrow('timed out');
      await expect(hasty.markAllDirty()).rejects.toThrow('timed out');
    };
    try {
      await withDeadlines(asked);
    } finally {
      redis.resume();
    }
  });
});
