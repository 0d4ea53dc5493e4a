import type { DatasetIdentity } from './dataset.ts';
import { scanJson, type Span } from './json-text.ts';

/** What a document says of itself, or everything that is wrong with it. */
export type DocumentCheck =
  | { readonly ok: true; readonly identity: DatasetIdentity }
  | { readonly ok: false; readonly problem: string };

const FIELDS = ['project', 'dataset_name', 'type'] as const;

const LONGEST = 255;
/** A string this long in bytes has more than {@link LONGEST} characters, even if each is two escapes. */
const LONGEST_VALUE = LONGEST * '\\ud83d\\ude00'.length + 2;
/** More than any document has. */
const DEEPEST = 100_000;

/**
 * Checks a dataset document whole: one JSON object (RFC 8259) that names its project, its name and its type.
 * All else in it is the business of its readers. A field that is repeated with another value is refused,
 * since readers differ in which of the two they take.
 */
export function checkDocument(bytes: Uint8Array): DocumentCheck {
  /** By field: its value, where it can be one, or what is wrong with it. */
  const found = new Map<string, { readonly value?: string; readonly problem?: string }>();
  const scanned = scanJson(bytes, {
    maxDepth: DEEPEST,
    fields: FIELDS,
    onField(name, span) {
      const [known, read] = [found.get(name), readValue(bytes, span)];
      const alike =
        known === undefined || (known.value === read.value && known.problem === read.problem);
      found.set(name, alike ? read : { problem: 'is given more than once, with different values' });
    },
  });
  if (!scanned.ok) return refused(`The document cannot be read as JSON: ${scanned.mistake}.`);
  if (!scanned.isObject) return refused('The document must be a JSON object.');
  const problems = FIELDS.flatMap((field) => {
    const { problem } = found.get(field) ?? { problem: 'is missing' };
    return problem === undefined ? [] : [`${field}: ${problem}`];
  });
  if (problems.length > 0) return refused(`${problems.join('; ')}.`);
  const [project, name, type] = FIELDS.map((field) => found.get(field)?.value ?? '');
  return { ok: true, identity: { project, name, type } as DatasetIdentity };
}

function refused(problem: string): DocumentCheck {
  return { ok: false, problem };
}

function readValue(bytes: Uint8Array, { from, to }: Span) {
  if (bytes[from] !== 0x22) return { problem: 'must be a string' };
  const value =
    to - from > LONGEST_VALUE
      ? ''
      : (JSON.parse(Buffer.from(bytes.subarray(from, to)).toString()) as string);
  if (!/^[^]{1,255}$/u.test(value)) return { problem: `must have 1 to ${LONGEST} characters` };
  return value.isWellFormed() ? { value } : { problem: 'must not hold halves of surrogate pairs' };
}
