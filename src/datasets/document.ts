import { isUtf8 } from 'node:buffer';

/** Project and name together are unique; the type is compared without regard to case. */
export type DatasetIdentity = Readonly<{ project: string; name: string; type: string }>;

const FIELDS = ['project', 'dataset_name', 'type'] as const;
const USUAL_TYPE = 'MDX';
const LONGEST = 255;
/** Bytes of a string with more than {@link LONGEST} characters, even if each is two escapes. */
const LONGEST_VALUE = LONGEST * '\\ud83d\\ude00'.length + 2;
const DEEPEST = 100_000;

/**
 * Checks one JSON object (RFC 8259) that names its project, its name and, unless MDX, its type. It
 * refuses a repeated field with another value, since readers differ in which one they take.
 */
export function checkDocument(bytes: Uint8Array) {
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
  return { ok: true as const, identity: { project, name, type } as DatasetIdentity };
}

const refused = (problem: string) => ({ ok: false as const, problem });

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
/** Bytes of an escape for one character of a name, such as `\u006e`. */
const LONGEST_ESCAPE = 6;
const BLANKS = /[ \t\r\n]*/y;
const PLAIN = /[ !#-[\]-\xff]*/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

/**
 * Checks one JSON text in UTF-8 (RFC 8259) and builds nothing of it, since it may have many
 * megabytes. A byte order mark may stand in front (§8.1). Mistakes repeat nothing of the text.
 * @param deepest limits nesting, which §9 leaves open
 * @param onField called for each member of the outermost object with one of the names, in order
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
    // Both count from 1. Each character has one byte that is no continuation byte.
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
  // One character for each byte: indices are those of the bytes.
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
  const longestKey = Math.max(...fields.map((field) => field.length)) * LONGEST_ESCAPE + 2;
  /** The closing characters of open arrays and objects. */
  const ends: ('}' | ']')[] = [];
  let at = after(BLANKS, start);
  const isObject = text[at] === '{';
  /** The current member of the outermost object. */
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
    // Closes what ends behind the value, until the next value begins.
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

/** Finds the first byte that decoding changes; there must be one. */
function invalidUtf8At(bytes: Uint8Array): number {
  const read = Buffer.from(new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes));
  return bytes.findIndex((byte, index) => byte !== read[index]);
}
