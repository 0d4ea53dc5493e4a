import { setTimeout as delay } from 'node:timers/promises';
import { LEASE_LIMITS } from '../config/config.ts';
import { createRedisFreshness } from '../redis/redis-freshness.ts';
import { createRedisHealth } from '../redis/redis-health.ts';
import {
  createRedisFlights,
  createRedisPurgeLines,
  createRedisSweepStore,
  createRedisValueTier,
} from '../redis/redis-cache.ts';
import { watchRedisConditions } from '../redis/redis-conditions.ts';
import { connectRedis } from '../redis/redis-connections.ts';
import type { Sealer } from '../common/sealing.ts';
import type { Backend, CacheLimits, CacheSettings } from './cache-backend.ts';
import { newToken, type Parts } from './parts.ts';
import { redisTarget } from './redis.ts';

/** How long a start waits for Redis before it goes on without (ms). */
const START_WAIT = 2_000;

/** Keeps no process alive. */
const sleep = (milliseconds: number) => delay(milliseconds, undefined, { ref: false });

/** Of gateways that share a Redis. */
export function inRedis(
  settings: CacheSettings,
  limits: CacheLimits,
  parts: Parts,
  sealer: Sealer,
): Backend {
  const { emit } = parts;
  const { namespace } = settings.redis;
  const lease = () => limits().lease;
  const onError = (error: unknown) => emit({ type: 'redis-failed', operation: 'connect', error });
  const target = redisTarget(settings.redis);
  const connections = connectRedis(target, (error, partial) => {
    onError(error);
    health.failed(error, partial);
  });
  const health = createRedisHealth({
    isConnected: connections.ready,
    probe: () => freshness.probe(),
    sleep,
    onChange: (trouble) =>
      emit({ type: 'redis-state', ...(trouble ? { state: 'down', ...trouble } : { state: 'up' }) }),
  });
  const { run } = health;
  const conditions = watchRedisConditions({
    target,
    namespace,
    connections,
    onProblem: (message) => emit({ type: 'warning', message }),
  });
  const freshness = createRedisFreshness({
    connections,
    run,
    namespace,
    sealer,
    gateway: newToken(parts),
    lease,
    longestLease: LEASE_LIMITS.longest,
    get unusedAfter() {
      return 2 * limits().longestTtl;
    },
    newToken: () => newToken(parts),
    keySecret: { configured: settings.key_secret, fresh: newToken(parts) },
    onError,
  });
  return {
    freshness,
    purgeLines: createRedisPurgeLines(connections, namespace, sealer),
    values: createRedisValueTier(connections, run, namespace),
    sweepStore: createRedisSweepStore(connections, namespace, () => newToken(parts)),
    flightPlaces: createRedisFlights(connections, run, namespace),
    lease,
    // Through another replica, whose lease may be shorter than this one's.
    purgeTakes: LEASE_LIMITS.shortest,
    renewCertificates: target.renewCertificates,
    state: health.state,
    why: () => health.trouble()?.why,
    whyFailed: (error) => health.causeOf(error).why,
    settled: () => connections.settled(START_WAIT),
    conditions: conditions.list,
    async close() {
      conditions.close();
      health.close();
      await connections.close();
    },
  };
}
