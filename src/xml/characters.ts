/** What single bytes of XML in UTF-8 mean. A byte above 0x7F is part of a longer character. */

const TAB = 0x09;
const LINE_FEED = 0x0a;
const RETURN = 0x0d;
const SPACE = 0x20;
export const BANG = 0x21;
export const QUOTE = 0x22;
const HASH = 0x23;
export const AMPERSAND = 0x26;
export const APOSTROPHE = 0x27;
export const HYPHEN = 0x2d;
export const SLASH = 0x2f;
const SEMICOLON = 0x3b;
export const LESS = 0x3c;
export const EQUALS = 0x3d;
export const GREATER = 0x3e;
export const QUESTION = 0x3f;
export const BRACKET = 0x5d;

/** The first byte of U+F000 to U+FFFF, among which are the two that XML forbids. */
const LAST_PLANE = 0xef;

/** Production 3 of XML 1.0. */
export function isWhite(byte: number | undefined): boolean {
  return byte === SPACE || byte === LINE_FEED || byte === RETURN || byte === TAB;
}

/** Whether nothing but white space stands from `from` up to `to`. */
export function isBlank(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at += 1) if (!isWhite(bytes[at])) return false;
  return true;
}

/** A table of the bytes at which a run of ordinary characters must be looked at: 1, the rest 0. */
export function stopsAt(...bytes: readonly number[]): Uint8Array {
  const table = new Uint8Array(256);
  for (let byte = 0; byte < SPACE; byte += 1) if (!isWhite(byte)) table[byte] = 1;
  table[LAST_PLANE] = 1;
  for (const byte of bytes) table[byte] = 1;
  return table;
}

/**
 * Whether a byte at which a table of `stopsAt` stops in any case begins a character that XML 1.0 allows
 * (production 2). The text is known to be UTF-8 and to end with a whole character.
 */
export function isAllowed(bytes: Uint8Array, at: number): boolean {
  const byte = bytes[at] ?? 0;
  if (byte === LAST_PLANE) return bytes[at + 1] !== 0xbf || (bytes[at + 2] ?? 0) < 0xbe;
  return byte >= SPACE || isWhite(byte);
}

const FORBIDDEN = stopsAt();

/** Whether every character from `from` up to `to` is one that XML 1.0 allows. */
export function areAllowed(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at += 1)
    if (FORBIDDEN[bytes[at] ?? 0] === 1 && !isAllowed(bytes, at)) return false;
  return true;
}

/** Bytes of names, 1: every one that stands for itself, and those of longer characters, to be checked later. */
export const NAME_BYTES: Uint8Array = new Uint8Array(256).fill(1, 0x80);
for (let byte = 0; byte < 0x80; byte += 1)
  if (/[\w.:-]/.test(String.fromCharCode(byte))) NAME_BYTES[byte] = 1;

const FIRST =
  'A-Z_a-z\\u{C0}-\\u{D6}\\u{D8}-\\u{F6}\\u{F8}-\\u{2FF}\\u{370}-\\u{37D}\\u{37F}-\\u{1FFF}\\u{200C}-\\u{200D}\\u{2070}-\\u{218F}\\u{2C00}-\\u{2FEF}\\u{3001}-\\u{D7FF}\\u{F900}-\\u{FDCF}\\u{FDF0}-\\u{FFFD}\\u{10000}-\\u{EFFFF}';
const PART = `[${FIRST}][-.0-9\\u{B7}\\u{300}-\\u{36F}\\u{203F}-\\u{2040}${FIRST}]*`;
const QUALIFIED_NAME = new RegExp(`^(?:${PART}:)?${PART}$`, 'u');
/** What nearly every name is; found much faster. */
const PLAIN_NAME = /^(?:[A-Za-z_][\w.-]*:)?[A-Za-z_][\w.-]*$/;

/**
 * The parts of a QName (productions 4 and 4a of XML 1.0, 7 to 11 of Namespaces in XML).
 * @returns undefined when it is none; the prefix is '' when there is none
 */
export function splitName(text: string): { prefix: string; local: string } | undefined {
  if (!PLAIN_NAME.test(text) && !QUALIFIED_NAME.test(text)) return undefined;
  const colon = text.indexOf(':');
  return { prefix: text.slice(0, Math.max(0, colon)), local: text.slice(colon + 1) };
}

const NAMED: ReadonlyMap<string, string> = new Map([
  ['lt', '<'],
  ['gt', '>'],
  ['amp', '&'],
  ['quot', '"'],
  ['apos', "'"],
]);

/** Whether the bytes at `at` are those of a mark. */
export function startsWith(bytes: Uint8Array, at: number, mark: Uint8Array): boolean {
  const { length } = mark;
  for (let index = 0; index < length; index += 1)
    if (bytes[at + index] !== mark[index]) return false;
  return true;
}

const NAMED_BYTES: readonly Buffer[] = [...NAMED.keys()].map((name) => Buffer.from(`${name};`));

/** Characters of a reference; a real one takes at most ten. */
const LONGEST_REFERENCE = 24;

/** The bytes end before the reference does. */
export const UNFINISHED = -1;
/** No reference that there can be without a document type declaration. */
export const ILL_FORMED = -2;

/**
 * Reads the reference whose ampersand stands at `at` (XML 1.0 section 4.1).
 * @returns the index behind its semicolon, `UNFINISHED` or `ILL_FORMED`
 */
export function referenceEnd(bytes: Buffer, at: number): number {
  for (const name of NAMED_BYTES) if (startsWith(bytes, at + 1, name)) return at + 1 + name.length;
  const last = Math.min(bytes.length, at + LONGEST_REFERENCE);
  for (let end = at + 1; end < last; end += 1) {
    const byte = bytes[end] ?? 0;
    if (byte === SEMICOLON) {
      return isNumbered(bytes.toString('latin1', at + 1, end)) ? end + 1 : ILL_FORMED;
    }
    const isLetterOrDigit = byte < 0x80 && NAME_BYTES[byte] === 1;
    if (!isLetterOrDigit && !(byte === HASH && end === at + 1)) return ILL_FORMED;
  }
  return bytes.length - at < LONGEST_REFERENCE ? UNFINISHED : ILL_FORMED;
}

/** The text with its references replaced; all of them have been read by `referenceEnd`. */
export function withoutReferences(text: string): string {
  return text.replace(/&([^;]*);/g, (_, name: string) =>
    name.startsWith('#') ? String.fromCodePoint(codeOf(name)) : (NAMED.get(name) ?? ''),
  );
}

/** Whether a reference is one by number, of a character that XML allows. */
function isNumbered(name: string): boolean {
  return /^#(?:x[\da-fA-F]+|\d+)$/.test(name) && isCharacter(codeOf(name));
}

/** Of `#60` or `#x3c`. */
function codeOf(name: string): number {
  return name.startsWith('#x') ? Number.parseInt(name.slice(2), 16) : Number(name.slice(1));
}

/** Production 2 of XML 1.0. */
function isCharacter(code: number): boolean {
  if (code < SPACE) return isWhite(code);
  if (code >= 0xd800 && code <= 0xdfff) return false;
  return code <= 0x10ffff && code !== 0xfffe && code !== 0xffff;
}
