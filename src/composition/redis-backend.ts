import { setTimeout as delay } from 'node:timers/promises';
import { LEASE_LIMITS } from '../config/config.ts';
import { createCircuitBreaker } from '../redis/circuit-breaker.ts';
import { createRedisFreshness } from '../redis/redis-freshness.ts';
import { createRedisOutage } from '../redis/redis-outage.ts';
import { createRedisFlights } from '../redis/redis-flights.ts';
import { createRedisPurgeLines } from '../redis/redis-purge-log.ts';
import { createRedisValueTier } from '../redis/redis-value-tier.ts';
import { watchRedisConditions } from '../redis/redis-conditions.ts';
import { connectRedis, isDeadline } from '../redis/redis-connections.ts';
import { createRedisSweepStore } from '../redis/redis-sweep-store.ts';
import type { Sealer } from '../sealing.ts';
import type { Backend, CacheSettings } from './cache-backend.ts';
import { newToken, type Parts } from './parts.ts';
import { redisTarget } from './redis.ts';

/** Redis is not asked after so many failures in a row, or one silence, until a probe succeeds; tried in such pauses (ms). */
const BREAKER = { failures: 5, pause: 1_000 };
/** How long a start waits for Redis before it goes on without (ms). */
const START_WAIT = 2_000;

/** Keeps no process alive. */
const sleep = (milliseconds: number) => delay(milliseconds, undefined, { ref: false });

/** Of gateways that share a Redis. */
export function inRedis(settings: CacheSettings, parts: Parts, sealer: Sealer): Backend {
  const { emit } = parts;
  const { namespace } = settings.redis;
  const onError = (error: unknown) => emit({ type: 'redis-failed', operation: 'connect', error });
  const isUp = () => connections.ready() && !breaker.open;
  const outage = createRedisOutage({
    isUp,
    sleep,
    onChange: (trouble) =>
      emit({ type: 'redis-state', ...(trouble ? { state: 'down', ...trouble } : { state: 'up' }) }),
  });
  const target = redisTarget(settings.redis);
  const connections = connectRedis(target, (error, partial) => {
    onError(error);
    outage.failed(error, partial);
  });
  const conditions = watchRedisConditions({
    target,
    namespace,
    connections,
    onProblem: (message) => emit({ type: 'warning', message }),
  });
  const breaker = createCircuitBreaker({
    ...BREAKER,
    probe: () => freshness.probe(),
    sleep,
    isSilence: isDeadline,
    onChange(open, error) {
      if (open) outage.failed(error);
      else outage.look();
    },
  });
  const freshness = createRedisFreshness({
    connections,
    breaker,
    namespace,
    sealer,
    gateway: newToken(parts),
    lease: settings.lease,
    longestLease: LEASE_LIMITS.longest,
    unusedAfter: 2 * settings.longestTtl,
    newToken: () => newToken(parts),
    keySecret: { configured: settings.key_secret, fresh: newToken(parts) },
    onError,
  });
  return {
    freshness,
    purgeLines: createRedisPurgeLines({ connections, namespace, sealer }),
    values: createRedisValueTier({ connections, breaker, namespace }),
    sweepStore: createRedisSweepStore({
      connections,
      namespace,
      newToken: () => newToken(parts),
    }),
    flightPlaces: createRedisFlights({ connections, breaker, namespace }),
    lease: settings.lease,
    // Through another replica, whose lease may be shorter than this one's.
    purgeTakes: LEASE_LIMITS.shortest,
    state: () => (isUp() ? 'up' : 'down'),
    why: () => outage.trouble()?.why,
    whyFailed: (error) => outage.causeOf(error).why,
    settled: () => connections.settled(START_WAIT),
    conditions: conditions.list,
    async close() {
      conditions.close();
      outage.close();
      breaker.close();
      await connections.close();
    },
  };
}
