/**
 * Every key: its kind, its default as an operator would write it, when a change counts, and its meaning in the comment
 * before it, from which the reference is made. Durations are in ms, sizes in bytes, paths absolute; null is undefined.
 */
import { ENGINE_KIND_NAMES, ENGINE_KINDS } from '../common/engine-kinds.ts';
import { fitMemory, type Memory } from './fit-memory.ts';
import * as kinds from './kinds.ts';
import {
  byName,
  inherited,
  key,
  list,
  optional,
  orNull,
  REQUIRED,
  section,
  someOf,
  type ValueOf,
} from './setting.ts';

/** The leases that may be named (ms). While nothing is known of other replicas, a purge waits for the longest. */
export const LEASE_LIMITS = { shortest: 100, longest: 2_000 } as const;

const cors = section({
  /** The origins whose pages may ask, exactly as browsers send them. docs/SECURITY.md says what it
   * means to list one. */
  origins: list(kinds.origin, []),
  /** For how long a browser may remember that it may send requests. 0: it asks before each one. */
  max_age: key(kinds.duration('1s', '1d', 'off'), '2h'),
});

const listen = section(
  {
    /** The address on which the gateway listens. */
    host: key(kinds.listenHost, '127.0.0.1', 'restart'),
    /** The port on which the gateway listens. 0 lets the system choose. */
    port: key(kinds.integer(0, 65_535), 7080, 'restart'),
    /** Pages that may be read without a login. /health/live and /health/serving are always open and
     * say only up or down. */
    open: list(kinds.choice('metrics', 'health', 'docs'), []),
    /** A PEM file with the certificate of the gateway and its chain. Certificate and key stand
     * together; with them the gateway speaks HTTPS only. */
    certificate: orNull(kinds.filePath, 'https'),
    /** A PEM file with the private key of that certificate, without a passphrase. */
    key: orNull(kinds.filePath, 'https'),
    /** Proxies in front of the gateway whose X-Forwarded-For is believed. What limits.connections
     * says of one client address does not hold for them. */
    trusted_proxies: list(kinds.addressRange, []),
    /** Pages of other origins in the browsers of users, which may ask over XMLA (CORS). */
    cors,
  },
  ['hot_path'],
);

const auth = section({
  /** Where logins are checked: file compares with the users file; engine tries them at the engine,
   * which must be asked with the login of the client (engine.login: forward). */
  provider: key(kinds.choice('file', 'engine'), 'file'),
  /** The password file: lines of name:hash as written by htpasswd -B or mdx-gateway hash-password.
   * It is read again when it changes. */
  users: key(kinds.filePath, './users.htpasswd'),
  /** Users who may do everything. */
  admins: list(kinds.userName, ['ADMIN']),
  /** Users who may see what the gateway does and how it is configured: all that is told by GET below
   * /admin. No statements and no secrets, and neither /admin/explain nor /admin/compare. */
  viewers: list(kinds.userName, []),
  /** Users who may clear the cache. */
  purgers: list(kinds.userName, []),
  /** For how long a login that was right counts without another check. With provider: file since its
   * last use; null: until its line of the users file changes. With provider: engine since its check,
   * at most 1h; null: 60s. 0: each request is checked. */
  verified_for: orNull(kinds.duration('1s', '30d', 'off')),
  /** With provider: engine, for how long since its last right check a login still gets hits from
   * the cache, and nothing else, while it is checked again behind them. 0, here or in verified_for:
   * not at all. It has no effect with provider: file. */
  believed_for: key(kinds.duration('1s', '1h', 'off'), '10m'),
});

const tlsFiles = {
  /** A PEM file with the certificates of the authorities that may have signed the certificate of
   * the server. null trusts those of Node.js. */
  ca: orNull(kinds.filePath),
  /** A PEM file with a client certificate for the server. Certificate and key stand together. */
  certificate: orNull(kinds.filePath),
  /** A PEM file with the private key of the client certificate, without a passphrase. */
  key: orNull(kinds.filePath),
};

const service = optional(
  section({
    /** The user name of the service account. */
    name: key(kinds.loginName, REQUIRED),
    /** Its password. Take it from a file, ${file:/run/secrets/service_password}, or from the environment, ${SERVICE_PASSWORD}. */
    password: key(kinds.secretText(1), REQUIRED),
  }),
);

