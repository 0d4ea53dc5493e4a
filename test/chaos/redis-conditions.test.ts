import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { RedisTarget } from '../../src/redis/redis-connections.ts';
import { TRIALS } from '../../src/redis/redis-conditions.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';
import { startRedisSentinels } from '../support/redis-sentinels.ts';
import { askRedis, startRedis } from '../support/redis-server.ts';
import {
  ask,
  dataAnswer,
  purge,
  redisHealth,
  startDataEngine,
  startGateway,
  type DataEngine,
} from '../integration/cache/gateways.ts';
import { until } from '../integration/cache/redis-house.ts';
import {
  SOUND,
  watch as watchConditions,
  type Watch,
} from '../integration/redis/watched-conditions.ts';
import { closedLater, opened } from '../support/opened.ts';

jest.setTimeout(120_000);

/** Commands of the scripts, those that are sent by themselves, and what the connections need. */
const NEEDED_COMMANDS = [
  ...new Set([...TRIALS.map((trial) => trial.split(' ', 1).join()), 'EVAL', 'EVALSHA', 'PUBLISH']),
  'SUBSCRIBE',
  'PING',
]
  .map((name) => name.toLowerCase())
  .toSorted();

/** What docs/PURGE.md says that the user of the gateway needs, for the namespace mdx. */
const RIGHTS = ['on', '>pw', '~mdx:*', '~{mdx}:*', 'resetchannels', '&{mdx}:*', '-@all'].concat(
  NEEDED_COMMANDS.map((name) => `+${name}`),
);

function watch(target: RedisTarget): Watch {
  const watched = watchConditions(target);
  closedLater(watched.close);
  return watched;
}

const standalone = (url: string): RedisTarget => ({ url: [url], mode: 'standalone' });

describe('what an operator is told of a standalone Redis', () => {
  test('that it has no limit of memory', async () => {
    const { url } = await opened(startRedis());
    const { told, ...watched } = watch(standalone(url));
    const [problem] = await watched.until(1);
    expect(problem).toMatch(/^Redis at 127\.0\.0\.1:\d+ has no maxmemory: /u);
    expect(told).toEqual([problem]);
  });

  test('that it refuses writes when it is full, once, until that is mended', async () => {
    const { url, port } = await opened(
      startRedis({ args: ['--maxmemory', '100mb', '--maxmemory-policy', 'noeviction'] }),
    );
    const watched = watch(standalone(url));
    const [problem] = await watched.until(1);
    expect(problem).toMatch(/maxmemory-policy noeviction.*purges answer 503/u);
    await askRedis(port, 'CLIENT KILL TYPE normal');
    await askRedis(port, 'CONFIG SET maxmemory-policy allkeys-lfu');
    await askRedis(port, 'CLIENT KILL TYPE normal');
    await watched.until(0);
    expect(watched.told).toEqual([problem]);
    await askRedis(port, 'CONFIG SET maxmemory-policy noeviction');
    await askRedis(port, 'CLIENT KILL TYPE normal');
    await watched.until(1);
    expect(watched.told).toEqual([problem, problem]);
  });

  test.each([
    ['publish', 'PUBLISH {mdx}:rights: NOPERM'],
    ['subscribe', 'SUBSCRIBE {mdx}:rights: NOPERM'],
    ['evalsha', 'EVALSHA: NOPERM'],
    ['eval', 'EVAL with {mdx}:rights: NOPERM'],
    ['get', 'GET mdx:entry:rights: NOPERM'],
    ['zrangebyscore', 'ZRANGEBYSCORE in scripts'],
    ['unlink', 'UNLINK in scripts'],
  ])('that its user may not %s', async (command, words) => {
    const users = { default: ['off'], gateway: [...RIGHTS, `-${command}`] };
    const { port } = await opened(startRedis({ users, args: SOUND }));
    const watched = watch(standalone(`redis://gateway:pw@127.0.0.1:${port}`));
    const found = await until(watched.conditions.list, ({ length }) => length > 0);
    expect(found.join('\n')).toContain(
      `the user of the gateway lacks a right at Redis (docs/PURGE.md): ${words}`,
    );
  });

  test.each([
    ['the keys of values', '~{mdx}:*', '&{mdx}:*', 'GET mdx:entry:rights: NOPERM'],
    ['the keys of epochs', '~mdx:*', '&{mdx}:*', 'EVAL with {mdx}:rights: '],
    ['the channel', '~*', '&other', 'PUBLISH {mdx}:rights: NOPERM'],
  ])('that its user may not touch %s', async (_what, keys, channels, words) => {
    const commands = NEEDED_COMMANDS.map((name) => `+${name}`);
    const gateway = ['on', '>pw', keys, 'resetchannels', channels, '-@all', ...commands];
    const { port } = await opened(
      startRedis({ users: { default: ['off'], gateway }, args: SOUND }),
    );
    const watched = watch(standalone(`redis://gateway:pw@127.0.0.1:${port}`));
    const found = await until(watched.conditions.list, ({ length }) => length > 0);
    expect(found.join('\n')).toContain(words);
  });
});

