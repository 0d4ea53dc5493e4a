import { isUtf8 } from 'node:buffer';

/** What a document says of itself. Project and name together are unique; the type is compared without regard to case. */
export type DatasetIdentity = Readonly<{ project: string; name: string; type: string }>;

/** What a document says of itself, or everything that is wrong with it. */
export type DocumentCheck = Readonly<
  { ok: true; identity: DatasetIdentity } | { ok: false; problem: string }
>;

const FIELDS = ['project', 'dataset_name', 'type'] as const;
/** Of a document that names none. */
const USUAL_TYPE = 'MDX';
const LONGEST = 255;
/** A string this long in bytes has more than {@link LONGEST} characters, even if each is two escapes. */
const LONGEST_VALUE = LONGEST * '\\ud83d\\ude00'.length + 2;
/** More than any document has. */
const DEEPEST = 100_000;

/**
 * Checks a document whole: one JSON object (RFC 8259) that names its project, its name and, if it is not MDX, its type. One of these that is
 * repeated with another value is refused, since readers differ in which of the two they take.
 */
export function checkDocument(bytes: Uint8Array): DocumentCheck {
  /** By field: its value, where it can be one, or what is wrong with it. */
  const found = new Map<string, ReturnType<typeof readValue>>();
  const scanned = scanJson(bytes, DEEPEST, FIELDS, (name, span) => {
    const read = readValue(bytes, span);
    const { value, problem } = found.get(name) ?? read;
    const alike = value === read.value && problem === read.problem;
    found.set(name, alike ? read : { problem: 'is given more than once, with different values' });
  });
  if (!scanned.ok) return refused(`The document cannot be read as JSON: ${scanned.mistake}.`);
  if (!scanned.isObject) return refused('The document must be a JSON object.');
  if (!found.has('type')) found.set('type', { value: USUAL_TYPE });
  const problems = FIELDS.flatMap((field) => {
    const { problem } = found.get(field) ?? { problem: 'is missing' };
    return problem === undefined ? [] : [`${field}: ${problem}`];
  });
  if (problems.length > 0) return refused(`${problems.join('; ')}.`);
  const [project, name, type] = FIELDS.map((field) => found.get(field)?.value ?? '');
  return { ok: true, identity: { project, name, type } as DatasetIdentity };
}

const refused = (problem: string): DocumentCheck => ({ ok: false, problem });

function readValue(bytes: Uint8Array, { from, to }: Span): { value?: string; problem?: string } {
  if (bytes[from] !== 0x22) return { problem: 'must be a string' };
  const isLong = to - from > LONGEST_VALUE;
  const text = isLong ? '""' : Buffer.from(bytes.subarray(from, to)).toString();
  const value = JSON.parse(text) as string;
  if (!/^[^]{1,255}$/u.test(value)) return { problem: `must have 1 to ${LONGEST} characters` };
  return value.isWellFormed() ? { value } : { problem: 'must not hold halves of surrogate pairs' };
}

type Span = Readonly<{ from: number; to: number }>;
type OnField = (name: string, value: Span) => void;

