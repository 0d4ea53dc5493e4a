/**
 * The configuration file: every key with its kind, its default as an operator would write it, and its meaning,
 * each written once. The configuration reference and the file with all defaults are made from this.
 */

import { LEASE_LIMITS } from './config.ts';
import { z } from 'zod';
import {
  addressRange,
  choice,
  cubeName,
  duration,
  filePath,
  flag,
  integer,
  listenHost,
  orNull,
  secretText,
  size,
  userName,
} from './kinds.ts';
import type { Kind } from './kinds.ts';
import { byName, leaf, leaves, section } from './leaf.ts';
import { isProjectName, PROJECT_NAME_RULE } from './names.ts';
import { engineKeys, engineSection } from './engine-schema.ts';
import { redisSection } from './redis-schema.ts';
import { storageSection } from './storage-schema.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;

const listen = section(
  {
    host: leaf(listenHost(), 'The address on which the gateway listens.').prefault('127.0.0.1'),
    port: leaf(
      integer({ min: 0, max: 65_535 }),
      'The port on which the gateway listens. 0 lets the system choose.',
    ).prefault(7080),
    open: leaves(
      choice(['metrics', 'health', 'docs']),
      'Pages that may be read without a login. /health/live is always open and says only up or down.',
    ).prefault([]),
    certificate: leaf(
      orNull(filePath()),
      'A PEM file with the certificate of the gateway and its chain. Certificate and key stand together; with them the gateway speaks HTTPS only.',
    ).prefault(null),
    key: leaf(
      orNull(filePath()),
      'A PEM file with the private key of that certificate, without a passphrase.',
    ).prefault(null),
    trusted_proxies: leaves(
      addressRange(),
      'Proxies in front of the gateway whose X-Forwarded-For is believed. What limits.connections says of one client address does not hold for them.',
    ).prefault([]),
    hot_path: leaf(
      flag(),
      'Whether repeated queries are recognised and answered from memory before anything else is done. Only how fast they are answered depends on it.',
    ).prefault(true),
  },
  'Where the gateway listens.',
);

const auth = section(
  {
    provider: leaf(
      choice(['file', 'engine']),
      'Where logins are checked: file compares with the users file; engine tries them at the engine, which must be asked with the login of the client (engine.login: forward).',
    ).prefault('file'),
    users: leaf(
      filePath(),
      'The password file: lines of name:hash as written by htpasswd -B or mdx-gateway hash-password. It is read again when it changes.',
    ).prefault('./users.htpasswd'),
    admins: leaves(userName(), 'Users who may do everything.').prefault(['ADMIN']),
    purgers: leaves(userName(), 'Users who may clear the cache.').prefault([]),
    verified_for: leaf(
      duration({ min: SECOND, max: HOUR, off: true }),
      'For how long verified credentials are believed without hashing them again. 0 switches that off.',
    ).prefault('60s'),
  },
  'Who may log in, and who may do what.',
);

const cacheKeys = {
  ttl: leaf(
    duration({ min: SECOND, max: 30 * DAY }),
    'For how long an answer may be repeated, unless a purge comes first. The interface calls it the cache resident time.',
  ),
  share: leaf(
    choice(['user', 'roles', 'everyone']),
    'Who is answered from an entry: only the user whose query made it (user), all users with the same roles (roles; a user without roles as with user), or everybody (everyone). roles and everyone are your statement that answers depend on nothing else of the user.',
  ),
};

const purge = section(
  {
    repeat_after: leaf(
      duration({ min: SECOND, max: DAY, off: true }),
      'After how long a purge by clearCache is made once more, for loads that show their data bit by bit; engines with login: forward are not called then. 0 switches that off.',
    ).prefault('0'),
  },
  'What clearCache does beside its purge.',
);

const cache = section(
  {
    ttl: cacheKeys.ttl.prefault('12h'),
    memory: leaf(
      size({ min: MIB, max: 1024 * GIB }),
      'How much memory the entries of this process may take.',
    ).prefault('256MiB'),
    max_entry: leaf(
      size({ min: KIB, max: 512 * MIB }),
      'The largest answer that is stored. Not larger than memory.',
    ).prefault('8MiB'),
    share: cacheKeys.share.prefault('user'),
    engine_permissions_ignored: leaf(
      flag(),
      'Must be true where share is roles or everyone and the login is forwarded: then users see answers that the engine might have refused them.',
    ).prefault(false),
    client_control: leaf(
      choice(['nobody', 'purgers', 'everybody']),
      'Whose request header Cache-Control counts: no-cache asks the engine and stores its answer, no-store asks the engine and stores nothing. purgers are the users of auth.admins and auth.purgers.',
    ).prefault('purgers'),
    purge_on_refresh_cube: leaf(
      flag(),
      'Whether a statement REFRESH CUBE of a user who may purge clears the cache of its project, or of everything where it names none. Excel sends one for each Refresh All. With false, as for users who may not purge, the engine answers the session from then on.',
    ).prefault(false),
    lease: leaf(
      duration({ min: LEASE_LIMITS.shortest, max: LEASE_LIMITS.longest }),
      'For how long a replica may go on without asking Redis whether something was purged, and with share: roles the storage whether a role was changed. A purge, a change of a role, or a statement that changes a session which several gateways serve, waits that long.',
    ).prefault('1s'),
    key_secret: leaf(
      orNull(secretText(32)),
      'The secret from which cache keys are made, the same for all replicas. null: made once and kept in Redis, or in this process.',
    ).prefault(null),
    purge: purge.prefault({}),
    redis: redisSection.prefault({}),
  },
  'What is stored, where and for how long.',
);

