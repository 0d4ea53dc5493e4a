import { describe, expect, test } from '@jest/globals';
import { makeAuthority } from '../../support/certificates.ts';
import { certain } from '../../support/redis-client.ts';
import { startRedisCluster } from '../../support/redis-cluster.ts';
import { startRedisSentinels } from '../../support/redis-sentinels.ts';
import { askRedis, startRedis } from '../../support/redis-server.ts';
import { closedLater, opened } from '../../support/opened.ts';

describe('sentinels of the test’s own', () => {
  test('name another master when theirs is killed, and take the old one back as a replica', async () => {
    const redis = await opened(startRedisSentinels());
    const old = await redis.masterNow();
    for (const { port } of [old, ...redis.servers]) {
      await certain(async () => {
        if (port === old.port) await askRedis(port, 'SET key value');
        return (await askRedis(port, 'GET key')).includes('value');
      }, 'a server does not have the value');
    }
    await old.stop('SIGKILL');
    const master = await redis.failedOver(old);
    await redis.settled();
    expect(await askRedis(master.port, 'GET key')).toContain('value');
    await old.restart();
    await redis.settled();
    expect(await askRedis(old.port, 'SET key other')).toContain('READONLY');
  });

  test('have passwords of their own', async () => {
    const redis = await opened(
      startRedisSentinels({ passwords: { servers: 'one', sentinels: 'other' } }),
    );
    expect(redis.urls[0]).toMatch(/^redis:\/\/:other@/u);
    expect(await askRedis((await redis.masterNow()).port, 'GET key')).toContain('NOAUTH');
  });
});

describe('a cluster of the test’s own', () => {
  test('has another master for the key when the first one is killed', async () => {
    const redis = await opened(startRedisCluster());
    const old = await redis.masterOf('{mdx}');
    await old.stop('SIGKILL');
    expect(await redis.failedOver('{mdx}', old)).not.toBe(old);
    await redis.settled();
    await old.restart();
    await redis.settled();
  });

  test('speaks TLS', async () => {
    const ca = makeAuthority();
    closedLater(async () => ca.remove());
    const tls = { ca, server: ca.issue('server') };
    const redis = await opened(startRedisCluster({ tls }));
    expect(redis.urls[0]).toMatch(/^rediss:/u);
  });
});

describe('a Redis of the test’s own', () => {
  test('has ACL users', async () => {
    const redis = await opened(
      startRedis({ users: { default: ['off'], mdx: ['on', '>pw', '~*', '+get'] } }),
    );
    expect(await askRedis(redis.port, 'PING')).toContain('NOAUTH');
    expect(await askRedis(redis.port, 'AUTH mdx pw')).toBe('+OK\r\n');
  });

  test('asks for a client certificate', async () => {
    const ca = makeAuthority();
    closedLater(async () => ca.remove());
    const tls = { ca, server: ca.issue('server'), client: ca.issue('client') };
    const redis = await opened(startRedis({ tls }));
    expect(await askRedis(redis.port, 'PING', tls)).toBe('+PONG\r\n');
    await expect(askRedis(redis.port, 'PING', { ca: tls.ca, server: tls.server })).rejects.toThrow(
      /certificate|ended|ECONNRESET|alert/u,
    );
  });
});
