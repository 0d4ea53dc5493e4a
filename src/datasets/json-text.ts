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
  /** Told of every member of the outermost object, in their order; the keys with their quotes. */
  readonly onMember?: (key: Span, value: Span) => void;
  /** How deep arrays and objects may be nested; RFC 8259 §9 leaves that open. */
  readonly maxDepth?: number;
}

/**
 * Checks that bytes are one JSON text in UTF-8 (RFC 8259), and builds nothing of it: a text of many megabytes
 * costs no memory, and no nesting is too deep. A byte order mark before it is let through (RFC 8259 §8.1).
 */
export function scanJson(bytes: Uint8Array, options: JsonScanOptions = {}): JsonScan {
  if (!isUtf8(bytes)) return failed(bytes, invalidUtf8At(bytes), 'the bytes are not UTF-8');
  try {
    return { ok: true, isObject: scan(bytes, options) };
  } catch (error) {
    if (error instanceof Mistake) return failed(bytes, error.offset, error.message);
    throw error;
  }
}

class Mistake extends Error {
  readonly offset: number;

  constructor(offset: number, message: string) {
    super(message);
    this.offset = offset;
  }
}

const [TAB, LINE_FEED, CARRIAGE_RETURN, SPACE] = [0x09, 0x0a, 0x0d, 0x20];
const [QUOTE, BACKSLASH, COMMA, COLON, LOWER_U] = [0x22, 0x5c, 0x2c, 0x3a, 0x75];
const [PLUS, MINUS, POINT, ZERO, NINE] = [0x2b, 0x2d, 0x2e, 0x30, 0x39];
const [ARRAY_BEGIN, ARRAY_END, OBJECT_BEGIN, OBJECT_END] = [0x5b, 0x5d, 0x7b, 0x7d];
/** What may follow a backslash, beside `u`. */
const ESCAPED: ReadonlySet<number> = new Set(Buffer.from('"\\/bfnrt'));
const LITERALS: readonly Uint8Array[] = ['true', 'false', 'null'].map((word) => Buffer.from(word));
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf] as const;

/** @returns whether the text is an object */
function scan(bytes: Uint8Array, { onMember, maxDepth = Infinity }: JsonScanOptions): boolean {
  const nesting = createNesting();
  let at = afterBlanks(bytes, textStart(bytes));
  const isObject = bytes[at] === OBJECT_BEGIN;
  /** The member of the outermost object that is being read; its value ends where `at` is when it is done. */
  let key: Span = { from: 0, to: 0 };
  let valueFrom = 0;

  const beginMember = () => {
    const keyEnd = stringEnd(bytes, at, 'a property name in double quotes');
    const colon = afterBlanks(bytes, keyEnd);
    if (bytes[colon] !== COLON) throw expected(bytes, colon, '":"');
    const value = afterBlanks(bytes, colon + 1);
    if (nesting.depth() === 1) {
      key = { from: at, to: keyEnd };
      valueFrom = value;
    }
    at = value;
  };

  for (;;) {
    const first = bytes[at];
    if (first === OBJECT_BEGIN || first === ARRAY_BEGIN) {
      if (nesting.depth() >= maxDepth) {
        throw new Mistake(at, `arrays and objects are nested more than ${maxDepth} deep`);
      }
      nesting.enter(first === OBJECT_BEGIN);
      at = afterBlanks(bytes, at + 1);
      const end = first === OBJECT_BEGIN ? OBJECT_END : ARRAY_END;
      if (bytes[at] !== end) {
        if (first === OBJECT_BEGIN) beginMember();
        continue;
      }
      nesting.leave();
      at += 1;
    } else {
      at = scalarEnd(bytes, at);
    }
    // After a value: ends of what holds it, until the next value begins.
    for (;;) {
      if (onMember !== undefined && isObject && nesting.depth() === 1) {
        onMember(key, { from: valueFrom, to: at });
      }
      at = afterBlanks(bytes, at);
      if (nesting.depth() === 0) {
        if (at < bytes.length) throw new Mistake(at, 'expected the end of the text');
        return isObject;
      }
      const inObject = nesting.inObject();
      const next = bytes[at];
      if (next === COMMA) {
        at = afterBlanks(bytes, at + 1);
        if (inObject) beginMember();
        break;
      }
      if (next !== (inObject ? OBJECT_END : ARRAY_END)) {
        throw expected(bytes, at, inObject ? '"," or "}"' : '"," or "]"');
      }
      nesting.leave();
      at += 1;
    }
  }
}

