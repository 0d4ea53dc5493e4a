import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { BlackHoleMode } from '../black-hole.ts';
import type { RedisCluster } from '../redis-cluster.ts';
import type { RedisSentinels } from '../redis-sentinels.ts';
import { askRedis, type RedisServer } from '../redis-server.ts';
import type { OracleGateway } from './gateways.ts';
import type { VersionEngine } from './version-engine.ts';
import type { Disturbance } from './weather.ts';

type Random = (below: number) => number;

/** What happens to single gateways. */
export function gatewayDisturbances(
  gateways: readonly OracleGateway[],
  random: Random,
): Disturbance[] {
  const one = (): OracleGateway => {
    const chosen = gateways[random(gateways.length)];
    if (chosen === undefined) throw new Error('there are no gateways');
    return chosen;
  };
  return [
    {
      name: 'a gateway is killed and started anew',
      async strike() {
        const gateway = one();
        await gateway.kill();
        await delay(random(500));
        await gateway.start();
      },
    },
    {
      name: 'a gateway stands still and goes on',
      async strike() {
        const gateway = one();
        await gateway.pause();
        // Shorter than a lease, or much longer.
        await delay(random(2) === 0 ? random(150) : 150 + random(1_500));
        gateway.resume();
      },
    },
  ];
}

/** What happens on the way between a gateway and its Redis. */
export function networkDisturbances(
  gateways: readonly OracleGateway[],
  random: Random,
): Disturbance[] {
  const during = (name: string, mode: BlackHoleMode, longest: number): Disturbance => ({
    name,
    async strike() {
      const hole = gateways[random(gateways.length)]?.blackHole;
      await hole?.set(mode);
      await delay(random(longest));
      // What was held back comes late, or is lost with the connections.
      if (random(2) === 0) hole?.cut();
      await hole?.set('forward');
    },
  });
  return [
    during('the Redis of a gateway accepts and never answers', 'hang', 2_500),
    during('a gateway is heard by its Redis and hears nothing', 'mute', 1_500),
    during('the Redis of a gateway refuses', 'refuse', 1_000),
    {
      name: 'a gateway loses its connections to Redis',
      async strike() {
        gateways[random(gateways.length)]?.blackHole?.cut();
      },
    },
  ];
}

export const AWAY = 'the engine is away and comes back';

/** What happens to the engine of all gateways. */
export function engineDisturbances(engine: VersionEngine, random: Random): Disturbance[] {
  /** Longer than answers live that are repeated for a second. */
  const away = () => delay(500 + random(2_500));
  return [
    {
      name: AWAY,
      async strike() {
        engine.leave();
        await away();
        await engine.comeBack();
      },
    },
    {
      name: 'the engine stands still and goes on',
      async strike() {
        engine.pause();
        await away();
        engine.resume();
      },
    },
    {
      name: 'the engine breaks all connections',
      strike: async () => engine.cut(),
    },
  ];
}

/** What happens to a Redis that stands alone. */
export function redisDisturbances(redis: RedisServer, random: Random): Disturbance[] {
  const snapshot = join(redis.dir, 'dump.rdb');
  const away = () => delay(random(2_500));
  return [
    {
      name: 'Redis is stopped for seconds, and comes back empty',
      async strike() {
        await redis.stop(random(2) === 0 ? 'SIGTERM' : 'SIGKILL');
        await delay(500);
        await away();
        await redis.restart();
      },
    },
    {
      name: 'Redis is restarted empty, at once',
      strike: () => redis.restart({ signal: 'SIGKILL' }),
    },
    {
      name: 'Redis comes back from an old snapshot',
      async strike() {
        await askRedis(redis.port, 'SAVE');
        // There are purges that it does not know.
        await away();
        await redis.restart({ signal: 'SIGKILL' });
        rmSync(snapshot);
      },
    },
    {
      name: 'Redis disconnects everybody',
      async strike() {
        await askRedis(redis.port, 'CLIENT KILL TYPE normal');
        await askRedis(redis.port, 'CLIENT KILL TYPE pubsub');
      },
    },
    {
      name: 'Redis loses all of its keys',
      strike: async () => void (await askRedis(redis.port, 'FLUSHALL')),
    },
    {
      name: 'Redis stands still and goes on',
      async strike() {
        await redis.pause();
        await away();
        redis.resume();
      },
    },
  ];
}

/** What happens to the servers that sentinels watch. */
export function sentinelDisturbances(redis: RedisSentinels, random: Random): Disturbance[] {
  const failover = failoverOf({
    master: redis.masterNow,
    failedOver: redis.failedOver,
    settled: redis.settled,
    random,
  });
  return [
    ...failover,
    {
      name: 'a replica is killed',
      async strike() {
        const master = await redis.masterNow();
        await killAndRestart(
          redis.servers.filter((server) => server !== master),
          random,
        );
        await redis.settled();
      },
    },
  ];
}

/**
 * What happens to the nodes of a cluster.
 * @param key lies where the epochs do
 */
export function clusterDisturbances(
  redis: RedisCluster,
  key: string,
  random: Random,
): Disturbance[] {
  const failover = failoverOf({
    master: () => redis.masterOf(key),
    failedOver: (old) => redis.failedOver(key, old),
    settled: redis.settled,
    random,
  });
  return [
    ...failover,
    {
      name: 'a node that does not hold the epochs is killed',
      async strike() {
        const master = await redis.masterOf(key);
        await killAndRestart(
          redis.nodes.filter((node) => node !== master),
          random,
        );
        await redis.settled();
      },
    },
  ];
}

/** Both ways in which a master is lost: for good, or only for those who wait for it. */
function failoverOf(options: {
  master(): Promise<RedisServer>;
  failedOver(old: RedisServer): Promise<RedisServer>;
  settled(): Promise<void>;
  random: Random;
}): Disturbance[] {
  const { random } = options;
  return [
    {
      name: 'the master is killed, and another one takes its place',
      async strike() {
        const old = await options.master();
        await old.stop('SIGKILL');
        await options.failedOver(old);
        await delay(random(1_000));
        await old.restart();
        await options.settled();
      },
    },
    {
      name: 'the master stands still, another one takes its place, and it goes on as if it were the master',
      async strike() {
        const old = await options.master();
        await old.pause();
        try {
          await options.failedOver(old);
          // There are purges that it does not know.
          await delay(random(4_000));
        } finally {
          old.resume();
        }
        await options.settled();
      },
    },
  ];
}

async function killAndRestart(servers: readonly RedisServer[], random: Random): Promise<void> {
  const server = servers[random(servers.length)];
  await server?.stop('SIGKILL');
  await delay(random(2_000));
  await server?.restart();
}
