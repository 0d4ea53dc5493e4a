/** What must fit together in a configuration whose keys are right one by one. */

import type { CacheConfig, CheckedFile, CheckedProject, Config, RedisConfig } from './config.ts';
import {
  unusableTls,
  unusableUsers,
  type Broken,
  type NamedFiles,
  type TlsFiles,
} from './named-files.ts';
import type { KeyPath, Problem } from './problems.ts';

type CheckedEngine = CheckedFile['engine'];

/**
 * @param file as it was written
 * @param config made from it, with what projects inherit
 */
export function brokenRules(
  file: CheckedFile,
  config: Config,
  named: NamedFiles,
): readonly Problem[] {
  const { listen, auth, engine, cache, storage } = file;
  const problems: Problem[] = [];
  const check = (path: KeyPath, broken: Broken): void => {
    for (const [key, message] of broken) {
      problems.push({ path: [...path, ...key.split('.')], message });
    }
  };
  check([], commonRules(file));
  check(['listen'], tlsRules(listen, named));
  check(['auth'], auth.provider === 'file' ? unusableUsers(auth.users, named) : []);
  check(['engine'], engineRules(engine, engine));
  check(['engine'], tlsRules(engine, named));
  check(['cache', 'redis'], redisRules(cache.redis, named));
  check(['storage'], storageRules(storage, named));
  for (const [name, own] of file.projects) {
    const { engine: inherited } = config.projects.get(name) ?? config;
    check(['projects', name], projectRules(own, inherited.login, file));
    check(['projects', name, 'engine'], engineRules(own.engine ?? {}, inherited));
    check(['projects', name, 'engine'], tlsRules(own.engine ?? {}, named));
  }
  return problems;
}

function* commonRules({ workers, auth, engine, cache, storage, limits }: CheckedFile): Broken {
  const divided = workers === 1 ? '' : `, of which each of the ${workers} workers has its part`;
  // Where the engine knows the users, it must be told who asks; and roles are compared with names of the file.
  if (auth.provider === 'engine' && engine.login !== 'forward') {
    yield ['auth.provider', `engine needs engine.login: forward (it is ${engine.login})`];
  }
  if (lends(cache.share, engine.login, cache)) {
    yield ['cache.share', needsIgnored(`${cache.share} with login: forward`)];
  }
  if (cache.share === 'roles' && storage.driver === 'http') yield ['cache.share', ROLES_ELSEWHERE];
  if (cache.max_entry > cache.memory / workers) {
    yield ['cache.max_entry', `must not be larger than cache.memory${divided}`];
  }
  if (limits.body > limits.in_flight / workers) {
    yield ['limits.in_flight', `must not be smaller than limits.body${divided}`];
  }
}

/** Whether users see answers that the engine might have refused them, without the operator's word for it. */
function lends(share: CacheConfig['share'], login: string, cache: CacheConfig): boolean {
  return share !== 'user' && login === 'forward' && !cache.engine_permissions_ignored;
}
const needsIgnored = (share: string) =>
  `${share} needs cache.engine_permissions_ignored: true, ` +
  'because users then see answers that the engine might have refused them';

/** The gateway must be able to read the roles. */
const ROLES_ELSEWHERE = 'roles cannot be used with storage.driver: http; the roles are elsewhere';

function* projectRules(
  { share, engine }: CheckedProject,
  login: string,
  { cache, storage }: CheckedFile,
): Broken {
  if (share === 'roles' && storage.driver === 'http') yield ['share', ROLES_ELSEWHERE];
  if (!lends(share ?? cache.share, login, cache)) return;
  if (share !== undefined) yield ['share', needsIgnored(`${share} with login: forward`)];
  else if (engine?.login !== undefined) {
    yield ['engine.login', needsIgnored(`forward with share: ${cache.share}`)];
  }
}

/** An engine's URL that is one of MDX for Kylin, whose clearCache is beside its XMLA. */
const KYLIN_URL = /\/mdx\/xmla(?:_server)?(?:\/\{project\})?\/?$/;

