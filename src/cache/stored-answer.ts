import { promisify } from 'node:util';
import { crc32, gzip } from 'node:zlib';
import type { TextEncoding } from '../xml/text-encoding.ts';

/** Where a session id goes into a stored body: behind `at` bytes, in the encoding of the body. */
export interface SessionPlace {
  readonly at: number;
  readonly encoding: TextEncoding;
}

/** What is not here (cookies, connection headers, ids of the engine's own) is never replayed. */
export interface StoredAnswer {
  /** The engine's bytes, less the session's id. Never changed: all who read it share it. */
  readonly body: Buffer;
  readonly session: SessionPlace | undefined;
  /** Whether the engine sent the header X-AS-SessionID, which then carries the caller's id. */
  readonly sessionHeader: boolean;
  /** The exact header. */
  readonly contentType: string;
  readonly contentLanguage: string | undefined;
  /** Wall clock (ms) when the engine request began: age counts from here (RFC 9111 §4.2.3). */
  readonly requestedAt: number;
  /** From `requestedAt` (ms). */
  readonly lifetime: number;
  readonly engineMilliseconds: number;
}

type ShownAnswer = Pick<StoredAnswer, 'body' | 'session'>;
/** What arrives in a header as it was sent (RFC 9110 §5.5). */
export const HEADER_VALUE =
  /^[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?$/;

/** A copy of its own: a short Buffer keeps all of what it is a part of, such as Node's pool. */
export function ownBytes(pieces: readonly Uint8Array[]): Buffer {
  const own = Buffer.allocUnsafeSlow(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    own.set(piece, at);
    at += piece.length;
  }
  return own;
}

/** With the caller's session id, in pieces. @throws Error where the id that it needs is missing */
export function withSession({ body, session }: ShownAnswer, id?: string): readonly Buffer[] {
  if (session === undefined) return [body];
  const own = ownSessionBytes(session, id);
  return [body.subarray(0, session.at), own, body.subarray(session.at)];
}

function ownSessionBytes(place: SessionPlace | undefined, id?: string): Buffer {
  if (place === undefined) return NOTHING;
  if (id === undefined) throw new Error('an answer that shows a session was found without one');
  return sessionBytes(id, place.encoding);
}

/**
 * An id as an attribute value holds it: white space by number (XML 1.0 §3.3.3).
 * @throws RangeError for a character that XML 1.0 forbids, which no id that was read has
 */
export function sessionBytes(id: string, encoding: TextEncoding): Buffer {
  const last = LAST[encoding] ?? Infinity;
  const text = id.replaceAll(NOT_PLAIN, (character) => {
    const code = character.codePointAt(0) ?? 0;
    const number = code.toString(16).toUpperCase();
    if (!XML_CHARACTER.test(character)) throw new RangeError(`XML has no character ${number}`);
    const name: string | undefined = NAMES[character as keyof typeof NAMES];
    return code > 0x7f && code <= last ? character : `&${name ?? `#x${number}`};`;
  });
  const isWide = encoding === 'utf-16le' || encoding === 'utf-16be';
  const bytes = Buffer.from(text, isWide ? 'utf16le' : encoding === 'utf-8' ? 'utf8' : 'latin1');
  return encoding === 'utf-16be' ? bytes.swap16() : bytes;
}

const NOTHING = Buffer.alloc(0);
const NOT_PLAIN = /[^ -~]|[&<>"']/gu;
const NAMES = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot', "'": 'apos' };
/** The last code point that an encoding can say; of all others any. */
const LAST: Partial<Record<TextEncoding, number>> = { 'iso-8859-1': 0xff, 'us-ascii': 0x7f };
/** The production Char of XML 1.0. */
const XML_CHARACTER = /[\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/u;
const compress = promisify(gzip);
/** Shorter bodies are sent in so few packets that compression gains nothing (bytes). */
export const GZIP_FROM = 1024;
/** A variant that is not shorter than this part of the body does not pay for its memory. */
const WORTH = 0.9;
/** A variant is made once and sent often: 6 takes twice the time of 1 for 3 to 8 % fewer bytes. */
const LEVEL = 6;
/** Beside the compressed bytes (rounded up). */
const VARIANT_OVERHEAD = 256;
/** Deflate, no flags, no time, no hint, unknown system (RFC 1952). */
const MEMBER_HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]);
/** CRC-32 and length (bytes). */
const TRAILER = 8;
/**
 * A stored answer as gzip. What stands before the session id is never compressed, so that the id
 * can be exchanged, and the length tells nothing of it where others can add text to the answer.
 */
export type GzipVariant = NonNullable<Awaited<ReturnType<typeof makeGzip>>>;

/** Compresses on the thread pool. Undefined where it would not pay. */
export async function makeGzip({ body, session }: ShownAnswer) {
  if (body.length < GZIP_FROM) return undefined;
  const at = session?.at ?? 0;
  // Whole gzip, of which the ends are cut off: that makes the checksum on the thread pool as well.
  const member = await compress(body.subarray(at), { level: LEVEL });
  if (at + member.length >= body.length * WORTH) return undefined;
  const end = member.length - TRAILER;
  const tail = ownBytes([member.subarray(MEMBER_HEADER.length, end)]);
  return {
    bytes: tail.length + VARIANT_OVERHEAD,
    body,
    /** The deflate blocks from the place of the session id on; all of them where there is none. */
    tail,
    tailCrc: member.readUInt32LE(end),
    tailShift: crcShift(body.length - at),
    /** CRC-32 of the body up to that place. */
    headCrc: crc32(body.subarray(0, at)),
  };
}

/** One gzip member (RFC 1952). @throws Error for the variant of another answer, as `withSession` */
export function gzipWithSession(
  { tail, tailCrc, tailShift, headCrc, body: madeOf }: GzipVariant,
  { body, session }: ShownAnswer,
  id?: string,
): readonly Buffer[] {
  if (madeOf !== body) throw new Error('a compressed answer was found at another answer');
  const own = ownSessionBytes(session, id);
  const front = session && stored(Buffer.concat([body.subarray(0, session.at), own]));
  const trailer = Buffer.allocUnsafe(TRAILER);
  const crc = multiply(tailShift, crc32(own, headCrc)) ^ tailCrc;
  trailer.writeUInt32LE(crc >>> 0, 0);
  trailer.writeUInt32LE((body.length + own.length) % 2 ** 32, 4);
  return [Buffer.concat([MEMBER_HEADER, ...(front ?? [])]), tail, trailer];
}

/** Bytes that a stored block can hold (RFC 1951 section 3.2.4). */
const BLOCK_LIMIT = 65_535;
/** Its type, which leaves the rest of the byte unused, and its length twice. */
const BLOCK_HEADER = 5;
/** Deflate blocks that hold bytes as they are; other blocks must follow. */
function stored(bytes: Buffer): Buffer[] {
  const blocks: Buffer[] = [];
  for (let from = 0; from < bytes.length; from += BLOCK_LIMIT) {
    const content = bytes.subarray(from, from + BLOCK_LIMIT);
    const header = Buffer.alloc(BLOCK_HEADER);
    header.writeUInt16LE(content.length, 1);
    header.writeUInt16LE(content.length ^ 0xffff, 3);
    blocks.push(header, content);
  }
  return blocks;
}

// The CRC-32 of two texts in a row: a text that follows multiplies the remainder of the one before
// by a power of x, and is added. In 32 bits the highest is x^0 (RFC 1952 section 8).
/** What the remainders are of, less x^32. */
const DIVISOR = 0xedb88320;
const ONE = 0x80000000;
/** x to the power of 8, by which one byte shifts. */
const BYTE = 0x00800000;
/** What to multiply a checksum by when `length` bytes follow. */
function crcShift(length: number): number {
  let shift = ONE;
  let power = BYTE;
  for (let left = length; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) shift = multiply(power, shift);
    power = multiply(power, power);
  }
  return shift;
}

function multiply(a: number, b: number): number {
  let product = 0;
  let shifted = b;
  for (let bit = ONE; bit !== 0; bit >>>= 1) {
    if ((a & bit) !== 0) product ^= shifted;
    shifted = (shifted & 1) === 0 ? shifted >>> 1 : (shifted >>> 1) ^ DIVISOR;
  }
  return product >>> 0;
}
