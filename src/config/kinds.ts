/** What the value of a key can be. A kind knows how a value is read and says in words what is allowed. */

import { isIP } from 'node:net';
import { compile } from 'proxy-addr';
import { formatDuration, formatSize, parseDuration, parseSize } from './durations-and-sizes.ts';
import { EnvironmentText } from './environment-text.ts';
import { isLoginName, isUserName, LOGIN_NAME_RULE, USER_NAME_RULE } from './names.ts';
import {
  ENGINE_URL_RULE,
  isEngineUrl,
  isRedisUrl,
  isStorageUrl,
  REDIS_URL_RULE,
  STORAGE_URL_RULE,
} from './urls.ts';

export interface Kind<T> {
  /** One or two words for the configuration reference. */
  readonly type: string;
  /** The end of the sentence "must be …". */
  readonly allowed: string;
  /** True when a message must not show this value. */
  readonly secret: (text: string) => boolean;
  /** The value as the program uses it, undefined when it is not allowed. */
  readonly read: (input: unknown) => T | undefined;
}

/** A path as it was written; `hidden` when it came from the environment, and no message may show it. */
export interface WrittenPath {
  readonly text: string;
  readonly hidden: boolean;
}

/** The text of a scalar, wherever it came from; undefined when it is none. */
export function textOf(input: unknown): string | undefined {
  if (input instanceof EnvironmentText) return input.text;
  return typeof input === 'string' ? input : undefined;
}

const never = () => false;
const always = () => true;

function textKind(
  type: string,
  allowed: string,
  test: (text: string) => boolean,
  secret: (text: string) => boolean = never,
): Kind<string> {
  return {
    type,
    allowed,
    secret,
    read(input) {
      const text = textOf(input);
      return text !== undefined && test(text) ? text : undefined;
    },
  };
}

interface Range {
  readonly min: number;
  readonly max: number;
}

function within(value: number | undefined, { min, max }: Range): number | undefined {
  return value !== undefined && value >= min && value <= max ? value : undefined;
}

/** Milliseconds. `off` says that 0 is allowed too and switches something off. */
export function duration(range: Range & { readonly off?: true }): Kind<number> {
  const span = `between ${formatDuration(range.min)} and ${formatDuration(range.max)}`;
  return {
    type: 'duration',
    allowed: `a duration such as 12h, 30m or 45s, ${range.off ? '0 or ' : ''}${span}`,
    secret: never,
    read(input) {
      const value = input === 0 ? 0 : parseDuration(textOf(input) ?? '');
      return range.off && value === 0 ? 0 : within(value, range);
    },
  };
}

/** Bytes. */
export function size(range: Range): Kind<number> {
  return {
    type: 'size',
    allowed:
      'a size such as 256MiB, 64KiB or a number of bytes, ' +
      `between ${formatSize(range.min)} and ${formatSize(range.max)}`,
    secret: never,
    read(input) {
      const value = Number.isSafeInteger(input) ? Number(input) : parseSize(textOf(input) ?? '');
      return within(value, range);
    },
  };
}

export function integer(range: Range): Kind<number> {
  return {
    type: 'integer',
    allowed: `a whole number between ${range.min} and ${range.max}`,
    secret: never,
    read(input) {
      if (typeof input === 'number') {
        return Number.isSafeInteger(input) ? within(input, range) : undefined;
      }
      if (!(input instanceof EnvironmentText) || !/^\d{1,15}$/.test(input.text)) return undefined;
      return within(Number(input.text), range);
    },
  };
}

export function flag(): Kind<boolean> {
  return {
    type: 'boolean',
    allowed: 'true or false',
    secret: never,
    read(input) {
      if (typeof input === 'boolean') return input;
      if (!(input instanceof EnvironmentText)) return undefined;
      return input.text === 'true' || (input.text === 'false' ? false : undefined);
    },
  };
}

/** One word of a closed list. */
export function choice<const T extends string>(words: readonly T[]): Kind<T> {
  return {
    type: 'word',
    allowed: `one of ${words.join(', ')}`,
    secret: never,
    read: (input) => words.find((word) => word === textOf(input)),
  };
}

/** Makes a key that may be switched off with `null`, which is also its default. */
export function orNull<T>(kind: Kind<T>): Kind<T | null> {
  return {
    ...kind,
    allowed: `${kind.allowed}; or null`,
    read: (input) => (input === null ? null : kind.read(input)),
  };
}

/** A file, relative to the folder of the configuration file. Whether it is there is checked later. */
export function filePath(): Kind<WrittenPath> {
  return {
    type: 'path',
    allowed: 'the path of a file',
    secret: never,
    read(input) {
      const text = textOf(input);
      if (text === undefined || text.trim() === '' || /\p{Cc}/u.test(text)) return undefined;
      return { text, hidden: input instanceof EnvironmentText && input.fromEnvironment };
    },
  };
}

