import { finished } from 'node:stream/promises';
import { promisify } from 'node:util';
import {
  constants,
  crc32,
  createGzip,
  createInflateRaw,
  deflateRawSync,
  gzip,
  inflateRaw,
} from 'node:zlib';
import type { TextEncoding } from '../xml/text-encoding.ts';

/** As it is, or compressed. `length` is that of the text. */
export type AnswerText = Buffer | Deflated;

export type Deflated = Readonly<ReturnType<typeof deflated>>;

/** Position of a session id in a stored body: behind `at` bytes. */
export interface SessionGap {
  readonly at: number;
  readonly encoding: TextEncoding;
}

/** An answer as it is kept, without cookies, connection headers and ids of the engine. */
export interface StoredAnswer {
  /** Without the session id. Never changed: all readers share it. */
  readonly body: AnswerText;
  readonly session: SessionGap | undefined;
  /** The engine sent X-AS-SessionID; replays carry the caller's id in it. */
  readonly sessionHeader: boolean;
  readonly contentType: string;
  readonly contentLanguage: string | undefined;
  /** Begin of the engine request, wall clock (ms): age counts from here (RFC 9111 §4.2.3). */
  readonly requestedAt: number;
  readonly lifetime: number;
  readonly engineMilliseconds: number;
}

/** Header values that arrive as they were sent (RFC 9110 §5.5). */
export const HEADER_VALUE =
  /^[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?$/;

type Shown<Body> = Pick<StoredAnswer, 'session'> & { readonly body: Body };

/** Inserts the caller's session id. @throws Error where a needed id is missing */
export function withSession({ body, session }: Shown<Buffer>, id?: string): readonly Buffer[] {
  if (session === undefined) return [body];
  return [body.subarray(0, session.at), ownSessionBytes(session, id), body.subarray(session.at)];
}

export function gzipWithSession(
  { body, session }: Shown<Deflated>,
  id?: string,
): readonly Buffer[] {
  const { front, frontCrc, tail, tailCrc, tailShift, length } = body;
  const own = ownSessionBytes(session, id);
  const before = front.length + own.length === 0 ? [] : stored(Buffer.concat([front, own]));
  const trailer = Buffer.allocUnsafe(TRAILER);
  trailer.writeUInt32LE(joinedCrc(crc32(own, frontCrc), tailCrc, tailShift), 0);
  trailer.writeUInt32LE((length + own.length) % 2 ** 32, 4);
  return [Buffer.concat([MEMBER_HEADER, ...before]), tail, trailer];
}

/** Length and pieces of the decompressed text, made on the thread pool as they are taken. */
export function inflatedWithSession({ body, session }: Shown<Deflated>, id?: string) {
  const start = Buffer.concat([body.front, ownSessionBytes(session, id)]);
  async function* pieces(): AsyncGenerator<Buffer> {
    yield start;
    yield* createInflateRaw({ chunkSize: CHUNK }).end(body.tail) as AsyncIterable<Buffer>;
  }
  return { length: start.length + body.length - body.front.length, pieces };
}

/** Frees the memory of a sent piece that owns it: V8 would keep megabytes. */
export function dropPiece({ buffer, byteLength }: Buffer): void {
  if (buffer.byteLength === byteLength && 'transfer' in buffer) buffer.transfer(0);
}

/** Works on the thread pool; takes twice the bytes meanwhile. @throws when shorter than it says */
export async function inflated({ front, tail, length }: Deflated): Promise<Buffer> {
  const restLength = length - front.length;
  // With one spare byte the decoder is done after one piece.
  const options = { chunkSize: restLength + 1, maxOutputLength: restLength };
  const rest = await decompress(tail, options);
  if (rest.length !== restLength) throw new Error('a compressed text is shorter than it says');
  return front.length === 0 ? rest : Buffer.concat([front, rest]);
}

function ownSessionBytes(gap: SessionGap | undefined, id?: string): Buffer {
  if (gap === undefined) return NOTHING;
  if (id === undefined) throw new Error('an answer that shows a session was found without one');
  return sessionBytes(id, gap.encoding);
}

/** White space by number (XML 1.0 §3.3.3). @throws RangeError for what XML 1.0 forbids */
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
const LAST: Partial<Record<TextEncoding, number>> = { 'iso-8859-1': 0xff, 'us-ascii': 0x7f };
const XML_CHARACTER = /[\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/u;

/** Longer texts lie compressed in memory (bytes). */
export const LONG = 256 * 1024;
/** Part of a text in which its session stands (bytes): engines name it before the data. */
const START = 64 * 1024;
/** Compression of shorter texts saves no packet (bytes). */
export const GZIP_FROM = 1024;
/** A longer variant (part of the text) does not pay for its memory. */
const WORTH = 0.9;
/** For variants, sent often: 6 takes twice the time of 1 for 3 to 25 % fewer bytes. */
const LEVEL = 6;
/** For long texts, at each miss: 3 takes two fifths of the time of 6. */
const LEVEL_OF_LONG = 3;
/** Beside the bytes of a compressed text (rounded up). */
const OVERHEAD = 256;
/** Deflate, no flags, no time, no hint, unknown system (RFC 1952). */
const MEMBER_HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]);
const TRAILER = 8;
/** Bytes out of compressor and decompressor at a time. */
const CHUNK = 64 * 1024;
/** Bytes into the compressor at a time: each is a way to the thread pool. */
const TOGETHER = 512 * 1024;
/** Memory of a text made for one client (bytes; 94 to 224 KiB measured). */
export const INFLATING = 256 * 1024;
const compress = promisify(gzip);
export const decompress = promisify<Buffer, object, Buffer>(inflateRaw);

