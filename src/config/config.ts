/**
 * The configuration as the rest of the program sees it: parsed once, checked, frozen. The names are those of
 * the YAML file, so that an error message, the file and the code speak of the same thing.
 * Durations are milliseconds, sizes are bytes, paths are absolute.
 */

import type { EngineKind } from '../engine-kinds.ts';

/** A page that may be read without a login when it is listed in `listen.open`. */
export type OpenPage = 'metrics' | 'health' | 'docs';

/** Whose entries a user may be answered from. */
export type CacheShare = 'user' | 'roles' | 'everyone';

/** Whose header Cache-Control counts. */
export type ClientControl = 'nobody' | 'purgers' | 'everybody';

export interface ListenConfig {
  readonly host: string;
  /** 0 lets the system choose. */
  readonly port: number;
  readonly open: readonly OpenPage[];
  /** PEM files; both or none. With them the gateway speaks HTTPS only. */
  readonly certificate: string | undefined;
  readonly key: string | undefined;
  /** IP addresses and CIDR ranges of proxies whose X-Forwarded-For is believed. */
  readonly trusted_proxies: readonly string[];
  /** Whether repeated queries are answered before Express is asked. */
  readonly hot_path: boolean;
}

export interface AuthConfig {
  /** Where logins are checked: against the users file, or by trying them at the engine. */
  readonly provider: 'file' | 'engine';
  /** The password file, lines of `name:hash` as written by `htpasswd -B`. */
  readonly users: string;
  readonly admins: readonly string[];
  readonly purgers: readonly string[];
  /** For how long verified credentials are believed without hashing again. 0 switches that off. */
  readonly verified_for: number;
}

export interface EngineConfig {
  /** One for each replica; each may hold `{project}`, which the project of the request path replaces. */
  readonly url: readonly string[];
  readonly kind: EngineKind;
  readonly login: 'forward' | 'service' | 'none';
  /** Present exactly when `login` is `service`. */
  readonly service: { readonly name: string; readonly password: string } | undefined;
  /** Whether requests that ask for the rights of another identity go to the engine. */
  readonly delegation: 'forward' | 'refuse';
  /** Milliseconds after which the engine drops an idle session; undefined when it never does. */
  readonly session_idle: number | undefined;
  /** Whether clearCache calls that of the engine. */
  readonly clear: 'none' | 'kylin';
  /** To the first byte of the answer, and between two bytes of it. */
  readonly timeout: number;
  /** PEM file of the certificate authority that signed the engine's certificate. */
  readonly ca: string | undefined;
  /** PEM files of the client certificate shown to the engine; both or none. */
  readonly certificate: string | undefined;
  readonly key: string | undefined;
}

export interface RedisConfig {
  /** `redis://` or `rediss://`; none means that there is no Redis. */
  readonly url: readonly string[];
  /** What answers there. */
  readonly mode: 'standalone' | 'sentinel' | 'cluster';
  /** Present exactly when `mode` is `sentinel`: the name under which the sentinels watch the master. */
  readonly master: string | undefined;
  /** ACL user and password of the servers; undefined: those of the URL, if any (never with `sentinel`). */
  readonly username: string | undefined;
  readonly password: string | undefined;
  /** PEM files; without `ca` the authorities of Node.js are believed. Certificate and key: both or none. */
  readonly ca: string | undefined;
  readonly certificate: string | undefined;
  readonly key: string | undefined;
  /** First part of every key, so that deployments may share a Redis. */
  readonly namespace: string;
  /** Encrypts what lies there; undefined: it lies there as it is. */
  readonly encryption_key: string | undefined;
}

/**
 * The leases that a configuration may name (ms). A purge never takes less than the shortest; while nothing is
 * known of the other replicas it waits for the longest, which therefore is not long.
 */
export const LEASE_LIMITS = { shortest: 100, longest: 2_000 } as const;

export interface CacheConfig {
  readonly ttl: number;
  readonly memory: number;
  readonly max_entry: number;
  readonly share: CacheShare;
  readonly engine_permissions_ignored: boolean;
  readonly client_control: ClientControl;
  /** Whether REFRESH CUBE purges. */
  readonly purge_on_refresh_cube: boolean;
  readonly lease: number;
  /** Shared by all replicas; undefined: made once and kept in Redis, or in this process. */
  readonly key_secret: string | undefined;
  readonly purge: {
    /** Milliseconds after which a purge by clearCache is made once more; 0: never. */
    readonly repeat_after: number;
  };
  readonly redis: RedisConfig;
}

/** What holds for one project; every value is filled in, from `cache` and `engine` where the file is silent. */
export interface ProjectConfig {
  readonly cache: 'on' | 'off';
  readonly ttl: number;
  readonly share: CacheShare;
  /** By the name of the cube; a cube that is not here is cached as its project. */
  readonly cubes: ReadonlyMap<string, 'on' | 'off'>;
  readonly engine: EngineConfig;
}

/** Roles and datasets in a file of this machine. */
export interface SqliteConfig {
  readonly driver: 'sqlite';
  readonly path: string;
}

/** Roles and datasets in a PostgreSQL that replicas share. */
export interface PostgresConfig {
  readonly driver: 'postgres';
  /** `postgres://user:password@host:port/database`, without query. */
  readonly url: string;
  readonly tls: boolean;
  /** PEM files; without `ca` the authorities of Node.js are believed. Certificate and key: both or none. */
  readonly ca: string | undefined;
  readonly certificate: string | undefined;
  readonly key: string | undefined;
  /** The most connections of this process. */
  readonly connections: number;
  /** How long an operation may take, with the making of a connection. */
  readonly timeout: number;
}

/** Roles and datasets at another server that speaks the same interface. */
export interface RemoteConfig {
  readonly driver: 'http';
  /** `http(s)://host:port/base`; `/api/…` is added to it. */
  readonly url: string;
  readonly login: 'forward' | 'service';
  /** Present exactly when `login` is `service`. */
  readonly service: { readonly name: string; readonly password: string } | undefined;
  readonly ca: string | undefined;
  readonly certificate: string | undefined;
  readonly key: string | undefined;
  /** To the first byte of the answer, and between two bytes of it. */
  readonly timeout: number;
}

export type StorageConfig = SqliteConfig | PostgresConfig | RemoteConfig;

export interface LimitsConfig {
  /** Largest request body, after its content coding is removed. */
  readonly body: number;
  /** Largest dataset document. */
  readonly dataset: number;
  /** Requests at the engine at one time, of all users and of one. */
  readonly concurrency: number;
  readonly per_user: number;
  /** Bytes of the bodies of XMLA requests and answers under way, beside `cache.memory`. */
  readonly in_flight: number;
  /** Requests that may wait for a place. */
  readonly queue: number;
  /** New projects and catalogs that one user may name within an hour. */
  readonly names_per_user: number;
  /** Open connections. */
  readonly connections: number;
  /** Largest head of a request. */
  readonly head: number;
  /** For the head of a request, and for a TLS handshake. */
  readonly head_timeout: number;
}

export interface LogConfig {
  readonly level: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent';
}

export interface Config {
  readonly listen: ListenConfig;
  /** Processes that serve; 1: this one. */
  readonly workers: number;
  readonly auth: AuthConfig;
  readonly engine: EngineConfig;
  readonly cache: CacheConfig;
  /** By the name of the project as it is written. */
  readonly projects: ReadonlyMap<string, ProjectConfig>;
  readonly storage: StorageConfig;
  readonly limits: LimitsConfig;
  readonly log: LogConfig;
}
