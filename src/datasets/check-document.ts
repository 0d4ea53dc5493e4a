import type { DatasetIdentity } from './dataset.ts';
import { scanJson, type Span } from './json-text.ts';

/** What a document says of itself, or everything that is wrong with it. */
export type DocumentCheck =
  | { readonly ok: true; readonly identity: DatasetIdentity }
  | { readonly ok: false; readonly problem: string };

const FIELDS = ['project', 'dataset_name', 'type'] as const;
type Field = (typeof FIELDS)[number];

const LONGEST = 255;
/** A string this long in bytes has more than {@link LONGEST} characters, even if each is two escapes. */
const LONGEST_VALUE = LONGEST * '\\ud83d\\ude00'.length + 2;
const LONGEST_KEY = 'dataset_name'.length * '\\u0064'.length + 2;

/** Values that are not worth telling apart, since they are refused. */
const NO_STRING = Symbol('no string');
const TOO_LONG = Symbol('too long');
type Value = string | typeof NO_STRING | typeof TOO_LONG;

/**
 * Checks a dataset document whole: one JSON object (RFC 8259) that names its project, its name and its type.
 * All else in it is the business of who reads it. A field that is repeated with another value is refused,
 * since readers differ in which of the two they take.
 */
export function checkDocument(bytes: Uint8Array): DocumentCheck {
  const found = new Map<Field, Value>();
  const contradicted = new Set<Field>();
  const scanned = scanJson(bytes, {
    onMember(key, value) {
      const field = fieldNamed(bytes, key);
      if (field === undefined) return;
      const read = valueOf(bytes, value);
      if (found.has(field) && found.get(field) !== read) contradicted.add(field);
      found.set(field, read);
    },
  });
  if (!scanned.ok) return refused(`The document cannot be read as JSON: ${scanned.mistake}.`);
  if (!scanned.isObject) return refused('The document must be a JSON object.');
  const problems = FIELDS.flatMap((field) => {
    const problem = contradicted.has(field)
      ? 'is given more than once, with different values'
      : problemOf(found.get(field));
    return problem === undefined ? [] : [`${field}: ${problem}`];
  });
  if (problems.length > 0) return refused(`${problems.join('; ')}.`);
  const [project, name, type] = FIELDS.map((field) => found.get(field)) as [string, string, string];
  return { ok: true, identity: { project, name, type } };
}

function refused(problem: string): DocumentCheck {
  return { ok: false, problem };
}

function problemOf(value: Value | undefined): string | undefined {
  if (value === undefined) return 'is missing';
  if (value === NO_STRING) return 'must be a string';
  if (value === TOO_LONG || !/^[^]{1,255}$/u.test(value)) {
    return `must have 1 to ${LONGEST} characters`;
  }
  return value.isWellFormed() ? undefined : 'must not hold halves of surrogate pairs';
}

function fieldNamed(bytes: Uint8Array, key: Span): Field | undefined {
  if (key.to - key.from > LONGEST_KEY) return undefined;
  const name = parsed(bytes, key);
  return FIELDS.find((field) => field === name);
}

function valueOf(bytes: Uint8Array, value: Span): Value {
  if (bytes[value.from] !== 0x22) return NO_STRING;
  return value.to - value.from > LONGEST_VALUE ? TOO_LONG : (parsed(bytes, value) as string);
}

function parsed(bytes: Uint8Array, { from, to }: Span): unknown {
  return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from).toString('utf8'));
}
