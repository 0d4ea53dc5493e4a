import { createEpochs } from '../freshness/freshness.ts';
import { createFlights } from '../cache/flights.ts';
import { createMemoryTier } from '../cache/memory-tier.ts';
import { createPurges, type CachePurges, type EngineClearing } from '../cache/purge/purge.ts';
import { createPurgeLog, type PurgeLog } from '../cache/purge/purge-log.ts';
import { createQueryCache, type QueryCache } from '../cache/cache.ts';
import type { Scope } from '../cache/projects.ts';
import { createSharedEntries } from '../cache/shared-entries.ts';
import { createSharedFlights } from '../cache/shared-flights.ts';
import { createSweep } from '../cache/purge/sweep.ts';
import { createSessions } from '../sessions/registry.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { Sealer } from '../common/sealing.ts';
import type { Bodies } from './bodies.ts';
import { newToken, type Parts } from './parts.ts';
import type { RedisMode } from './redis.ts';
import {
  inProcess,
  sealerOf,
  type Backend,
  type CacheLimits,
  type CacheSettings,
} from './cache-backend.ts';
import { inPrimary } from './worker-backend.ts';

/** The query cache with everything it stands on. It outlives every reload. */
export interface Cache {
  readonly queryCache: QueryCache;
  readonly purges: CachePurges;
  readonly purgeLog: PurgeLog;
  readonly sessions: Sessions;
  readonly redisState: () => 'off' | 'up' | 'down';
  readonly redisMode: RedisMode;
  /** Why it is down, in one sentence without secrets; undefined where it is not, or where that is not known yet. */
  readonly redisWhy: () => string | undefined;
  /** What is not as the promises need it at Redis, in short sentences; none while it is down. */
  readonly redisConditions: () => readonly string[];
  readonly memoryUsage: () => { readonly entries: number; readonly bytes: number };
  readonly flightUsage: () => { readonly flights: number; readonly waiters: number };
  readonly epochAge: () => number | undefined;
  /** Scopes whose purge Redis has not confirmed yet. */
  readonly owed: () => readonly Scope[];
  /** Reads the certificates for Redis again. @throws where one cannot be read */
  renewCertificates(): void;
  close(): Promise<void>;
}

/**
 * @param bodies what counts the bodies of this process
 */
export async function createCache(
  settings: CacheSettings,
  limits: CacheLimits,
  parts: Parts,
  bodies: Bodies,
  engineClearing: EngineClearing,
): Promise<Cache> {
  const { clock, emit } = parts;
  const hasRedis = settings.redis.url.length > 0;
  const sealer = sealerOf(settings);
  const backend = await backendOf(settings, limits, parts, sealer);
  const maxEntry = () => limits().maxEntry;
  const epochs = createEpochs({
    store: backend.freshness,
    clock,
    lease: backend.lease,
    onError: (error) => emit({ type: 'redis-failed', operation: 'epochs', error }),
  });
  const memory = createMemoryTier({ maxBytes: settings.memory, clock, inUse: bodies.inUse });
  const flights = createFlights({ clock, deadline: () => limits().longestTimeout });
  const queryCache = createQueryCache({
    epochs,
    memory,
    flights,
    clock,
    emit,
    entries:
      backend.values &&
      createSharedEntries({
        values: backend.values,
        sealer,
        clock,
        maxEntry,
        account: bodies.account,
        emit,
      }),
    sharedFlights:
      backend.flightPlaces &&
      createSharedFlights({
        places: backend.flightPlaces,
        clock,
        sleep: parts.sleep,
        newToken: () => newToken(parts),
        longestWait: () => limits().longestTimeout,
        emit,
      }),
    random: parts.random,
    purgeTakes: backend.purgeTakes,
    maxEntry,
    ...bodies,
  });
  const sessions = createSessions({
    store: backend.freshness,
    clock,
    lease: backend.lease,
    sleep: parts.sleep,
    newToken: () => newToken(parts),
    onError: (error) => emit({ type: 'redis-failed', operation: 'sessions', error }),
  });
  const purgeLog = createPurgeLog(backend.purgeLines, (error) =>
    emit({ type: 'redis-failed', operation: 'purges', error }),
  );
  const sweep =
    backend.sweepStore &&
    createSweep({ store: backend.sweepStore, clock, sleep: parts.sleep, emit });
  /** Why Redis did not confirm the latest renewal. */
  let unrenewed: string | undefined;
  const purges = createPurges({
    epochs,
    clearMemory: memory.clear,
    engineClearing,
    log: purgeLog,
    clock,
    sleep: parts.sleep,
    newId: () => newToken(parts),
    emit(event) {
      if (event.type === 'redis-failed') unrenewed = backend.whyFailed(event.error);
      const isOwed = event.type === 'purged' && event.result === 'owed';
      emit(isOwed && unrenewed !== undefined ? { ...event, why: unrenewed } : event);
      if (event.type !== 'purged' || isOwed) return;
      unrenewed = undefined;
      sweep?.request();
    },
  });
  // While a purge is owed the epochs in Redis are not used, whatever its connections say.
  const redisState = () => (hasRedis && epochs.owed().length > 0 ? 'down' : backend.state());
  await backend.settled();
  return {
    queryCache,
    purges,
    purgeLog,
    sessions,
    redisState,
    redisWhy: () => backend.why() ?? (epochs.owed().length > 0 ? unrenewed : undefined),
    redisMode: hasRedis ? settings.redis.mode : 'none',
    redisConditions: () => (redisState() === 'down' ? [] : backend.conditions()),
    memoryUsage: memory.usage,
    flightUsage: flights.usage,
    epochAge: epochs.age,
    owed: epochs.owed,
    renewCertificates: () => backend.renewCertificates?.(),
    async close() {
      await sweep?.close();
      memory.clear();
      await epochs.close();
      await backend.close();
    },
  };
}

/** What speaks to Redis is loaded where there is one: without it a start is 60 ms shorter. */
async function backendOf(
  settings: CacheSettings,
  limits: CacheLimits,
  parts: Parts,
  sealer: Sealer,
): Promise<Backend> {
  if (settings.redis.url.length > 0) {
    const { inRedis } = await import('./redis-backend.ts');
    return inRedis(settings, limits, parts, sealer);
  }
  return parts.primary === undefined
    ? inProcess(settings, parts)
    : inPrimary(settings, limits, parts, parts.primary);
}
