/** What must fit together in the section cache.redis. */

import type { RedisConfig } from './config.ts';
import type { WrittenPath } from './kinds.ts';
import type { CheckedFile } from './schema.ts';

type CheckedRedis = CheckedFile['cache']['redis'];

/**
 * @param absolute a path as it was written → absolute
 * @param complain is told the key that is wrong and the rest of the sentence
 */
export function resolveRedis(
  section: CheckedRedis,
  absolute: (path: WrittenPath) => string,
  complain: (key: keyof CheckedRedis, message: string) => void,
): RedisConfig {
  const { ca, certificate, key, master, username, password, encryption_key, ...rest } = section;
  const { mode } = rest;
  const urls = rest.url.map((text) => new URL(text));

  if (mode === 'sentinel' && master === null) {
    complain('master', 'is missing; mode: sentinel needs the name of the master');
  }
  if (mode !== 'sentinel' && master !== null) {
    complain('master', 'must only stand with mode: sentinel');
  }
  if (mode === 'standalone' && urls.length > 1) {
    complain('url', 'must be one address with mode: standalone');
  }
  if (mode !== 'standalone' && urls.length === 0) {
    complain('url', `must not be empty with mode: ${mode}`);
  }
  // A server that refuses to select one leaves the connection in database 0, where another deployment may be.
  if (urls.some((url) => Number(url.pathname.slice(1)) > 0)) {
    complain(
      'url',
      'must not name a database other than 0; cache.redis.namespace keeps deployments apart',
    );
  }
  // Which of them would count for a node that the others tell of?
  if (new Set(urls.map((url) => `${url.username}:${url.password}`)).size > 1) {
    complain('url', 'must name the same user and password in all addresses');
  }
  if (username !== null && password === null) {
    complain('password', 'is missing; username needs it');
  }
  if (urls.length === 0 && password !== null) {
    complain('password', 'must only stand together with an address in url');
  }
  if (urls.length === 0 && encryption_key !== null) {
    complain('encryption_key', 'must only stand together with an address in url');
  }
  if (!urls.some((url) => url.protocol === 'rediss:')) {
    for (const [name, value] of Object.entries({ ca, certificate, key } as const)) {
      if (value !== null) complain(name as 'ca' | 'certificate' | 'key', 'needs a rediss:// URL');
    }
  }

  const absoluteOrNone = (path: WrittenPath | null) => (path === null ? undefined : absolute(path));
  return {
    ...rest,
    master: master ?? undefined,
    username: username ?? undefined,
    password: password ?? undefined,
    ca: absoluteOrNone(ca),
    certificate: absoluteOrNone(certificate),
    key: absoluteOrNone(key),
    encryption_key: encryption_key ?? undefined,
  };
}
