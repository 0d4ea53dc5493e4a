/** From checked keys to the configuration of the program: paths, what projects inherit, what must fit together. */

import { resolve } from 'node:path';
import { engineTraits } from '../engine-kinds.ts';
import type { Config, EngineConfig, ProjectConfig, StorageConfig } from './config.ts';
import type { WrittenPath } from './kinds.ts';
import type { KeyPath, Problem } from './problems.ts';
import { resolveRedis } from './resolve-redis.ts';
import type { CheckedEngine, CheckedFile, CheckedProject, CheckedStorage } from './schema.ts';
import { isHttpUrl, isKylinUrl } from './urls.ts';

/** A file that the configuration names. */
export interface NamedFile {
  readonly key: KeyPath;
  /** Absolute. */
  readonly path: string;
  /** True when the path came from the environment, so that no message may show it. */
  readonly hidden: boolean;
}

/** What must be in the files that the configuration names. */
export type NamedFiles =
  | { readonly kind: 'users'; readonly file: NamedFile }
  | { readonly kind: 'authorities'; readonly file: NamedFile }
  | { readonly kind: 'identity'; readonly certificate: NamedFile; readonly privateKey: NamedFile };

export interface Resolution {
  readonly config: Config;
  readonly files: readonly NamedFiles[];
  readonly problems: readonly Problem[];
}

/** `storage.timeout: null`, by driver (ms). */
const STORAGE_TIMEOUT = { postgres: 1_500, http: 60_000 } as const;

type Optional<T> = { readonly [K in keyof T]?: T[K] | undefined };

/** Open connections may take this part of the memory, and no more than so many bytes. */
const OF_CONNECTIONS = 1 / 4;
const MOST_OF_CONNECTIONS = 160 * 1024 * 1024;
/** What an open connection takes beside twice its head (bytes), as measured with heads that never end. */
const CONNECTION_SIZE = { http: 24 * 1024, https: 96 * 1024 } as const;

/**
 * @param folder absolute; relative paths of the file start there
 * @param memory bytes that one process may take
 */