/** The escape for one character of a name, as `\u006e`, may have so many bytes. */
const LONGEST_ESCAPE = 6;
/** Blanks, what a string may hold between two escapes, an escape, and a value that holds no others. */
const BLANKS = /[ \t\r\n]*/y;
const PLAIN = /[ !#-[\]-\xff]*/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

/**
 * Checks that bytes are one JSON text in UTF-8 (RFC 8259), and builds nothing of it: a text of many megabytes costs
 * little more memory than itself. A byte order mark before it is let through (§8.1). What is said of a mistake repeats
 * nothing of the text.
 * @param deepest how deep arrays and objects may be nested; §9 leaves that open
 * @param onField told of each member of the outermost object with one of these names, in their order
 */
export function scanJson(
  bytes: Uint8Array,
  deepest: number,
  fields: readonly string[],
  onField: OnField,
) {
  const from = [0xef, 0xbb, 0xbf].every((byte, index) => bytes[index] === byte) ? 3 : 0;
  try {
    if (!isUtf8(bytes)) throw mistake(invalidUtf8At(bytes), 'the bytes are not UTF-8');
    return { ok: true as const, isObject: scan(bytes, from, deepest, fields, onField) };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    // Both count from 1, columns in characters: each has one byte that does not go on with another.
    let [line, column] = [1, 1];
    for (let at = from; at < Number(error.cause); at += 1) {
      if (bytes[at] === 0x0a) [line, column] = [line + 1, 1];
      else if (((bytes[at] ?? 0) & 0xc0) !== 0x80) column += 1;
    }
    return { ok: false as const, mistake: `line ${line}, column ${column}: ${error.message}` };
  }
}

const mistake = (at: number, what: string) => new SyntaxError(what, { cause: at });

function scan(
  bytes: Uint8Array,
  start: number,
  deepest: number,
  fields: readonly string[],
  onField: OnField,
): boolean {
  // One character for each byte, so that an index into it is one into the bytes.
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
  const longestKey = Math.max(...fields.map((field) => field.length)) * LONGEST_ESCAPE + 2;
  /** What ends the arrays and objects that are open. */
  const ends: ('}' | ']')[] = [];
  let at = after(BLANKS, start);
  const isObject = text[at] === '{';
  /** The member of the outermost object that is being read. */
  let field: string | undefined;
  let valueFrom = 0;

  function after(pattern: RegExp, from: number): number {
    pattern.lastIndex = from;
    return pattern.test(text) ? pattern.lastIndex : from;
  }

  const expected = (what: string) =>
    mistake(at, `expected ${what}${at >= text.length ? ', but the text ends' : ''}`);

  function passString(): void {
    at += 1;
    for (;;) {
      at = after(PLAIN, at);
      if (text[at] === '"') break;
      if (at >= text.length) throw expected('the end of a string');
      if (text[at] !== '\\') throw mistake(at, 'a string holds a control character as it is');
      const end = after(ESCAPE, at);
      if (end === at) throw mistake(at, 'a string holds a backslash that begins no escape');
      at = end;
    }
    at += 1;
  }

  /** Passes over the name of a member and the colon. */
  function passName(): void {
    const from = at;
    if (text[at] !== '"') throw expected('a property name in double quotes');
    passString();
    const to = at;
    at = after(BLANKS, at);
    if (text[at] !== ':') throw expected('":"');
    at = after(BLANKS, at + 1);
    if (ends.length > 1) return;
    const name = to - from <= longestKey ? (JSON.parse(text.slice(from, to)) as string) : '';
    field = fields.includes(name) ? name : undefined;
    valueFrom = at;
  }

  for (;;) {
    const first = text[at];
    if (first === '{' || first === '[') {
      if (ends.length >= deepest) {
        throw mistake(at, `arrays and objects are nested more than ${deepest} deep`);
      }
      ends.push(first === '{' ? '}' : ']');
      at = after(BLANKS, at + 1);
      if (text[at] !== ends.at(-1)) {
        if (first === '{') passName();
        continue;
      }
      ends.pop();
      at += 1;
    } else if (first === '"') passString();
    else {
      const end = after(SCALAR, at);
      if (end === at) throw expected('a value');
      at = end;
    }
    // After a value: ends of what holds it, until the next value begins.
    for (;;) {
      const isMember = ends.length === 1 && isObject;
      if (isMember && field !== undefined) onField(field, { from: valueFrom, to: at });
      at = after(BLANKS, at);
      const end = ends.at(-1);
      if (end === undefined) {
        if (at < text.length) throw expected('the end of the text');
        return isObject;
      }
      if (text[at] === ',') {
        at = after(BLANKS, at + 1);
        if (end === '}') passName();
        break;
      }
      if (text[at] !== end) throw expected(`"," or "${end}"`);
      ends.pop();
      at += 1;
    }
  }
}

/** The first byte that is not read as it stands; there must be one. */
function invalidUtf8At(bytes: Uint8Array): number {
  const read = Buffer.from(new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes));
  return bytes.findIndex((byte, index) => byte !== read[index]);
}
