import type { Config } from '../config/config.ts';
import type { FreshnessStore } from '../freshness/freshness-store.ts';
import { aloneStore, createMemoryStore } from '../freshness/memory-store.ts';
import type { PurgeLines } from '../cache/purge/purge-log.ts';
import type { FlightPlaces } from '../cache/shared-flights.ts';
import type { SweepStore } from '../cache/purge/sweep.ts';
import type { ValueTier } from '../cache/shared-entries.ts';
import { createSealer, NO_SEALER, type Sealer } from '../common/sealing.ts';
import { newToken, type Parts } from './parts.ts';

/** The part of the configuration that a cache is built from, and that only a restart changes. */
export type CacheSettings = Pick<Config['cache'], 'memory' | 'key_secret' | 'redis'>;

/** The part that may change while the cache lives; its entries stay. */
export function cacheLimits({ cache, engine, projects }: Config) {
  const all = [...projects.values()];
  return {
    maxEntry: cache.max_entry,
    lease: cache.lease,
    longestTtl: Math.max(cache.ttl, ...all.map(({ ttl }) => ttl)),
    longestTimeout: Math.max(engine.timeout, ...all.map((project) => project.engine.timeout)),
  };
}

/** Those in force now. */
export type CacheLimits = () => ReturnType<typeof cacheLimits>;

/** What differs between a gateway that is alone, a worker, and one that shares a Redis with others. */
export interface Backend {
  readonly freshness: FreshnessStore;
  readonly values: ValueTier | undefined;
  readonly sweepStore: SweepStore | undefined;
  readonly purgeLines: PurgeLines | undefined;
  readonly flightPlaces: FlightPlaces | undefined;
  /** For which tokens and sessions are used that are read now (ms). */
  readonly lease: () => number;
  /** No purge is acknowledged in less (ms). */
  readonly purgeTakes: number;
  /** Reads the certificates of its connections again. @throws where one cannot be read */
  readonly renewCertificates?: () => void;
  readonly state: () => 'off' | 'up' | 'down';
  /** Why Redis cannot be used now; undefined where it can. */
  readonly why: () => string | undefined;
  /** Why something failed that was asked of Redis. */
  readonly whyFailed: (error: unknown) => string;
  readonly conditions: () => readonly string[];
  readonly settled: () => Promise<void>;
  readonly close: () => Promise<void>;
}

/**
 * Where no other gateway can change what was read, it is read again so often (ms), since the store drops sessions that
 * are not asked for: far below `SESSION_LIFE`.
 */
const REREAD = 3_600_000;

/** What a gateway without Redis has not. */
export const ALONE = {
  values: undefined,
  sweepStore: undefined,
  purgeLines: undefined,
  flightPlaces: undefined,
  lease: () => REREAD,
  purgeTakes: 0,
  state: () => 'off',
  why: () => undefined,
  whyFailed: String,
  conditions: () => [],
  settled: async () => {},
  close: async () => {},
} satisfies Omit<Backend, 'freshness'>;

/** Of a gateway that is alone. */
export function inProcess(settings: CacheSettings, parts: Parts): Backend {
  const memory = createMemoryStore({
    newToken: () => newToken(parts),
    keySecret: settings.key_secret ?? newToken(parts),
    clock: parts.clock,
  });
  return { ...ALONE, freshness: aloneStore(memory) };
}

export function sealerOf({ redis }: CacheSettings): Sealer {
  return redis.encryption_key === undefined ? NO_SEALER : createSealer(redis.encryption_key);
}
