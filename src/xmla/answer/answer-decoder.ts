import { isAscii, isUtf8 } from 'node:buffer';
import type { AnswerEncoding } from './answer-encoding.ts';

/**
 * Turns bytes into text piece by piece and accepts only what the encoding allows. Unlike a fatal TextDecoder
 * it still hands out the text before the first bad byte, so that what an inspection finds does not depend on
 * how the network cut the answer; and its ISO-8859-1 is not windows-1252.
 */
export interface AnswerDecoder {
  /** The text of the characters that are complete now. After `broken` it is always ''. */
  decode(bytes: Buffer): string;
  /** The same in UTF-8. It may be a view of the bytes that were given, so that UTF-8 costs nothing. */
  toUtf8(bytes: Buffer): Buffer;
  /** True once a byte came that the encoding does not allow. */
  readonly broken: boolean;
  /** True when a character has begun whose last byte has not come. */
  readonly pending: boolean;
}

/** A byte order mark stays in the text as U+FEFF: the scanner takes one and refuses a second. */
export function answerDecoder(encoding: AnswerEncoding): AnswerDecoder {
  switch (encoding) {
    case 'utf-8':
      return decoderOf({ cut: cutUtf8, read: readUtf8 });
    case 'utf-16le':
      return decoderOf({ cut: cutUtf16le, read: readUtf16le });
    case 'utf-16be':
      return decoderOf({ cut: cutUtf16be, read: readUtf16be });
    case 'iso-8859-1':
      return decoderOf({ cut: whole, read: readLatin1 });
    case 'us-ascii':
      return decoderOf({ cut: whole, read: readAscii });
  }
}

interface Coding {
  /** How many bytes from the start hold complete characters; the rest, at most three bytes, waits. */
  readonly cut: (bytes: Buffer) => number;
  /** Reads complete characters, up to the first that is not allowed. */
  readonly read: (bytes: Buffer) => { text: Buffer; broken: boolean };
}

const NOTHING = Buffer.alloc(0);

function decoderOf(coding: Coding): AnswerDecoder {
  let rest: Buffer = NOTHING;

  function toUtf8(bytes: Buffer): Buffer {
    if (decoder.broken) return NOTHING;
    const all = rest.length === 0 ? bytes : Buffer.concat([rest, bytes]);
    const length = coding.cut(all);
    // A copy: the view would keep the caller's whole chunk alive, or change under it.
    rest = length === all.length ? NOTHING : Buffer.from(all.subarray(length));
    const read = coding.read(length === all.length ? all : all.subarray(0, length));
    decoder.broken = read.broken;
    decoder.pending = !read.broken && rest.length > 0;
    return read.text;
  }

  const decoder = {
    decode: (bytes: Buffer) => toUtf8(bytes).toString(),
    toUtf8,
    broken: false,
    pending: false,
  };
  return decoder;
}

const whole = (bytes: Buffer): number => bytes.length;

function readLatin1(bytes: Buffer): { text: Buffer; broken: boolean } {
  if (isAscii(bytes)) return { text: bytes, broken: false };
  return { text: Buffer.from(bytes.toString('latin1'), 'utf8'), broken: false };
}

function readAscii(bytes: Buffer): { text: Buffer; broken: boolean } {
  if (isAscii(bytes)) return { text: bytes, broken: false };
  const bad = bytes.findIndex((byte) => byte > 0x7f);
  return { text: bytes.subarray(0, bad), broken: true };
}

/** Leaves off a last sequence whose lead byte promises more bytes than are there (RFC 3629). */
function cutUtf8(bytes: Buffer): number {
  const { length } = bytes;
  for (let back = 1; back <= 3 && back <= length; back++) {
    const byte = bytes[length - back] ?? 0;
    if (byte < 0x80) return length;
    if (byte >= 0xc2 && byte <= 0xf4) {
      const promised = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
      return promised > back ? length - back : length;
    }
    if (byte >= 0xc0) return length;
  }
  return length;
}

function readUtf8(bytes: Buffer): { text: Buffer; broken: boolean } {
  if (isUtf8(bytes)) return { text: bytes, broken: false };
  // Bisects for the longest start that is well-formed when a last unfinished character is left off.
  let good = 0;
  let bad = bytes.length;
  while (bad - good > 1) {
    const middle = (good + bad) >>> 1;
    if (isUtf8(bytes.subarray(0, cutUtf8(bytes.subarray(0, middle))))) good = middle;
    else bad = middle;
  }
  const length = cutUtf8(bytes.subarray(0, good));
  return { text: bytes.subarray(0, length), broken: true };
}

const cutUtf16le = (bytes: Buffer): number => cutUtf16(bytes, 1);
const cutUtf16be = (bytes: Buffer): number => cutUtf16(bytes, 2);

/** Leaves off half a code unit and a high surrogate at the end. `back` leads from the end to a high byte. */
function cutUtf16(bytes: Buffer, back: 1 | 2): number {
  const even = bytes.length & ~1;
  const high = even === 0 ? 0 : (bytes[even - back] ?? 0);
  return high >= 0xd8 && high <= 0xdb ? even - 2 : even;
}

function readUtf16le(bytes: Buffer): { text: Buffer; broken: boolean } {
  const text = bytes.toString('utf16le');
  if (text.isWellFormed()) return { text: Buffer.from(text), broken: false };
  return { text: Buffer.from(text.slice(0, text.search(/\p{Surrogate}/u))), broken: true };
}

function readUtf16be(bytes: Buffer): { text: Buffer; broken: boolean } {
  return readUtf16le(Buffer.from(bytes).swap16());
}
