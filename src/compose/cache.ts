import { createQueryCache } from '../cache/cache.ts';
import { createFlights } from '../cache/flights.ts';
import { createMemoryTier } from '../cache/memory-tier.ts';
import type { KnownNames } from '../cache/projects.ts';
import { createPurgeLog } from '../cache/purge/purge-log.ts';
import { createPurges, type EngineClearing } from '../cache/purge/purge.ts';
import type { BodyAccount } from '../common/body-account.ts';
import { pause } from '../common/clock.ts';
import type { GatewayEvent } from '../common/events.ts';
import type { Config } from '../config/config.ts';
import { LEASE_LIMITS } from '../common/leases.ts';
import { createMemoryFleet } from '../freshness/fleet.ts';
import type { FreshnessStore } from '../freshness/freshness-store.ts';
import { createEpochs } from '../freshness/freshness.ts';
import { createMemoryStore } from '../freshness/memory-store.ts';
import { createSessions } from '../sessions/sessions.ts';
import { createUnnoted, noteIn } from '../freshness/unnoted.ts';
import { createWorkerStores, unnotedAtPrimary } from '../workers/shared.ts';
import { createIds, type Parts } from './parts.ts';
import type { CacheGround, inRedis } from './redis-backend.ts';

/** Pause before a reread where no other gateway changes what was read; below `SESSION_LIFE`. */
const REREAD_MS = 3_600_000;

/** Limits that a reload may change while the cache lives; its entries stay. */
function limitsOf({ cache, engine, projects, limits }: Config) {
  const all = [...projects.values()];
  const timeout = Math.max(engine.timeout, ...all.map((project) => project.engine.timeout));
  const staleIfError = Math.max(...[cache, ...all].map((one) => one.stale_if_error));
  return {
    maxEntry: cache.max_entry,
    lease: cache.lease,
    // The token of a project that no request asked for in the time of two entries.
    unusedAfter: 2 * Math.max(...[cache, ...all].map(({ ttl }) => ttl + staleIfError)),
    staleIfError,
    longestFlight: (limits.wait ?? timeout) + timeout,
  };
}

export type Backend = Partial<InRedis> &
  Pick<InRedis, 'fleet'> & { readonly freshness: FreshnessStore };
type InRedis = Omit<Awaited<ReturnType<typeof inRedis>>, 'freshness'>;

export type Cache = Awaited<ReturnType<typeof createCache>>;

