/**
 * The configuration file: every key with its kind, its default as an operator would write it, when a change of it
 * counts, and its meaning, each written once. The types of the configuration, the configuration reference and the file
 * with all defaults are made from this.
 */

import { ENGINE_KIND_NAMES } from '../common/engine-kinds.ts';
import { LEASE_LIMITS } from './config.ts';
import {
  addressRange,
  choice,
  cubeName,
  duration,
  durations,
  engineUrls,
  filePath,
  flag,
  integer,
  listenHost,
  loginName,
  orNull,
  projectName,
  redisName,
  redisUrls,
  secretText,
  size,
  storageUrl,
  userName,
} from './kinds.ts';
import {
  byName,
  byRestart,
  inherited,
  key,
  list,
  optionalSection,
  REQUIRED,
  section,
  someOf,
} from './setting.ts';

const listen = section(
  'Where the gateway listens.',
  {
    host: key(listenHost, '127.0.0.1', 'restart').means(
      'The address on which the gateway listens.',
    ),
    port: key(integer(0, 65_535), 7080, 'restart').means(
      'The port on which the gateway listens. 0 lets the system choose.',
    ),
    open: list(choice('metrics', 'health', 'docs'), []).means(
      'Pages that may be read without a login. /health/live is always open and says only up or down.',
    ),
    certificate: key(orNull(filePath), null, 'https').means(
      'A PEM file with the certificate of the gateway and its chain. Certificate and key stand together; with them the gateway speaks HTTPS only.',
    ),
    key: key(orNull(filePath), null, 'https').means(
      'A PEM file with the private key of that certificate, without a passphrase.',
    ),
    trusted_proxies: list(addressRange, []).means(
      'Proxies in front of the gateway whose X-Forwarded-For is believed. What limits.connections says of one client address does not hold for them.',
    ),
  },
  ['hot_path'],
);

const workers = key(integer(1, 64), 1, 'restart').means(
  'How many processes serve. 1 is a single process. With more, each has its part of cache.memory, limits.in_flight, limits.concurrency, limits.queue and limits.connections, and one more process keeps what they share where there is no Redis.',
);

const auth = section('Who may log in, and who may do what.', {
  provider: key(choice('file', 'engine'), 'file').means(
    'Where logins are checked: file compares with the users file; engine tries them at the engine, which must be asked with the login of the client (engine.login: forward).',
  ),
  users: key(filePath, './users.htpasswd').means(
    'The password file: lines of name:hash as written by htpasswd -B or mdx-gateway hash-password. It is read again when it changes.',
  ),
  admins: list(userName, ['ADMIN']).means('Users who may do everything.'),
  purgers: list(userName, []).means('Users who may clear the cache.'),
  verified_for: key(duration('1s', '1h', 'off'), '60s').means(
    'For how long verified credentials are believed without hashing them again. 0 switches that off.',
  ),
});

/** The keys of a connection at which the gateway is the client. */
const tlsFiles = (authorities: string, shownTo: string) => ({
  ca: key(orNull(filePath), null).means(
    `A PEM file with the certificates of the authorities that may have signed the ${authorities}. null trusts those of Node.js.`,
  ),
  certificate: key(orNull(filePath), null).means(
    `A PEM file with a client certificate that is shown to ${shownTo}. Certificate and key stand together.`,
  ),
  key: key(orNull(filePath), null).means(
    'A PEM file with the private key of the client certificate, without a passphrase.',
  ),
});

const service = (owner: string, at: string) =>
  optionalSection(`The service account. It stands here exactly when ${owner}.login is service.`, {
    name: key(loginName, REQUIRED).means(`The user name of the service account at the ${at}.`),
    password: key(secretText(1), REQUIRED).means(
      `Its password. Take it from the environment: \${${owner.toUpperCase()}_PASSWORD}.`,
    ),
  });

const engine = section('The engine behind the gateway.', {
  url: key(engineUrls, 'http://127.0.0.1:8080/xmla').means(
    'The XMLA endpoint of the engine, or a list of those of its replicas; a session stays with its replica. {project} is replaced by the project of the request path.',
  ),
  kind: key(choice(...ENGINE_KIND_NAMES), 'generic').means(
    'Which engine it is; docs/SESSIONS.md shows what that changes. generic fits all others.',
  ),
  login: key(choice('forward', 'service', 'none'), 'none').means(
    'What the engine gets as a login: the one of the client (forward), that of a service account (service), or none.',
  ),
  service: service('engine', 'engine'),
  delegation: key(orNull(choice('forward', 'refuse')), null).means(
    'What becomes of requests that ask for the rights of another identity (properties such as EffectiveUserName, Roles and CustomData; WS-Security): forward sends them to the engine past the cache, refuse answers with a Fault. null: refuse with login: service, whose rights everybody could lend to himself otherwise, else forward.',
  ),
  session_idle: key(orNull(duration('1s', '30d', 'off')), null).means(
    'After how long without a request the engine drops a session. As soon as a quarter of it has passed, a request that is answered from the cache touches the session at the engine. null: what is usual for the kind of engine; 0: it never drops one.',
  ),
  clear: key(choice('none', 'kylin'), 'none').means(
    'Whether clearCache also clears the cache of the engine: kylin calls its clearCache at every replica before the gateway drops its own entries; engine.url then ends in /mdx/xmla or /mdx/xmla/{project}.',
  ),
  timeout: key(duration('1s', '1h'), '300s').means(
    'How long the engine may take to the first byte of its answer, and between two bytes of it.',
  ),
  ...tlsFiles('certificate of the engine', 'the engine'),
});

