/** What the value of a key can be. A kind knows how a value is read and written, and says in words what is allowed. */

import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { compile } from 'proxy-addr';
import { formatDuration, formatSize, parseDuration, parseSize } from './durations-and-sizes.ts';
import { EnvironmentText } from './environment-text.ts';
import { SECRET_MASK, type Problem } from './problems.ts';

/** One reading of a configuration. */
export interface Reading {
  /** Absolute; relative paths start there. */
  readonly folder: string;
  /** Absolute paths that came from the environment, so that no message may show them. */
  readonly hiddenPaths: Set<string>;
  /** What is wrong. Where there is anything, the values that were read count for nothing. */
  readonly problems: Problem[];
}

export interface Kind<T> {
  /** One or two words for the configuration reference. */
  readonly type: string;
  /** The end of the sentence "must be …". */
  readonly allowed: string;
  /** Whether null may stand there too; the program then sees undefined. */
  readonly nullable?: true;
  /** The value as the program uses it, undefined when it is not allowed. */
  read(input: unknown, reading: Reading): T | undefined;
  /** The value as an operator would write it; a secret is masked. */
  write(value: T): unknown;
  /** True when a message must not show this value. */
  hides(text: string): boolean;
}

interface TextKind extends Kind<string> {
  test(text: string): boolean;
}

/** The text of a scalar, wherever it came from; undefined when it is none. */
export function textOf(input: unknown): string | undefined {
  if (input instanceof EnvironmentText) return input.text;
  return typeof input === 'string' ? input : undefined;
}

const CONTROL = /\p{Cc}/u;

/** What most kinds have in common: they are shown, and written as they are. */
const PLAIN = { hides: () => false, write: (value: unknown) => value };
const SECRET = { hides: () => true, write: () => SECRET_MASK };

function textKind(
  type: string,
  allowed: string,
  test: (text: string) => boolean,
  more: Partial<TextKind> = {},
): TextKind {
  const read = (input: unknown) => {
    const text = textOf(input);
    return text !== undefined && test(text) ? text : undefined;
  };
  return { ...PLAIN, type, allowed, test, read, ...more };
}

/** Makes a key that may be switched off with `null`. */
export function orNull<T>(kind: Kind<T>): Kind<T | undefined> {
  return { ...kind, allowed: `${kind.allowed}; or null`, nullable: true };
}

function within(value: unknown, min = NaN, max = NaN): number | undefined {
  const number = Number.isSafeInteger(value) ? Number(value) : NaN;
  return number >= min && number <= max ? number : undefined;
}

/** A number that is written as a text with a unit. @param range as written */
function amount(
  type: string,
  such: string,
  [parse, write]: readonly [(text: string) => number | undefined, (value: number) => string],
  range: readonly [min: string, max: string],
  off?: 'off',
): Kind<number> {
  const [min, max] = range.map(parse);
  return {
    ...PLAIN,
    type,
    allowed: `a ${type} such as ${such}, ${off ? '0 or ' : ''}between ${range.join(' and ')}`,
    read(input) {
      const value = parse(Number.isSafeInteger(input) ? String(input) : (textOf(input) ?? ''));
      return off && value === 0 ? 0 : within(value, min, max);
    },
    write,
  };
}

/** Milliseconds. `off` says that 0 is allowed too and switches something off. */
export function duration(min: string, max: string, off?: 'off'): Kind<number> {
  return amount('duration', '12h, 30m or 45s', [parseDuration, formatDuration], [min, max], off);
}

/** Bytes. */
export function size(min: string, max: string): Kind<number> {
  return amount('size', '256MiB, 64KiB or a number of bytes', [parseSize, formatSize], [min, max]);
}

export function integer(min: number, max: number): Kind<number> {
  return {
    ...PLAIN,
    type: 'integer',
    allowed: `a whole number between ${min} and ${max}`,
    read(input) {
      const isWritten = input instanceof EnvironmentText && /^\d{1,15}$/.test(input.text);
      return within(isWritten ? Number(input.text) : input, min, max);
    },
  };
}

export const flag: Kind<boolean> = {
  ...PLAIN,
  type: 'boolean',
  allowed: 'true or false',
  read(input) {
    if (typeof input === 'boolean') return input;
    const text = input instanceof EnvironmentText ? input.text : '';
    return text === 'true' || (text === 'false' ? false : undefined);
  },
};

