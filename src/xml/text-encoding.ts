import { isAscii, isUtf8 } from 'node:buffer';
import { parse } from 'content-type';

/**
 * The encodings that are read. Clients were seen to send UTF-8, with and without a mark, UTF-16 (.NET), and US-ASCII
 * (the ElementTree of Python). ISO-8859-1 has exactly its 256 characters: it is not windows-1252.
 */
export type TextEncoding = 'utf-8' | 'utf-16le' | 'utf-16be' | 'iso-8859-1' | 'us-ascii';

/** Labels in lower case, as Content-Type and the XML declaration spell them: `utf-16` leaves the byte order open. */
const LABELS: ReadonlyMap<string, TextEncoding | 'utf-16'> = new Map([
  ['utf-8', 'utf-8'],
  ['utf8', 'utf-8'],
  ['utf-16', 'utf-16'],
  ['utf-16le', 'utf-16le'],
  ['utf-16be', 'utf-16be'],
  ['iso-8859-1', 'iso-8859-1'],
  ['iso_8859-1', 'iso-8859-1'],
  ['iso8859-1', 'iso-8859-1'],
  ['iso8859_1', 'iso-8859-1'],
  ['latin1', 'iso-8859-1'],
  ['us-ascii', 'us-ascii'],
  ['ascii', 'us-ascii'],
]);

/** Bytes within which an XML declaration must end; a real one takes some fifty. */
export const DECLARATION_LIMIT = 1024;
/** The bytes that are looked at before anything else: enough for a mark in front and for UTF-32. */
const MARK_LENGTH = 4;

export interface Encoding {
  readonly encoding: TextEncoding;
  /** Whether the XML declaration names it: some engines go by that alone. */
  readonly declared: boolean;
  /** False for UTF-16 of which neither a mark nor a label names the byte order. */
  readonly ordered: boolean;
}

/**
 * Finds the text encoding of a document in its first bytes and in its Content-Type. The byte order mark, the parameter
 * charset and the XML declaration (RFC 7303 section 3, XML 1.0 appendix F) must agree as far as they are there; with
 * none of them it is UTF-8.
 *
 * @param bytes all bytes so far, from the first one on
 * @param ended true when no byte will follow, so that the answer is never `more`
 * @returns `more` where more bytes are needed to say; `unknown` for another encoding, or a contradiction
 */
export function findEncoding(
  bytes: Buffer,
  ended: boolean,
  contentType: string | undefined,
): Encoding | 'more' | 'unknown' {
  if (bytes.length < MARK_LENGTH && !ended) return 'more';
  const start = readMark(bytes);
  if (start === undefined) return 'unknown';
  const declaration = readDeclaration(bytes.subarray(start.mark), start.units, ended);
  if (typeof declaration === 'string') return declaration;
  const names = [charsetOf(contentType), declaration.encoding].filter((name) => name !== undefined);
  const labels = names.map((name) => LABELS.get(name.toLowerCase()));
  const isMarked = start.mark > 0;
  const isWide = start.units !== '8';
  const single = labels.find((label) => label === 'iso-8859-1' || label === 'us-ascii');
  const encoding = isWide || isMarked ? ENCODING_OF_UNITS[start.units] : (single ?? 'utf-8');
  const agrees = labels.every((label) => label === encoding || (isWide && label === 'utf-16'));
  // XML 1.0 section 4.3.3: UTF-16 that says so nowhere is not UTF-16.
  if (!agrees || (isWide && !isMarked && labels.length === 0)) return 'unknown';
  const ordered = !isWide || isMarked || labels.includes(encoding);
  return { encoding, declared: declaration.encoding !== undefined, ordered };
}

/** How wide a character is, and in which order its bytes stand. */
type Units = '8' | '16le' | '16be';

/** Of bytes with a mark, and of any that are no single ones. */
const ENCODING_OF_UNITS = { 8: 'utf-8', '16le': 'utf-16le', '16be': 'utf-16be' } as const;

/** @returns how wide a character is, and how many bytes a byte order mark takes; undefined for what nothing sends */
function readMark(bytes: Buffer): { units: Units; mark: number } | undefined {
  const [a, b, c, d] = bytes;
  // UTF-32, with or without a mark.
  if ((a === 0 && b === 0) || (b === 0 && c === 0 && d === 0)) return undefined;
  if (a === 0xff && b === 0xfe && c === 0 && d === 0) return undefined;
  if (a === 0xef && b === 0xbb && c === 0xbf) return { units: '8', mark: 3 };
  if (a === 0xff && b === 0xfe) return { units: '16le', mark: 2 };
  if (a === 0xfe && b === 0xff) return { units: '16be', mark: 2 };
  return { units: b === 0 ? '16le' : a === 0 ? '16be' : '8', mark: 0 };
}

