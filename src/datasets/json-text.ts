import { isUtf8 } from 'node:buffer';

/** From the first byte to the one after the last. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

export type JsonScan =
  | { readonly ok: true; readonly isObject: boolean }
  /** `mistake` says where and what, and repeats nothing of the text. */
  | { readonly ok: false; readonly mistake: string };

export interface JsonScanOptions {
  /** How deep arrays and objects may be nested; RFC 8259 §9 leaves that open. */
  readonly maxDepth: number;
  /** Names of members of the outermost object. */
  readonly fields: readonly string[];
  /** Told of each member of these names, repeated ones too, in their order. */
  readonly onField: (name: string, value: Span) => void;
}

/** The escape for one character of a name, as `\u006e`, may have so many bytes. */
const LONGEST_ESCAPE = 6;

/** Blanks, what a string may hold between two escapes, an escape, and a value that holds no others. */
const BLANKS = /[ \t\r\n]*/y;
const PLAIN = /[ !#-[\]-\xff]*/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

/**
 * Checks that bytes are one JSON text in UTF-8 (RFC 8259), and builds nothing of it: a text of many megabytes
 * costs little more memory than itself. A byte order mark before it is let through (RFC 8259 §8.1).
 */
export function scanJson(bytes: Uint8Array, options: JsonScanOptions): JsonScan {
  const from = [0xef, 0xbb, 0xbf].every((byte, index) => bytes[index] === byte) ? 3 : 0;
  const problem = isUtf8(bytes)
    ? undefined
    : new Mistake(invalidUtf8At(bytes), 'the bytes are not UTF-8');
  try {
    if (problem !== undefined) throw problem;
    return { ok: true, isObject: scan(bytes, from, options) };
  } catch (error) {
    if (!(error instanceof Mistake)) throw error;
    // Both count from 1, columns in characters: each has one byte that does not go on with another.
    let [line, column] = [1, 1];
    for (let at = from; at < error.at; at += 1) {
      if (bytes[at] === 0x0a) [line, column] = [line + 1, 1];
      else if (((bytes[at] ?? 0) & 0xc0) !== 0x80) column += 1;
    }
    return { ok: false, mistake: `line ${line}, column ${column}: ${error.message}` };
  }
}

class Mistake extends Error {
  readonly at: number;

  constructor(at: number, message: string) {
    super(message);
    this.at = at;
  }
}

/** @returns whether the text is an object */
function scan(bytes: Uint8Array, start: number, options: JsonScanOptions): boolean {
  const { maxDepth, fields, onField } = options;
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

  function expected(what: string): Mistake {
    return new Mistake(at, `expected ${what}${at >= text.length ? ', but the text ends' : ''}`);
  }

  function passString(): void {
    at += 1;
    for (;;) {
      at = after(PLAIN, at);
      if (text[at] === '"') break;
      if (at >= text.length) throw expected('the end of a string');
      if (text[at] !== '\\') throw new Mistake(at, 'a string holds a control character as it is');
      const end = after(ESCAPE, at);
      if (end === at) throw new Mistake(at, 'a string holds a backslash that begins no escape');
      at = end;
    }
    at += 1;
  }

  function passScalar(): void {
    if (text[at] === '"') return passString();
    const end = after(SCALAR, at);
    if (end === at) throw expected('a value');
    at = end;
  }

  /** Passes over the name of a member and the colon. */
  function passName(): void {
    const from = at;
    if (text[at] !== '"') throw expected('a property name in double quotes');
    passString();
    if (ends.length === 1 && at - from <= longestKey) {
      const name = JSON.parse(text.slice(from, at)) as string;
      field = fields.includes(name) ? name : undefined;
    } else if (ends.length === 1) field = undefined;
    at = after(BLANKS, at);
    if (text[at] !== ':') throw expected('":"');
    at = after(BLANKS, at + 1);
    if (ends.length === 1) valueFrom = at;
  }

  for (;;) {
    const first = text[at];
    if (first === '{' || first === '[') {
      if (ends.length >= maxDepth) {
        throw new Mistake(at, `arrays and objects are nested more than ${maxDepth} deep`);
      }
      ends.push(first === '{' ? '}' : ']');
      at = after(BLANKS, at + 1);
      if (text[at] !== ends.at(-1)) {
        if (first === '{') passName();
        continue;
      }
      ends.pop();
      at += 1;
    } else {
      passScalar();
    }
    // After a value: ends of what holds it, until the next value begins.
    for (;;) {
      if (ends.length === 1 && isObject && field !== undefined) {
        onField(field, { from: valueFrom, to: at });
      }
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
