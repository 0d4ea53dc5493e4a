/** From checked keys to the configuration of the program: what projects inherit, and what must fit together. */

import { engineTraits } from '../engine-kinds.ts';
import type { NamedFiles, TlsFiles } from './check-files.ts';
import type {
  CacheShare,
  CheckedFile,
  CheckedProject,
  Config,
  EngineConfig,
  ProjectConfig,
  RedisConfig,
  StorageConfig,
} from './config.ts';
import type { KeyPath, Problem } from './problems.ts';

const REDIS: KeyPath = ['cache', 'redis'];
const STORAGE: KeyPath = ['storage'];

type CheckedEngine = CheckedFile['engine'];

interface Resolution {
  readonly config: Config;
  readonly files: NamedFiles;
  readonly problems: readonly Problem[];
}

/** `storage.timeout: null`, by driver (ms). */
const STORAGE_TIMEOUT = { postgres: 1_500, http: 60_000 } as const;

/** Open connections may take this part of the memory, and no more than so many bytes. */
const OF_CONNECTIONS = 1 / 4;
const MOST_OF_CONNECTIONS = 160 * 1024 * 1024;
/** What an open connection takes beside twice its head (bytes), as measured with heads that never end. */
const CONNECTION_SIZE = { http: 24 * 1024, https: 96 * 1024 } as const;

/** An engine's URL that is one of MDX for Kylin (protocol facts: `/mdx/xmla`, `/mdx/xmla_server`). */
const KYLIN_URL = /\/mdx\/xmla(?:_server)?(?:\/\{project\})?\/?$/;