/** @param written what of the engine stands in this section; the rest was told of the one it comes from */
function* engineRules(
  written: Partial<CheckedEngine>,
  engine: Pick<CheckedEngine, 'login' | 'service' | 'clear' | 'url'>,
): Broken {
  if (written.login !== undefined || 'service' in written) yield* loginRules(engine);
  const clears = written.clear !== undefined || written.url !== undefined;
  if (clears && engine.clear === 'kylin' && !engine.url.every((url) => KYLIN_URL.test(url))) {
    const ends = '/mdx/xmla, /mdx/xmla_server, or one of them with /{project}';
    yield ['clear', `kylin needs an engine.url that ends in ${ends}`];
  }
}

function* loginRules({ login, service }: { login: string; service: object | undefined }): Broken {
  if (login === 'service' && service === undefined) {
    yield ['service', 'is missing; login: service needs service: { name, password }'];
  }
  if (login !== 'service' && service !== undefined) {
    yield ['service', `must only stand together with login: service (login is ${login})`];
  }
}

function* redisRules(redis: RedisConfig, named: NamedFiles): Broken {
  const { mode, master, username, password, encryption_key } = redis;
  const urls = redis.url.map((text) => new URL(text));
  if (mode === 'sentinel' && master === undefined) {
    yield ['master', 'is missing; mode: sentinel needs the name of the master'];
  }
  if (mode !== 'sentinel' && master !== undefined) {
    yield ['master', 'must only stand with mode: sentinel'];
  }
  if (mode === 'standalone' && urls.length > 1) {
    yield ['url', 'must be one address with mode: standalone'];
  }
  if (mode !== 'standalone' && urls.length === 0) {
    yield ['url', `must not be empty with mode: ${mode}`];
  }
  // A server that refuses to select one leaves the connection in database 0, where another deployment may be.
  if (urls.some(({ pathname }) => Number(pathname.slice(1)) > 0)) {
    const why = 'cache.redis.namespace keeps deployments apart';
    yield ['url', `must not name a database other than 0; ${why}`];
  }
  // Which of them would count for a node that the others tell of?
  if (new Set(urls.map((one) => `${one.username}:${one.password}`)).size > 1) {
    yield ['url', 'must name the same user and password in all addresses'];
  }
  if (username !== undefined && password === undefined) {
    yield ['password', 'is missing; username needs it'];
  }
  for (const [name, value] of Object.entries({ password, encryption_key })) {
    if (value === undefined || urls.length > 0) continue;
    yield [name, 'must only stand together with an address in url'];
  }
  const encrypted = urls.some(({ protocol }) => protocol === 'rediss:');
  yield* tlsRules(redis, named, encrypted ? '' : 'needs a rediss:// URL');
}

function* storageRules(storage: CheckedFile['storage'], named: NamedFiles): Broken {
  const { driver, url, login, tls } = storage;
  yield* loginRules(storage);
  const isHttp = /^https?:/i.test(url);
  if (driver === 'sqlite' && url !== '') {
    yield ['url', 'must be empty with driver: sqlite, which takes storage.path'];
  }
  if (driver === 'postgres' && (url === '' || isHttp)) {
    yield ['url', 'must be a postgres:// URL with driver: postgres'];
  }
  if (driver === 'http' && !isHttp) {
    yield ['url', 'must be an http:// or https:// URL with driver: http'];
  }
  if (login === 'service' && driver !== 'http') {
    yield ['login', 'must only be service with driver: http'];
  }
  if (tls && driver !== 'postgres') yield ['tls', 'must only be true with driver: postgres'];
  const needs = 'needs an encrypted connection: tls: true, or an https:// URL';
  yield* tlsRules(storage, named, tls || /^https:/i.test(url) ? '' : needs);
}

/** @param needs what is wrong with the files where the connection is not encrypted */
function* tlsRules(files: TlsFiles, named: NamedFiles, needs = ''): Broken {
  const { ca, certificate, key } = files;
  for (const [name, path] of Object.entries({ ca, certificate, key })) {
    if (path !== undefined && needs !== '') yield [name, needs];
  }
  if (certificate && !key) yield ['certificate', 'needs the key that belongs to it; both or none'];
  if (key && !certificate) yield ['key', 'needs the certificate that belongs to it; both or none'];
  yield* unusableTls(files, named);
}
