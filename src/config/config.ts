/**
 * The configuration as the rest of the program sees it: read once and checked. The names are those of the YAML
 * file, so that an error message, the file and the code speak of the same thing; schema.ts says what each means.
 * Durations are milliseconds, sizes are bytes, paths are absolute; what is null in the file is undefined.
 */

import type { schema } from './schema.ts';
import type { ValueOf } from './setting.ts';

/**
 * The leases that a configuration may name (ms). A purge never takes less than the shortest; while nothing is
 * known of the other replicas it waits for the longest, which therefore is not long.
 */
export const LEASE_LIMITS = { shortest: 100, longest: 2_000 } as const;

/** The file after it was read and checked key by key, before anything is inherited. */
export type CheckedFile = ValueOf<typeof schema>;
export type CheckedProject = NonNullable<ReturnType<CheckedFile['projects']['get']>>;

/** With values where the file may be silent. */
type Filled<T, K extends keyof T> = Omit<T, K> & { readonly [N in K]-?: NonNullable<T[N]> };

export type ListenConfig = CheckedFile['listen'];
/** A page that may be read without a login when it is listed in `listen.open`. */
export type OpenPage = ListenConfig['open'][number];

/** `session_idle` is undefined when the engine never drops a session. */
export type EngineConfig = Filled<CheckedFile['engine'], 'delegation'>;

export type CacheConfig = CheckedFile['cache'];
export type RedisConfig = CacheConfig['redis'];
/** Whose entries a user may be answered from. */
export type CacheShare = CacheConfig['share'];

/** What holds for one project; every value is filled in, from `cache` and `engine` where the file is silent. */
export type ProjectConfig = Filled<Omit<CheckedProject, 'engine'>, 'ttl' | 'share'> & {
  readonly engine: EngineConfig;
};

type CheckedStorage = Filled<CheckedFile['storage'], 'timeout'>;
type TlsKey = 'ca' | 'certificate' | 'key';

/** Roles and datasets in a file of this machine. */
export type SqliteConfig = { readonly driver: 'sqlite' } & Pick<CheckedStorage, 'path'>;
/** Roles and datasets in a PostgreSQL that replicas share. */
export type PostgresConfig = { readonly driver: 'postgres' } & Pick<
  CheckedStorage,
  'url' | 'tls' | TlsKey | 'connections' | 'timeout'
>;
/** Roles and datasets at another server that speaks the same interface. */
export type RemoteConfig = { readonly driver: 'http' } & Pick<
  CheckedStorage,
  'url' | 'login' | 'service' | TlsKey | 'timeout'
>;
export type StorageConfig = SqliteConfig | PostgresConfig | RemoteConfig;

export type LimitsConfig = Filled<CheckedFile['limits'], 'connections'>;
export type LogConfig = CheckedFile['log'];

export type Config = Omit<CheckedFile, 'engine' | 'projects' | 'storage' | 'limits'> & {
  readonly engine: EngineConfig;
  /** By the name of the project as it is written. */
  readonly projects: ReadonlyMap<string, ProjectConfig>;
  readonly storage: StorageConfig;
  readonly limits: LimitsConfig;
  /** Keys of former versions that stand in the file and have no effect. */
  readonly withdrawn: readonly string[];
};
