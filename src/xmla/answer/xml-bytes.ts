/** What single bytes of XML in UTF-8 mean. A byte above 0x7F is part of a longer character. */

const TAB = 0x09;
const LINE_FEED = 0x0a;
const RETURN = 0x0d;
const SPACE = 0x20;
export const BANG = 0x21;
export const QUOTE = 0x22;
export const HASH = 0x23;
export const AMPERSAND = 0x26;
export const APOSTROPHE = 0x27;
export const HYPHEN = 0x2d;
export const SLASH = 0x2f;
export const SEMICOLON = 0x3b;
export const LESS = 0x3c;
export const EQUALS = 0x3d;
export const GREATER = 0x3e;
export const QUESTION = 0x3f;
export const BRACKET = 0x5d;

/** The first byte of U+F000 to U+FFFF, among which are the two that XML forbids. */
const LAST_PLANE = 0xef;

/** Production 3 of XML 1.0. */
export function isWhite(byte: number): boolean {
  return byte === SPACE || byte === LINE_FEED || byte === RETURN || byte === TAB;
}

/** Whether nothing but white space stands from `from` up to `to`. */
export function isBlank(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at++) if (!isWhite(bytes[at] ?? 0)) return false;
  return true;
}

/** A table of the bytes at which a run of ordinary characters must be looked at: 1, the rest 0. */
export function stopsAt(...bytes: readonly number[]): Uint8Array {
  const table = new Uint8Array(256);
  for (let byte = 0; byte < SPACE; byte++) if (!isWhite(byte)) table[byte] = 1;
  table[LAST_PLANE] = 1;
  for (const byte of bytes) table[byte] = 1;
  return table;
}

/**
 * Whether a byte that a table of `stopsAt` holds for its own sake begins a character that XML 1.0 allows
 * (production 2). The text is known to be UTF-8 and to end with a whole character.
 */
export function isAllowed(bytes: Uint8Array, at: number): boolean {
  const byte = bytes[at] ?? 0;
  if (byte === LAST_PLANE) return bytes[at + 1] !== 0xbf || (bytes[at + 2] ?? 0) < 0xbe;
  return byte >= SPACE || isWhite(byte);
}

/** Bytes of names, 1: every one that stands for itself, and those of longer characters, to be checked later. */
export const NAME_BYTES: Uint8Array = nameBytes();

function nameBytes(): Uint8Array {
  const table = new Uint8Array(256).fill(1, 0x80);
  for (const character of 'abcdefghijklmnopqrstuvwxyz') {
    table[character.charCodeAt(0)] = 1;
    table[character.toUpperCase().charCodeAt(0)] = 1;
  }
  for (const character of '0123456789-._:') table[character.charCodeAt(0)] = 1;
  return table;
}

/** Whether two runs of bytes are the same; the first is all of `name`. */
export function startsWith(bytes: Uint8Array, at: number, name: Uint8Array): boolean {
  const { length } = name;
  for (let index = 0; index < length; index++) if (bytes[at + index] !== name[index]) return false;
  return true;
}