const engine = section({
  /** The XMLA endpoint of the engine, or a list of those of its replicas; a session stays with its
   * replica. {project} is replaced by the project of the request path. */
  url: key(kinds.engineUrls, 'http://127.0.0.1:8080/xmla'),
  /** Which engine it is; docs/SESSIONS.md shows what that changes. generic fits all others. */
  kind: key(kinds.choice(...ENGINE_KIND_NAMES), 'generic'),
  /** The login that the engine gets: of the client (forward), of a service account, or none. */
  login: key(kinds.choice('forward', 'service', 'none'), 'none'),
  /** The service account. It stands here exactly when the login of this section is service. */
  service,
  /** What becomes of requests that ask for the rights of another identity (EffectiveUserName, Roles,
   * CustomData, WS-Security …): forward sends them to the engine past the cache, refuse answers
   * with a Fault. null: refuse with login: service, whose rights all could borrow, else forward. */
  delegation: orNull(kinds.choice('forward', 'refuse')),
  /** Headers of clients by which the engine answers, such as Accept-Language or X-Tenant: they are
   * forwarded under exactly these names, and each value has entries of its own. A header that is not
   * usual and stands in no such list is forwarded nowhere. */
  headers: list(kinds.headerName, []),
  /** After how long without a request the engine drops a session. After a quarter of it, an answer
   * from the cache touches the session there. null: as usual for the kind of engine; 0: never. */
  session_idle: orNull(kinds.duration('1s', '30d', 'off')),
  /** Whether clearCache also clears the cache of the engine: kylin calls its clearCache at every
   * replica first; engine.url then ends in /mdx/xmla or /mdx/xmla/{project}. */
  clear: key(kinds.choice('none', 'kylin'), 'none'),
  /** How long the engine may take to the first byte of its answer, and between two bytes of it. */
  timeout: key(kinds.duration('1s', '1h'), '300s'),
  ...tlsFiles,
});

const redis = section({
  /** The Redis that all replicas share: the address of the server (standalone), of nodes (cluster),
   * or of the sentinels (sentinel). rediss:// encrypts. Empty: no Redis, memory only. */
  url: key(kinds.redisUrls, ''),
  /** What answers at that address. docs/PURGE.md says what each of them must be set to. */
  mode: key(kinds.choice('standalone', 'sentinel', 'cluster'), 'standalone'),
  /** With mode: sentinel, the name under which the sentinels watch the master. */
  master: orNull(kinds.redisName(255)),
  /** The ACL user, instead of one in the URL. The URLs of sentinels hold that of the sentinels. */
  username: orNull(kinds.loginName),
  /** Its password. Take it from a file, ${file:/run/secrets/redis_password}, or from the environment, ${REDIS_PASSWORD}. */
  password: orNull(kinds.secretText(1)),
  ...tlsFiles,
  /** The first part of every key in Redis, so that several deployments may share one. */
  namespace: key(kinds.redisName(64), 'mdx'),
  /** A secret under which answers, sessions and the purge log are encrypted in Redis (AES-256-GCM),
   * the same for all replicas. null: they lie there as they are. */
  encryption_key: orNull(kinds.secretText(32)),
});
const { shortest, longest } = LEASE_LIMITS;
const lease = kinds.duration(kinds.durations.format(shortest), kinds.durations.format(longest));
const purge = section({
  /** After how long a purge by clearCache or a hook is made once more, for loads that show their data
   * bit by bit; engines with login: forward are not called then. 0 switches that off. */
  repeat_after: key(kinds.duration('1s', '1d', 'off'), '0'),
});

