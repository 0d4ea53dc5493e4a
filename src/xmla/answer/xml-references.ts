import { AMPERSAND, HASH, SEMICOLON, startsWith } from './xml-bytes.ts';

const NAMED: ReadonlyMap<string, string> = new Map([
  ['lt', '<'],
  ['gt', '>'],
  ['amp', '&'],
  ['quot', '"'],
  ['apos', "'"],
]);

const NAMED_BYTES: readonly Buffer[] = [...NAMED.keys()].map((name) => Buffer.from(`${name};`));

/** Characters of a reference; a real one takes at most ten. */
const LONGEST = 24;

/** The bytes end before the reference, or whatever it is, does. */
export const UNFINISHED = -1;
/** It is no reference that can be without a document type declaration. */
export const ILL_FORMED = -2;

/**
 * Reads the reference whose ampersand stands at `at` (XML 1.0 section 4.1).
 *
 * @returns the index behind its semicolon, `UNFINISHED` or `ILL_FORMED`
 */
export function readReference(bytes: Buffer, at: number, to: number): number {
  if (bytes[at] !== AMPERSAND) return ILL_FORMED;
  for (const name of NAMED_BYTES) if (startsWith(bytes, at + 1, name)) return at + 1 + name.length;
  const last = Math.min(to, at + LONGEST);
  for (let end = at + 1; end < last; end++) {
    const byte = bytes[end] ?? 0;
    if (byte === SEMICOLON) {
      const name = bytes.toString('latin1', at + 1, end);
      return characterOf(name) === undefined ? ILL_FORMED : end + 1;
    }
    const isLetterOrDigit =
      (byte >= 0x30 && byte <= 0x39) ||
      (byte >= 0x41 && byte <= 0x5a) ||
      (byte >= 0x61 && byte <= 0x7a);
    if (!isLetterOrDigit && !(byte === HASH && end === at + 1)) return ILL_FORMED;
  }
  return to - at < LONGEST ? UNFINISHED : ILL_FORMED;
}

/** Whether a reference by number stands in a text: it may be any character, a named one only one of five. */
export function hasNumber(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at + 1 < to; at++)
    if (bytes[at] === AMPERSAND && bytes[at + 1] === HASH) return true;
  return false;
}

/** The text with its references replaced; all of them have been read by `readReference`. */
export function withoutReferences(text: string): string {
  return text.replace(/&([^;]*);/g, (_, name: string) => characterOf(name) ?? '');
}

function characterOf(name: string): string | undefined {
  const digits = /^#(?:x([\da-fA-F]+)|(\d+))$/.exec(name);
  if (digits === null) return NAMED.get(name);
  const [, hexadecimal, decimal = ''] = digits;
  const code = hexadecimal === undefined ? Number(decimal) : Number.parseInt(hexadecimal, 16);
  return isCharacter(code) ? String.fromCodePoint(code) : undefined;
}

/** Production 2 of XML 1.0. */
function isCharacter(code: number): boolean {
  if (code < 0x20) return code === 0x09 || code === 0x0a || code === 0x0d;
  if (code >= 0xd800 && code <= 0xdfff) return false;
  return code <= 0x10ffff && code !== 0xfffe && code !== 0xffff;
}