const redis = section('The tier that several gateways share.', {
  url: key(redisUrls, '').means(
    'The address of the Redis that all replicas share: of the server (standalone), of one or more nodes (cluster), or of the sentinels (sentinel). rediss:// encrypts. Empty: no Redis, memory only.',
  ),
  mode: key(choice('standalone', 'sentinel', 'cluster'), 'standalone').means(
    'What answers at that address. docs/PURGE.md says what each of them must be set to.',
  ),
  master: key(orNull(redisName(255)), null).means(
    'With mode: sentinel, the name under which the sentinels watch the master.',
  ),
  username: key(orNull(loginName), null).means(
    'The ACL user at Redis, instead of one in the URL. With mode: sentinel that of the servers; the URLs hold that of the sentinels.',
  ),
  password: key(orNull(secretText(1)), null).means(
    'Its password. Take it from the environment: ${REDIS_PASSWORD}.',
  ),
  ...tlsFiles('certificates of Redis', 'Redis'),
  namespace: key(redisName(64), 'mdx').means(
    'The first part of every key in Redis, so that several deployments may share one.',
  ),
  encryption_key: key(orNull(secretText(32)), null).means(
    'A secret under which answers, sessions and the purge log are encrypted in Redis (AES-256-GCM), the same for all replicas. null: they lie there as they are.',
  ),
});

const lease = duration(
  durations.format(LEASE_LIMITS.shortest),
  durations.format(LEASE_LIMITS.longest),
);

const cache = section('What is stored, where and for how long.', {
  ttl: key(duration('1s', '30d'), '12h').means(
    'For how long an answer may be repeated, unless a purge comes first. The interface calls it the cache resident time.',
  ),
  memory: key(size('1MiB', '1024GiB'), '256MiB', 'restart').means(
    'How much memory the entries of this process may take.',
  ),
  max_entry: key(size('1KiB', '512MiB'), '8MiB').means(
    'The largest answer that is stored. Not larger than memory.',
  ),
  share: key(choice('user', 'roles', 'everyone'), 'user').means(
    'Who is answered from an entry: only the user whose query made it (user), all users with the same roles (roles; a user without roles as with user), or everybody (everyone). roles and everyone are your statement that answers depend on nothing else of the user.',
  ),
  engine_permissions_ignored: key(flag, false).means(
    'Must be true where share is roles or everyone and the login is forwarded: then users see answers that the engine might have refused them.',
  ),
  client_control: key(choice('nobody', 'purgers', 'everybody'), 'purgers').means(
    'Whose request header Cache-Control counts: no-cache asks the engine and stores its answer, no-store asks the engine and stores nothing. purgers are the users of auth.admins and auth.purgers.',
  ),
  purge_on_refresh_cube: key(flag, false).means(
    'Whether a statement REFRESH CUBE of a user who may purge clears the cache of its project, or of everything where it names none. Excel sends one for each Refresh All. With false, as for users who may not purge, the engine answers the session from then on.',
  ),
  lease: key(lease, '1s').means(
    'For how long a replica may go on without asking Redis whether something was purged, and with share: roles the storage whether a role was changed. A purge, a change of a role, or a statement that changes a session which several gateways serve, waits that long.',
  ),
  key_secret: key(orNull(secretText(32)), null, 'restart').means(
    'The secret from which cache keys are made, the same for all replicas. null: made once and kept in Redis, or in this process.',
  ),
  purge: section('What clearCache does beside its purge.', {
    repeat_after: key(duration('1s', '1d', 'off'), '0').means(
      'After how long a purge by clearCache is made once more, for loads that show their data bit by bit; engines with login: forward are not called then. 0 switches that off.',
    ),
  }),
  redis: byRestart(redis),
});

const onOrOff = choice('on', 'off');

const project = section('What is different for one project.', {
  cache: key(onOrOff, 'on').means(
    'on caches as elsewhere; off passes every request of this project to the engine.',
  ),
  ttl: inherited(cache.keys.ttl),
  share: inherited(cache.keys.share),
  cubes: byName(
    cubeName,
    key(onOrOff, REQUIRED).means(
      'off passes every request to the engine whose answer may hold data of this cube.',
    ),
    'Cubes of this project that differ, by name. Needed where a measure of the server hides what changes by time or user.',
  ),
  engine: inherited(
    someOf(
      'The engine of this project, with the same keys as the section engine. What is left out is taken from there; null takes nothing from there.',
      engine,
    ),
  ),
});