/** One word of a closed list. */
export function choice<const T extends string>(...words: readonly T[]): Kind<T> {
  return {
    ...PLAIN,
    type: 'word',
    allowed: `one of ${words.join(', ')}`,
    read: (input) => words.find((word) => word === textOf(input)),
  };
}

/** A file, read as its absolute path. Whether it is there is checked later. */
export const filePath: Kind<string> = {
  ...PLAIN,
  type: 'path',
  allowed: 'the path of a file',
  read(input, { folder, hiddenPaths }) {
    const text = textOf(input);
    if (text === undefined || text.trim() === '' || CONTROL.test(text)) return undefined;
    const path = resolve(folder, text);
    if (input instanceof EnvironmentText && input.fromEnvironment) hiddenPaths.add(path);
    return path;
  },
};

/** A secret of `min` to 1024 characters, without control characters (RFC 7617 §2 bars them from passwords). */
export function secretText(min: number): Kind<string> {
  return textKind(
    'secret',
    `a text of ${min} to 1024 characters without control characters (in quotes if it is a number)`,
    (text) =>
      text.length >= min && text.length <= 1024 && !CONTROL.test(text) && text.isWellFormed(),
    SECRET,
  );
}

const HOST_NAME = /^(?!-)[A-Za-z0-9-]{1,63}(?:\.(?!-)[A-Za-z0-9-]{1,63})*$/;

/** An address to listen on. A name of digits and dots that is no address would only fail later. */
export const listenHost = textKind(
  'host',
  'an IP address or a host name such as 127.0.0.1, 0.0.0.0, :: or localhost',
  (text) =>
    isIP(text) !== 0 || (text.length <= 253 && HOST_NAME.test(text) && !/^[\d.]+$/.test(text)),
);

const NAMED_RANGES = ['loopback', 'linklocal', 'uniquelocal'];

/** What proxy-addr takes, its names of well-known ranges included. */
export const addressRange = textKind(
  'address range',
  `an IP address or range such as 10.0.0.0/8 or fd00::/8, or one of ${NAMED_RANGES.join(', ')}`,
  (text) => {
    const [address = ''] = text.split('/', 1);
    // proxy-addr also reads old short forms, where 10 means 0.0.0.10.
    if (!NAMED_RANGES.includes(text) && isIP(address) === 0) return false;
    try {
      compile([text]);
      return true;
    } catch {
      return false;
    }
  },
);

/**
 * A name at another system, which may have other rules than the users file: what Basic authentication can carry. A
 * colon ends the name, control characters are forbidden (RFC 7617 §2).
 */
export const loginName = textKind(
  'user name',
  'a name without colon and control characters, not empty',
  (name) => name !== '' && !/[:\p{Cc}]/u.test(name) && name.isWellFormed(),
);

/** A login name that can stand in a password file, where # begins a comment and htpasswd sets the length. */
export const userName = textKind(
  'user name',
  'a user name: 1 to 255 bytes without colon and control characters, ' +
    'no white space at either end, not beginning with #',
  (name) =>
    loginName.test(name) &&
    !name.startsWith('#') &&
    name.trim() === name &&
    Buffer.byteLength(name) <= 255,
);

/** A project is one segment of a request path (the interface document §4.3), so it can be no dot segment. */
export const projectName = textKind(
  'project name',
  'a project name: not empty, not . or .., without control characters',
  (name) => !['', '.', '..'].includes(name) && !CONTROL.test(name) && name.isWellFormed(),
);

export const cubeName = textKind(
  'cube name',
  'a name of 1 to 255 characters without control characters, as it stands in MDX without its brackets',
  (name) => name.trim() !== '' && name.length <= 255 && !CONTROL.test(name),
);

/**
 * Letters, digits and `.-_`: what the name of a master among sentinels may hold (sentinel.conf), and a namespace, which
 * goes inside the braces of a Redis hash tag.
 */
export function redisName(longest: number): Kind<string> {
  return textKind(
    'text',
    `1 to ${longest} letters, digits, dots, underscores and hyphens`,
    (text) => text.length <= longest && /^[A-Za-z0-9_.-]+$/.test(text),
  );
}

