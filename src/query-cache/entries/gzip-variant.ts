import { promisify } from 'node:util';
import { crc32, gzip } from 'node:zlib';
import { crcShift, joinCrc } from './crc-join.ts';
import { ownSessionBytes } from './session-place.ts';
import type { StoredAnswer } from './stored-answer.ts';

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
 * of it to somebody who can add text to the answer.
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
