/** What must fit together in a configuration whose keys are right one by one, and of what use the files are that it names. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { isAbsolute, relative, sep } from 'node:path';
import { ENGINE_KINDS } from '../common/engine-kinds.ts';
import { whyNotNamed } from '../common/header-names.ts';
import type {
  CacheShare,
  CheckedEngine,
  CheckedFile,
  CheckedProject,
  Config,
  HookConfig,
  RedisConfig,
  WatchConfig,
} from './config.ts';
import { USUAL } from './fit-memory.ts';
import type { Reading } from './kinds.ts';
import { SECRET_MASK, type KeyPath } from './problems.ts';

/** Keys that are wrong, from the section in question on, each with the rest of a sentence that begins with it. */
type Broken = Iterable<readonly [key: string, message: string]>;
type TlsFiles = Partial<Pick<CheckedEngine, 'ca' | 'certificate' | 'key'>>;

/** Adds what is wrong to `reading`. @param config made from the file, with what projects inherit */
export function checkRules(file: CheckedFile, config: Config, reading: Reading): void {
  const { listen, auth, engine, cache, storage } = file;
  const check = (path: KeyPath, broken: Broken): void => {
    for (const [key, message] of broken) {
      reading.problems.push({ path: [...path, ...key.split('.')], message });
    }
  };
  check([], commonRules(file, config));
  const { tooLittle } = config.memory;
  if (tooLittle !== undefined) reading.problems.push({ path: [], message: tooLittle });
  check(['cache'], shareRules(cache, cache.share, engine.login, file));
  check(['listen'], tlsRules(listen, reading));
  check(['auth'], auth.provider === 'file' ? unusableUsers(auth.users, reading) : []);
  check(['engine'], engineRules(engine, engine, reading));
  check(['cache', 'redis'], redisRules(cache.redis, reading));
  check(['storage'], storageRules(storage, reading));
  for (const [name, hook] of file.hooks) check(['hooks', name], hookRules(hook));
  for (const [name, own] of file.projects) {
    const { share, engine: whole } = config.projects.get(name) ?? { ...config, ...cache };
    check(['projects', name], shareRules(own, share, whole.login, file));
    check(['projects', name, 'engine'], engineRules(own.engine ?? {}, whole, reading));
    check(['projects', name, 'watch'], own.watch ? watchRules(own.watch, whole, reading) : []);
  }
}

const HOUR = 3_600_000;

function* commonRules(
  { workers, auth, engine, cache, limits }: CheckedFile,
  { limits: { in_flight } }: Config,
): Broken {
  const divided = workers === 1 ? '' : `, of which each of the ${workers} workers has its part`;
  // Where the engine knows the users, it must be told who asks; and roles are compared with names of the file.
  if (auth.provider === 'engine' && engine.login !== 'forward') {
    yield ['auth.provider', `engine needs engine.login: forward (it is ${engine.login})`];
  }
  // It has to be asked whether a login is still right; the users file says so by itself.
  if (auth.provider === 'engine' && (auth.verified_for ?? 0) > HOUR) {
    yield ['auth.verified_for', 'must not be longer than 1h with auth.provider: engine'];
  }
  // Where the container has less than usual, the largest answer is fitted, too.
  if ((cache.max_entry ?? 0) > (cache.memory ?? USUAL.entries) / workers) {
    yield ['cache.max_entry', `must not be larger than cache.memory${divided}`];
  }
  if (limits.body > in_flight / workers) {
    yield ['limits.in_flight', `must not be smaller than limits.body${divided}`];
  }
}

/** @param written what stands in this section; the other parameters are what is in force */
function* shareRules(
  written: Pick<CheckedProject, 'share'> & { readonly engine?: CheckedProject['engine'] },
  share: CacheShare,
  login: string,
  { cache, storage }: CheckedFile,
): Broken {
  if (written.share === 'roles' && storage.driver === 'http') {
    yield ['share', 'roles cannot be used with storage.driver: http; the roles are elsewhere'];
  }
  if (share === 'user' || login !== 'forward' || cache.engine_permissions_ignored) return;
  const why = 'because users then see answers that the engine might have refused them';
  const needs = `needs cache.engine_permissions_ignored: true, ${why}`;
  if (written.share !== undefined) yield ['share', `${share} with login: forward ${needs}`];
  else if (written.engine?.login !== undefined) {
    yield ['engine.login', `forward with share: ${share} ${needs}`];
  }
}

/** MDX for Kylin has its clearCache beside its XMLA. */
const KYLIN_URL = /\/mdx\/xmla(?:_server)?(?:\/\{project\})?\/?$/;

/** @param written what of the engine stands in this section; the rest was told of the one it comes from */
function* engineRules(
  written: Partial<CheckedEngine>,
  engine: Pick<CheckedEngine, 'login' | 'service' | 'clear' | 'url'>,
  reading: Reading,
): Broken {
  if (written.login !== undefined || 'service' in written) yield* loginRules(engine);
  const clears = written.clear !== undefined || written.url !== undefined;
  if (clears && engine.clear === 'kylin' && !engine.url.every((url) => KYLIN_URL.test(url))) {
    const ends = '/mdx/xmla, /mdx/xmla_server, or one of them with /{project}';
    yield ['clear', `kylin needs an engine.url that ends in ${ends}`];
  }
  for (const name of written.headers ?? []) {
    const why = whyNotNamed(name);
    if (why !== undefined) yield ['headers', `must not name ${name}: ${why}`];
  }
  yield* tlsRules(written, reading);
}

