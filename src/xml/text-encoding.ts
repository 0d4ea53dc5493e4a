import { isAscii, isUtf8 } from 'node:buffer';
import { parse } from 'content-type';

/**
 * Encodings that are read. Clients send UTF-8, UTF-16 (.NET) and US-ASCII (ElementTree of Python).
 * ISO-8859-1 has exactly its 256 characters: it is not windows-1252.
 */
export type TextEncoding = 'utf-8' | 'utf-16le' | 'utf-16be' | 'iso-8859-1' | 'us-ascii';

/** Lower-case labels of Content-Type and XML declarations; `utf-16` leaves the byte order open. */
const LABELS: ReadonlyMap<string, TextEncoding | 'utf-16'> = new Map([
  ['utf-8', 'utf-8'],
  ['utf-16', 'utf-16'],
  ['utf-16le', 'utf-16le'],
  ['utf-16be', 'utf-16be'],
  ['iso-8859-1', 'iso-8859-1'],
  ['iso_8859-1', 'iso-8859-1'],
  ['latin1', 'iso-8859-1'],
  ['us-ascii', 'us-ascii'],
  ['utf8', 'utf-8'],
  ['iso8859-1', 'iso-8859-1'],
  ['iso8859_1', 'iso-8859-1'],
  ['ascii', 'us-ascii'],
]);

/** Matches names registered by IANA, the only ones parsers of Java take in an XML declaration. */
export const isRegistered = (label: string) => !/^(?:utf8|iso8859[-_]1|ascii)$/.test(label);
/** Bytes within which an XML declaration must end; a real one takes some fifty. */
export const DECLARATION_LIMIT = 1024;
const USUAL_DECLARATION = 64;
/** Bytes that are needed first: they hold a byte order mark, and show UTF-32. */
const MARK_LENGTH = 4;
/** UTF-32, with or without a mark. */
const UTF_32 = /^(?:\0\0|[^]\0\0\0|\xFF\xFE\0\0)/;
const MARKS: readonly [mark: string, TextEncoding][] = [
  ['\xEF\xBB\xBF', 'utf-8'],
  ['\xFF\xFE', 'utf-16le'],
  ['\xFE\xFF', 'utf-16be'],
];

/**
 * Finds the encoding of a document. The byte order mark, the parameter charset and the XML
 * declaration (RFC 7303 §3, XML 1.0 appendix F) must agree, where they are present; without any of
 * them it is UTF-8.
 *
 * @param bytes all bytes so far
 * @param ended no byte will follow, so the answer is never `more`
 * @returns `more`: more bytes are needed; `unknown`: another encoding, or a contradiction;
 *   `declared`: the lower-case name in the XML declaration, by which alone some engines go;
 *   `ordered`: false for UTF-16 whose byte order neither a mark nor a label names
 */
export function findEncoding(bytes: Buffer, ended: boolean, contentType: string | undefined) {
  if (bytes.length < MARK_LENGTH && !ended) return 'more';
  const start = bytes.toString('latin1', 0, MARK_LENGTH);
  if (UTF_32.test(start)) return 'unknown';
  const unmarked = start[1] === '\0' ? 'utf-16le' : start[0] === '\0' ? 'utf-16be' : 'utf-8';
  const [mark, units] = MARKS.find(([one]) => start.startsWith(one)) ?? ['', unmarked];
  const unmarkedBytes = mark === '' ? bytes : bytes.subarray(mark.length);
  const declaration = readDeclaration(unmarkedBytes, units, ended);
  if (declaration === 'more' || declaration === 'unknown') return declaration;
  const labels: (TextEncoding | 'utf-16' | undefined)[] = [];
  const declared = declaration?.encoding?.toLowerCase();
  for (const name of [charsetOf(contentType)?.toLowerCase(), declared]) {
    if (name !== undefined) labels.push(LABELS.get(name));
  }
  const isMarked = mark !== '';
  const isWide = units !== 'utf-8';
  const single = labels.find((label) => label === 'iso-8859-1' || label === 'us-ascii');
  const encoding = isWide || isMarked ? units : (single ?? units);
  const agrees = labels.every((label) => label === encoding || (isWide && label === 'utf-16'));
  // XML 1.0 §4.3.3: UTF-16 that says so nowhere is not UTF-16.
  if (!agrees || (isWide && !isMarked && labels.length === 0)) return 'unknown';
  const ordered = !isWide || isMarked || labels.includes(encoding);
  return { encoding, declared, ordered };
}