const storage = section('Where roles and datasets are kept.', {
  driver: key(choice('sqlite', 'postgres', 'http'), 'sqlite').means(
    'Where roles and datasets are: in a file of this machine (sqlite), in a PostgreSQL that replicas share (postgres), or at another server that speaks the same interface (http).',
  ),
  path: key(filePath, './data/gateway.sqlite').means(
    'With sqlite: the file. Its folder is made when it is not there.',
  ),
  url: key(storageUrl, '').means(
    'With postgres: the database, postgres://user:password@host:5432/database. With http: the server, to which /api/… is added.',
  ),
  login: key(choice('forward', 'service'), 'forward').means(
    'With http: what the server gets as a login, the one of the client (forward) or that of a service account (service).',
  ),
  service: service('storage', 'server'),
  tls: key(flag, false).means(
    'With postgres: whether the connection is encrypted, and the certificate of the server checked.',
  ),
  ...tlsFiles('certificate of the server', 'the server'),
  connections: key(integer(1, 100), 10).means(
    'With postgres: the most connections of this process.',
  ),
  timeout: key(orNull(duration('100ms', '1h')), null).means(
    'With postgres: how long an operation may take (null: 1500ms). With http: how long the server may take to the first byte of its answer, and between two bytes of it (null: 60s).',
  ),
});

const limits = section('What protects the gateway and the engine.', {
  body: key(size('1KiB', '256MiB'), '10MiB').means(
    'The largest request body, after its content coding is removed.',
  ),
  dataset: key(size('1KiB', '256MiB'), '32MiB').means(
    'The largest dataset document that may be imported, after its content coding is removed. At most eight are received and written and eight are read and sent at one time; four of these 16 may be there up to five times over for a while: datasets may take 32 times as much memory as this. One user gets at most two of these places.',
  ),
  concurrency: key(integer(1, 10_000), 64).means(
    'How many requests may be at the engine at one time.',
  ),
  per_user: key(integer(1, 10_000), 16).means(
    'How many of them may be of one user; with workers, at each of them.',
  ),
  in_flight: key(size('16MiB', '64GiB'), '128MiB').means(
    'How much memory the bodies of XMLA requests and answers under way may take, beside cache.memory. When it is used up, answers are passed on without being stored, and requests wait, for half a minute at most, then are refused. One user gets at most three quarters of it; a sixteenth is kept for requests of up to 64 KiB. Not smaller than limits.body.',
  ),
  queue: key(integer(0, 100_000), 256).means(
    'How many more requests may wait for a place at the engine, and how many for memory (in_flight). Further ones are refused. One user gets at most three quarters of it.',
  ),
  names_per_user: key(integer(1, 1_000_000), 1_000).means(
    'How many new projects and catalogs one user may name within an hour, at each process. Requests that name more pass the cache. Names of the configuration do not count, nor those that were answered without a Fault before.',
  ),
  connections: key(orNull(integer(1, 1_000_000)), null).means(
    'How many connections may be open. Set it above the number of clients: a client loses a request that it sends just when its connection is closed. At the limit those without a request under way are closed for new ones: first of the client address that has most of them, the longest unused first. When all are busy, one whose client has for a second not sent its whole body or not read its whole answer is closed: of the address that has most of those, the newest. When there is none, new ones are closed. null: as many as fit in 160 MiB, or in a quarter of the heap limit of Node.js or of the memory limit of the container where that is less, at twice limits.head and 24 KiB each (96 KiB with HTTPS).',
  ),
  head: key(size('1KiB', '256KiB'), '16KiB', 'restart').means(
    'The largest head of a request: its first line and its headers. A longer one gets 431; so does one of more than 200 headers. Kerberos tokens of Windows may need 64KiB to be told that they are not taken.',
  ),
  head_timeout: key(duration('1s', '5m'), '10s', 'restart').means(
    'How long the head of a request may take, from the opening of its connection or from its first byte; a TLS handshake has as long. Then the connection is closed.',
  ),
});

const log = section('What is logged.', {
  level: key(choice('trace', 'debug', 'info', 'warn', 'error', 'silent'), 'info').means(
    'The least important lines that are written. Hits are logged from debug on.',
  ),
});

/** The whole file. Its sections stand in the order in which the reference tells them. */
export const schema = section('The configuration of the gateway.', {
  listen,
  workers,
  auth,
  engine,
  cache,
  projects: byName(
    projectName,
    project,
    'What is different for single projects, by name. Spellings that an engine may take for one name count as one (letter case, spaces around it, width, kana, composition); where several projects are such spellings, the strictest settings of all count, and each has its own engine.',
  ),
  storage: byRestart(storage),
  limits,
  log,
});