/** Copies: a short Buffer keeps all of what it is a part of, such as Node's pool. */
export function ownBytes(pieces: readonly Uint8Array[]): Buffer {
  const own = Buffer.allocUnsafeSlow(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    own.set(piece, at);
    at += piece.length;
  }
  return own;
}

export const bytesOf = (text: AnswerText) =>
  Buffer.isBuffer(text) ? text.length : text.front.length + variantBytes(text);
export const variantBytes = ({ tail }: Deflated) => tail.length + OVERHEAD;

/**
 * A compressed text. Up to the session id it is never compressed, so that the id can be exchanged,
 * and lengths tell nothing of it where others can add text.
 * @param length of the text (bytes)
 * @param front up to the session id; empty without one
 * @param tail the rest, as blocks of deflate (RFC 1951), with `tailCrc`, the CRC-32 of its text
 */
export function deflated(length: number, front: Buffer, tail: Buffer, tailCrc: number) {
  const tailShift = crcShift(length - front.length);
  return { length, front, frontCrc: crc32(front), tail, tailCrc, tailShift };
}

/** Works on the thread pool. Undefined where it would not pay. */
export async function makeVariant(text: Buffer, front: number): Promise<Deflated | undefined> {
  if (text.length < GZIP_FROM) return undefined;
  const member = await compress(text.subarray(front), { level: LEVEL });
  if (front + member.length >= text.length * WORTH) return undefined;
  const { blocks, crc } = partsOf([member], member.length);
  return deflated(text.length, text.subarray(0, front), ownBytes(blocks), crc);
}

/** Takes a gzip member apart, whose checksum was made on the thread pool. */
function partsOf(member: readonly Buffer[], length: number) {
  const end = length - TRAILER;
  const crc = Buffer.concat(between(member, end, length)).readUInt32LE();
  return { blocks: between(member, MEMBER_HEADER.length, end), crc };
}

export interface Cut {
  readonly start: number;
  readonly end: number;
  readonly leavesGap: boolean;
}