/** Builds the query cache and its stores. It outlives every reload. */
export async function createCache(
  config: Config,
  parts: Parts,
  account: BodyAccount,
  engineClearing: EngineClearing,
  names: Pick<KnownNames, 'find'>,
  open = openBackend,
) {
  const { emit } = parts;
  const { redis, key_secret: keySecret } = config.cache;
  let inForce = limitsOf(config);
  const limit = (name: keyof typeof inForce) => () => inForce[name];
  const ground: CacheGround = {
    ...parts,
    account,
    newToken: createIds(parts),
    maxEntry: limit('maxEntry'),
    lease: limit('lease'),
    unusedAfter: limit('unusedAfter'),
    longestFlight: limit('longestFlight'),
    staleIfError: limit('staleIfError'),
  };
  const failed = (operation: 'epochs' | 'sessions' | 'purges') => (error: unknown) =>
    emit({ type: 'redis-failed', operation, error });
  const backend = await open(redis, ground);
  const { entries, sharedFlights } = backend;
  const isAlone = redis.url.length === 0 && parts.primary === undefined;
  // Purges may come through a gateway, or a worker before its reload, with a shorter lease.
  const purgeTakes = isAlone ? 0 : LEASE_LIMITS.shortest;
  const lease = isAlone ? () => REREAD_MS : ground.lease;
  const common = { ...ground, store: backend.freshness, lease };
  const epochs = createEpochs({ ...common, keySecret, onError: failed('epochs') });
  const sleep = (milliseconds: number) => pause(parts.clock, milliseconds);
  const note = noteIn(common, sleep);
  // With Redis each worker has its own connection to what they share.
  const unnoted =
    parts.primary !== undefined && redis.url.length > 0
      ? unnotedAtPrimary(parts.primary, { note, last: (name) => sessions.last(name) })
      : createUnnoted(note, sleep);
  const sessions = createSessions({ ...common, unnoted, onError: failed('sessions') });
  const memory = createMemoryTier({ ...ground, maxBytes: config.cache.memory });
  const flights = createFlights({ ...ground, deadline: ground.longestFlight });
  const stores = { epochs, memory, flights, entries, sharedFlights };
  const queryCache = createQueryCache({ ...ground, ...stores, purgeTakes });
  const purgeLog = createPurgeLog(backend.purgeLines, failed('purges'));
  const redisFacts = createRedisFacts(backend, epochs, redis.mode);
  const purges = createPurges({
    ...parts,
    epochs,
    isKnown: (project) => names.find(project) !== undefined,
    clearMemory: memory.clear,
    engineClearing,
    log: purgeLog,
    newId: ground.newToken,
    emit(event) {
      emit(redisFacts.explained(event));
      if (event.type === 'purged' && event.result !== 'owed') backend.sweep?.request();
    },
  });
  return {
    queryCache,
    purges,
    purgeLog,
    sessions,
    memory,
    flights,
    reports: backend.reports,
    fleet: backend.fleet,
    /** Milliseconds; 0 for a gateway that is alone: it makes its epochs itself. */
    epochAge: isAlone ? () => 0 : epochs.age,
    owed: epochs.owed,
    redis: redisFacts.tell,
    /** Reads the certificates for Redis again. @throws where one cannot be read */
    renewCertificates: () => backend.renewCertificates?.(),
    configure: (next: Config) => void (inForce = limitsOf(next)),
    async close() {
      const owed = epochs.owed().join(', ');
      if (owed !== '') {
        emit({ type: 'warning', message: `purges that Redis did not confirm are lost: ${owed}` });
      }
      memory.clear();
      epochs.close();
      const lost = unnoted.close();
      if (lost !== undefined) emit({ type: 'warning', message: lost });
      await backend.close?.();
    },
  };
}

/** Tells how Redis is, and why it did not confirm the latest renewal of tokens. */
function createRedisFacts(
  backend: Backend,
  epochs: { readonly owed: () => readonly string[] },
  mode: Config['cache']['redis']['mode'],
) {
  let unrenewed: string | undefined;
  const hasRedis = backend.state !== undefined;

  return {
    explained(event: GatewayEvent): GatewayEvent {
      if (event.type === 'redis-failed') {
        unrenewed = backend.whyFailed?.(event.error) ?? String(event.error);
      }
      if (event.type !== 'purged') return event;
      if (event.result !== 'owed') unrenewed = undefined;
      return unrenewed === undefined ? event : { ...event, why: unrenewed };
    },
    tell() {
      const owed = epochs.owed().length;
      // While a purge is owed the epochs in Redis are not used, whatever its connections say.
      const state: 'up' | 'down' | 'off' =
        hasRedis && owed > 0 ? 'down' : (backend.state?.() ?? 'off');
      return {
        state,
        /** One sentence without secrets; undefined where it is not down, or not known yet. */
        why: backend.why?.() ?? (owed > 0 ? unrenewed : undefined),
        mode: hasRedis ? mode : 'none',
        purges_owed: owed,
        /** Settings of Redis that endanger purges, one sentence each. */
        conditions: state === 'down' ? [] : (backend.conditions?.() ?? []),
      };
    },
  };
}

async function openBackend(redis: Config['cache']['redis'], ground: CacheGround): Promise<Backend> {
  // What speaks to Redis is loaded where there is one: without it a start is 60 ms shorter.
  if (redis.url.length > 0) return (await import('./redis-backend.ts')).inRedis(redis, ground);
  const { primary: link, clock, newToken, lease } = ground;
  if (link === undefined) {
    const freshness = createMemoryStore({ newToken, clock });
    return { freshness, fleet: createMemoryFleet(clock)('') };
  }
  // The primary process keeps what Redis would keep, without entries.
  const longestLease = LEASE_LIMITS.longest;
  return {
    ...createWorkerStores({ link, gateway: newToken(), lease, longestLease }),
    whyFailed: () => 'the primary process did not confirm it in time',
  };
}