export function resolveConfig(file: CheckedFile, folder: string, memory: number): Resolution {
  const problems: Problem[] = [];
  const files: NamedFiles[] = [];
  const complain = (path: KeyPath, message: string) => problems.push({ path, message });

  const absolute = ({ text }: WrittenPath) => resolve(folder, text);
  const absoluteOrNone = (path: WrittenPath | null) => (path === null ? undefined : absolute(path));
  const named = (path: WrittenPath, ...key: KeyPath): NamedFile => ({
    key,
    path: absolute(path),
    hidden: path.hidden,
  });

  /** Looks at the TLS keys of one section as it was written, before anything is inherited. */
  function noteTlsFiles(
    written: Optional<Pick<CheckedEngine, 'ca' | 'certificate' | 'key'>>,
    section: KeyPath,
  ): void {
    const { ca, certificate, key } = written;
    if (ca) files.push({ kind: 'authorities', file: named(ca, ...section, 'ca') });
    if (certificate && key) {
      files.push({
        kind: 'identity',
        certificate: named(certificate, ...section, 'certificate'),
        privateKey: named(key, ...section, 'key'),
      });
    } else if (certificate) {
      complain([...section, 'certificate'], 'needs the key that belongs to it; both or none');
    } else if (key) {
      complain([...section, 'key'], 'needs the certificate that belongs to it; both or none');
    }
  }

  function checkService(
    { login, service }: Pick<CheckedEngine | CheckedStorage, 'login' | 'service'>,
    section: KeyPath,
  ): void {
    const path = [...section, 'service'];
    if (login === 'service' && service === null) {
      complain(path, 'is missing; login: service needs service: { name, password }');
    } else if (login !== 'service' && service !== null) {
      complain(path, `must only stand together with login: service (login is ${login})`);
    }
  }

  function checkShare(
    share: CheckedFile['cache']['share'],
    login: CheckedEngine['login'],
    path: KeyPath,
    subject = `${share} with login: forward`,
  ): void {
    if (share === 'user' || login !== 'forward') return;
    if (file.cache.engine_permissions_ignored) return;
    complain(
      path,
      `${subject} needs cache.engine_permissions_ignored: true, ` +
        'because users then see answers that the engine might have refused them',
    );
  }

  function resolveEngine({ ca, certificate, key, service, ...rest }: CheckedEngine): EngineConfig {
    const { login, kind, delegation, session_idle } = rest;
    const idle = session_idle ?? engineTraits(kind).sessionIdle;
    return {
      ...rest,
      delegation: delegation ?? (login === 'service' ? 'refuse' : 'forward'),
      session_idle: idle === 0 ? undefined : idle,
      service: service ?? undefined,
      ca: absoluteOrNone(ca),
      certificate: absoluteOrNone(certificate),
      key: absoluteOrNone(key),
    };
  }

  function resolveProject(name: string, project: CheckedProject): ProjectConfig {
    const path = ['projects', name];
    const { cache: switched, ttl = file.cache.ttl, share = file.cache.share, cubes } = project;
    const engine = inheritEngine(project.engine ?? {}, file.engine);
    const { login, service, clear, url } = project.engine ?? {};
    if (clear !== undefined || url !== undefined) checkClear(engine, [...path, 'engine']);
    noteTlsFiles(project.engine ?? {}, [...path, 'engine']);
    // What is inherited as a whole was already told of the section it comes from.
    if (login !== undefined || service !== undefined) checkService(engine, [...path, 'engine']);
    if (project.share !== undefined) {
      checkShare(share, engine.login, [...path, 'share']);
    } else if (login !== undefined) {
      checkShare(share, login, [...path, 'engine', 'login'], `forward with share: ${share}`);
    }
    return { cache: switched, ttl, share, cubes, engine: resolveEngine(engine) };
  }

  function checkStorage(storage: CheckedStorage): void {
    const { driver, url, login, tls, ca, certificate, key } = storage;
    const isHttp = isHttpUrl(url);
    if (driver === 'sqlite' && url !== '') {
      complain(['storage', 'url'], 'must be empty with driver: sqlite, which takes storage.path');
    } else if (driver === 'postgres' && (url === '' || isHttp)) {
      complain(['storage', 'url'], 'must be a postgres:// URL with driver: postgres');
    } else if (driver === 'http' && !isHttp) {
      complain(['storage', 'url'], 'must be an http:// or https:// URL with driver: http');
    }
    if (login === 'service' && driver !== 'http') {
      complain(['storage', 'login'], 'must only be service with driver: http');
    }
    if (tls && driver !== 'postgres') {
      complain(['storage', 'tls'], 'must only be true with driver: postgres');
    }
    const encrypted = tls || /^https:/i.test(url);
    for (const [name, value] of Object.entries({ ca, certificate, key })) {
      if (value === null || encrypted) continue;
      complain(['storage', name], 'needs an encrypted connection: tls: true, or an https:// URL');
    }
  }

  /** The gateway must be able to read the roles. */
  function checkRoleSharing(): void {
    if (file.storage.driver !== 'http') return;
    const sharing: KeyPath[] = file.cache.share === 'roles' ? [['cache', 'share']] : [];
    for (const [name, { share }] of file.projects) {
      if (share === 'roles') sharing.push(['projects', name, 'share']);
    }
    for (const path of sharing) {
      complain(path, 'roles cannot be used with storage.driver: http; the roles are elsewhere');
    }
  }

  function resolveStorage(storage: CheckedStorage): StorageConfig {
    const { driver, url, connections, tls, login } = storage;
    if (driver === 'sqlite') return { driver, path: absolute(storage.path) };
    const timeout = storage.timeout ?? STORAGE_TIMEOUT[driver];
    const files = {
      ca: absoluteOrNone(storage.ca),
      certificate: absoluteOrNone(storage.certificate),
      key: absoluteOrNone(storage.key),
    };
    if (driver === 'postgres') return { driver, url, tls, ...files, connections, timeout };
    return { driver, url, login, service: storage.service ?? undefined, ...files, timeout };
  }

  /** Where the engine knows the users, it must be told who asks; and roles are compared with names of the file. */
  function checkProvider(): void {
    if (file.auth.provider === 'file') {
      files.push({ kind: 'users', file: named(file.auth.users, 'auth', 'users') });
    } else if (file.engine.login !== 'forward') {
      complain(
        ['auth', 'provider'],
        `engine needs engine.login: forward (it is ${file.engine.login})`,
      );
    }
  }

  /** The clearCache of Kylin is beside its XMLA. */
  function checkClear({ clear, url }: CheckedEngine, path: KeyPath): void {
    if (clear === 'none' || url.every(isKylinUrl)) return;
    complain(
      [...path, 'clear'],
      'kylin needs an engine.url that ends in /mdx/xmla, /mdx/xmla_server, or one of them with /{project}',
    );
  }

  /** Of all workers together, since the memory of a container is that of all. */
  function fittingConnections(): number {
    const room = Math.min(MOST_OF_CONNECTIONS, memory * OF_CONNECTIONS);
    const scheme = file.listen.certificate === null ? 'http' : 'https';
    return Math.ceil(room / (CONNECTION_SIZE[scheme] + 2 * file.limits.head));
  }

  checkProvider();
  checkClear(file.engine, ['engine']);
  noteTlsFiles(file.listen, ['listen']);
  noteTlsFiles(file.engine, ['engine']);
  noteTlsFiles(file.cache.redis, ['cache', 'redis']);
  checkService(file.engine, ['engine']);
  checkShare(file.cache.share, file.engine.login, ['cache', 'share']);
  noteTlsFiles(file.storage, ['storage']);
  checkService(file.storage, ['storage']);
  checkStorage(file.storage);
  checkRoleSharing();
  const { workers } = file;
  const divided = workers === 1 ? '' : `, of which each of the ${workers} workers has its part`;
  if (file.limits.body > file.limits.in_flight / workers) {
    complain(['limits', 'in_flight'], `must not be smaller than limits.body${divided}`);
  }
  if (file.cache.max_entry > file.cache.memory / workers) {
    complain(['cache', 'max_entry'], `must not be larger than cache.memory${divided}`);
  }

  const { certificate, key, ...listen } = file.listen;
  const { key_secret, ...cache } = file.cache;
  const redis = resolveRedis(cache.redis, absolute, (name, message) =>
    complain(['cache', 'redis', name], message),
  );
  const config: Config = {
    listen: {
      ...listen,
      certificate: absoluteOrNone(certificate),
      key: absoluteOrNone(key),
    },
    workers,
    auth: { ...file.auth, users: absolute(file.auth.users) },
    engine: resolveEngine(file.engine),
    cache: { ...cache, key_secret: key_secret ?? undefined, redis },
    projects: new Map(
      [...file.projects].map(([name, project]) => [name, resolveProject(name, project)]),
    ),
    storage: resolveStorage(file.storage),
    limits: { ...file.limits, connections: file.limits.connections ?? fittingConnections() },
    log: file.log,
  };
  return { config, files, problems };
}

/**
 * Fills in what a project leaves out. Certificate and key are inherited as a pair, so that a half is never
 * completed with the other half of another engine; the service account only by a login that uses it.
 */
function inheritEngine(own: Optional<CheckedEngine>, common: CheckedEngine): CheckedEngine {
  const ownPair = own.certificate !== undefined || own.key !== undefined;
  const { certificate = null, key = null } = ownPair ? own : common;
  const login = own.login ?? common.login;
  const inheritedService = login === 'service' ? common.service : null;
  return {
    url: own.url ?? common.url,
    kind: own.kind ?? common.kind,
    login,
    service: own.service === undefined ? inheritedService : own.service,
    delegation: own.delegation ?? (own.login === undefined ? common.delegation : null),
    session_idle: own.session_idle ?? (own.kind === undefined ? common.session_idle : null),
    clear: own.clear ?? common.clear,
    timeout: own.timeout ?? common.timeout,
    ca: own.ca === undefined ? common.ca : own.ca,
    certificate,
    key,
  };
}
