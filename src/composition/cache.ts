import { LRUCache } from 'lru-cache';
import { LEASE_LIMITS, type Config } from '../config/config.ts';
import { createEpochs } from '../query-cache/epochs.ts';
import type { EpochStore } from '../query-cache/epoch-store.ts';
import { createFlights } from '../query-cache/flight.ts';
import { createMemoryEpochStore } from '../query-cache/memory-epoch-store.ts';
import { createMemoryTier } from '../query-cache/memory-tier.ts';
import { createPurges, type Purges } from '../query-cache/purge.ts';
import { createQueryCache, type QueryCache } from '../query-cache/query-cache.ts';
import type { Scope } from '../query-cache/scopes.ts';
import type { ValueTier } from '../query-cache/value-tier.ts';
import { createCircuitBreaker } from '../redis/circuit-breaker.ts';
import { createRedisEpochStore } from '../redis/redis-epoch-store.ts';
import { createRedisValueTier } from '../redis/redis-value-tier.ts';
import { connectRedis } from '../redis/redis-connections.ts';
import { createRedisSessionStore } from '../redis/redis-session-store.ts';
import { createMemorySessionStore } from '../sessions/memory-session-store.ts';
import { createSessions } from '../sessions/registry.ts';
import { SESSION_LIFE, type SessionStore } from '../sessions/session-store.ts';
import type { Sessions } from '../sessions/sessions.ts';
import { newToken, type Parts } from './parts.ts';

/** Redis is not asked for a while after so many failures in a row. */
const BREAKER = { failures: 5, pause: 1_000 };
/** How long a start waits for Redis before it goes on without (ms). */
const START_WAIT = 2_000;
/** Keys that are remembered as not shareable. */
const MAX_UNSHAREABLE = 10_000;

/** The query cache with everything it stands on. It outlives a reload that does not change it. */
export interface Cache {
  readonly queryCache: QueryCache;
  readonly purges: Purges;
  readonly sessions: Sessions;
  readonly redisState: () => 'off' | 'up' | 'down';
  readonly memoryUsage: () => { readonly entries: number; readonly bytes: number };
  readonly flightUsage: () => { readonly flights: number; readonly waiters: number };
  readonly epochAge: () => number | undefined;
  /** Scopes whose purge Redis has not confirmed yet. */
  readonly owed: () => readonly Scope[];
  /**
   * What is known of sessions, where this gateway is alone: then no other cache needs to forget it. Undefined with
   * Redis, from which another one learns it again.
   */
  readonly lonelySessions: Sessions | undefined;
  /** Takes over what another cache owes. */
  readonly owe: (scopes: readonly Scope[]) => void;
  close(): Promise<void>;
}

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

/** @param before the cache whose place it takes */
export async function createCache(
  settings: ReturnType<typeof cacheSettings>,
  parts: Parts,
  before?: Cache,
): Promise<Cache> {
  const { clock, emit } = parts;
  const isAlone = settings.redis.url === '';
  const backend = isAlone ? inProcess(settings, parts) : inRedis(settings, parts);
  const epochs = createEpochs({
    store: backend.epochStore,
    clock,
    lease: backend.lease,
    onError: (error) => emit({ type: 'redis-failed', operation: 'epochs', error }),
  });
  const memory = createMemoryTier({ maxBytes: settings.memory, clock });
  const flights = createFlights({ clock, deadline: settings.longestTimeout });
  const queryCache = createQueryCache({
    epochs,
    memory,
    flights,
    clock,
    emit,
    values: backend.values,
    unshareable: new LRUCache({ max: MAX_UNSHAREABLE }),
    random: parts.random,
    purgeTakes: backend.purgeTakes,
    maxEntry: settings.max_entry,
    processSecret: newToken(parts),
  });
  const kept = isAlone ? before?.lonelySessions : undefined;
  const sessions =
    kept ??
    createSessions({
      store: backend.sessionStore,
      clock,
      lease: backend.lease,
      sleep: parts.sleep,
      newToken: () => newToken(parts),
      onError: (error) => emit({ type: 'redis-failed', operation: 'sessions', error }),
    });
  await backend.settled();
  return {
    queryCache,
    sessions,
    lonelySessions: isAlone ? sessions : undefined,
    purges: createPurges({
      epochs,
      clearMemory: memory.clear,
      clock,
      sleep: parts.sleep,
      newId: () => newToken(parts),
      emit,
    }),
    // While a purge is owed the epochs in Redis are not used, whatever its connections say.
    redisState: () => (epochs.owed().length > 0 ? 'down' : backend.state()),
    memoryUsage: memory.usage,
    flightUsage: flights.usage,
    epochAge: epochs.age,
    owed: epochs.owed,
    owe: (scopes) => {
      if (scopes.length > 0) epochs.owe(scopes);
    },
    async close() {
      await epochs.close();
      await backend.sessionStore.close();
      await backend.close();
    },
  };
}

/** What differs between a gateway that is alone and one that shares a Redis with others. */
interface Backend {
  readonly epochStore: EpochStore;
  readonly sessionStore: SessionStore;
  readonly values: ValueTier | undefined;
  /** Milliseconds; Infinity where nobody else can renew an epoch. */
  readonly lease: number;
  /** No purge is acknowledged in less (ms). */
  readonly purgeTakes: number;
  readonly state: () => 'off' | 'up' | 'down';
  readonly settled: () => Promise<void>;
  readonly close: () => Promise<void>;
}

function inProcess(settings: ReturnType<typeof cacheSettings>, parts: Parts): Backend {
  return {
    epochStore: createMemoryEpochStore({
      newToken: () => newToken(parts),
      keySecret: settings.key_secret ?? newToken(parts),
    }),
    sessionStore: createMemorySessionStore({ clock: parts.clock, life: SESSION_LIFE }),
    values: undefined,
    lease: Infinity,
    purgeTakes: 0,
    state: () => 'off',
    settled: async () => {},
    close: async () => {},
  };
}

function inRedis(settings: ReturnType<typeof cacheSettings>, parts: Parts): Backend {
  const { emit, clock } = parts;
  const { namespace, url } = settings.redis;
  const onError = (error: unknown) => emit({ type: 'redis-failed', operation: 'connect', error });
  const connections = connectRedis(url, onError);
  const breaker = createCircuitBreaker({
    ...BREAKER,
    now: clock.now,
    onChange: (open, error) => {
      emit({ type: 'redis-state', state: open ? 'down' : 'up', error });
    },
  });
  return {
    epochStore: createRedisEpochStore({
      connections,
      breaker,
      namespace,
      lease: settings.lease,
      longestLease: LEASE_LIMITS.longest,
      unusedAfter: 2 * settings.longestTtl,
      newToken: () => newToken(parts),
      keySecret: { configured: settings.key_secret, fresh: newToken(parts) },
      onError,
    }),
    sessionStore: createRedisSessionStore({
      connections,
      breaker,
      namespace,
      replica: newToken(parts),
      lease: settings.lease,
      longestLease: LEASE_LIMITS.longest,
      life: SESSION_LIFE,
      newToken: () => newToken(parts),
    }),
    values: createRedisValueTier({ connections, breaker, namespace }),
    lease: settings.lease,
    // Through another replica, whose lease may be shorter than this one's.
    purgeTakes: LEASE_LIMITS.shortest,
    state: () => (connections.ready() && !breaker.open ? 'up' : 'down'),
    settled: () => connections.settled(START_WAIT),
    close: connections.close,
  };
}
