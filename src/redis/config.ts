/** The section `cache.redis`. */
import { tlsFiles, tlsRules } from '../settings/connection.ts';
import * as kinds from '../settings/kinds.ts';
import type { Broken } from '../settings/problems.ts';
import { key, orNull, section, type ValueOf } from '../settings/setting.ts';

/** Names of a master among sentinels (sentinel.conf), and texts that may stand in a Redis hash tag. */
function redisName(longest: number): kinds.Kind<string> {
  const allowed = `1 to ${longest} letters, digits, dots, underscores and hyphens`;
  return kinds.textKind(
    'text',
    allowed,
    (text) => text.length <= longest && /^[\w.-]+$/.test(text),
  );
}

/** A query is refused because the Redis client would take options from it. */
function isRedisUrl(text: string): boolean {
  const url = /^rediss?:\/\/[^?#\\\s\p{Cc}]+$/iu.test(text) ? URL.parse(text) : null;
  return !!url && url.hostname !== '' && /^(?:\/\d{0,5})?$/.test(url.pathname);
}

const redisAddresses = kinds.oneOrMore(
  kinds.textKind(
    'URL',
    'empty, or redis:// or rediss:// with a host, without query and fragment, ' +
      'such as rediss://user:password@redis.example:6379',
    isRedisUrl,
    kinds.MASKED_URL,
  ),
  ', all with redis:// or all with rediss://',
  (url) => new URL(url).protocol,
);

const redisUrls: kinds.Kind<readonly string[]> = {
  ...redisAddresses,
  read: (input, reading) => (kinds.textOf(input) === '' ? [] : redisAddresses.read(input, reading)),
};

export const redis = section({
  /** The Redis that all replicas share: the address of the server (standalone), of nodes (cluster),
   * or of the sentinels (sentinel). rediss:// encrypts. Empty: no Redis, memory only. */
  url: key(redisUrls, ''),
  /** What answers at that address. docs/PURGE.md says what each of them must be set to. */
  mode: key(kinds.choice('standalone', 'sentinel', 'cluster'), 'standalone'),
  /** With mode: sentinel, the name under which the sentinels watch the master. */
  master: orNull(redisName(255)),
  /** The ACL user, instead of one in the URL. The URLs of sentinels hold that of the sentinels. */
  username: orNull(kinds.loginName),
  /** Its password. Take it from a file, ${file:/run/secrets/redis_password}, or from the environment, ${REDIS_PASSWORD}. */
  password: orNull(kinds.secretText(1)),
  ...tlsFiles,
  /** The first part of every key in Redis, so that several deployments may share one. */
  namespace: key(redisName(64), 'mdx'),
  /** A secret under which answers, sessions and the purge log are encrypted in Redis (AES-256-GCM),
   * the same for all replicas. null: they lie there as they are. */
  encryption_key: orNull(kinds.secretText(32)),
});

export type RedisConfig = ValueOf<typeof redis>;

export function* redisRules(redis: RedisConfig, reading: kinds.Reading): Broken {
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
