import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { RedisTarget } from '../../../src/redis/redis-clients.ts';
import { makeAuthority, type Authority, type Certificate } from '../../support/certificates.ts';
import { startRedisCluster } from '../../support/redis-cluster.ts';
import { startRedisSentinels } from '../../support/redis-sentinels.ts';
import { startRedis, type RedisTls } from '../../support/redis-server.ts';
import { house, until, type House } from '../query-cache/redis-house.ts';

jest.setTimeout(120_000);

const ALL = ['on', '~*', '&*', '+@all'];

/** No master is replaced, or refuses writes, because this machine stands still for a while. */
const STEADY = { downAfter: 60_000, args: ['--min-replicas-max-lag', '60'] };
const STEADY_CLUSTER = { nodeTimeout: 60_000 };

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

async function opened<T extends { close(): Promise<void> }>(opening: Promise<T>): Promise<T> {
  const one = await opening;
  closers.push(one.close);
  return one;
}

let authority: Authority;
let server: Certificate;
let client: Certificate;
beforeAll(() => {
  authority = makeAuthority();
  server = authority.issue('redis');
  client = authority.issue('gateway');
});
afterAll(() => authority.remove());

/** A value, an epoch and an announcement go through, the last one to another gateway. */
async function serves(target: RedisTarget): Promise<void> {
  const here = await opened(house(target));
  const there = await opened(house(target));
  const heard: unknown[] = [];
  there.store.onAnnouncement((scopes) => void heard.push(scopes));

  const keys = Array.from({ length: 12 }, () => randomUUID());
  for (const key of keys) {
    await here.tier.set(key, Buffer.from(`value of ${key}`), 60_000);
    expect(String(await there.tier.get(key))).toBe(`value of ${key}`);
  }
  await here.tier.setChunk('fill', 0, Buffer.from('part'), 60_000);
  expect(String(await there.tier.getChunk('fill', 0))).toBe('part');

  const before = await here.store.read(['everything', 'project:a']);
  expect(await there.store.read(['everything', 'project:a'])).toEqual(before);
  await here.store.renew(['project:a']);
  const after = await there.store.read(['everything', 'project:a']);
  expect(after.tokens[0]).toBe(before.tokens[0]);
  expect(after.tokens[1]).not.toBe(before.tokens[1]);

  await until(
    async () => {
      await here.store.announce({ purge: randomUUID(), scopes: ['project:a'] }).catch(() => {});
      return heard;
    },
    ({ length }) => length > 0,
  );
  expect(heard[0]).toEqual(['project:a']);
}

/** Connects in vain and resolves with what was told. */
async function refused(target: RedisTarget): Promise<readonly string[]> {
  const one: House = await opened(house(target, { patience: 0 }));
  await until(
    () => one.errors,
    ({ length }) => length > 1,
  );
  expect(one.connections.ready()).toBe(false);
  await expect(one.hasty.store.read(['everything'])).rejects.toThrow(/./u);
  return one.errors.map((error) => (error as Error).message);
}

const secured = (redis: { url: string }, tls: NonNullable<RedisTarget['tls']>): RedisTarget => ({
  url: [redis.url],
  mode: 'standalone',
  tls,
});
const identity = ({ pem, key }: Certificate) => ({ cert: pem, key: readFileSync(key) });

