import { textOf, type Kind, type Reading } from './kinds.ts';
import { quoteStart, SECRET_MASK, unknownWord } from './problems.ts';
import { ReferenceText } from './yaml-text.ts';

/** The configuration in force. Its root (`src/config/config.ts`) declares what it holds. */
export interface Config {}

/** When a change counts. `https`: a restart changes the scheme, a reload everything else. */
export type Reload = 'reload' | 'restart' | 'https';
export const REQUIRED = Symbol('required');
/** Marks a key that takes its value from elsewhere and is absent after reading. */
export const INHERITED = Symbol('inherited');

export interface Setting<T> extends Pick<Kind<T>, 'type' | 'allowed' | 'write'> {
  readonly fallback: unknown;
  readonly reload: Reload;
  /** Keys of a section, or of each member that is a section. */
  readonly keys?: Settings;
  /** Adds mistakes to `reading.problems`; then the result does not count. */
  read(input: unknown, reading: Reading): unknown;
  /** Never set; carries the type. */
  readonly value?: T;
}

type Settings = Readonly<Record<string, Setting<unknown>>>;
export type Values = Readonly<Record<string, unknown>>;
export type ValueOf<S> = S extends Setting<infer T> ? T : never;
export type ValuesOf<K extends Settings> = { readonly [N in keyof K]: ValueOf<K[N]> };
type Section<K extends Settings> = Setting<ValuesOf<K>> & { readonly keys: K };

/** A key with a value of its own. @param fallback as an operator would write it, or REQUIRED */
export function key<T>(kind: Kind<T>, fallback: unknown, reload: Reload = 'reload'): Setting<T> {
  const { type, allowed, write } = kind;
  const read: Setting<T>['read'] = (input, reading) => readValue(kind, input, reading);
  return { type, allowed, fallback, reload, read, write };
}

const LONGEST_LIST = 1000;
export function list<T>(kind: Kind<T>, fallback: readonly string[]): Setting<readonly T[]> {
  const allowed = `a list, each item ${kind.allowed}`;
  return {
    type: `list of ${kind.type}s`,
    allowed,
    fallback,
    reload: 'reload',
    read(input, reading) {
      const got = describeKind(input);
      if (!Array.isArray(input)) return refuse(reading, `must be ${allowed} (got ${got})`);
      const tooMany = input.length > LONGEST_LIST;
      if (tooMany) return refuse(reading, `must have at most ${LONGEST_LIST} items`);
      const items = input.map((item, index) => readValue(kind, item, inside(reading, index)));
      for (const [index, item] of items.entries()) {
        const isTwice = item !== undefined && items.indexOf(item) < index;
        if (isTwice) refuse(inside(reading, index), 'stands twice in the list');
      }
      return items;
    },
    write: (items) => items.map((item) => kind.write(item)),
  };
}

const MAPPING = { type: 'mapping', allowed: '', fallback: {}, reload: 'reload' } as const;

/** @param withdrawn keys of former versions, which only cause a warning */
export function section<K extends Settings>(keys: K, withdrawn: string[] = []): Section<K> {
  const names = Object.keys(keys);
  return {
    ...MAPPING,
    keys,
    read(input, reading) {
      const written = mappingOf(input, `mapping with keys of ${names.join(', ')}`, reading);
      if (written === undefined) return undefined;
      const others = Object.keys(written).filter((name) => !Object.hasOwn(keys, name));
      const unknown = others.filter((name) => !withdrawn.includes(name));
      const values: Record<string, unknown> = {};
      for (const [name, { allowed, fallback, read }] of Object.entries(keys)) {
        const at = inside(reading, name);
        if (Object.hasOwn(written, name)) values[name] = read(written[name], at);
        else if (typeof fallback !== 'symbol') values[name] = read(fallback, at);
        else if (fallback === REQUIRED && unknown.length === 0) {
          // A key may be missing because it is misspelt: then only the spelling is reported.
          refuse(at, `is missing; must be ${allowed}`);
        }
      }
      for (const name of others) {
        const at = inside(reading, name);
        if (withdrawn.includes(name)) reading.withdrawn.push(at.path.join('.'));
        else refuse(at, unknownWord('key', name, names));
      }
      return values;
    },
    write(values: Values) {
      const there = Object.entries(keys).filter(([name]) => name in values);
      const written = there.map(([name, { write }]) => {
        const value = values[name];
        return [name, value === undefined ? null : write(value)];
      });
      return Object.fromEntries(written);
    },
  };
}