const HOST_NAME = /^(?!-)[A-Za-z0-9-]{1,63}(?:\.(?!-)[A-Za-z0-9-]{1,63})*$/;

/** An address to listen on. A name of digits and dots that is no address would only fail later. */
export function listenHost(): Kind<string> {
  return textKind(
    'host',
    'an IP address or a host name such as 127.0.0.1, 0.0.0.0, :: or localhost',
    (text) =>
      isIP(text) !== 0 || (text.length <= 253 && HOST_NAME.test(text) && !/^[\d.]+$/.test(text)),
  );
}

const NAMED_RANGES = ['loopback', 'linklocal', 'uniquelocal'];

function isAddressRange(text: string): boolean {
  const [address = ''] = text.split('/', 1);
  // proxy-addr also reads old short forms, where 10 means 0.0.0.10.
  if (!NAMED_RANGES.includes(text) && isIP(address) === 0) return false;
  try {
    compile([text]);
    return true;
  } catch {
    return false;
  }
}

/** What proxy-addr takes, its names of well-known ranges included. */
export function addressRange(): Kind<string> {
  return textKind(
    'address range',
    `an IP address or range such as 10.0.0.0/8 or fd00::/8, or one of ${NAMED_RANGES.join(', ')}`,
    isAddressRange,
  );
}

export function userName(): Kind<string> {
  return textKind('user name', USER_NAME_RULE, isUserName);
}

/** A name at another system, which may have other rules than the users file. */
export function loginName(): Kind<string> {
  return textKind('user name', LOGIN_NAME_RULE, isLoginName);
}

// An @, a query or a fragment is where credentials would stand that were put into the URL by mistake.
const mayHoldCredentials = (text: string) => /[@?#]/.test(text);

function engineUrl(): Kind<string> {
  return textKind('URL', ENGINE_URL_RULE, isEngineUrl, mayHoldCredentials);
}

const MAX_REPLICAS = 16;

/** One URL, or one for each replica. Either all of them name the project or none does. */
export function engineUrls(): Kind<readonly string[]> {
  const one = engineUrl();
  return {
    type: 'URL or list of URLs',
    allowed: `${ENGINE_URL_RULE}; or a list of up to ${MAX_REPLICAS} different ones for the replicas of the engine, all with {project} or none`,
    secret: one.secret,
    read(input) {
      const urls = (Array.isArray(input) ? input : [input]).map(one.read);
      const read = urls.filter((url) => url !== undefined);
      const alike = new Set(read.map((url) => url.includes('{project}'))).size === 1;
      const sound = alike && new Set(read).size === urls.length && urls.length <= MAX_REPLICAS;
      return sound ? read : undefined;
    },
  };
}

export function cubeName(): Kind<string> {
  return textKind(
    'cube name',
    'a name of 1 to 255 characters without control characters, as it stands in MDX without its brackets',
    (text) => text.trim() !== '' && text.length <= 255 && !/\p{Cc}/u.test(text),
  );
}

/** The address of Redis, or of several nodes of it. Empty means no Redis. */
export function redisUrls(): Kind<readonly string[]> {
  return {
    type: 'URL or list of URLs',
    allowed: `${REDIS_URL_RULE}; or a list of up to ${MAX_REPLICAS} different ones, all with redis:// or all with rediss://`,
    secret: always,
    read(input) {
      if (textOf(input) === '') return [];
      const urls = (Array.isArray(input) ? input : [input]).map(textOf);
      const read = urls.filter((url) => url !== undefined && url !== '' && isRedisUrl(url));
      const alike = new Set(read.map((url) => new URL(url as string).protocol)).size === 1;
      const sound = alike && new Set(read).size === urls.length && urls.length <= MAX_REPLICAS;
      return sound ? (read as string[]) : undefined;
    },
  };
}

/** The name of a master among sentinels (sentinel.conf: letters, digits and .-_). */
export function redisMaster(): Kind<string> {
  return textKind('text', '1 to 255 letters, digits, dots, underscores and hyphens', (text) =>
    /^[A-Za-z0-9_.-]{1,255}$/.test(text),
  );
}

export function storageUrl(): Kind<string> {
  return textKind('URL', STORAGE_URL_RULE, isStorageUrl, always);
}

/** The namespace goes inside the braces of a Redis hash tag, so it can hold no braces itself. */
export function redisNamespace(): Kind<string> {
  return textKind('text', '1 to 64 letters, digits, dots, underscores and hyphens', (text) =>
    /^[A-Za-z0-9_.-]{1,64}$/.test(text),
  );
}

/** A secret of `min` to 1024 characters, without control characters (RFC 7617 §2 bars them from passwords). */
export function secretText(min: number): Kind<string> {
  return textKind(
    'secret',
    `a text of ${min} to 1024 characters without control characters (in quotes if it is a number)`,
    (text) =>
      text.length >= min && text.length <= 1024 && !/\p{Cc}/u.test(text) && text.isWellFormed(),
    always,
  );
}