/** The place in an engine's URL that the project of the request path replaces. */
const PROJECT_PLACE = '{project}';
const HTTP_URL = /^https?:\/\/[^/?#@\\\s\p{Cc}{}]+(?<path>\/[^?#\\\s\p{Cc}]*)?$/iu;
// A dot segment, also percent-encoded: the URL class would climb the path and lose segments on the way.
const DOT_SEGMENT = /^(?:\.|%2e){1,2}$/i;

/**
 * Credentials belong in `engine.service`, where they are kept out of log and messages. A query is refused because the
 * gateway adds the query of the request.
 */
const engineUrl = textKind(
  'URL',
  'an http:// or https:// URL with a host, without user, password, query and fragment; ' +
    '{project} may stand in it once, as a whole segment of the path',
  (text) => {
    const match = HTTP_URL.exec(text);
    if (match === null) return false;
    const segments = (match.groups?.['path'] ?? '').split('/');
    const fixed = segments.filter((segment) => segment !== PROJECT_PLACE);
    if (segments.length > fixed.length + 1) return false;
    if (fixed.some((segment) => /[{}]/.test(segment) || DOT_SEGMENT.test(segment))) return false;
    return URL.canParse(text);
  },
  // An @, a query or a fragment is where credentials would stand that were put into the URL by mistake.
  { hides: (text) => /[@?#]/.test(text) },
);

/** Puts a mask where the password of a URL stands. A text without a password comes back as it is. */
const SECRET_URL = {
  hides: () => true,
  write: (url: string) => url.replace(/^([^:/]+:\/\/[^:@/]*):.*@/s, `$1:${SECRET_MASK}@`),
};

/** A query is refused because the Redis client would take options from it. */
const redisUrl = textKind(
  'URL',
  'empty, or redis:// or rediss:// with a host, without query and fragment, ' +
    'such as rediss://user:password@redis.example:6379',
  (text) => {
    if (!/^rediss?:\/\/[^?#\\\s\p{Cc}]+$/iu.test(text) || !URL.canParse(text)) return false;
    const { hostname, pathname } = new URL(text);
    return hostname !== '' && /^(?:\/\d{0,5})?$/.test(pathname);
  },
  SECRET_URL,
);

const MAX_REPLICAS = 16;

/** One URL, or a list of different ones that are alike in what `traitOf` says of them. */
function oneOrMore(
  one: TextKind,
  which: string,
  traitOf: (url: string) => unknown,
): Kind<readonly string[]> {
  return {
    type: 'URL or list of URLs',
    allowed: `${one.allowed}; or a list of up to ${MAX_REPLICAS} different ones${which}`,
    hides: one.hides,
    read(input) {
      const urls = (Array.isArray(input) ? input : [input]).map(textOf);
      const read = urls.filter((url) => url !== undefined).filter(one.test);
      const alike = new Set(read.map(traitOf)).size === 1;
      const sound = alike && new Set(read).size === urls.length && urls.length <= MAX_REPLICAS;
      return sound ? read : undefined;
    },
    write: (urls) => (urls.length > 1 ? urls.map(one.write) : one.write(urls[0] ?? '')),
  };
}

/** One URL, or one for each replica. Either all of them name the project or none does. */
export const engineUrls = oneOrMore(
  engineUrl,
  ' for the replicas of the engine, all with {project} or none',
  (url) => url.includes(PROJECT_PLACE),
);

const redisAddresses = oneOrMore(
  redisUrl,
  ', all with redis:// or all with rediss://',
  (url) => new URL(url).protocol,
);

/** The address of Redis, or of several nodes of it. Empty means no Redis. */
export const redisUrls: Kind<readonly string[]> = {
  ...redisAddresses,
  read: (input, reading) => (textOf(input) === '' ? [] : redisAddresses.read(input, reading)),
};

const DATABASE_URL =
  /^postgres(?:ql)?:\/\/[^/?#@:\\\s\p{Cc}]+(?::[^/?#@\\\s\p{Cc}]*)?@[^/?#@\\\s\p{Cc}]+\/[^/?#\\\s\p{Cc}]+$/iu;

/** A database or a remote server. A query is refused because the PostgreSQL client would take options from it. */
export const storageUrl = textKind(
  'URL',
  'empty, or a URL such as postgres://user:password@db.example:5432/gateway or ' +
    'https://gateway.example/base, without query and fragment (storage.tls switches encryption on); ' +
    'a postgres:// URL has a user, an http:// or https:// URL neither user nor password',
  (text) => {
    if (text === '') return true;
    if (/^https?:/i.test(text)) return engineUrl.test(text) && !text.includes(PROJECT_PLACE);
    return DATABASE_URL.test(text) && URL.canParse(text) && new URL(text).hostname !== '';
  },
  SECRET_URL,
);
