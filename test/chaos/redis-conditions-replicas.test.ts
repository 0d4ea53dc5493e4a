import { beforeAll, afterAll, describe, expect, jest, test } from '@jest/globals';
import { neededReplicas } from '../../src/redis/redis-conditions.ts';
import { freePort } from '../support/free-port.ts';
import { onAnyPort } from '../support/taken-port.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';
import { startRedisSentinels } from '../support/redis-sentinels.ts';
import { askRedis, startRedis, type RedisServer } from '../support/redis-server.ts';
import { until } from '../integration/cache/redis-house.ts';
import { SOUND, watch } from '../integration/redis/watched-conditions.ts';
import { opened } from '../support/opened.ts';

jest.setTimeout(120_000);

const FEW =
  /has min-replicas-to-write 1 and 3 replicas: .*set min-replicas-to-write to at least 2$/u;

describe('what an operator is told of a master with three replicas', () => {
  test('by sentinels: that two halves may both take purges, also when the master reaches one replica only', async () => {
    const redis = await opened(startRedisSentinels({ downAfter: 60_000, args: SOUND }));
    const master = await redis.masterNow();
    const watched = await opened(
      watch({ url: redis.urls, master: redis.master, mode: 'sentinel' }),
    );
    const lookAgain = () => askRedis(master.port, 'CLIENT KILL TYPE normal');

    const third = await opened(
      startRedis({ args: [...SOUND, '--replicaof', '127.0.0.1', String(master.port)] }),
    );
    await until(
      () =>
        Promise.all(redis.urls.map((url) => askRedis(Number(new URL(url).port), 'INFO sentinel'))),
      (texts) => texts.some((text) => text.includes('slaves=3')),
    );
    const away = [third, ...redis.servers.filter((server) => server !== master)].slice(0, 2);
    for (const server of away) await server.stop('SIGKILL');
    await until(
      () => askRedis(master.port, 'INFO replication'),
      (info) => info.includes('connected_slaves:1'),
    );
    await lookAgain();
    expect(await watched.until(1)).toEqual([expect.stringMatching(FEW)]);

    await askRedis(master.port, 'CONFIG SET min-replicas-to-write 2');
    await lookAgain();
    await watched.until(0);
    await askRedis(master.port, 'CONFIG SET min-replicas-to-write 0');
    await lookAgain();
    expect(await watched.until(1)).toEqual([
      expect.stringMatching(/set the first to at least 2 and the second to at least 1$/u),
    ]);
  });

  test('by a cluster: the same, of that master alone', async () => {
    const redis = await opened(startRedisCluster({ nodeTimeout: 60_000, args: SOUND }));
    for (const { port } of redis.nodes) {
      await askRedis(port, 'CONFIG SET min-replicas-to-write 1');
      await askRedis(port, 'CONFIG SET min-replicas-max-lag 1');
    }
    const [master] = redis.nodes as [RedisServer];
    const id = (await askRedis(master.port, 'CLUSTER MYID')).trim().split('\r\n').at(-1);
    const replicas: RedisServer[] = [];
    for (let i = 0; i < 2; i += 1) {
      const { port: busPort, running: node } = await onAnyPort(freePort, (bus) =>
        startRedis({
          args: [...SOUND, '--cluster-enabled', 'yes', '--cluster-port', String(bus)],
        }),
      );
      await opened(node);
      await askRedis(master.port, `CLUSTER MEET 127.0.0.1 ${node.port} ${busPort}`);
      await until(
        () => askRedis(node.port, `CLUSTER REPLICATE ${id}`),
        (text) => text.startsWith('+OK'),
      );
      replicas.push(node);
    }
    await until(
      () => askRedis(master.port, `CLUSTER REPLICAS ${id}`),
      (text) => replicas.every(({ port }) => text.includes(`:${port}@`)),
    );
    for (const node of replicas) await node.stop('SIGKILL');

    const watched = await opened(watch({ url: redis.urls.slice(0, 1), mode: 'cluster' }));
    const [problem] = await watched.until(1);
    expect(problem).toMatch(FEW);
    expect(problem).toContain(`Redis at 127.0.0.1:${master.port} `);
  });
});

describe('the number that is asked for', () => {
  let servers: readonly RedisServer[];
  beforeAll(async () => {
    // What is set decides who is counted as a good replica, never how fast this machine is.
    const args = ['--min-replicas-to-write', '1', '--min-replicas-max-lag', '60'];
    servers = await Promise.all(
      Array.from({ length: 5 }, () =>
        startRedis({ args: [...args, '--repl-diskless-sync-delay', '0'] }),
      ),
    );
  });
  afterAll(() => Promise.all(servers.map((server) => server.close())));

  /** The master with so many of the replicas on one side, its successor with the others on the other side. */
  async function part(replicas: number, withMaster: number) {
    const [master, successor, ...others] = servers.slice(0, replicas + 1) as [
      RedisServer,
      RedisServer,
      ...RedisServer[],
    ];
    const masters = [
      { port: master.port, followers: others.slice(0, withMaster) },
      { port: successor.port, followers: others.slice(withMaster) },
    ];
    for (const { port } of masters) await askRedis(port, 'REPLICAOF NO ONE');
    for (const { port, followers } of masters) {
      for (const one of followers) await askRedis(one.port, `REPLICAOF 127.0.0.1 ${port}`);
    }
    for (const { port, followers } of masters) {
      await askRedis(port, 'CONFIG SET min-replicas-to-write 1');
      await until(
        () => askRedis(port, 'INFO replication'),
        (info) =>
          info.includes(`min_slaves_good_slaves:${followers.length}\r\n`) &&
          followers.every((one) => info.includes(`port=${one.port},state=online`)),
      );
    }
    return async (least: number) => {
      let taking = 0;
      for (const { port } of masters) {
        await askRedis(port, `CONFIG SET min-replicas-to-write ${least}`);
        if ((await askRedis(port, 'SET key value')).startsWith('+OK')) taking += 1;
      }
      return taking;
    };
  }

  test.each([1, 2, 3, 4])(
    'lets one of two masters take writes at most, and no smaller one does (%s replicas)',
    async (replicas) => {
      const needed = neededReplicas(replicas);
      const taking: { readonly needed: number; readonly fewer: number }[] = [];
      for (let withMaster = 0; withMaster < replicas; withMaster += 1) {
        const masters = await part(replicas, withMaster);
        taking.push({ needed: await masters(needed), fewer: await masters(needed - 1) });
      }
      expect(Math.max(...taking.map((one) => one.needed))).toBeLessThan(2);
      expect(Math.max(...taking.map((one) => one.fewer))).toBe(2);
    },
  );
});