const projectName: Kind<string> = {
  type: 'project name',
  allowed: PROJECT_NAME_RULE,
  secret: () => false,
  read: (input) => (typeof input === 'string' && isProjectName(input) ? input : undefined),
};

const project = section(
  {
    cache: leaf(
      choice(['on', 'off']),
      'on caches as elsewhere; off passes every request of this project to the engine.',
    ).prefault('on'),
    ttl: cacheKeys.ttl.optional(),
    share: cacheKeys.share.optional(),
    cubes: byName(
      cubeName(),
      leaf(
        choice(['on', 'off']),
        'off passes every request to the engine whose answer may hold data of this cube.',
      ),
      'Cubes of this project that differ, by name. Needed where a measure of the server hides what changes by time or user.',
    ).prefault({}),
    engine: section(
      z.object(engineKeys).partial().shape,
      'The engine of this project, with the same keys as the section engine. What is left out is taken from there; null takes nothing from there.',
    ).optional(),
  },
  'What is different for one project.',
);

const limits = section(
  {
    body: leaf(
      size({ min: KIB, max: 256 * MIB }),
      'The largest request body, after its content coding is removed.',
    ).prefault('10MiB'),
    dataset: leaf(
      size({ min: KIB, max: 256 * MIB }),
      'The largest dataset document that may be imported, after its content coding is removed. At most four are read or written at one time, each for a while up to five times over, and eight more are held for clients that take them: datasets may take 28 times as much memory as this. One user gets at most two of these places.',
    ).prefault('32MiB'),
    concurrency: leaf(
      integer({ min: 1, max: 10_000 }),
      'How many requests may be at the engine at one time.',
    ).prefault(64),
    per_user: leaf(
      integer({ min: 1, max: 10_000 }),
      'How many of them may be of one user; with workers, at each of them.',
    ).prefault(16),
    in_flight: leaf(
      size({ min: 16 * MIB, max: 64 * GIB }),
      'How much memory the bodies of XMLA requests and answers under way may take, beside cache.memory. When it is used up, answers are passed on without being stored, and requests wait, for half a minute at most, then are refused. One user gets at most three quarters of it; a sixteenth is kept for requests of up to 64 KiB. Not smaller than limits.body.',
    ).prefault('128MiB'),
    queue: leaf(
      integer({ min: 0, max: 100_000 }),
      'How many more requests may wait for a place at the engine, and how many for memory (in_flight). Further ones are refused. One user gets at most three quarters of it.',
    ).prefault(256),
    names_per_user: leaf(
      integer({ min: 1, max: 1_000_000 }),
      'How many new projects and catalogs one user may name within an hour, at each process. Requests that name more pass the cache. Names of the configuration do not count, nor those that were answered without a Fault before.',
    ).prefault(1_000),
    connections: leaf(
      orNull(integer({ min: 1, max: 1_000_000 })),
      'How many connections may be open. Set it above the number of clients: a client loses a request that it sends just when its connection is closed. At the limit those without a request under way are closed for new ones: first of the client address that has most of them, the longest unused first. When all are busy, one whose client has for a second not sent its whole body or not read its whole answer is closed: of the address that has most of those, the newest. When there is none, new ones are closed. null: as many as fit in 160 MiB, or in a quarter of the heap limit of Node.js or of the memory limit of the container where that is less, at twice limits.head and 24 KiB each (96 KiB with HTTPS).',
    ).prefault(null),
    head: leaf(
      size({ min: KIB, max: 256 * KIB }),
      'The largest head of a request: its first line and its headers. A longer one gets 431; so does one of more than 200 headers. Kerberos tokens of Windows may need 64KiB to be told that they are not taken. Counts at the start only.',
    ).prefault('16KiB'),
    head_timeout: leaf(
      duration({ min: SECOND, max: 5 * MINUTE }),
      'How long the head of a request may take, from the opening of its connection or from its first byte; a TLS handshake has as long. Then the connection is closed. Counts at the start only.',
    ).prefault('10s'),
  },
  'What protects the gateway and the engine.',
);

const log = section(
  {
    level: leaf(
      choice(['trace', 'debug', 'info', 'warn', 'error', 'silent']),
      'The least important lines that are written. Hits are logged from debug on.',
    ).prefault('info'),
  },
  'What is logged.',
);

/** The whole file. Its sections stand in the order in which the reference tells them. */
export const configSchema = section(
  {
    listen: listen.prefault({}),
    workers: leaf(
      integer({ min: 1, max: 64 }),
      'How many processes serve. 1 is a single process. With more, each has its part of cache.memory, limits.in_flight, limits.concurrency, limits.queue and limits.connections, and one more process keeps what they share where there is no Redis. Counts at the start only.',
    ).prefault(1),
    auth: auth.prefault({}),
    engine: engineSection.prefault({}),
    cache: cache.prefault({}),
    projects: byName(
      projectName,
      project,
      'What is different for single projects, by name. Spellings that an engine may take for one name count as one (letter case, spaces around it, width, kana, composition); where several projects are such spellings, the strictest settings of all count, and each has its own engine.',
    ).prefault({}),
    storage: storageSection.prefault({}),
    limits: limits.prefault({}),
    log: log.prefault({}),
  },
  'The configuration of the gateway.',
);

/** The file after it was read and checked key by key, before paths and projects are resolved. */
export type CheckedFile = z.output<typeof configSchema>;
export type CheckedStorage = CheckedFile['storage'];
export type CheckedEngine = CheckedFile['engine'];
export type CheckedProject = CheckedFile['projects'] extends Map<string, infer P> ? P : never;
