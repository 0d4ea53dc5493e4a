/** The bricks of the schema: what is declared of a key, and the walk that reads a file along the declaration. */

import { textOf, type Kind, type Reading } from './kinds.ts';
import { quoteStart, SECRET_MASK, unknownWord, type KeyPath } from './problems.ts';
import { EnvironmentText } from './yaml-text.ts';

/**
 * When a change of a key counts: at a reload or at a restart only. `https`: another file counts at a reload, the change
 * between HTTP and HTTPS at a restart. What a section says counts for all of its keys.
 */
export type Reload = 'reload' | 'restart' | 'https';

/** The key must be written. */
export const REQUIRED = Symbol('required');
/** A key that is not written takes its value from elsewhere, and is not there after reading. */
export const INHERITED = Symbol('inherited');

/** All that is declared of one key, from which the configuration reference is made as well. */
export interface Setting<T> {
  readonly shape: 'value' | 'list' | 'section' | 'members';
  /** One or two words; a section is a `mapping`. */
  readonly type: string;
  /** The end of the sentence "must be …"; empty for mappings. */
  readonly allowed: string;
  /** As an operator would write it; REQUIRED or INHERITED. */
  readonly fallback: unknown;
  /** One or two sentences. */
  readonly meaning: string;
  readonly reload: Reload;
  /** Of the value, of each item of a list, of each name of members. */
  readonly kind?: Kind<unknown>;
  /** Of a section, or of each member that is one. */
  readonly keys?: Settings;
  readonly member?: Setting<unknown>;
  readonly withdrawn?: readonly string[];
  /** Of a section: null stands for none. */
  readonly nullable?: true;
  /** Never there: the type of what is read. */
  readonly value?: T;
}

export type Settings = Readonly<Record<string, Setting<unknown>>>;
/** Of the keys of a section. */
export type Values = Readonly<Record<string, unknown>>;
export type ValueOf<S> = S extends Setting<infer T> ? T : never;
type ValuesOf<K extends Settings> = { readonly [N in keyof K]: ValueOf<K[N]> };
type Section<K extends Settings> = Setting<ValuesOf<K>> & { readonly keys: K };

/** All but the meaning, which is long and stands last. */
function declare<T>(setting: Omit<Setting<T>, 'meaning'>) {
  return { means: (meaning: string): Setting<T> => ({ ...setting, meaning }) };
}

/** A key with a value of its own. @param fallback as an operator would write it, or REQUIRED */
export function key<T>(kind: Kind<T>, fallback: unknown, reload: Reload = 'reload') {
  const { type, allowed } = kind;
  return declare<T>({ shape: 'value', type, allowed, fallback, reload, kind });
}

/** A key with a list in which nothing stands twice. */
export function list<T>(kind: Kind<T>, fallback: readonly string[]) {
  const type = `list of ${kind.type}s`;
  const allowed = `a list, each item ${kind.allowed}`;
  return declare<readonly T[]>({ shape: 'list', type, allowed, fallback, reload: 'reload', kind });
}

const MAPPING = {
  shape: 'section',
  type: 'mapping',
  allowed: '',
  fallback: {},
  reload: 'reload',
} as const;

/**
 * A mapping of known keys. Nothing after the colon means an empty mapping.
 * @param withdrawn keys of former versions: they may stand there, have no effect, and are told in a warning
 */
export function section<K extends Settings>(
  meaning: string,
  keys: K,
  withdrawn: readonly string[] = [],
): Section<K> {
  return { ...MAPPING, meaning, keys, withdrawn };
}

/** A section of which a restart alone changes anything. */
export function byRestart<S extends Setting<unknown>>(setting: S): S {
  return { ...setting, reload: 'restart' };
}

/** A mapping of known keys that is there as a whole or not at all; not at all is `null`. */
export function optionalSection<K extends Settings>(
  meaning: string,
  keys: K,
): Setting<ValuesOf<K> | undefined> {
  return { ...section(meaning, keys), fallback: null, nullable: true };
}

/** A key that is not there unless it is written. */
export function inherited<T>(setting: Setting<T>): Setting<T | undefined> {
  return { ...setting, fallback: INHERITED };
}

/** A section with some of the keys of another one; what is not written is not there. */
export function someOf<K extends Settings>(meaning: string, whole: Section<K>) {
  const some = Object.entries(whole.keys).map(([name, one]) => [name, inherited(one)] as const);
  return { ...whole, meaning, keys: Object.fromEntries(some) } as Setting<Partial<ValuesOf<K>>>;
}

/** A mapping whose keys are names that the operator chooses. */
export function byName<T>(
  kind: Kind<string>,
  member: Setting<T>,
  meaning: string,
): Setting<ReadonlyMap<string, T>> {
  const type = `mapping by ${kind.type}`;
  const { keys } = member;
  return { ...MAPPING, shape: 'members', type, meaning, kind, member, ...(keys && { keys }) };
}