/** Keeps a short text as it is; compresses a long one on the thread pool, behind its start. */
export function keepText(progressed: () => void) {
  let pieces: Buffer[] = [];
  let length = 0;
  let rest: ReturnType<typeof compressAsItComes> | undefined;

  return {
    write(piece: Buffer): void {
      length += piece.length;
      if (rest !== undefined) return rest.write(piece);
      pieces.push(piece);
      if (length <= LONG) return;
      const text = Buffer.concat(pieces);
      pieces = [ownBytes([text.subarray(0, START)])];
      rest = compressAsItComes(progressed);
      rest.write(text.subarray(START));
    },
    /** Bytes of the text not needed any more, and of what replaces them. */
    usage: () => rest?.usage() ?? { done: 0, made: 0 },
    async end(cut: Cut | undefined): Promise<AnswerText> {
      if (rest === undefined) return ownBytes(cut === undefined ? pieces : cutOut(pieces, cut));
      const { blocks, crc, length: restLength } = await rest.end();
      const start = Buffer.concat(cut === undefined ? pieces : cutOut(pieces, cut));
      const front = cut?.leavesGap === true ? cut.start : 0;
      const middle = start.subarray(front);
      // Ends at a whole byte, and says that more follows.
      const options = { level: LEVEL_OF_LONG, finishFlush: constants.Z_SYNC_FLUSH };
      const tail = ownBytes([deflateRawSync(middle, options), ...blocks]);
      const tailCrc = joinedCrc(crc32(middle), crc, crcShift(restLength));
      const own = ownBytes([start.subarray(0, front)]);
      return deflated(start.length + restLength, own, tail, tailCrc);
    },
    stop: () => rest?.stop(),
  };
}

export function cutOut(
  pieces: readonly Buffer[],
  { start, end }: Pick<Cut, 'start' | 'end'>,
): readonly Buffer[] {
  const text = Buffer.concat(pieces);
  return [text.subarray(0, start), text.subarray(end)];
}

function between(pieces: readonly Buffer[], from: number, to: number): readonly Buffer[] {
  let at = 0;
  return pieces.map((piece) => {
    const part = piece.subarray(Math.max(0, from - at), Math.max(0, to - at));
    at += piece.length;
    return part;
  });
}

function compressAsItComes(progressed: () => void) {
  const stream = createGzip({ level: LEVEL_OF_LONG, chunkSize: CHUNK });
  const over = finished(stream);
  over.catch(() => {});
  let made: Buffer[] = [];
  let madeBytes = 0;
  let waiting: Buffer[] = [];
  let waitingBytes = 0;
  let givenBytes = 0;
  let isEnding = false;
  let length = 0;
  let done = START;
  stream.on('data', (bytes: Buffer) => {
    made.push(bytes);
    madeBytes += bytes.length;
  });

  function give(): void {
    if (givenBytes > 0 || (!isEnding && waitingBytes < TOGETHER)) return;
    if (waitingBytes === 0) return void stream.end();
    const pieces: Buffer[] = [];
    while (waiting.length > 0 && givenBytes < TOGETHER) {
      const piece = waiting.shift() as Buffer;
      givenBytes += piece.length;
      pieces.push(piece);
    }
    waitingBytes -= givenBytes;
    stream.write(Buffer.concat(pieces), (error) => {
      if (error) return;
      done += givenBytes;
      givenBytes = 0;
      progressed();
      give();
    });
  }

  return {
    write(piece: Buffer): void {
      length += piece.length;
      waitingBytes += piece.length;
      waiting.push(piece);
      give();
    },
    usage: () => ({ done, made: START + givenBytes + madeBytes }),
    async end() {
      isEnding = true;
      give();
      await over;
      return { ...partsOf(made, madeBytes), length };
    },
    stop(): void {
      waiting = [];
      waitingBytes = 0;
      made = [];
      stream.destroy();
    },
  };
}

const BLOCK_LIMIT = 65_535;
const BLOCK_HEADER = 5;
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

// CRC-32 of two texts in a row: the second multiplies the remainder of the first by a power of x,
// and is added. The highest of the 32 bits is x^0 (RFC 1952 section 8).
/** Divisor, less x^32. */
const DIVISOR = 0xedb88320;
const ONE = 0x80000000;
/** x^8: shifts by one byte. */
const BYTE = 0x00800000;
/** Factor of a checksum before `length` more bytes. */
function crcShift(length: number): number {
  let shift = ONE;
  let power = BYTE;
  for (let left = length; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) shift = multiply(power, shift);
    power = multiply(power, power);
  }
  return shift;
}

const joinedCrc = (first: number, second: number, shift: number): number =>
  (multiply(shift, first) ^ second) >>> 0;

function multiply(a: number, b: number): number {
  let product = 0;
  let shifted = b;
  for (let bit = ONE; bit !== 0; bit >>>= 1) {
    if ((a & bit) !== 0) product ^= shifted;
    shifted = (shifted & 1) === 0 ? shifted >>> 1 : (shifted >>> 1) ^ DIVISOR;
  }
  return product >>> 0;
}
