import {
  AMPERSAND,
  BRACKET,
  GREATER,
  HYPHEN,
  LESS,
  isAllowed,
  isWhite,
  startsWith,
  stopsAt,
} from './xml-bytes.ts';
import { ILL_FORMED, UNFINISHED, readReference } from './xml-references.ts';

const TEXT_STOPS = stopsAt(LESS, AMPERSAND, GREATER);
const COMMENT_STOPS = stopsAt(HYPHEN);
const CDATA_STOPS = stopsAt(BRACKET);

export const COMMENT_START: Buffer = Buffer.from('<!--');
export const CDATA_START: Buffer = Buffer.from('<![CDATA[');
/** Bytes of `-->` and of `]]>`. */
export const SECTION_END = 3;
const CDATA_END: Buffer = Buffer.from(']]>');
export const DOCTYPE_START: Buffer = Buffer.from('<!DOCTYPE');
const STARTS: readonly Buffer[] = [COMMENT_START, CDATA_START, DOCTYPE_START];

/**
 * Reads text up to the next tag.
 *
 * @returns for `indexOf`, where it ends: at `<`, at the end of the bytes, or at what is ill-formed or a reference
 *   without its end; for `isEscaped`, whether references stand in it. One number, so that no object is made.
 */
export function textEnd(bytes: Buffer, at: number): number {
  const { length } = bytes;
  // In the function itself, because the engine of the language reads it anew from a module for each byte.
  const stops = TEXT_STOPS;
  let index = at;
  let escaped = 0;
  for (;;) {
    while (index < length && stops[bytes[index] ?? 0] === 0) index += 1;
    if (index === length) break;
    const byte = bytes[index];
    if (byte === LESS) break;
    if (byte === AMPERSAND) {
      const next = readReference(bytes, index, length);
      if (next < 0) break;
      escaped = 1;
      index = next;
    } else {
      const closes = byte === GREATER && index - at >= 2 && bytes[index - 1] === BRACKET;
      if ((closes && bytes[index - 2] === BRACKET) || !isAllowed(bytes, index)) break;
      index += 1;
    }
  }
  return index * 2 + escaped;
}

export function indexOf(end: number): number {
  return end >>> 1;
}

export function isEscaped(end: number): boolean {
  return (end & 1) === 1;
}

/** The index behind the end tag of that name at `at`; -1 when it is another one, or not whole. */
export function endTagEnd(bytes: Buffer, at: number, name: Uint8Array): number {
  let end = at + 2 + name.length;
  if (!startsWith(bytes, at + 2, name)) return -1;
  while (isWhite(bytes[end] ?? 0)) end += 1;
  return bytes[end] === GREATER ? end + 1 : -1;
}

/** What begins with `<!` at `at`: one of the starts above, `UNFINISHED` or `ILL_FORMED`. */
export function declarationAt(bytes: Buffer, at: number): Buffer | number {
  const whole = STARTS.find((start) => startsWith(bytes, at, start));
  if (whole !== undefined) return whole;
  const rest = bytes.subarray(at);
  const begun = STARTS.some((start) => rest.length < start.length && startsWith(start, 0, rest));
  return begun ? UNFINISHED : ILL_FORMED;
}

/**
 * Reads what stands within a comment, or the rest of it.
 *
 * @returns the index of its `-->`; else, as `~index`, up to where it was read; undefined when it is ill-formed
 */
export function commentEnd(bytes: Buffer, at: number): number | undefined {
  const { length } = bytes;
  let index = at;
  for (;;) {
    while (index < length && COMMENT_STOPS[bytes[index] ?? 0] === 0) index += 1;
    if (index === length) return ~index;
    if (bytes[index] === HYPHEN) {
      const next = bytes[index + 1];
      if (next === HYPHEN && index + 2 < length)
        return bytes[index + 2] === GREATER ? index : undefined;
      if (next === undefined || next === HYPHEN) return ~index;
    } else if (!isAllowed(bytes, index)) return undefined;
    index += 1;
  }
}

/**
 * Reads what stands within a CDATA section, or the rest of it.
 *
 * @returns the index of its `]]>`; else, as `~index`, up to where it was read; undefined when it is ill-formed
 */
export function cdataEnd(bytes: Buffer, at: number): number | undefined {
  const { length } = bytes;
  let index = at;
  for (;;) {
    while (index < length && CDATA_STOPS[bytes[index] ?? 0] === 0) index += 1;
    if (index === length) return ~index;
    if (startsWith(bytes, index, CDATA_END)) return index;
    if (bytes[index] === BRACKET && index + 2 >= length) return ~index;
    if (!isAllowed(bytes, index)) return undefined;
    index += 1;
  }
}
