import { startRedisCluster } from '../redis-cluster.ts';
import { startRedisSentinels } from '../redis-sentinels.ts';
import { startRedis } from '../redis-server.ts';
import {
  clusterDisturbances,
  gatewayDisturbances,
  networkDisturbances,
  redisDisturbances,
  sentinelDisturbances,
} from './disturbances.ts';
import type { OracleGateway } from './gateways.ts';
import type { Disturbance } from './weather.ts';

/** The Redis of a run. */
export interface OracleRedis {
  /** Where it listens, if gateways reach it through black holes; undefined where it tells its own addresses. */
  readonly port: number | undefined;
  /**
   * The section cache.redis of a gateway.
   * @param deaf whether the gateway is to hear of no purge, and to tell nobody of its own
   * @param through the port of its black hole
   */
  settings(deaf: boolean, through: number | undefined): Readonly<Record<string, unknown>>;
  /** What can go wrong, in lists of things that can be disturbed side by side. */
  disturbances(
    gateways: readonly OracleGateway[],
    random: (below: number) => number,
  ): readonly (readonly Disturbance[])[];
  close(): Promise<void>;
}

/** An ACL user that may neither subscribe nor publish. */
const DEAF = 'deaf';
const PASSWORD = 'secret';
const RULES = ['on', `>${PASSWORD}`, '~*', 'resetchannels', '+@all'];
const DEAF_USER = ['--user', DEAF, ...RULES];
const loginOf = (deaf: boolean) => (deaf ? { username: DEAF, password: PASSWORD } : {});

const NAMESPACE = 'oracle';

export async function standaloneRedis(): Promise<OracleRedis> {
  const redis = await startRedis({ args: DEAF_USER });
  return {
    port: redis.port,
    settings: (deaf, through) => ({
      namespace: NAMESPACE,
      url: `redis://127.0.0.1:${through}`,
      ...loginOf(deaf),
    }),
    disturbances: (gateways, random) => [
      gatewayDisturbances(gateways, random),
      networkDisturbances(gateways, random),
      redisDisturbances(redis, random),
    ],
    close: redis.close,
  };
}

export async function redisBehindSentinels(): Promise<OracleRedis> {
  const redis = await startRedisSentinels({ args: DEAF_USER });
  return {
    port: undefined,
    settings: (deaf) => ({
      namespace: NAMESPACE,
      mode: 'sentinel',
      url: redis.urls,
      master: redis.master,
      ...loginOf(deaf),
    }),
    disturbances: (gateways, random) => [
      gatewayDisturbances(gateways, random),
      sentinelDisturbances(redis, random),
    ],
    close: redis.close,
  };
}

export async function clusteredRedis(): Promise<OracleRedis> {
  const redis = await startRedisCluster({ args: DEAF_USER });
  return {
    port: undefined,
    settings: (deaf) => ({
      namespace: NAMESPACE,
      mode: 'cluster',
      url: redis.urls,
      ...loginOf(deaf),
    }),
    disturbances: (gateways, random) => [
      gatewayDisturbances(gateways, random),
      clusterDisturbances(redis, `{${NAMESPACE}}`, random),
    ],
    close: redis.close,
  };
}
