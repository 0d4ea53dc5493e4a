import { tlsFiles, tlsRules } from '../settings/connection.ts';
import * as kinds from '../settings/kinds.ts';
import type { Broken } from '../settings/problems.ts';
import { key, orNull, section, type ValueOf } from '../settings/setting.ts';

/** The name of a master among sentinels (sentinel.conf), or text for a Redis hash tag. */
const redisName = (longest: number) =>
  kinds.textKind(
    'text',
    `1 to ${longest} letters, digits, dots, underscores and hyphens`,
    (text) => text.length <= longest && /^[\w.-]+$/.test(text),
  );

/** Refuses a query: the Redis client would take options from it. */
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
  /** The address of the Redis that all gateways share: that of the server (standalone), of some
   * nodes (cluster), or of the sentinels (sentinel). rediss:// encrypts the connection. Empty: no
   * Redis, memory only. */
  url: key(redisUrls, ''),
  /** The kind of server at that address. docs/PURGE.md lists the settings that each needs. */
  mode: key(kinds.choice('standalone', 'sentinel', 'cluster'), 'standalone'),
  /** The name under which the sentinels watch the master (mode: sentinel). */
  master: orNull(redisName(255)),
  /** The ACL user of Redis, instead of the one in the URL. With mode: sentinel, the user in the
   * URLs is that of the sentinels. */
  username: orNull(kinds.loginName),
  /** The password of that user. Take it from a file, ${file:/run/secrets/redis_password}, or from
   * the environment, ${REDIS_PASSWORD}. */
  password: orNull(kinds.secretText(1)),
  ...tlsFiles,
  /** The first part of every key in Redis, so that several deployments may share one. */
  namespace: key(redisName(64), 'mdx'),
  /** A secret that encrypts answers, sessions and the purge log in Redis (AES-256-GCM), the same
   * for all gateways that share a Redis. null: these are not encrypted. */
  encryption_key: orNull(kinds.secretText(32)),
});

export type RedisConfig = ValueOf<typeof redis>;

export function* redisRules(redis: RedisConfig, reading: kinds.Reading): Broken {
  const { mode, master, username, password, encryption_key } = redis;
  const urls = redis.url.map((text) => new URL(text));
  if (mode === 'sentinel' && !master) {
    yield ['master', 'is missing; mode: sentinel needs the name of the master'];
  } else if (mode !== 'sentinel' && master) {
    yield ['master', 'must only stand with mode: sentinel'];
  }
  const [isOne, isNone] = [mode === 'standalone', urls.length === 0];
  if (isOne && urls.length > 1) yield ['url', 'must be one address with mode: standalone'];
  if (!isOne && isNone) yield ['url', `must not be empty with mode: ${mode}`];
  // If a server refuses SELECT, the connection stays in database 0, perhaps with foreign data.
  if (urls.some(({ pathname }) => Number(pathname.slice(1)) > 0)) {
    const why = 'cache.redis.namespace keeps deployments apart';
    yield ['url', `must not name a database other than 0; ${why}`];
  }
  // The others may name a node, and it would not be clear which login counts there.
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
