import { setTimeout as delay } from 'node:timers/promises';
import { LEASE_LIMITS, type Config, type RedisConfig } from '../config/config.ts';
import type { EpochStore } from '../query-cache/epoch-store.ts';
import { createMemoryEpochStore } from '../query-cache/memory-epoch-store.ts';
import type { PurgeLines } from '../query-cache/purge-log.ts';
import type { FlightPlaces } from '../query-cache/shared-flights.ts';
import type { SweepStore } from '../query-cache/sweep.ts';
import type { ValueTier } from '../query-cache/value-tier.ts';
import { createCircuitBreaker } from '../redis/circuit-breaker.ts';
import { createRedisEpochStore } from '../redis/redis-epoch-store.ts';
import { createRedisOutage } from '../redis/redis-outage.ts';
import { createRedisFlights } from '../redis/redis-flights.ts';
import { createRedisPurgeLines } from '../redis/redis-purge-log.ts';
import { createRedisValueTier } from '../redis/redis-value-tier.ts';
import { watchRedisConditions } from '../redis/redis-conditions.ts';
import { connectRedis, isDeadline } from '../redis/redis-connections.ts';
import { createRedisSweepStore } from '../redis/redis-sweep-store.ts';
import { createRedisSessionStore } from '../redis/redis-session-store.ts';
import { createMemorySessionStore } from '../sessions/memory-session-store.ts';
import { createSealer, NO_SEALER, type Sealer } from '../sealing.ts';
import { SESSION_LIFE, type SessionStore } from '../sessions/session-store.ts';
import { newToken, type Parts } from './parts.ts';
import { redisTarget } from './redis.ts';

/** Redis is not asked after so many failures in a row, or one silence, until a probe succeeds; tried in such pauses (ms). */
const BREAKER = { failures: 5, pause: 1_000 };
/** How long a start waits for Redis before it goes on without (ms). */
const START_WAIT = 2_000;

/** The part of the configuration that a cache is built from; when it changes, a new one is built. */
export function cacheSettings(config: Config) {
  const { memory, max_entry, lease, key_secret, redis } = config.cache;
  const projects = [...config.projects.values()];
  return {
    memory,
    max_entry,
    lease,
    key_secret,
    redis,
    longestTtl: Math.max(config.cache.ttl, ...projects.map(({ ttl }) => ttl)),
    longestTimeout: Math.max(config.engine.timeout, ...projects.map((p) => p.engine.timeout)),
  };
}

export type CacheSettings = ReturnType<typeof cacheSettings>;

/**
 * Whether both lead to the same keys, as far as the configuration shows it. One sentinel or node that both name is
 * enough, since the lists of them may differ in the others.
 */
export function isSameRedis(one: RedisConfig, other: RedisConfig): boolean {
  const { mode, master, namespace } = one;
  if (other.mode !== mode || other.master !== master || other.namespace !== namespace) return false;
  const addresses = new Set(other.url.map(addressOf));
  return one.url.some((url) => addresses.has(addressOf(url)));
}

/** Host, port and database: a password that was changed leads to the same Redis. */
function addressOf(text: string): string {
  const { hostname, port, pathname } = new URL(text);
  return `${hostname.toLowerCase()}:${port}/${Number(pathname.slice(1))}`;
}

/** What differs between a gateway that is alone and one that shares a Redis with others. */
interface Backend {
  readonly epochStore: EpochStore;
  readonly sessionStore: SessionStore;
  readonly values: ValueTier | undefined;
  readonly sweepStore: SweepStore | undefined;
  readonly purgeLines: PurgeLines | undefined;
  readonly flightPlaces: FlightPlaces | undefined;
  /** Milliseconds; Infinity where nobody else can renew an epoch. */
  readonly lease: number;
  /** No purge is acknowledged in less (ms). */
  readonly purgeTakes: number;
  readonly state: () => 'off' | 'up' | 'down';
  /** Why Redis cannot be used now; undefined where it can. */
  readonly why: () => string | undefined;
  /** Why something failed that was asked of Redis. */
  readonly whyFailed: (error: unknown) => string;
  readonly conditions: () => readonly string[];
  readonly settled: () => Promise<void>;
  readonly close: () => Promise<void>;
}

/** Of a gateway that is alone. */
export function inProcess(settings: CacheSettings, parts: Parts): Backend {
  return {
    epochStore: createMemoryEpochStore({
      newToken: () => newToken(parts),
      keySecret: settings.key_secret ?? newToken(parts),
    }),
    sessionStore: createMemorySessionStore({ clock: parts.clock, life: SESSION_LIFE }),
    values: undefined,
    sweepStore: undefined,
    purgeLines: undefined,
    flightPlaces: undefined,
    lease: Infinity,
    purgeTakes: 0,
    state: () => 'off',
    why: () => undefined,
    whyFailed: String,
    conditions: () => [],
    settled: async () => {},
    close: async () => {},
  };
}

export function sealerOf({ redis }: CacheSettings): Sealer {
  return redis.encryption_key === undefined ? NO_SEALER : createSealer(redis.encryption_key);
}

/** Keeps no process alive. */
const sleep = (milliseconds: number) => delay(milliseconds, undefined, { ref: false });

/** Of gateways that share a Redis. */
export function inRedis(settings: CacheSettings, parts: Parts, sealer: Sealer): Backend {
  const { emit } = parts;
  const { namespace } = settings.redis;
  const replica = newToken(parts);
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
    probe: () => epochStore.probe(),
    sleep,
    isSilence: isDeadline,
    onChange(open, error) {
      if (open) outage.failed(error);
      else outage.look();
    },
  });
  const epochStore = createRedisEpochStore({
    connections,
    breaker,
    namespace,
    replica,
    lease: settings.lease,
    longestLease: LEASE_LIMITS.longest,
    unusedAfter: 2 * settings.longestTtl,
    newToken: () => newToken(parts),
    keySecret: { configured: settings.key_secret, fresh: newToken(parts) },
    onError,
  });
  return {
    epochStore,
    sessionStore: createRedisSessionStore({
      connections,
      breaker,
      namespace,
      sealer,
      replica,
      lease: settings.lease,
      longestLease: LEASE_LIMITS.longest,
      life: SESSION_LIFE,
      newToken: () => newToken(parts),
    }),
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
