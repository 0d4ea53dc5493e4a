import { resolve } from 'node:path';
import { type KeyPath, SECRET_MASK, type Problem } from './problems.ts';
import { ReferenceText } from './yaml-text.ts';

/** @throws Error with the system's `code`, such as ENOENT, or NOT_REGULAR. */
export type ReadFile = (path: string) => Uint8Array;

/** The reading of one value. Folders are absolute. */
export interface Reading {
  readonly path: KeyPath;
  /** Relative paths start here. */
  readonly folder: string;
  /** The operator's folder, for commands in messages. */
  readonly workingFolder: string;
  readonly readFile: ReadFile;
  /** Absolute paths from the environment or another file, which no message may show. */
  readonly hiddenPaths: Set<string>;
  readonly problems: Problem[];
  readonly withdrawn: string[];
}

export interface Kind<T> {
  /** One or two words for the configuration reference. */
  readonly type: string;
  /** The rest of a sentence that begins with "must be". */
  readonly allowed: string;
  /** Undefined for a value that is not allowed. */
  read(input: unknown, reading: Reading): T | undefined;
  /** Writes the value as an operator would; masks a secret. */
  write(value: T): unknown;
  /** Guesses the right spelling of a wrong value. */
  spelling?(text: string): string | undefined;
  hides(text: string): boolean;
}

/** Text of a scalar, or of a reference. @param types accepted types of YAML */
export function textOf(input: unknown, types: readonly string[] = ['string']): string | undefined {
  if (input instanceof ReferenceText) return input.text;
  return types.includes(typeof input) ? String(input) : undefined;
}

export function kind<T>(
  type: string,
  allowed: string,
  parse: (text: string, reading: Reading, input: unknown) => T | undefined,
  { types, ...more }: Partial<Kind<T>> & { types?: readonly string[] } = {},
): Kind<T> {
  const read = (input: unknown, reading: Reading) => {
    const text = textOf(input, types);
    return text === undefined ? undefined : parse(text, reading, input);
  };
  return { type, allowed, read, write: (value) => value, hides: () => false, ...more };
}

export function textKind(
  type: string,
  allowed: string,
  test: (text: string) => boolean,
  more?: Partial<Kind<string>>,
): Kind<string> {
  return kind(type, allowed, (text) => (test(text) ? text : undefined), more);
}

export const CONTROL = /\p{Cc}/u;

/** Whole numbers with a unit ('' for none). @param writes units for writing, largest first */
function amounts(units: Readonly<Record<string, number>>, writes = Object.keys(units)) {
  return {
    /** Undefined for what is no amount or too large to be exact; 0 needs no unit. */
    parse(text: string): number | undefined {
      const [, digits, unit = ''] = /^(\d{1,16})([A-Za-z]*)$/.exec(text) ?? [];
      const isZero = unit === '' && Number(digits) === 0;
      const amount = isZero ? 0 : Number(digits) * (units[unit] ?? Number.NaN);
      return Number.isSafeInteger(amount) ? amount : undefined;
    },
    format(amount: number): string {
      const fits = (size = 1) => amount >= size && amount % size === 0;
      const unit = writes.find((one) => fits(units[one]));
      return unit === undefined ? String(amount) : `${amount / (units[unit] ?? 1)}${unit}`;
    },
  };
}

/** Milliseconds; a bare 30 might mean seconds or minutes. */
export const durations = amounts({ d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 });
/** Bytes. Letter case counts: people mean different things by `KB` and `mb`. */
export const sizes = amounts(
  { GiB: 2 ** 30, MiB: 2 ** 20, KiB: 2 ** 10, GB: 1e9, MB: 1e6, kB: 1e3, '': 1 },
  ['GiB', 'MiB', 'KiB'],
);

const within = (value = NaN, min = NaN, max = NaN) =>
  value >= min && value <= max ? value : undefined;

/** @param off also allows 0, which switches something off */
const amountKind =
  (type: string, such: string, { parse, format: write }: ReturnType<typeof amounts>) =>
  (min: string, max: string, off?: 'off'): Kind<number> =>
    kind(
      type,
      `a ${type} such as ${such}, ${off ? '0 or ' : ''}between ${min} and ${max}`,
      (text) => (off && parse(text) === 0 ? 0 : within(parse(text), parse(min), parse(max))),
      { types: ['string', 'number'], write },
    );
export const duration = amountKind('duration', '12h, 30m or 45s', durations);
export const size = amountKind('size', '256MiB, 64KiB or a number of bytes', sizes);

export function integer(min: number, max: number): Kind<number> {
  const allowed = `a whole number between ${min} and ${max}`;
  const parse = (text: string) => within(Number(/^\d{1,15}$/.exec(text)?.[0]), min, max);
  return kind('integer', allowed, parse, { types: ['number'] });
}