/** @param memory bytes that one process may take */
export function resolveConfig(file: CheckedFile, memory: number): Resolution {
  const { listen, workers, auth, cache, limits } = file;
  const problems: Problem[] = [];
  const tls: [KeyPath, TlsFiles][] = [];
  const complain = (section: KeyPath, name: string, message: string) =>
    problems.push({ path: [...section, name], message });

  /**
   * Takes the TLS keys of one section as it was written, before anything is inherited.
   * @param needed what is wrong with them where the connection is not encrypted
   */
  function checkTls(files: TlsFiles, section: KeyPath, needed?: string): void {
    tls.push([section, files]);
    const { ca, certificate, key } = files;
    for (const [name, path] of Object.entries({ ca, certificate, key })) {
      if (path !== undefined && needed !== undefined) complain(section, name, needed);
    }
    if (certificate && !key) {
      complain(section, 'certificate', 'needs the key that belongs to it; both or none');
    } else if (key && !certificate) {
      complain(section, 'key', 'needs the certificate that belongs to it; both or none');
    }
  }

  function checkService(
    { login, service }: { readonly login: string; readonly service: object | undefined },
    section: KeyPath,
  ): void {
    if (login === 'service' && service === undefined) {
      complain(section, 'service', 'is missing; login: service needs service: { name, password }');
    } else if (login !== 'service' && service !== undefined) {
      complain(
        section,
        'service',
        `must only stand together with login: service (login is ${login})`,
      );
    }
  }

  function checkShare(
    share: CacheShare,
    login: string,
    section: KeyPath,
    [name, subject] = ['share', `${share} with login: forward`],
  ): void {
    if (share === 'user' || login !== 'forward' || cache.engine_permissions_ignored) return;
    complain(
      section,
      name,
      `${subject} needs cache.engine_permissions_ignored: true, ` +
        'because users then see answers that the engine might have refused them',
    );
  }

  /** @param written what of the engine stands in this section; the rest was told of the one it comes from */
  function checkEngine(
    written: Partial<CheckedEngine>,
    engine: CheckedEngine,
    section: KeyPath,
  ): void {
    checkTls(written, section);
    if (written.login !== undefined || 'service' in written) checkService(engine, section);
    // The clearCache of Kylin is beside its XMLA.
    const clears = written.clear !== undefined || written.url !== undefined;
    if (clears && engine.clear === 'kylin' && !engine.url.every((url) => KYLIN_URL.test(url))) {
      complain(
        section,
        'clear',
        'kylin needs an engine.url that ends in /mdx/xmla, /mdx/xmla_server, or one of them with /{project}',
      );
    }
  }

  function checkRedis({ url, mode, master, username, password, ...rest }: RedisConfig) {
    const urls = url.map((text) => new URL(text));
    if (mode === 'sentinel' && master === undefined) {
      complain(REDIS, 'master', 'is missing; mode: sentinel needs the name of the master');
    }
    if (mode !== 'sentinel' && master !== undefined) {
      complain(REDIS, 'master', 'must only stand with mode: sentinel');
    }
    if (mode === 'standalone' && urls.length > 1) {
      complain(REDIS, 'url', 'must be one address with mode: standalone');
    }
    if (mode !== 'standalone' && urls.length === 0) {
      complain(REDIS, 'url', `must not be empty with mode: ${mode}`);
    }
    // A server that refuses to select one leaves the connection in database 0, where another deployment may be.
    if (urls.some(({ pathname }) => Number(pathname.slice(1)) > 0)) {
      complain(
        REDIS,
        'url',
        'must not name a database other than 0; cache.redis.namespace keeps deployments apart',
      );
    }
    // Which of them would count for a node that the others tell of?
    if (new Set(urls.map((one) => `${one.username}:${one.password}`)).size > 1) {
      complain(REDIS, 'url', 'must name the same user and password in all addresses');
    }
    if (username !== undefined && password === undefined) {
      complain(REDIS, 'password', 'is missing; username needs it');
    }
    for (const [name, value] of Object.entries({ password, encryption_key: rest.encryption_key })) {
      if (value === undefined || urls.length > 0) continue;
      complain(REDIS, name, 'must only stand together with an address in url');
    }
    const encrypted = urls.some(({ protocol }) => protocol === 'rediss:');
    checkTls(rest, REDIS, encrypted ? undefined : 'needs a rediss:// URL');
  }

  function checkStorage({ driver, url, login, tls: isTls, ...rest }: CheckedFile['storage']): void {
    checkService({ login, ...rest }, STORAGE);
    const isHttp = /^https?:/i.test(url);
    if (driver === 'sqlite' && url !== '') {
      complain(STORAGE, 'url', 'must be empty with driver: sqlite, which takes storage.path');
    } else if (driver === 'postgres' && (url === '' || isHttp)) {
      complain(STORAGE, 'url', 'must be a postgres:// URL with driver: postgres');
    } else if (driver === 'http' && !isHttp) {
      complain(STORAGE, 'url', 'must be an http:// or https:// URL with driver: http');
    }
    if (login === 'service' && driver !== 'http') {
      complain(STORAGE, 'login', 'must only be service with driver: http');
    }
    if (isTls && driver !== 'postgres') {
      complain(STORAGE, 'tls', 'must only be true with driver: postgres');
    }
    const encrypted = isTls || /^https:/i.test(url);
    const needed = 'needs an encrypted connection: tls: true, or an https:// URL';
    checkTls(rest, STORAGE, encrypted ? undefined : needed);
  }

  /** The gateway must be able to read the roles. */
  function checkRoles(share: CacheShare | undefined, section: KeyPath): void {
    if (share !== 'roles' || file.storage.driver !== 'http') return;
    const message = 'roles cannot be used with storage.driver: http; the roles are elsewhere';
    complain(section, 'share', message);
  }

  function resolveProject(name: string, project: CheckedProject): ProjectConfig {
    const section = ['projects', name];
    const engineSection = [...section, 'engine'];
    const { ttl = cache.ttl, share = cache.share, engine: own = {} } = project;
    const engine = inheritEngine(own, file.engine);
    checkEngine(own, engine, engineSection);
    checkRoles(project.share, section);
    if (project.share !== undefined) {
      checkShare(share, engine.login, section);
    } else if (own.login !== undefined) {
      checkShare(share, own.login, engineSection, ['login', `forward with share: ${share}`]);
    }
    return { ...project, ttl, share, engine: resolveEngine(engine) };
  }

  /** Of all workers together, since the memory of a container is that of all. */
  function fittingConnections(): number {
    const room = Math.min(MOST_OF_CONNECTIONS, memory * OF_CONNECTIONS);
    const scheme = listen.certificate === undefined ? 'http' : 'https';
    return Math.ceil(room / (CONNECTION_SIZE[scheme] + 2 * limits.head));
  }

  // Where the engine knows the users, it must be told who asks; and roles are compared with names of the file.
  if (auth.provider === 'engine' && file.engine.login !== 'forward') {
    complain(
      ['auth'],
      'provider',
      `engine needs engine.login: forward (it is ${file.engine.login})`,
    );
  }
  checkTls(listen, ['listen']);
  checkEngine(file.engine, file.engine, ['engine']);
  checkShare(cache.share, file.engine.login, ['cache']);
  checkRoles(cache.share, ['cache']);
  checkStorage(file.storage);
  const divided = workers === 1 ? '' : `, of which each of the ${workers} workers has its part`;
  if (limits.body > limits.in_flight / workers) {
    complain(['limits'], 'in_flight', `must not be smaller than limits.body${divided}`);
  }
  if (cache.max_entry > cache.memory / workers) {
    complain(['cache'], 'max_entry', `must not be larger than cache.memory${divided}`);
  }
  checkRedis(cache.redis);

  const config: Config = {
    ...file,
    engine: resolveEngine(file.engine),
    projects: new Map(
      [...file.projects].map(([name, project]) => [name, resolveProject(name, project)]),
    ),
    storage: resolveStorage(file.storage),
    limits: { ...limits, connections: limits.connections ?? fittingConnections() },
  };
  return {
    config,
    files: { users: auth.provider === 'file' ? auth.users : undefined, tls },
    problems,
  };
}

/**
 * Fills in what a project leaves out. Certificate and key are inherited as a pair, so that a half is never
 * completed with the other half of another engine; the service account only by a login that uses it.
 */
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

function resolveEngine(engine: CheckedEngine): EngineConfig {
  const { login, kind, delegation, session_idle } = engine;
  const idle = session_idle ?? engineTraits(kind).sessionIdle;
  return {
    ...engine,
    delegation: delegation ?? (login === 'service' ? 'refuse' : 'forward'),
    session_idle: idle === 0 ? undefined : idle,
  };
}

/** The keys of its driver only. */
function resolveStorage(storage: CheckedFile['storage']): StorageConfig {
  const { driver, path, url, login, service, tls, ca, certificate, key, connections } = storage;
  if (driver === 'sqlite') return { driver, path };
  const timeout = storage.timeout ?? STORAGE_TIMEOUT[driver];
  const files = { ca, certificate, key };
  if (driver === 'postgres') return { driver, url, tls, ...files, connections, timeout };
  return { driver, url, login, service, ...files, timeout };
}