function readDeclaration(bytes: Buffer, units: TextEncoding, ended: boolean) {
  // A declaration is ASCII in every encoding that is read, so any reading of the rest will do.
  const textTo = (end: number) =>
    units === 'utf-8' ? bytes.toString('latin1', 0, end) : fromUtf16(bytes.subarray(0, end), units);
  const start = textTo(2 * '<?xml '.length);
  if (!ended && '<?xml'.startsWith(start)) return 'more';
  if (!/^<\?xml[ \t\r\n]/.test(start)) return undefined;
  const usual = textTo(USUAL_DECLARATION);
  const text = usual.includes('?>') ? usual : textTo(DECLARATION_LIMIT);
  const end = text.indexOf('?>');
  if (end < 0) {
    if (bytes.length >= DECLARATION_LIMIT) return 'unknown';
    // A document that ends within its declaration is ill-formed, which the scanner says better.
    return ended ? undefined : 'more';
  }
  const found = /[ \t\r\n]encoding[ \t\r\n]*=[ \t\r\n]*(["'])([^"']*)\1/.exec(text.slice(0, end));
  return { encoding: found?.[2] };
}

function fromUtf16(bytes: Buffer, encoding: TextEncoding): string {
  const even = bytes.subarray(0, bytes.length & ~1);
  return (encoding === 'utf-16le' ? even : Buffer.from(even).swap16()).toString('utf16le');
}

/**
 * Returns '', which no label is, for a charset that is not plain: the parser takes the first of two
 * and skips unknown parameters, where an engine may take the last, or `charset*`.
 */
function charsetOf(contentType: string | undefined): string | undefined {
  const mentions = contentType?.match(/charset=?/gi) ?? [];
  if (contentType === undefined || mentions.length === 0) return undefined;
  const isPlain = mentions.length === 1 && mentions[0]?.endsWith('=');
  return isPlain ? (parse(contentType).parameters.charset ?? '') : '';
}

const NOTHING = Buffer.alloc(0);

/** Gives the text before the first bad byte, which a fatal TextDecoder does not. */
export type TextDecoder = ReturnType<typeof textDecoder>;

export function textDecoder(encoding: TextEncoding) {
  let rest: Buffer = NOTHING;
  // No getter: each literal with one is a class of its own, which V8 keeps until the next full GC.
  const decoder = {
    /** A byte came that the encoding does not allow. */
    broken: false,
    /** The last byte of a character has not come. */
    pending: false,
    /** Returns complete characters, perhaps as a view of `bytes`; keeps a byte order mark. */
    toUtf8(bytes: Buffer): Buffer {
      if (decoder.broken) return NOTHING;
      const all = rest.length === 0 ? bytes : Buffer.concat([rest, bytes]);
      const length = completeLength(all, encoding);
      const whole = length === all.length ? all : all.subarray(0, length);
      const text = decode(whole, encoding);
      // A copy: a view would keep the caller's whole chunk alive, or change under it.
      rest = length === all.length ? NOTHING : Buffer.from(all.subarray(length));
      decoder.broken = text === undefined;
      decoder.pending = !decoder.broken && rest.length > 0;
      return text ?? decode(whole.subarray(0, goodLength(whole, encoding)), encoding) ?? NOTHING;
    },
  };
  return decoder;
}

/** Counts the bytes of complete characters; at most three bytes wait. */
function completeLength(bytes: Buffer, encoding: TextEncoding): number {
  const { length } = bytes;
  if (encoding === 'utf-8') {
    // A last sequence whose lead byte promises more bytes than are there (RFC 3629).
    for (let back = 1; back <= 3 && back <= length; back += 1) {
      const byte = bytes[length - back] ?? 0;
      if (byte < 0x80) return length;
      const promised = byte >= 0xf5 || byte < 0xc2 ? 0 : byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
      if (byte >= 0xc0) return promised > back ? length - back : length;
    }
    return length;
  }
  if (encoding !== 'utf-16le' && encoding !== 'utf-16be') return length;
  // Half a code unit, and a high surrogate.
  const even = length & ~1;
  const high = bytes[even - (encoding === 'utf-16le' ? 1 : 2)] ?? 0;
  return high >= 0xd8 && high <= 0xdb ? even - 2 : even;
}

/** Decodes complete characters; undefined if the encoding does not allow one. */
function decode(bytes: Buffer, encoding: TextEncoding): Buffer | undefined {
  switch (encoding) {
    case 'utf-8':
      return isUtf8(bytes) ? bytes : undefined;
    case 'us-ascii':
      return isAscii(bytes) ? bytes : undefined;
    case 'iso-8859-1':
      return isAscii(bytes) ? bytes : Buffer.from(bytes.toString('latin1'));
    default: {
      const text = fromUtf16(bytes, encoding);
      return text.isWellFormed() ? Buffer.from(text) : undefined;
    }
  }
}

/** Counts the bytes before the first that is not allowed. */
function goodLength(bytes: Buffer, encoding: TextEncoding): number {
  if (encoding === 'us-ascii') return bytes.findIndex((byte) => byte > 0x7f);
  if (encoding !== 'utf-8') return fromUtf16(bytes, encoding).search(/\p{Surrogate}/u) * 2;
  // Decoding makes U+FFFD of a bad byte, which is then written differently.
  const written = Buffer.from(bytes.toString());
  const same = bytes.subarray(
    0,
    bytes.findIndex((byte, at) => byte !== written[at]),
  );
  return completeLength(same, encoding);
}

export type DecodedText = NonNullable<ReturnType<typeof decodeText>>;

/**
 * Decodes a whole document; a byte order mark stays. UTF-16 needs a mark or a label for its order.
 * @returns undefined for another encoding, forbidden bytes, a contradiction or an unclear charset
 */
export function decodeText(body: Uint8Array, contentType: string | undefined) {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const found = findEncoding(bytes, true, contentType);
  if (typeof found === 'string' || !found.ordered) return undefined;
  const { encoding, declared } = found;
  if (completeLength(bytes, encoding) < bytes.length) return undefined;
  const utf8 = decode(bytes, encoding);
  return utf8 && { utf8, encoding, declared };
}
