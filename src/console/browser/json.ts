/** What /admin tells (docs/openapi.yaml). */
import type { Rights } from '../pages.ts';
import type { QueryCache } from '../../cache/cache.ts';
import type { PurgeRecord } from '../../cache/purge/purge-log.ts';
import type { ReplicaState, Stale } from '../../common/events.ts';
import type { SharedStatistics } from '../../statistics/shared-statistics.ts';

export type Statistics = Awaited<ReturnType<SharedStatistics['statistics']>>;
export type Digest = Statistics['digests'][number];
export type Requests = Awaited<ReturnType<SharedStatistics['requests']>>;
export type Recent = Requests['requests'][number];
export type Entries = Awaited<ReturnType<SharedStatistics['entries']>>;
export type Purge = Omit<PurgeRecord, 'at'> & { readonly at: string };
export interface Purges {
  readonly complete: boolean;
  readonly purges: readonly Purge[];
}

export type { Rights };

export interface Status {
  readonly at: string;
  readonly version: string;
  readonly gateway: string;
  readonly process: number;
  readonly processes: number;
  readonly complete: boolean;
  readonly user: string;
  readonly rights: Rights;
  readonly engines: { readonly up: number; readonly of: number };
  readonly redis: 'up' | 'down' | 'off';
  readonly purges_pending: number;
  readonly lease_age_ms: number | null;
  readonly queue: { readonly waiting: number; readonly limit: number };
  readonly memory: Readonly<Record<'entries' | 'bytes' | 'limit_bytes', number>>;
}

type Sums = Readonly<Record<'hits' | 'misses' | 'bypasses' | 'by_gateway', number>>;
type Times = Readonly<Record<'engine_ms' | 'saved_ms', number>>;
export type Quantiles = Readonly<Record<'p50' | 'p95', number>>;
export interface Finding {
  readonly kind: string;
  readonly severity: 'problem' | 'warning' | 'note';
  readonly text: string;
  readonly cause: string;
  readonly remedy: string;
}
export type Minute = Sums & Times & { readonly at: string };
export interface Overview {
  readonly at: string;
  readonly gateways: number;
  readonly complete: boolean;
  readonly findings: readonly Finding[];
  readonly hour: Sums &
    Times & {
      readonly hit_ratio: number | null;
      readonly saved_ratio: number | null;
      readonly hit_ms: Quantiles | null;
      readonly miss_ms: Quantiles | null;
    };
  readonly minutes: readonly Minute[];
  readonly purges: readonly { readonly at: string; readonly scope: Stale }[];
  readonly reasons: readonly { outcome: string; reason: string; count: number }[];
  readonly totals: Statistics['totals'];
  readonly projects: readonly ProjectFigures[];
}
export type ProjectFigures = Times & {
  readonly project: string;
  readonly asks: number;
  readonly hits: number;
  readonly misses: number;
  readonly hit_ratio: number | null;
  readonly entries: number;
  readonly last_asked: string;
  readonly last_purge: Pick<Purge, 'at' | 'principal' | 'scope' | 'result' | 'cause'> | null;
};

export interface System {
  readonly at: string;
  readonly version: string;
  readonly node: string;
  readonly platform: string;
  readonly started_at: string;
  readonly gateway: string;
  readonly processes: readonly (Readonly<
    Record<
      | 'pid'
      | 'rss_bytes'
      | 'entries'
      | 'memory_bytes'
      | 'connections'
      | 'connections_limit'
      | 'at_engine'
      | 'waiting',
      number
    >
  > & { readonly started_at: string })[];
  readonly complete: boolean;
  readonly engines: readonly ReplicaState[];
  readonly redis: {
    readonly state: string;
    readonly why?: string;
    readonly mode: string;
    readonly purges_owed: number;
    readonly conditions: readonly string[];
  };
  readonly storage: { readonly driver: string; readonly state: string };
  readonly configuration: string;
  readonly waiting_for_restart: readonly string[];
  readonly metrics: readonly Readonly<Record<'name' | 'type' | 'help', string>>[];
}

export interface Reasons {
  readonly reasons: readonly {
    readonly word: string;
    readonly outcome: 'bypass' | 'miss' | 'hit' | 'gateway';
    readonly meaning: string;
    readonly remedy?: string;
  }[];
}

/** Of POST /admin/explain. */
export interface Explanation {
  readonly project?: string;
  readonly user: string;
  readonly classification: {
    readonly decision: 'cacheable' | 'bypass' | 'refused';
    readonly reason?: string;
    readonly why?: string;
    readonly method?: string;
    readonly subject?: string;
    readonly catalogs?: readonly string[];
    readonly share?: string;
    readonly ttl_ms?: number;
  };
  readonly cache?: CacheExplanation;
}
type CacheExplanation = Awaited<ReturnType<QueryCache['explain']>>;

/** Of POST /admin/compare. */
export interface Comparison {
  readonly verdict: string;
  readonly why?: string;
  readonly entry: {
    readonly source: string;
    readonly age_ms: number;
    readonly bytes: number;
  } | null;
  readonly engine: readonly { readonly ms: number; readonly bytes: number }[];
}