describe('a standalone Redis', () => {
  test('serves', async () => {
    const { url } = await opened(startRedis());
    await serves({ url: [url], mode: 'standalone' });
  });

  test('serves an ACL user, of the URL or of the configuration', async () => {
    const users = { default: ['off'], 'mdx:x': ['>p@ss word/', ...ALL] };
    const { port } = await opened(startRedis({ users }));
    await serves({
      url: [`redis://mdx%3Ax:p%40ss%20word%2F@127.0.0.1:${port}`],
      mode: 'standalone',
    });
    await serves({
      url: [`redis://somebody:else@127.0.0.1:${port}`],
      mode: 'standalone',
      username: 'mdx:x',
      password: 'p@ss word/',
    });
  });

  test('says that a password is wrong', async () => {
    const { port } = await opened(startRedis({ args: ['--requirepass', 'right'] }));
    const told = await refused({ url: [`redis://:wrong@127.0.0.1:${port}`], mode: 'standalone' });
    expect(told.join()).toContain('WRONGPASS');
    expect(told.join()).not.toContain('wrong@');
  });

  test('serves over TLS with an authority and a client certificate', async () => {
    const tls: RedisTls = { ca: authority, server, client };
    const redis = await opened(startRedis({ tls }));
    await serves(secured(redis, { ca: authority.pem, ...identity(client) }));
    const without = await refused(secured(redis, { ca: authority.pem }));
    expect(without.join()).toMatch(/certificate required|want a client certificate/iu);
  });

  test('says that its certificate is of an unknown authority', async () => {
    const other = makeAuthority();
    closers.push(async () => other.remove());
    const redis = await opened(startRedis({ tls: { ca: authority, server } }));
    expect((await refused(secured(redis, { ca: other.pem }))).join()).toMatch(
      /unable to verify|self.signed/u,
    );
    expect((await refused(secured(redis, {}))).join()).toMatch(/unable to verify|self.signed/u);
  });
});

describe('Redis with sentinels', () => {
  test('serves, with the login of the sentinels in the URLs and that of the servers beside them', async () => {
    const redis = await opened(
      startRedisSentinels({ ...STEADY, passwords: { servers: 'one', sentinels: 'o/ther' } }),
    );
    const { master, urls: url } = redis;
    await serves({ url, mode: 'sentinel', master, password: 'one' });
    const wrongServers = await refused({ url, mode: 'sentinel', master, password: 'other' });
    expect(wrongServers.join()).toContain('WRONGPASS');
    const plain = url.map((text) => text.replace(/:o%2Fther@/u, ':wrong@'));
    const wrongSentinels = await refused({ url: plain, mode: 'sentinel', master, password: 'one' });
    expect(wrongSentinels.join()).toContain('WRONGPASS');
    const unknown = await refused({ url, mode: 'sentinel', master: 'nobody', password: 'one' });
    expect(unknown.join()).toContain('knows no master nobody');
  });

  test('serves when two of the addresses lead nowhere', async () => {
    const { master, urls } = await opened(startRedisSentinels(STEADY));
    const [one] = urls as [string];
    await serves({
      url: ['redis://127.0.0.1:1', 'redis://127.0.0.1:2', one],
      mode: 'sentinel',
      master,
    });
  });
});

describe('a Redis cluster', () => {
  test('serves, known by one address, with a password', async () => {
    const { urls } = await opened(startRedisCluster({ ...STEADY_CLUSTER, password: 'one' }));
    const [first, ...others] = urls as [string, ...string[]];
    await serves({ url: [first], mode: 'cluster', password: 'one' });
    await serves({ url: ['redis://127.0.0.1:1', ...others], mode: 'cluster', password: 'one' });
    const told = await refused({ url: urls, mode: 'cluster', password: 'other' });
    expect(told.join()).toContain('WRONGPASS');
  });

  test('serves over TLS with a client certificate', async () => {
    const tls: RedisTls = { ca: authority, server, client };
    const { urls } = await opened(startRedisCluster({ ...STEADY_CLUSTER, tls }));
    await serves({
      url: urls,
      mode: 'cluster',
      tls: { ca: authority.pem, ...identity(client) },
    });
  });

  test('hears messages that are published through any node', async () => {
    const { urls } = await opened(startRedisCluster(STEADY_CLUSTER));
    const gateways = await Promise.all(
      Array.from({ length: 4 }, () => opened(house({ url: urls, mode: 'cluster' }))),
    );
    const heard = gateways.map(() => new Set<string>());
    for (const [i, gateway] of gateways.entries()) {
      gateway.store.onAnnouncement((scopes) => scopes.forEach((scope) => heard[i]?.add(scope)));
    }
    await until(
      async () => {
        for (const [i, gateway] of gateways.entries()) {
          await gateway.store
            .announce({ purge: randomUUID(), scopes: [`project:${i}`] })
            .catch(() => {});
        }
        return heard;
      },
      (all) => all.every(({ size }) => size === gateways.length),
    );
    expect(heard.map(({ size }) => size)).toEqual([4, 4, 4, 4]);
  });
});
