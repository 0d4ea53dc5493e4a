/** Which addresses of engines, Redis and storages the configuration takes. */

/** The place in an engine's URL that the project of the request path replaces. */
const PROJECT_PLACE = '{project}';

/** What `isEngineUrl` asks for, in words for an error message. */
export const ENGINE_URL_RULE =
  'an http:// or https:// URL with a host, without user, password, query and fragment; ' +
  '{project} may stand in it once, as a whole segment of the path';

const ENGINE_URL = /^https?:\/\/[^/?#@\\\s\p{Cc}{}]+(?<path>\/[^?#\\\s\p{Cc}]*)?$/iu;

// A dot segment, also percent-encoded: the URL class would climb the path and lose segments on the way.
const DOT_SEGMENT = /^(?:\.|%2e){1,2}$/i;

/**
 * Credentials belong in `engine.service`, where they are kept out of log and messages. A query is refused
 * because the gateway adds the query of the request.
 */
export function isEngineUrl(text: string): boolean {
  const match = ENGINE_URL.exec(text);
  if (match === null) return false;
  const segments = (match.groups?.['path'] ?? '').split('/');
  const places = segments.filter((segment) => segment === PROJECT_PLACE);
  if (places.length > 1) return false;
  const fixed = segments.filter((segment) => segment !== PROJECT_PLACE);
  if (fixed.some((segment) => /[{}]/.test(segment) || DOT_SEGMENT.test(segment))) return false;
  return URL.canParse(text);
}

/** Whether an engine's URL is one of MDX for Kylin (protocol facts: `/mdx/xmla`, `/mdx/xmla_server`). */
export function isKylinUrl(text: string): boolean {
  return /\/mdx\/xmla(?:_server)?(?:\/\{project\})?\/?$/.test(text);
}

/** What `isRedisUrl` asks for, in words for an error message. */
export const REDIS_URL_RULE =
  'empty, or redis:// or rediss:// with a host, without query and fragment, ' +
  'such as rediss://user:password@redis.example:6379';

/** Empty means no Redis. A query is refused because the Redis client would take options from it. */
export function isRedisUrl(text: string): boolean {
  if (text === '') return true;
  if (!/^rediss?:\/\/[^?#\\\s\p{Cc}]+$/iu.test(text) || !URL.canParse(text)) return false;
  const { hostname, pathname } = new URL(text);
  return hostname !== '' && /^(?:\/\d{0,5})?$/.test(pathname);
}

/** What `isStorageUrl` asks for, in words for an error message. */
export const STORAGE_URL_RULE =
  'empty, or a URL such as postgres://user:password@db.example:5432/gateway or ' +
  'https://gateway.example/base, without query and fragment (storage.tls switches encryption on); ' +
  'a postgres:// URL has a user, an http:// or https:// URL neither user nor password';

const DATABASE_URL =
  /^postgres(?:ql)?:\/\/[^/?#@:\\\s\p{Cc}]+(?::[^/?#@\\\s\p{Cc}]*)?@[^/?#@\\\s\p{Cc}]+\/[^/?#\\\s\p{Cc}]+$/iu;

/**
 * A database or a remote server. A query is refused because the PostgreSQL client would take options from it.
 */
export function isStorageUrl(text: string): boolean {
  if (text === '') return true;
  if (isHttpUrl(text)) return isEngineUrl(text) && !text.includes(PROJECT_PLACE);
  return DATABASE_URL.test(text) && URL.canParse(text) && new URL(text).hostname !== '';
}

/** Whether a URL is one of HTTP or HTTPS. */
export function isHttpUrl(text: string): boolean {
  return /^https?:/i.test(text);
}

/** Puts `mask` where the password of a URL stands. A text without a password comes back as it is. */
export function maskUrlPassword(text: string, mask: string): string {
  return text.replace(/^([^:/]+:\/\/[^:@/]*):.*@/s, `$1:${mask}@`);
}