describe('what an operator is told of sentinels', () => {
  const look = async (options: Parameters<typeof startRedisSentinels>[0]) => {
    const redis = await opened(startRedisSentinels(options));
    const { urls: url, master } = redis;
    return { redis, watched: watch({ url, master, mode: 'sentinel' }) };
  };

  test('nothing, where a cut-off master stops before another one begins', async () => {
    const { redis, watched } = await look({ downAfter: 3_000, args: SOUND });
    await Promise.all(
      redis.servers.map(({ port }) => askRedis(port, 'CONFIG SET maxmemory-policy noeviction')),
    );
    await askRedis((await redis.masterNow()).port, 'CLIENT KILL TYPE normal');
    const [only] = await watched.until(1);
    expect(only).toContain('noeviction');
  });

  test('that a cut-off master may take purges after another one began', async () => {
    const { watched } = await look({ downAfter: 2_000, args: SOUND });
    const [problem] = await watched.until(1);
    expect(problem).toMatch(
      /has min-replicas-max-lag 1, and down-after-milliseconds is 2000: .*set down-after-milliseconds to at least 3000$/u,
    );
  });

  test('that a master takes purges without replicas, and that it has none', async () => {
    const { redis, watched } = await look({ downAfter: 60_000, args: SOUND });
    const master = await redis.masterNow();
    for (const server of redis.servers) if (server !== master) await server.stop('SIGKILL');
    await askRedis(master.port, 'CONFIG SET min-replicas-to-write 0');
    await until(
      () => askRedis(master.port, 'INFO replication'),
      (info) => info.includes('connected_slaves:0'),
    );
    await askRedis(master.port, 'CLIENT KILL TYPE normal');
    const problems = await watched.until(2);
    expect(problems.join('\n')).toContain('has min-replicas-to-write 0');
    expect(problems.join('\n')).toContain('has no replica');
  });

  test('that what it must not read is not checked', async () => {
    const users = { gateway: RIGHTS };
    const redis = await opened(startRedisSentinels({ downAfter: 60_000, args: SOUND, users }));
    const { urls: url, master } = redis;
    const watched = watch({ url, master, mode: 'sentinel', username: 'gateway', password: 'pw' });
    expect(await watched.until(1)).toEqual([
      expect.stringMatching(/does not tell min-replicas-to-write .*not checked$/u),
    ]);
  });
});

describe('what an operator is told of a cluster', () => {
  test('each master that takes purges when it is cut off', async () => {
    const redis = await opened(startRedisCluster({ args: SOUND }));
    const watched = watch({ url: redis.urls, mode: 'cluster' });
    const problems = await watched.until(3);
    for (const problem of problems) expect(problem).toContain('has min-replicas-to-write 0');
    for (const { port } of redis.nodes) {
      await askRedis(port, 'CONFIG SET min-replicas-to-write 1');
      await askRedis(port, 'CONFIG SET min-replicas-max-lag 1');
    }
    for (const { port } of redis.nodes) await askRedis(port, 'CLIENT KILL TYPE normal');
    const late =
      'has min-replicas-max-lag 1, and cluster-node-timeout is 1500: when it is cut off it may take a purge after another server took its place; set cluster-node-timeout to at least 3000';
    await until(
      watched.conditions.list,
      (list) => list.length === 3 && list.every((problem) => problem.includes(late)),
    );
  });
});

