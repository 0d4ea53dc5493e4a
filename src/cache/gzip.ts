import { promisify } from 'node:util';
import { crc32, gzip } from 'node:zlib';
import type { BodyAccount } from '../common/body-account.ts';
import { ownSessionBytes, type StoredAnswer } from './stored-answer.ts';

const compress = promisify(gzip);

/** Bodies below this size are sent in so few packets that compression gains nothing (bytes). */
export const GZIP_FROM = 1024;
/** A variant that is not shorter than this part of the body does not pay for its memory. */
const WORTH = 0.9;
/**
 * 6 takes twice the time of 1 (11 ms instead of 4 for 2 MB of cells, on another thread) for 3 to 8 % fewer bytes
 * (measured); a variant is made once, and sent and kept from then on.
 */
const LEVEL = 6;
/** What JavaScript needs beside the compressed bytes (rounded up). */
const VARIANT_OVERHEAD = 256;

/**
 * A stored answer as gzip, less the part that differs by session. What stands up to the session id is never
 * compressed: it is put in front as it is, so that the id can be exchanged, and so that the length tells nothing
 * of it where others can add text to the answer.
 */
export interface GzipVariant {
  /** Memory that it takes beside the answer. */
  readonly bytes: number;
  /** The stored body that it was made of. */
  readonly body: Buffer;
  /** The deflate blocks of the body from the place of the session id on; of all of it where there is none. */
  readonly tail: Buffer;
  readonly tailCrc: number;
  /** `crcShift` of the length of what `tail` holds. */
  readonly tailShift: number;
  /** CRC-32 of the body up to that place. */
  readonly headCrc: number;
}

/**
 * Compresses on the thread pool.
 * @returns undefined where it would not pay
 */
export async function makeGzip(
  answer: Pick<StoredAnswer, 'body' | 'session'>,
): Promise<GzipVariant | undefined> {
  const { body, session } = answer;
  if (body.length < GZIP_FROM) return undefined;
  const at = session?.at ?? 0;
  const head = body.subarray(0, at);
  const { blocks, crc } = await deflated(body.subarray(at));
  const length = MEMBER_HEADER.length + storedLength(head.length) + blocks.length + TRAILER;
  if (length >= body.length * WORTH) return undefined;
  return {
    bytes: blocks.length + VARIANT_OVERHEAD,
    body,
    tail: blocks,
    tailCrc: crc,
    tailShift: crcShift(body.length - at),
    headCrc: crc32(head),
  };
}

/**
 * One gzip member (RFC 1952) that holds the stored bytes with the caller's session id in them, in pieces.
 * @param variant what `makeGzip` made of this answer
 * @throws Error when it was made of another answer, and as `withSession` does
 */
export function gzipWithSession(
  variant: GzipVariant,
  { body, session }: Pick<StoredAnswer, 'body' | 'session'>,
  id: string | undefined,
): readonly Buffer[] {
  if (variant.body !== body) throw new Error('a compressed answer was found at another answer');
  const own = ownSessionBytes(session, id);
  const at = session?.at ?? 0;
  const front: Buffer[] = [MEMBER_HEADER];
  if (session !== undefined) front.push(...stored(Buffer.concat([body.subarray(0, at), own])));
  const trailer = Buffer.allocUnsafe(TRAILER);
  const { tail, tailCrc, tailShift, headCrc } = variant;
  trailer.writeUInt32LE(joinCrc(crc32(own, headCrc), tailCrc, tailShift), 0);
  trailer.writeUInt32LE((body.length + own.length) % 2 ** 32, 4);
  return [Buffer.concat(front), tail, trailer];
}

/** Deflate, no flags, no time, no hint, unknown system. */
const MEMBER_HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]);
/** Bytes of CRC-32 and length at the end of a member. */
const TRAILER = 8;

/** The deflate blocks of a text, the last of which says so, and its CRC-32. */
async function deflated(text: Buffer): Promise<{ blocks: Buffer; crc: number }> {
  // Whole gzip, of which the ends are cut off, since it makes the checksum on the thread pool as well. zlib
  // writes the shortest header when it is not told of a name.
  const member = await compress(text, { level: LEVEL });
  const end = member.length - TRAILER;
  const length = end - MEMBER_HEADER.length;
  // A copy in memory of its own: zlib's may be the start of something larger.
  const blocks = Buffer.allocUnsafeSlow(length);
  member.copy(blocks, 0, MEMBER_HEADER.length, end);
  return { blocks, crc: member.readUInt32LE(end) };
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

function storedLength(bytes: number): number {
  return bytes + Math.ceil(bytes / BLOCK_LIMIT) * BLOCK_HEADER;
}

/** Makes compressed answers in the background, for the next who ask. */
export interface GzipMaker {
  /**
   * Makes one, and hands it to `keep`. Does nothing while others are being made, while there is no room, or when it
   * was tried for this answer before: one that did not pay then would not pay now. Never throws.
   */
  prepare(answer: StoredAnswer, keep: (variant: GzipVariant) => void): void;
}

/**
 * @param options.most how many are made at one time: logins need the threads that compress as well. One that is turned
 *   away is asked for again by the next hit
 */
export function createGzipMaker(options: {
  make: (answer: StoredAnswer) => Promise<GzipVariant | undefined>;
  most: number;
  account: Pick<BodyAccount, 'open'>;
}): GzipMaker {
  const tried = new WeakSet<StoredAnswer>();
  let busy = 0;

  return {
    prepare(answer, keep) {
      if (busy >= options.most || tried.has(answer)) return;
      const room = options.account.open('value');
      if (!room.grow(answer.body.length)) return;
      tried.add(answer);
      busy += 1;
      const over = () => {
        busy -= 1;
        room.release();
      };
      // One that cannot be made or kept is done without: nothing depends on a shorter answer.
      const made = options.make(answer).then((variant) => variant && keep(variant));
      made.then(over, over);
    },
  };
}

/*
 * The CRC-32 of two texts in a row, from the CRC-32 of each. Such a checksum is the remainder of a polynomial
 * over GF(2); a text that follows shifts the one before by its length, which is to multiply by a power of x.
 * Polynomials stand in 32 bits as CRC-32 has them (RFC 1952 section 8): the highest bit is x^0.
 */

/** What the remainders are of, less x^32. */
const DIVISOR = 0xedb88320;
const ONE = 0x80000000;
const X = 0x40000000;
/** x to the power of 2 ** index. x ** (2 ** 32) is x again, so there are no more. */
const POWERS = powersOfX();

/**
 * What to multiply a checksum by when `length` bytes follow. Worth keeping where the same bytes follow again and
 * again: it costs more than `joinCrc`.
 */
function crcShift(length: number): number {
  let shift = ONE;
  // The powers that add up to 8 * length bits: the third stands for one byte.
  for (let left = length, index = 3; left > 0; left = Math.floor(left / 2), index += 1) {
    if (left % 2 === 1) shift = multiply(POWERS[index % POWERS.length] ?? ONE, shift);
  }
  return shift;
}

/** @param shift `crcShift` of the length of the second text */
function joinCrc(first: number, second: number, shift: number): number {
  return (multiply(shift, first) ^ second) >>> 0;
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

function powersOfX(): readonly number[] {
  const powers = [X];
  while (powers.length < 32) {
    const last = powers.at(-1) ?? X;
    powers.push(multiply(last, last));
  }
  return powers;
}
