import { startRedisCluster } from '../redis-cluster.ts';
import { startRedisSentinels } from '../redis-sentinels.ts';
import { askRedis, startRedis } from '../redis-server.ts';
import {
  clusterDisturbances,
  gatewayDisturbances,
  networkDisturbances,
  redisDisturbances,
  sentinelDisturbances,
} from './disturbances.ts';
import type { OracleForm } from './forms.ts';
import { freshSettings } from './fresh.ts';
import { startOracleGateway, type GatewaySettings } from './gateways.ts';

/** Where gateways of a run find their Redis. */
export interface RedisOfGateways {
  /** Where it listens, if gateways reach it through black holes; undefined where it tells its own addresses. */
  readonly port: number | undefined;
  /**
   * The section cache.redis of a gateway.
   * @param deaf whether the gateway is to hear of no purge, and to tell nobody of its own
   * @param through the port of its black hole
   */
  settings(deaf: boolean, through: number | undefined): Readonly<Record<string, unknown>>;
  /** What else stands in its configuration. */
  more?(settings: GatewaySettings): Readonly<Record<string, unknown>>;
}

/** An ACL user that may neither subscribe nor publish. */
const DEAF = 'deaf';
const PASSWORD = 'secret';
const RULES = ['on', `>${PASSWORD}`, '~*', 'resetchannels', '+@all'];
const DEAF_USER = ['--user', DEAF, ...RULES];
const loginOf = (deaf: boolean) => (deaf ? { username: DEAF, password: PASSWORD } : {});

const NAMESPACE = 'oracle';

const startWith =
  (redis: RedisOfGateways): OracleForm['startGateway'] =>
  (name, settings) =>
    startOracleGateway(name, settings, redis);

export async function standaloneRedis(): Promise<OracleForm> {
  const redis = await startRedis({ args: DEAF_USER });
  return {
    startGateway: startWith({
      port: redis.port,
      settings: (deaf, through) => ({
        namespace: NAMESPACE,
        url: `redis://127.0.0.1:${through}`,
        ...loginOf(deaf),
      }),
      more: freshSettings,
    }),
    forget: async () => void (await askRedis(redis.port, 'FLUSHALL')),
    disturbances: (gateways, random) => [
      gatewayDisturbances(gateways, random),
      networkDisturbances(gateways, random),
      redisDisturbances(redis, random),
    ],
    close: redis.close,
  };
}

export async function redisBehindSentinels(): Promise<OracleForm> {
  const redis = await startRedisSentinels({ args: DEAF_USER });
  return {
    startGateway: startWith({
      port: undefined,
      settings: (deaf) => ({
        namespace: NAMESPACE,
        mode: 'sentinel',
        url: redis.urls,
        master: redis.master,
        ...loginOf(deaf),
      }),
    }),
    disturbances: (gateways, random) => [
      gatewayDisturbances(gateways, random),
      sentinelDisturbances(redis, random),
    ],
    close: redis.close,
  };
}

export async function clusteredRedis(): Promise<OracleForm> {
  const redis = await startRedisCluster({ args: DEAF_USER });
  return {
    startGateway: startWith({
      port: undefined,
      settings: (deaf) => ({
        namespace: NAMESPACE,
        mode: 'cluster',
        url: redis.urls,
        ...loginOf(deaf),
      }),
    }),
    disturbances: (gateways, random) => [
      gatewayDisturbances(gateways, random),
      clusterDisturbances(redis, `{${NAMESPACE}}`, random),
    ],
    close: redis.close,
  };
}