const cache = section({
  /** For how long an answer may be repeated, unless a purge comes first (cache resident time). */
  ttl: key(kinds.duration('1s', '30d'), '12h'),
  /** How much memory the entries may take. null: 256MiB, or less where the memory limit of the container
   * is less than docs/DEPLOY.md says for that. */
  memory: orNull(kinds.size('1MiB', '1024GiB'), 'restart'),
  /** The largest answer that is stored, in bytes of its text: above 256 KiB it takes less memory than that, as
   * it lies there compressed. Not larger than memory. null: 64MiB, or memory where that is less; with
   * workers, the part of one. */
  max_entry: orNull(kinds.size('1KiB', '512MiB')),
  /** Who is answered from an entry: only the user whose query made it (user), all users with the
   * same roles (roles; a user without roles as with user), or everybody (everyone). roles and
   * everyone are your statement that answers depend on nothing else of the user. */
  share: key(kinds.choice('user', 'roles', 'everyone'), 'user'),
  /** Must be true where share is roles or everyone and the login is forwarded: then users see
   * answers that the engine might have refused them. */
  engine_permissions_ignored: key(kinds.flag, false),
  /** Whose request header Cache-Control counts: no-cache asks the engine and stores its answer,
   * no-store asks it and stores nothing. purgers are the users of auth.admins and auth.purgers. */
  client_control: key(kinds.choice('nobody', 'purgers', 'everybody'), 'purgers'),
  /** Whether a statement REFRESH CUBE (Excel: Refresh All) of a user who may purge clears the cache
   * of its project, or of everything where it names none. With false, as for users who may not
   * purge, the engine answers the session from then on. */
  purge_on_refresh_cube: key(kinds.flag, false),
  /** Functions that statements may call although nothing is known of them, such as user-defined ones: your
   * statement that they read neither clock, user nor server. A function of an assembly stands here with it
   * (Assembly.Fn). */
  functions: list(kinds.functionName, []),
  /** Names that make a statement pass the cache wherever they stand in it, in brackets too: of functions
   * that look like properties, or of what you know to change. They win over functions. */
  volatile: list(kinds.mdxName, []),
  /** For how long a replica may go on without asking Redis whether something was purged, and with
   * share: roles the storage whether a role was changed. A purge, a change of a role, or a
   * statement that changes a session which several gateways serve, waits that long. */
  lease: key(lease, '1s'),
  /** The secret from which cache keys are made, the same for all replicas. null: made once and kept
   * in Redis, or in this process. */
  key_secret: orNull(kinds.secretText(32), 'restart'),
  /** What clearCache does beside its purge. */
  purge,
  /** The tier that several gateways share. */
  redis: { ...redis, reload: 'restart' },
});
const onOrOff = kinds.choice('on', 'off');

const watch = section({
  /** What is asked: the engine of the project for the dates of its cubes (xmla), MDX for Kylin's
   * server for its segments (kylin), a PostgreSQL (postgres), an HTTP server (url), or the file
   * system (file). docs/FRESHNESS.md says what each of them sees. */
  kind: key(kinds.choice('xmla', 'kylin', 'postgres', 'url', 'file'), REQUIRED),
  /** How often. */
  every: key(kinds.duration('1s', '1d'), '60s'),
  /** With changes that come quickly one after another, at most one purge in this time; the last
   * change is never lost. 0: each is purged at once. */
  min_interval: key(kinds.duration('1s', '1d', 'off'), '0'),
  /** What becomes of the requests of the project when three questions in a row had no answer: they
   * are answered as always (keep), or pass the cache (bypass) until one has an answer again. */
  when_blind: key(kinds.choice('keep', 'bypass'), 'keep'),
  /** With kylin: what stands before /api/models, such as http://kylin.example:7070/kylin. With
   * postgres: postgres://user:password@host:5432/database. With url: the address. */
  url: orNull(kinds.watchUrl),
  /** With kylin: the name of the project there. */
  project: orNull(kinds.projectName),
  /** With postgres: one statement that reads, and whose rows differ after a load. */
  query: orNull(kinds.statement),
  /** With file: its path. */
  path: orNull(kinds.filePath),
  /** With xmla, kylin and url: a login of the watcher's own. Without it xmla takes engine.service,
   * and the others have none. */
  user: orNull(kinds.loginName),
  /** Its password. Take it from a file, ${file:/run/secrets/watch_password}, or from the environment, ${WATCH_PASSWORD}. */
  password: orNull(kinds.secretText(1)),
  /** With postgres: whether the connection is encrypted, and the certificate of the server checked. */
  tls: key(kinds.flag, false),
  ...tlsFiles,
});

