import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { connectRedis } from '../../src/redis/redis-connections.ts';
import { house, until } from '../integration/cache/redis-house.ts';
import { refused, serves, STEADY, STEADY_CLUSTER } from '../integration/redis/serving.ts';
import { makeAuthority, type Authority, type Certificate } from '../support/certificates.ts';
import { freePort } from '../support/free-port.ts';
import { onConnection } from '../support/redis-client.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';
import { startRedisSentinels } from '../support/redis-sentinels.ts';
import { startRedis, type RedisTls } from '../support/redis-server.ts';
import { onAnyPort } from '../support/taken-port.ts';
import { opened } from '../support/opened.ts';

jest.setTimeout(120_000);

let authority: Authority;
let server: Certificate;
let client: Certificate;
beforeAll(() => {
  authority = makeAuthority();
  server = authority.issue('redis');
  client = authority.issue('gateway');
});
afterAll(() => authority.remove());

const identity = ({ pem, key }: Certificate) => ({ cert: pem, key: readFileSync(key) });

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

  test('is not left while it is connected to, known by one address', async () => {
    const { urls } = await opened(startRedisCluster(STEADY_CLUSTER));
    for (let i = 0; i < 4; i++) {
      const { connections } = await watched(urls.slice(0, 1));
      let left = 0;
      for (const name of ['reader', 'writer', 'epochs'] as const) {
        connections[name].on('reconnecting', () => (left += 1));
      }
      await until(connections.ready, Boolean);
      expect(left).toBe(0);
    }
  });

  test('is told of where a node knows of no slots', async () => {
    const args = ['--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf'];
    const { running } = await onAnyPort(freePort, (port) =>
      startRedis({ args: [...args, '--cluster-port', String(port)] }),
    );
    const { url } = await opened(Promise.resolve(running));
    await isLeft([url], 'knows of no slots');
  });

  test('is told of where it is down', async () => {
    const { nodes, urls } = await opened(startRedisCluster(STEADY_CLUSTER));
    for (const { port } of nodes) {
      await onConnection(port, {}, (redis) => redis.call('CLUSTER', 'DELSLOTSRANGE', '0', '99'));
    }
    await isLeft(urls, 'it is down (cluster_state:fail)');
  });

  /** That the problem is told, and that Redis is asked ever less often meanwhile. */
  async function isLeft(url: readonly string[], problem: string): Promise<void> {
    const timers = jest.spyOn(globalThis, 'setTimeout');
    const { connections, told } = await watched(url);
    // Before the eighth try of one of them.
    await until(
      () => timers.mock.calls.map(([, delay]) => delay),
      (delays) => delays.includes(700),
    );
    timers.mockRestore();
    expect(told.join()).toContain(problem);
    expect(connections.ready()).toBe(false);
  }

  /** Connects, and notes what is told. */
  async function watched(url: readonly string[]) {
    const told: unknown[] = [];
    const connections = connectRedis({ url, mode: 'cluster' }, (error) => told.push(error));
    return { connections: await opened(Promise.resolve(connections)), told };
  }

  test('hears messages that are published through any node', async () => {
    const { urls } = await opened(startRedisCluster(STEADY_CLUSTER));
    const gateways = await Promise.all(
      Array.from({ length: 4 }, () => opened(house({ url: urls, mode: 'cluster' }))),
    );
    const heard = gateways.map(() => new Set<string>());
    for (const [i, gateway] of gateways.entries()) {
      gateway.store.listen({
        renewed: (scopes) => scopes.forEach((scope) => heard[i]?.add(scope)),
        forgotten() {},
      });
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