function readDeclaration(
  bytes: Buffer,
  units: Units,
  ended: boolean,
): { readonly encoding: string | undefined } | 'more' | 'unknown' {
  const text = asciiOf(bytes.subarray(0, DECLARATION_LIMIT), units);
  const start = '<?xml';
  if (text.length <= start.length && start.startsWith(text) && !ended) return 'more';
  if (!/^<\?xml[ \t\r\n]/.test(text)) return { encoding: undefined };
  const end = text.indexOf('?>');
  if (end < 0) {
    if (bytes.length >= DECLARATION_LIMIT) return 'unknown';
    // A document that ends within its declaration is ill-formed, which the scanner says better.
    return ended ? { encoding: undefined } : 'more';
  }
  const found = /[ \t\r\n]encoding[ \t\r\n]*=[ \t\r\n]*(["'])([^"']*)\1/.exec(text.slice(0, end));
  return { encoding: found?.[2] };
}

/** The characters of a declaration are ASCII in every encoding that is read, so any reading of the rest will do. */
function asciiOf(bytes: Buffer, units: Units): string {
  if (units === '8') return bytes.toString('latin1');
  const even = bytes.subarray(0, bytes.length & ~1);
  if (units === '16le') return even.toString('utf16le');
  return Buffer.from(even).swap16().toString('utf16le');
}

/**
 * The parser takes the first of two charsets and skips what it does not know, where an engine may take the last or
 * read `charset*`: so the word must stand there exactly as often as it was read, with `=` right behind it. If not, '',
 * which no label is.
 */
function charsetOf(contentType: string | undefined): string | undefined {
  if (contentType === undefined) return undefined;
  if (/charset(?!=)/i.test(contentType)) return '';
  const { charset } = parse(contentType).parameters;
  const mentions = contentType.toLowerCase().split('charset').length - 1;
  return mentions === (charset === undefined ? 0 : 1) ? charset : '';
}

/**
 * Turns bytes into UTF-8 piece by piece and accepts only what the encoding allows. Unlike a fatal TextDecoder it still
 * hands out the text before the first bad byte, so that what is found does not depend on how the network cut it.
 */
export interface TextDecoder {
  /**
   * The characters that are complete now; nothing after `broken`. May be a view of the bytes that were given. A byte
   * order mark stays.
   */
  toUtf8(bytes: Buffer): Buffer;
  /** True once a byte came that the encoding does not allow. */
  readonly broken: boolean;
  /** True when a character has begun whose last byte has not come. */
  readonly pending: boolean;
}

interface Coding {
  /** How many bytes from the start hold complete characters; the rest, at most three bytes, waits. */
  readonly cut: (bytes: Buffer) => number;
  /** Reads complete characters, up to the first that is not allowed. */
  readonly read: (bytes: Buffer) => { text: Buffer; broken: boolean };
}

const whole = (bytes: Buffer): number => bytes.length;

const CODINGS: Readonly<Record<TextEncoding, Coding>> = {
  'utf-8': { cut: cutUtf8, read: readUtf8 },
  'utf-16le': { cut: (bytes) => cutUtf16(bytes, 1), read: readUtf16le },
  'utf-16be': {
    cut: (bytes) => cutUtf16(bytes, 2),
    read: (bytes) => readUtf16le(Buffer.from(bytes).swap16()),
  },
  'iso-8859-1': { cut: whole, read: readLatin1 },
  'us-ascii': { cut: whole, read: readAscii },
};

const NOTHING = Buffer.alloc(0);

export function textDecoder(encoding: TextEncoding): TextDecoder {
  const { cut, read } = CODINGS[encoding];
  let rest: Buffer = NOTHING;
  // No getter: an object literal with one makes a class of its own each time, which V8 keeps until the next full
  // collection, with all that the getter sees.
  const decoder = {
    broken: false,
    pending: false,
    toUtf8(bytes: Buffer): Buffer {
      if (decoder.broken) return NOTHING;
      const all = rest.length === 0 ? bytes : Buffer.concat([rest, bytes]);
      const length = cut(all);
      // A copy: the view would keep the caller's whole chunk alive, or change under it.
      rest = length === all.length ? NOTHING : Buffer.from(all.subarray(length));
      const { text, broken } = read(length === all.length ? all : all.subarray(0, length));
      decoder.broken = broken;
      decoder.pending = !broken && rest.length > 0;
      return text;
    },
  };
  return decoder;
}

/** Leaves off a last sequence whose lead byte promises more bytes than are there (RFC 3629). */
function cutUtf8(bytes: Buffer): number {
  const { length } = bytes;
  for (let back = 1; back <= 3 && back <= length; back += 1) {
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
  return { text: bytes.subarray(0, cutUtf8(bytes.subarray(0, good))), broken: true };
}

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

function readLatin1(bytes: Buffer): { text: Buffer; broken: boolean } {
  if (isAscii(bytes)) return { text: bytes, broken: false };
  return { text: Buffer.from(bytes.toString('latin1'), 'utf8'), broken: false };
}

function readAscii(bytes: Buffer): { text: Buffer; broken: boolean } {
  if (isAscii(bytes)) return { text: bytes, broken: false };
  return {
    text: bytes.subarray(
      0,
      bytes.findIndex((byte) => byte > 0x7f),
    ),
    broken: true,
  };
}

export type DecodedText =
  /** `utf8` is the text; a byte order mark stays in it. */
  | ({ readonly ok: true; readonly utf8: Buffer } & Omit<Encoding, 'ordered'>)
  /** Another encoding, bytes that it does not allow, a contradiction, or a charset that can be read in two ways. */
  | { readonly ok: false };

const UNDECODABLE: DecodedText = { ok: false };

/** Decodes a whole document. UTF-16 is read only where a mark or a label names its byte order. */
export function decodeText(body: Uint8Array, contentType: string | undefined): DecodedText {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const found = findEncoding(bytes, true, contentType);
  if (typeof found === 'string' || !found.ordered) return UNDECODABLE;
  const { encoding, declared } = found;
  const decoder = textDecoder(encoding);
  const utf8 = decoder.toUtf8(bytes);
  return decoder.broken || decoder.pending ? UNDECODABLE : { ok: true, utf8, encoding, declared };
}
