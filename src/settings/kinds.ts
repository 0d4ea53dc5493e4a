/** Kinds of values. A kind knows how a value is read and written, and says in words what is allowed. */
import { resolve } from 'node:path';
import { type KeyPath, SECRET_MASK, type Problem } from './problems.ts';
import { ReferenceText } from './yaml-text.ts';

/** Reads a whole file. @throws an Error with the `code` of the system, such as ENOENT, or NOT_REGULAR. */
export type ReadFile = (path: string) => Uint8Array;

/** One reading of a configuration, at the place of one value. Folders are absolute. */
export interface Reading {
  readonly path: KeyPath;
  /** Where relative paths start. */
  readonly folder: string;
  /** Where the operator stands, for commands in messages. */
  readonly workingFolder: string;
  readonly readFile: ReadFile;
  /** Absolute paths that came from the environment or another file, so that no message may show them. */
  readonly hiddenPaths: Set<string>;
  /** Where there is anything, the values that were read count for nothing. */
  readonly problems: Problem[];
  /** Keys of former versions that stand in the file. */
  readonly withdrawn: string[];
}

export interface Kind<T> {
  /** One or two words for the configuration reference. */
  readonly type: string;
  /** The end of the sentence "must be …". */
  readonly allowed: string;
  /** The value as the program uses it, undefined when it is not allowed. */
  read(input: unknown, reading: Reading): T | undefined;
  /** The value as an operator would write it; a secret is masked. */
  write(value: T): unknown;
  /** The right spelling of a value that is not allowed, where it can be told. */
  spelling?(text: string): string | undefined;
  /** True when a message must not show this value. */
  hides(text: string): boolean;
}

/** The text of a scalar: what came from the environment, or a value of one of these types of YAML. */
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

/** Whole numbers with a unit ('' for none). @param writes units in which they are written, the largest first */
function amounts(units: Readonly<Record<string, number>>, writes = Object.keys(units)) {
  return {
    /** @returns undefined when the text is no amount, or too large to be exact; 0 needs no unit */
    parse(text: string): number | undefined {
      const [, digits, unit = ''] = /^(\d{1,16})([A-Za-z]*)$/.exec(text) ?? [];
      const isZero = unit === '' && Number(digits) === 0;
      const amount = isZero ? 0 : Number(digits) * (units[unit] ?? Number.NaN);
      return Number.isSafeInteger(amount) ? amount : undefined;
    },
    /** In the largest unit that keeps the amount exact. */
    format(amount: number): string {
      const fits = (size = 1) => amount >= size && amount % size === 0;
      const unit = writes.find((one) => fits(units[one]));
      return unit === undefined ? String(amount) : `${amount / (units[unit] ?? 1)}${unit}`;
    },
  };
}

/** Milliseconds. A bare 30 might mean seconds or minutes. */
export const durations = amounts({ d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 });
/** Bytes. The spelling counts: people mean different things by `KB` and `mb`. */
export const sizes = amounts(
  { GiB: 2 ** 30, MiB: 2 ** 20, KiB: 2 ** 10, GB: 1e9, MB: 1e6, kB: 1e3, '': 1 },
  ['GiB', 'MiB', 'KiB'],
);

const within = (value = NaN, min = NaN, max = NaN) =>
  value >= min && value <= max ? value : undefined;

/** Between two amounts as they are written. `off`: 0 is allowed too and switches something off. */
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

/** One word of a closed list. */
export function choice<const T extends string>(...words: readonly T[]): Kind<T> {
  const allowed = `one of ${words.join(', ')}`;
  return kind('word', allowed, (text) => words.find((word) => word === text));
}

export const onOrOff = choice('on', 'off');

/** Read as its absolute path. Whether it is there is checked later. */
export const filePath = kind('path', 'the path of a file', (text, reading, input) => {
  if (text.trim() === '' || CONTROL.test(text)) return undefined;
  const path = resolve(reading.folder, text);
  if (input instanceof ReferenceText && input.fromOutside) reading.hiddenPaths.add(path);
  return path;
});

/** A secret of `min` to 1024 characters, without control characters (RFC 7617 §2 bars them from passwords). */
export function secretText(min: number): Kind<string> {
  return textKind(
    'secret',
    `a text of ${min} to 1024 characters without control characters (in quotes if it is a number)`,
    (text) =>
      text.length >= min && text.length <= 1024 && !CONTROL.test(text) && text.isWellFormed(),
    { hides: () => true, write: () => SECRET_MASK },
  );
}

/** A colon ends the name in Basic authentication, control characters are forbidden (RFC 7617 §2). */
const isLoginName = (name: string) => /^[^:\p{Cc}]+$/u.test(name) && name.isWellFormed();
export const loginName = textKind(
  'user name',
  'a name without colon and control characters, not empty',
  isLoginName,
);

/** It can stand in a password file, where # begins a comment and htpasswd sets the length. */
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

/** A project is one segment of a request path (the interface document §4.3), so it can be no dot segment. */
export const projectName = textKind(
  'project name',
  'a project name: not empty, not . or .., without control characters',
  (name) => !['', '.', '..'].includes(name) && !CONTROL.test(name) && name.isWellFormed(),
);

export const PROJECT_PLACE = '{project}';
const HTTP_URL = /^https?:\/\/[^/?#@\\\s\p{Cc}{}]+(?<path>\/[^?#\\\s\p{Cc}]*)?$/iu;
// A brace, or a dot segment, also percent-encoded: the URL class would climb the path and lose segments on the way.
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
/** One URL, or a list of different ones that are alike in what `traitOf` says of them. */
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