/** A stack of one byte a level, so that a text of nothing but brackets takes no more memory than itself. */
function createNesting() {
  let kinds = new Uint8Array(64);
  let depth = 0;
  return {
    depth: () => depth,
    inObject: () => kinds[depth - 1] === 1,
    enter(object: boolean): void {
      if (depth === kinds.length) {
        const more = new Uint8Array(2 * depth);
        more.set(kinds);
        kinds = more;
      }
      kinds[depth] = object ? 1 : 0;
      depth += 1;
    },
    leave(): void {
      depth -= 1;
    },
  };
}

function afterBlanks(bytes: Uint8Array, from: number): number {
  let at = from;
  for (;;) {
    const byte = bytes[at];
    const blank = byte === SPACE || byte === LINE_FEED || byte === CARRIAGE_RETURN || byte === TAB;
    if (!blank) return at;
    at += 1;
  }
}

/** A value that holds no others. */
function scalarEnd(bytes: Uint8Array, from: number): number {
  const first = bytes[from];
  if (first === QUOTE) return stringEnd(bytes, from, '');
  if (first === MINUS || isDigit(first)) return numberEnd(bytes, from);
  for (const word of LITERALS) {
    if (word.every((byte, index) => bytes[from + index] === byte)) return from + word.length;
  }
  throw expected(bytes, from, 'a value');
}

function stringEnd(bytes: Uint8Array, from: number, what: string): number {
  if (bytes[from] !== QUOTE) throw expected(bytes, from, what);
  let at = from + 1;
  for (;;) {
    const byte = bytes[at];
    if (byte === undefined) throw expected(bytes, at, 'the end of a string');
    if (byte === QUOTE) return at + 1;
    if (byte < SPACE) throw new Mistake(at, 'a string holds a control character as it is');
    at = byte === BACKSLASH ? escapeEnd(bytes, at) : at + 1;
  }
}

function escapeEnd(bytes: Uint8Array, from: number): number {
  const kind = bytes[from + 1] ?? 0;
  if (ESCAPED.has(kind)) return from + 2;
  const digits = Buffer.from(bytes.subarray(from + 2, from + 6)).toString('latin1');
  if (kind === LOWER_U && /^[0-9a-f]{4}$/i.test(digits)) return from + 6;
  throw new Mistake(from, 'a string holds a backslash that begins no escape');
}

function numberEnd(bytes: Uint8Array, from: number): number {
  let at = bytes[from] === MINUS ? from + 1 : from;
  at = bytes[at] === ZERO ? at + 1 : digitsEnd(bytes, at);
  if (bytes[at] === POINT) at = digitsEnd(bytes, at + 1);
  if (((bytes[at] ?? 0) | 0x20) === 0x65) {
    const sign = bytes[at + 1];
    at = digitsEnd(bytes, sign === PLUS || sign === MINUS ? at + 2 : at + 1);
  }
  return at;
}

/** At least one digit. */
function digitsEnd(bytes: Uint8Array, from: number): number {
  let at = from;
  while (isDigit(bytes[at])) at += 1;
  if (at === from) throw expected(bytes, at, 'a digit');
  return at;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= NINE;
}

function expected(bytes: Uint8Array, at: number, what: string): Mistake {
  const end = at >= bytes.length ? ', but the text ends' : '';
  return new Mistake(at, `expected ${what}${end}`);
}

function textStart(bytes: Uint8Array): number {
  return BYTE_ORDER_MARK.every((byte, index) => bytes[index] === byte) ? BYTE_ORDER_MARK.length : 0;
}

/** Where the first bytes stand that are not UTF-8; there must be some. */
function invalidUtf8At(bytes: Uint8Array): number {
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
  let offset = 0;
  let from = 0;
  for (;;) {
    // The replacement character may also have been sent as such.
    const mark = text.indexOf('\ufffd', from);
    offset += Buffer.byteLength(text.slice(from, mark));
    const sent = [0xef, 0xbf, 0xbd].every((byte, index) => bytes[offset + index] === byte);
    if (!sent) return offset;
    offset += 3;
    from = mark + 1;
  }
}

/** Line and column count from 1, columns in characters. */
function failed(bytes: Uint8Array, offset: number, message: string): JsonScan {
  let line = 1;
  let lineStart = textStart(bytes);
  for (let at = lineStart; at < offset; at += 1) {
    if (bytes[at] !== LINE_FEED) continue;
    line += 1;
    lineStart = at + 1;
  }
  let column = 1;
  // Each character has one byte that does not go on with another.
  for (let at = lineStart; at < offset; at += 1)
    if (((bytes[at] ?? 0) & 0xc0) !== 0x80) column += 1;
  return { ok: false, mistake: `line ${line}, column ${column}: ${message}` };
}