function* loginRules({ login, service }: { login: string; service: object | undefined }): Broken {
  const missing = 'is missing; login: service needs service: { name, password }';
  const surplus = `must only stand together with login: service (login is ${login})`;
  if ((login === 'service') !== !!service) yield ['service', service ? surplus : missing];
}

function* hookRules(hook: HookConfig): Broken {
  const { format, projects } = hook;
  const keys = ['user', 'secret'] as const;
  const [needed, other] = format === 'kylin5' ? keys : keys.toReversed();
  if (needed && !hook[needed]) yield [needed, `is missing; format: ${format} needs it`];
  if (other && hook[other]) yield [other, `must not stand with format: ${format}`];
  if (format === 'dbt' && [...projects].some(([from, to]) => from !== to)) {
    yield ['projects', 'must be a list with format: dbt, each message of which purges all of them'];
  }
}

const FILES = ['ca', 'certificate', 'key'] as const;
const LOGIN = ['user', 'password'] as const;
type WatchKeys = readonly (keyof WatchConfig)[];
/** The keys that stand with one kind of watcher only: those that it needs, and those that it may have. */
const WATCH_KEYS: Record<WatchConfig['kind'], Record<'needed' | 'possible', WatchKeys>> = {
  xmla: { needed: [], possible: LOGIN },
  kylin: { needed: ['url', 'project'], possible: [...LOGIN, ...FILES] },
  postgres: { needed: ['url', 'query'], possible: ['tls', ...FILES] },
  url: { needed: ['url'], possible: [...LOGIN, ...FILES] },
  file: { needed: ['path'], possible: [] },
};
const OF_ALL_KINDS: WatchKeys = ['kind', 'every', 'min_interval', 'when_blind'];

/** @param engine of its project */
function* watchRules(watch: WatchConfig, engine: CheckedEngine, reading: Reading): Broken {
  const { kind, url = '', user, password, tls } = watch;
  const { needed, possible } = WATCH_KEYS[kind];
  for (const name of needed) {
    if (watch[name] === undefined) yield [name, `is missing; kind: ${kind} needs it`];
  }
  const known = new Set<string>([...OF_ALL_KINDS, ...needed, ...possible]);
  for (const [name, value] of Object.entries(watch)) {
    if (value && !known.has(name)) yield [name, `must not stand with kind: ${kind}`];
  }
  if (kind === 'xmla' && ENGINE_KINDS[engine.kind].changeDates.length === 0) {
    const instead = `${engine.kind === 'kylin' ? 'kylin, ' : ''}postgres, url or file`;
    yield ['kind', `xmla sees no change of an engine of kind ${engine.kind}; use ${instead}`];
  }
  if (kind === 'xmla' && engine.login === 'forward' && !user) {
    yield ['user', 'is missing; xmla with engine.login: forward needs user and password'];
  }
  if ((user === undefined) !== (password === undefined)) {
    yield [user ? 'password' : 'user', 'is missing; user and password stand together'];
  }
  const isHttp = /^http/i.test(url);
  if (url !== '' && isHttp === (kind === 'postgres')) {
    const scheme = kind === 'postgres' ? 'a postgres://' : 'an http:// or https://';
    yield ['url', `must be ${scheme} URL with kind: ${kind}`];
  }
  const isEncrypted = tls || /^https:/i.test(url);
  const needs = 'needs an encrypted connection: tls: true with postgres, or an https:// URL';
  yield* tlsRules(watch, reading, isEncrypted ? '' : needs);
}

function* redisRules(redis: RedisConfig, reading: Reading): Broken {
  const { mode, master, username, password, encryption_key } = redis;
  const urls = redis.url.map((text) => new URL(text));
  const nameless = 'is missing; mode: sentinel needs the name of the master';
  const named = 'must only stand with mode: sentinel';
  if ((mode === 'sentinel') !== !!master) yield ['master', master ? named : nameless];
  const [isOne, isNone] = [mode === 'standalone', urls.length === 0];
  if (isOne && urls.length > 1) yield ['url', 'must be one address with mode: standalone'];
  if (!isOne && isNone) yield ['url', `must not be empty with mode: ${mode}`];
  // A server that refuses to select one leaves the connection in database 0, where another deployment may be.
  if (urls.some(({ pathname }) => Number(pathname.slice(1)) > 0)) {
    const why = 'cache.redis.namespace keeps deployments apart';
    yield ['url', `must not name a database other than 0; ${why}`];
  }
  // Which of them would count for a node that the others tell of?
  if (new Set(urls.map((one) => `${one.username}:${one.password}`)).size > 1) {
    yield ['url', 'must name the same user and password in all addresses'];
  }
  if (username && !password) yield ['password', 'is missing; username needs it'];
  for (const [name, value] of Object.entries({ password, encryption_key })) {
    if (value && isNone) yield [name, 'must only stand together with an address in url'];
  }
  const encrypted = urls.some(({ protocol }) => protocol === 'rediss:');
  yield* tlsRules(redis, reading, encrypted ? '' : 'needs a rediss:// URL');
}