/** A key or section that may be `null`, which is read as undefined. */
export function optional<T>(setting: Setting<T>): Setting<T | undefined> {
  const read: Setting<T>['read'] = (input, reading) =>
    isNull(input) ? undefined : setting.read(input, reading);
  return { ...setting, fallback: null, read } as Setting<T | undefined>;
}

export const orNull = <T>(kind: Kind<T>, reload?: Reload): Setting<T | undefined> =>
  optional(key({ ...kind, allowed: `${kind.allowed}; or null` }, null, reload));

/** Takes `null` from the default of a reference too; from outside it may be a secret. */
const isNull = (input: unknown): boolean =>
  input === null || (input instanceof ReferenceText && !input.fromOutside && input.text === 'null');

export function inherited<T>(setting: Setting<T>): Setting<T | undefined> {
  return { ...setting, fallback: INHERITED } as Setting<T | undefined>;
}

export function someOf<K extends Settings>({ keys }: Section<K>): Setting<Partial<ValuesOf<K>>> {
  const some = Object.entries(keys).map(([name, one]) => [name, inherited(one)] as const);
  return section(Object.fromEntries(some)) as Setting<Partial<ValuesOf<K>>>;
}

type ByName<T> = Setting<ReadonlyMap<string, T>>;
export function byName<T>(kind: Kind<string>, { keys, read, write }: Setting<T>): ByName<T> {
  const type = `mapping by ${kind.type}`;
  return {
    ...MAPPING,
    type,
    ...(keys && { keys }),
    read(input, reading) {
      const members = Object.entries(mappingOf(input, type, reading) ?? {});
      const places = members.map(([name, value]) => [name, value, inside(reading, name)] as const);
      return new Map(places.map(([name, one, at]) => [readValue(kind, name, at), read(one, at)]));
    },
    write: (members) => new Map([...members].map(([name, value]) => [name, write(value)])),
  };
}

function inside(reading: Reading, step: string | number): Reading {
  return { ...reading, path: [...reading.path, step] };
}

function readValue<T>(kind: Kind<T>, input: unknown, reading: Reading): T | undefined {
  const value = kind.read(input, reading);
  if (value !== undefined) return value;
  const got = describeValue(input, kind.hides(textOf(input) ?? ''));
  const right = typeof input === 'string' ? kind.spelling?.(input) : undefined;
  const meant = right === undefined ? '' : `; did you mean ${right}?`;
  return refuse(reading, `must be ${kind.allowed} (got ${got})${meant}`);
}

function mappingOf(input: unknown, allowed: string, reading: Reading): Values | undefined {
  const got = describeKind(input);
  if (got === 'nothing') return {};
  if (got === 'a mapping') return input as Values;
  return refuse(reading, `must be a ${allowed} (got ${got})`);
}

function refuse({ problems, path }: Reading, message: string): undefined {
  problems.push({ path, message });
}

/** Hides every value from the environment or another file, which may be a secret. */
function describeValue(value: unknown, isSecret: boolean): string {
  if (value === undefined || value === null) return 'nothing';
  if (isSecret) return SECRET_MASK;
  if (value instanceof ReferenceText) return describeValue(value.text, value.fromOutside);
  if (typeof value === 'object') return describeKind(value);
  return typeof value === 'string' ? quoteStart(value) : String(value);
}

/** Names the type alone: a secret may stand here by mistake. */
function describeKind(value: unknown): string {
  if (value === undefined || value === null) return 'nothing';
  if (typeof value === 'string' || value instanceof ReferenceText) return 'a text';
  if (typeof value === 'object') return Array.isArray(value) ? 'a list' : 'a mapping';
  return typeof value === 'boolean' ? 'true or false' : 'a number';
}