const project = section({
  /** on caches as elsewhere; off passes every request of this project to the engine. */
  cache: key(onOrOff, 'on'),
  /** For how long an answer of this project may be repeated, instead of cache.ttl. */
  ttl: inherited(cache.keys.ttl),
  /** Who is answered from an entry of this project, instead of cache.share. */
  share: inherited(cache.keys.share),
  /** As in cache.functions, beside those that stand there. What may hold data of several projects may call
   * what all of them allow. */
  functions: list(kinds.functionName, []),
  /** Cubes that differ, by name: off passes every request to the engine whose answer may hold data
   * of it. Needed where a measure of the server hides what changes by time or user. */
  cubes: byName(kinds.cubeName, key(onOrOff, REQUIRED)),
  /** Finds out by itself whether the data behind the project changed, and purges it. */
  watch: optional(watch),
  /** The engine of this project, with the same keys as the section engine. What is left out is
   * taken from there; null takes nothing from there. */
  engine: inherited(someOf(engine)),
});

const hook = section({
  /** Who calls, and how its messages are written: Kylin 5 about a finished job, or dbt Cloud about a
   * run. Others call clearCache. */
  format: key(kinds.choice('kylin5', 'dbt'), REQUIRED),
  /** With kylin5: the user with whose login it calls. It needs no right beside that. */
  user: orNull(kinds.userName),
  /** With dbt: the secret by which it signs. Take it from a file, ${file:/run/secrets/dbt_secret}, or from the environment, ${DBT_SECRET}. */
  secret: orNull(kinds.secretText(16)),
  /** What it may purge. With kylin5 the projects that messages may name, by their names there where
   * these differ; with dbt those that each message purges. */
  projects: key(kinds.projectNames, REQUIRED),
});

const storage = section({
  /** Where roles and datasets are: in a file of this machine (sqlite), in a PostgreSQL that
   * replicas share (postgres), or at another server that speaks the same interface (http). */
  driver: key(kinds.choice('sqlite', 'postgres', 'http'), 'sqlite'),
  /** With sqlite: the file. Its folder is made when it is not there. */
  path: key(kinds.filePath, './data/gateway.sqlite'),
  /** With postgres: postgres://user:password@host:5432/database. With http: what stands before /api/…. */
  url: key(kinds.storageUrl, ''),
  /** With http: the login that the server gets, of the client (forward) or a service account. */
  login: key(kinds.choice('forward', 'service'), 'forward'),
  /** The service account. It stands here exactly when the login of this section is service. */
  service,
  /** With postgres: whether the connection is encrypted, and the certificate of the server checked. */
  tls: key(kinds.flag, false),
  ...tlsFiles,
  /** With postgres: the most connections of this process. */
  connections: key(kinds.integer(1, 100), 10),
  /** With postgres: how long an operation may take (null: 1500ms). With http: how long the server
   * may take to the first byte of its answer, and between two bytes of it (null: 60s). */
  timeout: orNull(kinds.duration('100ms', '1h')),
});

const limits = section({
  /** The largest request body, after its content coding is removed. */
  body: key(kinds.size('1KiB', '256MiB'), '10MiB'),
  /** The largest dataset document, after its content coding is removed. At most eight are received
   * and eight are sent at one time, four of these up to five times over in memory: datasets may take
   * 32 times as much as this. One user gets at most two of these places. */
  dataset: key(kinds.size('1KiB', '256MiB'), '32MiB'),
  /** How many requests may be at the engine at one time. */
  concurrency: key(kinds.integer(1, 10_000), 64),
  /** How many of them may be of one user; with workers, at each of them. */
  per_user: key(kinds.integer(1, 10_000), 16),
  /** How much memory the bodies of XMLA requests and answers under way may take, beside
   * cache.memory. When it is used up, answers are passed on without being stored, and requests
   * wait, for limits.wait at most, then are refused. One user gets at most three quarters of it;
   * a sixteenth is kept for requests of up to 64 KiB. Not smaller than limits.body. null: 128MiB, or
   * less as with cache.memory. */
  in_flight: orNull(kinds.size('16MiB', '64GiB')),
  /** How many more requests may wait for the engine, and how many for memory (in_flight). Further
   * ones are refused. One user gets at most three quarters of it. */
  queue: key(kinds.integer(0, 100_000), 256),
  /** How long a request may wait in all until it is at the engine: for memory, for a place there, and for
   * another gateway that asks the same. Then it is refused. For what another request of this
   * gateway asks it waits until the engine has been silent for engine.timeout, as that does; both
   * together are the longest time until an answer begins. null: as long as engine.timeout. */
  wait: orNull(kinds.duration('1s', '1h')),
  /** How many new projects and catalogs one user may name in an hour, at each process; what names
   * more passes the cache. Configured names, and those answered without a Fault, do not count. */
  names_per_user: key(kinds.integer(1, 1_000_000), 1_000),
  /** How many connections may be open. Set it above the number of clients: a client loses a request
   * that it sends just when its connection is closed. At the limit idle ones are closed for new
   * ones: first of the client address that has most of them, the longest unused first. When all are busy,
   * one whose client has for a second not sent its body or not read its answer is closed: of the
   * address that has most of those, the newest. When there is none, new ones are closed. null: as many as fit in
   * 160 MiB, or in a quarter of the heap limit of Node.js or an eighth of the memory limit of the
   * container where that is less, at twice limits.head and 24 KiB each (96 KiB with HTTPS). */
  connections: orNull(kinds.integer(1, 1_000_000)),
  /** The largest head of a request. A longer one gets 431; so does one of more than 200 headers.
   * Kerberos tokens of Windows may need 64KiB to be told that they are not taken. */
  head: key(kinds.size('1KiB', '256KiB'), '16KiB', 'restart'),
  /** How long the head of a request may take, from the opening of its connection or from its first
   * byte; a TLS handshake has as long. Then the connection is closed. */
  head_timeout: key(kinds.duration('1s', '5m'), '10s', 'restart'),
});