/** Reads what stands under a key. What is wrong is added to `reading.problems`; the result then counts for nothing. */
export function readSetting(
  setting: Setting<unknown>,
  input: unknown,
  reading: Reading,
  path: KeyPath,
): unknown {
  const { shape, type, kind, member, nullable = false } = setting;
  if (shape === 'section') {
    return nullable && input === null ? undefined : readSection(setting, input, reading, path);
  }
  if (kind === undefined) return undefined;
  if (shape === 'value') return readScalar(kind, input, reading, path);
  if (shape === 'list') return readList(setting, kind, input, reading, path);
  const written = mappingOf(input, type, reading, path) ?? {};
  return new Map(
    Object.entries(written).map(([name, value]) => {
      const at = [...path, name];
      const read = member && readSetting(member, value, reading, at);
      return [readScalar(kind, name, reading, at), read];
    }),
  );
}

function readScalar(kind: Kind<unknown>, input: unknown, reading: Reading, path: KeyPath): unknown {
  if (input === null && kind.nullable) return undefined;
  const value = kind.read(input, reading);
  if (value !== undefined) return value;
  const got = describeValue(input, kind.hides(textOf(input) ?? ''));
  return refuse(reading, path, `must be ${kind.allowed} (got ${got})`);
}

const LONGEST_LIST = 1000;

function readList(
  { allowed }: Setting<unknown>,
  kind: Kind<unknown>,
  input: unknown,
  reading: Reading,
  path: KeyPath,
): unknown {
  if (!Array.isArray(input)) {
    return refuse(reading, path, `must be ${allowed} (got ${describeKind(input)})`);
  }
  if (input.length > LONGEST_LIST) {
    return refuse(reading, path, `must have at most ${LONGEST_LIST} items`);
  }
  const items = input.map((item, index) => readScalar(kind, item, reading, [...path, index]));
  for (const [index, item] of items.entries()) {
    if (item === undefined || items.indexOf(item) === index) continue;
    refuse(reading, [...path, index], 'stands twice in the list');
  }
  return items;
}

function readSection(
  { keys = {}, withdrawn = [] }: Setting<unknown>,
  input: unknown,
  reading: Reading,
  path: KeyPath,
): unknown {
  const names = Object.keys(keys);
  const written = mappingOf(input, `mapping with keys of ${names.join(', ')}`, reading, path);
  if (written === undefined) return undefined;
  const others = Object.keys(written).filter((name) => !Object.hasOwn(keys, name));
  const unknown = others.filter((name) => !withdrawn.includes(name));
  const values: Record<string, unknown> = {};
  for (const [name, setting] of Object.entries(keys)) {
    const { allowed, fallback } = setting;
    const isWritten = Object.hasOwn(written, name);
    if (isWritten || typeof fallback !== 'symbol') {
      const value = isWritten ? written[name] : fallback;
      values[name] = readSetting(setting, value, reading, [...path, name]);
    } else if (fallback === REQUIRED && unknown.length === 0) {
      // With an unknown key it is misspelt: one mistake, of which the message about the spelling says more.
      refuse(reading, [...path, name], `is missing; must be ${allowed}`);
    }
  }
  for (const name of unknown) refuse(reading, [...path, name], unknownWord('key', name, names));
  for (const name of others) {
    if (withdrawn.includes(name)) reading.withdrawn.push([...path, name].join('.'));
  }
  return values;
}

/** The keys of a mapping, none where nothing stands after the colon; undefined for what is no mapping. */
function mappingOf(
  input: unknown,
  allowed: string,
  reading: Reading,
  path: KeyPath,
): Values | undefined {
  if (input === undefined || input === null) return {};
  if (describeKind(input) === 'a mapping') return input as Values;
  return refuse(reading, path, `must be a ${allowed} (got ${describeKind(input)})`);
}

function refuse({ problems }: Reading, path: KeyPath, message: string): undefined {
  problems.push({ path, message });
}

/** A value in words, for the end of a message. Anything that came from the environment is a secret. */
function describeValue(value: unknown, isSecret: boolean): string {
  if (value === undefined || value === null) return 'nothing';
  if (isSecret) return SECRET_MASK;
  if (value instanceof EnvironmentText) return describeValue(value.text, value.fromEnvironment);
  if (typeof value === 'object') return describeKind(value);
  return typeof value === 'string' ? quoteStart(value) : String(value);
}

/** The kind of a value alone, for where a secret may have been written by mistake, also inside a list or mapping. */
function describeKind(value: unknown): string {
  if (value === undefined || value === null) return 'nothing';
  if (typeof value === 'string' || value instanceof EnvironmentText) return 'a text';
  if (typeof value === 'object') return Array.isArray(value) ? 'a list' : 'a mapping';
  return typeof value === 'boolean' ? 'true or false' : 'a number';
}

/** A value as an operator would write it; secrets are masked, and keys that are not there left out. */
export function writeSetting(setting: Setting<unknown>, value: unknown): unknown {
  const { shape, kind, keys = {}, member } = setting;
  if (value === undefined) return null;
  if (shape === 'list') return (value as readonly unknown[]).map((item) => kind?.write(item));
  if (shape === 'value') return kind?.write(value);
  if (member !== undefined) {
    const members = [...(value as ReadonlyMap<string, unknown>)];
    return new Map(members.map(([name, one]) => [name, writeSetting(member, one)]));
  }
  const there = Object.entries(keys).filter(([name]) => name in (value as Values));
  return Object.fromEntries(
    there.map(([name, one]) => [name, writeSetting(one, (value as Values)[name])]),
  );
}
