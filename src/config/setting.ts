/** The bricks of the schema: what is declared of a key, and how sections of keys are read and written. */

import { EnvironmentText } from './environment-text.ts';
import { textOf, type Kind, type Reading } from './kinds.ts';
import { describeKind, describeValue, unknownWord, type KeyPath } from './problems.ts';

/**
 * When a change of a key counts: at a reload or at a restart only. `https`: another file counts at a reload, the change
 * between HTTP and HTTPS at a restart.
 */
export type Reload = 'reload' | 'restart' | 'https';

/** The key must be written. */
export const REQUIRED = Symbol('required');
/** A key that is not written takes its value from elsewhere, and is not there after reading. */
export const INHERITED = Symbol('inherited');

/** All that is declared of one key, from which the configuration reference is made as well. */
export interface Setting<T> {
  /** One or two words; a section is a `mapping`. */
  readonly type: string;
  /** The end of the sentence "must be …"; empty for mappings. */
  readonly allowed: string;
  /** As an operator would write it; REQUIRED or INHERITED. */
  readonly fallback: unknown;
  /** One or two sentences. */
  readonly meaning: string;
  readonly reload: Reload;
  /** Of a section, or of each member of a mapping by name. */
  readonly keys?: Settings;
  /** What is wrong is added to `reading.problems`. */
  read(input: unknown, reading: Reading, path: KeyPath): T;
  /** A value as an operator would write it; secrets are masked, and keys that are not there left out. */
  write(value: unknown): unknown;
}

export type Settings = Readonly<Record<string, Setting<unknown>>>;
/** Of the keys of a section. */
export type Values = Readonly<Record<string, unknown>>;
export type ValueOf<S> = S extends Setting<infer T> ? T : never;
type ValuesOf<K extends Settings> = { readonly [N in keyof K]: ValueOf<K[N]> };
type Section<K extends Settings> = Setting<ValuesOf<K>> & { readonly keys: K };

function refuse({ problems }: Reading, path: KeyPath, message: string): never {
  problems.push({ path, message });
  // It counts for nothing, now that there is a problem.
  return undefined as never;
}

function readScalar<T>(kind: Kind<T>, input: unknown, reading: Reading, path: KeyPath): T {
  if (input === null && kind.nullable) return undefined as T;
  const value = kind.read(input, reading);
  if (value !== undefined) return value;
  const got = describeValue(input, kind.hides(textOf(input) ?? ''));
  return refuse(reading, path, `must be ${kind.allowed} (got ${got})`);
}

/** All but the meaning, which is long and stands last. */
function declare<T>(setting: Omit<Setting<T>, 'meaning'>) {
  return { means: (meaning: string): Setting<T> => ({ ...setting, meaning }) };
}

/** A key with a value of its own. @param fallback as an operator would write it, or REQUIRED */
export function key<T>(kind: Kind<T>, fallback: unknown, reload: Reload = 'reload') {
  const { type, allowed } = kind;
  return declare<T>({
    type,
    allowed,
    fallback,
    reload,
    read: (input, reading, path) => readScalar(kind, input, reading, path),
    write: (value) => (value === undefined ? null : kind.write(value as T)),
  });
}

const LONGEST_LIST = 1000;

/** A key with a list in which nothing stands twice. */
export function list<T>(kind: Kind<T>, fallback: readonly string[]) {
  const allowed = `a list, each item ${kind.allowed}`;
  return declare<readonly T[]>({
    type: `list of ${kind.type}s`,
    allowed,
    fallback,
    reload: 'reload',
    read(input, reading, path) {
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
    },
    write: (items) => (items as readonly T[]).map(kind.write),
  });
}

function isMapping(input: unknown): input is Values {
  const isObject = typeof input === 'object' && input !== null;
  return isObject && !Array.isArray(input) && !(input instanceof EnvironmentText);
}

const MAPPING = { type: 'mapping', allowed: '', fallback: {}, reload: 'reload' } as const;