const log = section({
  /** The least important lines that are written. Hits are logged from debug on. */
  level: key(kinds.choice('trace', 'debug', 'info', 'warn', 'error', 'silent'), 'info'),
  /** From how long a request is told at warn, hits too. 0: none is. */
  slow: key(kinds.duration('1ms', '1h', 'off'), '5s'),
  /** Of which requests the line holds the text of the statement, at most 2,000 characters. It may hold
   * personal data. */
  statements: key(kinds.choice('off', 'slow', 'all'), 'off'),
});

const statistics = section({
  /** Whether the statements of queries are kept, which may hold personal data: at most 2,000 characters
   * of each of the 2,000 queries that have statistics, in this process; users of auth.admins see them. */
  text: key(onOrOff, 'off'),
});

const warm = section({
  /** auto asks the most valuable queries again after each purge, before people do. For that the
   * requests of these queries are kept, without logins and session ids: in this process, and in Redis
   * where there is one. off keeps nothing. docs/WARMUP.md says more. */
  mode: key(kinds.choice('off', 'auto'), 'off'),
  /** How long after the last purge a run begins. */
  settle: key(kinds.duration('1s', '1h', 'off'), '30s'),
  /** How many queries a run asks for at most. */
  queries: key(kinds.integer(1, 2_000), 200),
  /** How many of them are at the engine at one time. */
  concurrency: key(kinds.integer(1, 16), 2),
  /** After how much time of the engine a run ends. */
  budget: key(kinds.duration('1s', '1d'), '10m'),
});

/** The whole file. Its sections stand in the order in which the reference tells them. */
export const schema = section({
  /** Where the gateway listens. */
  listen,
  /** How many processes serve. 1 is a single process. With more, each has its part of cache.memory,
   * limits.in_flight, limits.concurrency, limits.queue and limits.connections, and one more process
   * keeps what they share where there is no Redis. */
  workers: key(kinds.integer(1, 64), 1, 'restart'),
  /** Who may log in, and who may do what. */
  auth,
  /** The engine behind the gateway. */
  engine,
  /** What is stored, where and for how long. */
  cache,
  /** What is different for single projects, by name. Spellings that an engine may take for one name
   * count as one (letter case, spaces around it, width, kana, composition); where several projects
   * are such spellings, the strictest settings of all count, and each has its own engine. */
  projects: byName(kinds.projectName, project),
  /** Who tells by POST /hooks/NAME that data was loaded, which purges projects (docs/HOOKS.md). */
  hooks: byName(kinds.hookName, hook),
  /** Where roles and datasets are kept. */
  storage: { ...storage, reload: 'restart' },
  /** What protects the gateway and the engine. */
  limits,
  /** What is logged. */
  log,
  /** What is remembered of queries. */
  statistics,
  /** Filling the cache again after a purge. */
  warm,
});