export const flag = kind(
  'boolean',
  'true or false',
  (text) => text === 'true' || (text === 'false' ? false : undefined),
  { types: ['boolean'] },
);

export function choice<const T extends string>(...words: readonly T[]): Kind<T> {
  const allowed = `one of ${words.join(', ')}`;
  return kind('word', allowed, (text) => words.find((word) => word === text));
}

export const onOrOff = choice('on', 'off');

export const filePath = kind('path', 'the path of a file', (text, reading, input) => {
  if (text.trim() === '' || CONTROL.test(text)) return undefined;
  const path = resolve(reading.folder, text);
  if (input instanceof ReferenceText && input.fromOutside) reading.hiddenPaths.add(path);
  return path;
});

/** RFC 7617 §2 bars control characters from passwords. */
export function secretText(min: number): Kind<string> {
  return textKind(
    'secret',
    `a text of ${min} to 1024 characters without control characters (in quotes if it is a number)`,
    (text) =>
      text.length >= min && text.length <= 1024 && !CONTROL.test(text) && text.isWellFormed(),
    { hides: () => true, write: () => SECRET_MASK },
  );
}

/** RFC 7617 §2 bars the colon, which ends the name, and control characters. */
const isLoginName = (name: string) => /^[^:\p{Cc}]+$/u.test(name) && name.isWellFormed();
export const loginName = textKind(
  'user name',
  'a name without colon and control characters, not empty',
  isLoginName,
);

/** Accepts names for a password file: # begins a comment, htpasswd limits the length. */
export function isUserName(name: string): boolean {
  const isLine = !name.startsWith('#') && name.trim() === name;
  return isLoginName(name) && isLine && Buffer.byteLength(name) <= 255;
}

export const userName = textKind(
  'user name',
  'a user name: 1 to 255 bytes without colon and control characters, ' +
    'no white space at either end, not beginning with #',
  isUserName,
);

/** A project is one path segment (interface document §4.3), so it cannot be a dot segment. */
export const projectName = textKind(
  'project name',
  'a project name: not empty, not . or .., without control characters',
  (name) => !['', '.', '..'].includes(name) && !CONTROL.test(name) && name.isWellFormed(),
);

export const PROJECT_PLACE = '{project}';
const HTTP_URL = /^https?:\/\/[^/?#@\\\s\p{Cc}{}]+(?<path>\/[^?#\\\s\p{Cc}]*)?$/iu;
// Braces and dot segments, also percent-encoded: the URL class would climb and lose segments.
const BAD_SEGMENT = /[{}]|^(?:\.|%2e){1,2}$/i;

/** Accepts an http:// or https:// URL in which {project} may stand once. */
export function isServerUrl(text: string): boolean {
  const match = HTTP_URL.exec(text);
  if (match === null) return false;
  const segments = (match.groups?.['path'] ?? '').split('/');
  const fixed = segments.filter((segment) => segment !== PROJECT_PLACE);
  const hasBad = fixed.some((segment) => BAD_SEGMENT.test(segment));
  return segments.length <= fixed.length + 1 && !hasBad && URL.canParse(text);
}

const DATABASE_URL =
  /^postgres(?:ql)?:\/\/[^/?#@:\\\s\p{Cc}]+(?::[^/?#@\\\s\p{Cc}]*)?@[^/?#@\\\s\p{Cc}]+\/[^/?#\\\s\p{Cc}]+$/iu;
export const isDatabaseUrl = (text: string) => DATABASE_URL.test(text) && URL.canParse(text);

export const masked = (url: string) =>
  url.replace(/^([^:/]+:\/\/[^:@/]*):.*@/s, `$1:${SECRET_MASK}@`);
export const MASKED_URL: Partial<Kind<string>> = { hides: () => true, write: masked };

const MOST_URLS = 16;
/** One URL, or a list of different ones with equal traits. */
export function oneOrMore(
  one: Kind<string>,
  which: string,
  traitOf: (url: string) => unknown,
): Kind<readonly string[]> {
  return {
    ...one,
    type: 'URL or list of URLs',
    allowed: `${one.allowed}; or a list of up to ${MOST_URLS} different ones${which}`,
    read(input, reading) {
      const urls = [input].flat().map((url) => one.read(url, reading));
      const right = urls.filter((url) => url !== undefined);
      const alike = new Set(right.map(traitOf)).size === 1;
      const differ = new Set(right).size === urls.length;
      return alike && differ && urls.length <= MOST_URLS ? right : undefined;
    },
    write: (urls) => (urls.length > 1 ? urls.map(one.write) : one.write(urls[0] ?? '')),
  };
}