const STORAGE_URLS = {
  sqlite: 'must be empty with driver: sqlite, which takes storage.path',
  postgres: 'must be a postgres:// URL with driver: postgres',
  http: 'must be an http:// or https:// URL with driver: http',
} as const;

function* storageRules(storage: CheckedFile['storage'], reading: Reading): Broken {
  const { driver, url, login, tls } = storage;
  yield* loginRules(storage);
  const ofUrl = url === '' ? 'sqlite' : /^https?:/i.test(url) ? 'http' : 'postgres';
  if (driver !== ofUrl) yield ['url', STORAGE_URLS[driver]];
  const isRemote = driver === 'http';
  if (login === 'service' && !isRemote) yield ['login', 'must only be service with driver: http'];
  if (tls && driver !== 'postgres') yield ['tls', 'must only be true with driver: postgres'];
  const needs = 'needs an encrypted connection: tls: true, or an https:// URL';
  yield* tlsRules(storage, reading, tls || /^https:/i.test(url) ? '' : needs);
}

/** @param needs what is wrong with the files where the connection is not encrypted */
function* tlsRules(files: TlsFiles, reading: Reading, needs = ''): Broken {
  const { ca, certificate, key } = files;
  for (const [name, path] of Object.entries({ ca, certificate, key })) {
    if (path !== undefined && needs !== '') yield [name, needs];
  }
  const wanted = 'PEM certificate';
  if (certificate && !key) yield ['certificate', 'needs the key that belongs to it; both or none'];
  if (key && !certificate) yield ['key', 'needs the certificate that belongs to it; both or none'];
  if (ca) yield* readNamed('ca', ca, reading, readCertificates, wanted);
  if (!certificate || !key) return;
  const chain = yield* readNamed('certificate', certificate, reading, readCertificates, wanted);
  const unlocked = 'PEM private key without a passphrase';
  const privateKey = yield* readNamed('key', key, reading, createPrivateKey, unlocked);
  if (privateKey && chain?.[0]?.checkPrivateKey(privateKey) === false) {
    yield ['key', `${shown(key, reading)} does not belong to the certificate`];
  }
}

function* unusableUsers(path: string, reading: Reading): Broken {
  const target = reading.hiddenPaths.has(path) ? 'FILE' : shellPath(path, reading.workingFolder);
  for (const [key, problem] of readNamed('users', path, reading, String, '')) {
    const isMissing = problem.endsWith(READ_ERRORS['ENOENT'] ?? '');
    const advice = `; make it with: mdx-gateway hash-password NAME >> ${target}`;
    yield [key, isMissing ? problem + advice : problem];
  }
}

const READ_ERRORS: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'does not exist',
  EACCES: 'cannot be read: permission denied',
  EPERM: 'cannot be read: permission denied',
  EISDIR: 'is a folder',
  NOT_REGULAR: 'is no regular file, which alone can be read again',
};

/** The rest of a sentence that begins with the file. */
export function readErrorText(error: unknown): string {
  const { code = '' } = error as { readonly code?: string };
  return READ_ERRORS[code] ?? `cannot be read${code === '' ? '' : ` (${code})`}`;
}

const shown = (path: string, { hiddenPaths }: Reading) =>
  hiddenPaths.has(path) ? SECRET_MASK : path;

/** @param parse throws when the file holds none of what is wanted */
function* readNamed<T>(
  key: string,
  path: string,
  reading: Reading,
  parse: (text: string) => T,
  wanted: string,
): Generator<readonly [key: string, message: string], T | undefined> {
  let bytes: Uint8Array | undefined;
  try {
    bytes = reading.readFile(path);
    return parse(new TextDecoder().decode(bytes));
  } catch (error) {
    const problem = bytes === undefined ? readErrorText(error) : `holds no ${wanted}`;
    yield [key, `${shown(path, reading)} ${problem}`];
    return undefined;
  }
}

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;
/** @throws Error when there is none, or a broken one */
function readCertificates(pem: string): readonly X509Certificate[] {
  const blocks = pem.match(PEM_CERTIFICATE) ?? [];
  if (blocks.length === 0) throw new Error('no certificate');
  return blocks.map((block) => new X509Certificate(block));
}

/** The path as one word of a shell, short when it lies below the working folder. */
function shellPath(path: string, workingFolder: string): string {
  const below = relative(workingFolder, path);
  const outside = below === '..' || below.startsWith(`..${sep}`) || isAbsolute(below);
  const shortest = outside ? path : `./${below}`;
  return /^[\w./-]+$/.test(shortest) ? shortest : `'${shortest.replaceAll("'", `'\\''`)}'`;
}