/** The file after it was read and checked key by key, before anything is inherited. */
export type CheckedFile = ValueOf<typeof schema>;
export type CheckedProject = NonNullable<ReturnType<CheckedFile['projects']['get']>>;
export type CheckedEngine = CheckedFile['engine'];
export type HookConfig = NonNullable<ReturnType<CheckedFile['hooks']['get']>>;
export type WatchConfig = NonNullable<CheckedProject['watch']>;
export type ListenConfig = CheckedFile['listen'];
export type OpenPage = ListenConfig['open'][number];
export type RedisConfig = CheckedFile['cache']['redis'];
export type CacheShare = CheckedFile['cache']['share'];
export type WarmConfig = CheckedFile['warm'];
export type LogConfig = CheckedFile['log'];
/** What the program works with: every value is there, also where the file is silent. */
export type Config = ReturnType<typeof fillIn>;
export type EngineConfig = Config['engine'];
export type ProjectConfig = NonNullable<ReturnType<Config['projects']['get']>>;
export type StorageConfig = Config['storage'];
export type SqliteConfig = Extract<StorageConfig, { readonly driver: 'sqlite' }>;
export type PostgresConfig = Extract<StorageConfig, { readonly driver: 'postgres' }>;
export type RemoteConfig = Extract<StorageConfig, { readonly driver: 'http' }>;

/** @param withdrawn keys of former versions that stand in the file and have no effect */
export function fillIn(file: CheckedFile, available: Memory, withdrawn: readonly string[]) {
  const { cache, engine, limits } = file;
  const projects = [...file.projects].map(([name, own]) => {
    const { ttl = cache.ttl, share = cache.share } = own;
    const functions: readonly string[] = [...cache.functions, ...own.functions];
    const filled = fillInEngine(inheritEngine(own.engine ?? {}, engine));
    return [name, { ...own, ttl, share, functions, engine: filled }] as const;
  });
  const { entries, bodies, connections, ...memory } = fitMemory(file, available);
  const longest = Math.min(cache.max_entry ?? LONGEST_ENTRY, Math.floor(entries / file.workers));
  return {
    ...file,
    cache: { ...cache, memory: entries, max_entry: longest },
    engine: fillInEngine(engine),
    /** By the name of the project as it is written. */
    projects: new Map(projects),
    storage: fillInStorage(file.storage),
    limits: { ...limits, in_flight: bodies, connections },
    memory,
    withdrawn,
  };
}

/** The longest answer that is stored where the file does not say (bytes). */
const LONGEST_ENTRY = 64 * 1024 * 1024;

/** Certificate and key are inherited as a pair, the service account only by a login that uses it. */
function inheritEngine(own: Partial<CheckedEngine>, common: CheckedEngine): CheckedEngine {
  const login = own.login ?? common.login;
  const none = { certificate: undefined, key: undefined };
  return {
    ...common,
    service: login === 'service' ? common.service : undefined,
    ...('certificate' in own || 'key' in own ? none : {}),
    ...own,
    delegation: own.delegation ?? (own.login === undefined ? common.delegation : undefined),
    session_idle: own.session_idle ?? (own.kind === undefined ? common.session_idle : undefined),
  };
}

function fillInEngine(engine: CheckedEngine) {
  const { login, kind, delegation, session_idle } = engine;
  const idle = session_idle ?? ENGINE_KINDS[kind].sessionIdle;
  return {
    ...engine,
    headers: engine.headers.toSorted(),
    delegation: delegation ?? (login === 'service' ? 'refuse' : 'forward'),
    /** Undefined when the engine never drops a session. */
    session_idle: idle === 0 ? undefined : idle,
  };
}

/** `storage.timeout: null`, by driver (ms). */
const STORAGE_TIMEOUT = { postgres: 1_500, http: 60_000 } as const;
/** The keys of its driver only. */
function fillInStorage(storage: CheckedFile['storage']) {
  const { driver, path, url, login, service, tls, ca, certificate, key, connections } = storage;
  if (driver === 'sqlite') return { driver, path };
  const timeout = storage.timeout ?? STORAGE_TIMEOUT[driver];
  const files = { ca, certificate, key };
  if (driver === 'postgres') return { driver, url, tls, ...files, connections, timeout };
  return { driver, url, login, service, ...files, timeout };
}