/** A mapping of known keys. Nothing after the colon means an empty mapping. */
export function section<K extends Settings>(
  meaning: string,
  keys: K,
  reload: Reload = 'reload',
): Section<K> {
  const names = Object.keys(keys);
  return {
    ...MAPPING,
    meaning,
    keys,
    reload,
    read(input, reading, path) {
      const written = input ?? {};
      if (!isMapping(written)) {
        const allowed = `a mapping with keys of ${names.join(', ')}`;
        return refuse(reading, path, `must be ${allowed} (got ${describeKind(input)})`);
      }
      const unknown = Object.keys(written).filter((name) => !Object.hasOwn(keys, name));
      const values: [string, unknown][] = [];
      for (const [name, { allowed, fallback, read }] of Object.entries(keys)) {
        const isWritten = Object.hasOwn(written, name);
        if (isWritten || typeof fallback !== 'symbol') {
          values.push([name, read(isWritten ? written[name] : fallback, reading, [...path, name])]);
        } else if (fallback === REQUIRED && unknown.length === 0) {
          // With an unknown key it is misspelt: one mistake, of which the message about the spelling says more.
          refuse(reading, [...path, name], `is missing; must be ${allowed}`);
        }
      }
      for (const name of unknown) {
        refuse(reading, [...path, name], unknownWord('key', name, names));
      }
      return Object.fromEntries(values) as ValuesOf<K>;
    },
    write(values) {
      const there = Object.entries(keys).filter(([name]) => name in (values as Values));
      return Object.fromEntries(
        there.map(([name, setting]) => [name, setting.write((values as Values)[name])]),
      );
    },
  };
}

/** A mapping of known keys that is there as a whole or not at all; not at all is `null`. */
export function optionalSection<K extends Settings>(
  meaning: string,
  keys: K,
): Setting<ValuesOf<K> | undefined> {
  const { read, write, ...whole } = section(meaning, keys);
  return {
    ...whole,
    fallback: null,
    read: (input, ...at) => (input === null ? undefined : read(input, ...at)),
    write: (values) => (values === undefined ? null : write(values)),
  };
}

/** A key that is not there unless it is written. */
export function inherited<T>(setting: Setting<T>): Setting<T | undefined> {
  return { ...setting, fallback: INHERITED };
}

/** A key of an earlier version that means nothing any more: whatever its value, it is accepted with a warning. */
export function withdrawn(meaning: string): Setting<true | undefined> {
  return inherited({
    type: 'withdrawn',
    allowed: 'anything',
    fallback: INHERITED,
    meaning,
    reload: 'reload',
    read: () => true,
    write: () => undefined,
  });
}

/** A section with some of the keys of another one; what is not written is not there. */
export function someOf<K extends Settings>(meaning: string, { keys }: Section<K>) {
  const some = Object.entries(keys).map(([name, setting]) => [name, inherited(setting)] as const);
  return section(meaning, Object.fromEntries(some)) as Setting<Partial<ValuesOf<K>>>;
}

/** A mapping whose keys are names that the operator chooses. */
export function byName<T>(
  name: Kind<string>,
  member: Setting<T>,
  meaning: string,
): Setting<ReadonlyMap<string, T>> {
  const type = `mapping by ${name.type}`;
  return {
    ...MAPPING,
    type,
    meaning,
    ...(member.keys && { keys: member.keys }),
    read(input, reading, path) {
      const written = input ?? {};
      if (!isMapping(written)) {
        return refuse(reading, path, `must be a ${type} (got ${describeKind(input)})`);
      }
      const members = Object.entries(written).map(([key, value]) => {
        const at = [...path, key];
        return [readScalar(name, key, reading, at), member.read(value, reading, at)] as const;
      });
      return new Map(members);
    },
    write: (members) =>
      new Map([...(members as Map<string, T>)].map(([key, value]) => [key, member.write(value)])),
  };
}