describe('an ACL user with the rights that are needed and no other', () => {
  let engine: DataEngine;
  beforeAll(async () => void (engine = await startDataEngine()));
  afterAll(() => engine.close());

  const users = { gateway: RIGHTS };
  const login = { username: 'gateway', password: 'pw' };
  const CLUSTER = ['+cluster|slots', '+cluster|info'];
  /** No write is refused because a replica stands still for a while. */
  const PATIENT = [...SOUND, '--min-replicas-max-lag', '60'];

  /** Two gateways answer from what the other one stored, and purge, and nothing is refused them. */
  async function serves(redis: Record<string, unknown>): Promise<void> {
    const settings = { ...redis, ...login, encryption_key: randomUUID().repeat(2) };
    const [one, other] = await Promise.all([
      opened(startGateway(engine, '', { redis: settings })),
      opened(startGateway(engine, '', { redis: settings })),
    ]);
    for (const data of ['first', 'second']) {
      engine.data = data;
      await until(
        async () => (await purge(one)).status,
        (status) => status === 200,
      );
      expect((await ask(one)).body).toBe(dataAnswer(data));
      const answer = await until(
        () => ask(other),
        ({ cache }) => cache.includes('hit'),
      );
      expect(answer.body).toBe(dataAnswer(data));
    }
    await until(
      () => redisHealth(one),
      ({ state }) => state === 'up',
    );
    expect(await redisHealth(one)).toMatchObject({ state: 'up', mode: redis['mode'] });
    const troubles = [...one.events, ...other.events].filter(
      ({ type }) => type === 'redis-failed' || type === 'internal-error',
    );
    const told = troubles.map((event) => ('error' in event ? String(event.error) : ''));
    expect(told.filter((text) => text.includes('NOPERM'))).toEqual([]);
    const warnings = [...one.events, ...other.events].filter(({ type }) => type === 'warning');
    expect(JSON.stringify(warnings)).not.toContain('lacks a right');
  }

  test('is all that a whole gateway needs', async () => {
    const { port } = await opened(
      startRedis({ users: { default: ['off'], ...users }, args: SOUND }),
    );
    await serves({ url: `redis://127.0.0.1:${port}`, mode: 'standalone' });
  });

  test('is all that a whole gateway needs with sentinels', async () => {
    const { urls: url, master } = await opened(
      startRedisSentinels({ users, downAfter: 60_000, args: PATIENT }),
    );
    await serves({ url, master, mode: 'sentinel' });
  });

  test('and who may ask for the slots is all that a whole gateway needs with a cluster', async () => {
    const { urls: url } = await opened(
      startRedisCluster({
        users: { gateway: [...RIGHTS, ...CLUSTER] },
        nodeTimeout: 60_000,
        args: SOUND,
      }),
    );
    await serves({ url, mode: 'cluster' });
  });

  test('may do every command that the sources name', () => {
    const folder = new URL('../../src/redis/', import.meta.url);
    const sources = readdirSync(folder).map((name) => readFileSync(new URL(name, folder), 'utf8'));
    const called = sources.flatMap((text) =>
      [...text.matchAll(/redis\.call\('([A-Z]+)'/gu)].map(([, name]) => String(name).toLowerCase()),
    );
    const sent = sources.flatMap((text) =>
      [
        ...text.matchAll(
          /\b(?:redis|server|client|reader|writer|epochs|subscriber)\s*\.([a-z]+?)(?:Buffer|Stream)?\(/gu,
        ),
      ].map(([, name]) => String(name)),
    );
    // Methods of clients, and what only looks at conditions.
    const others = [
      'on',
      'once',
      'off',
      'connect',
      'disconnect',
      'nodes',
      'call',
      'pcall',
      'config',
      'cluster',
    ];
    const named = new Set([...called, ...sent]);
    expect(called.length).toBeGreaterThan(20);
    expect(sent).toEqual(expect.arrayContaining(['publish', 'subscribe', 'set', 'scan']));
    for (const name of [...others, ...NEEDED_COMMANDS]) named.delete(name);
    expect([...named]).toEqual([]);
  });
});
