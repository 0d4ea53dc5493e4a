import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';

/*
 * What lies in tier 2 under the key of an entry: the entry itself, or the manifest of one that lies in chunks. Both
 * begin with the same plain head (numbers are big-endian):
 *
 *   0  4  magic: an entry, or a manifest
 *   4  1  version of this layout
 *   5  1  coding of the body: 0 as it is, 1 zstd, 2 deflate (RFC 1951); 128 more when description and body are sealed
 *   6  2  length of the description
 *   8  8  requestedAt, ms: the tier compares it to keep the later fill, also with those of other versions
 *  16 32  key of the entry, so that a value can never answer for another key
 *  48  4  CRC-32 of all other bytes; 0 in a sealed entry, whose seal says more
 *  52  2  number of marks
 *  54 8m  marks of the epochs under which it was filled: a sweep reads them without the body
 *
 * An entry goes on with
 *
 *      n  description (see entry-codec.ts)
 *         coded body
 *
 * where a sealed one has both sealed as one, bound to the whole head: nothing of it can be moved to another key or
 * said to be older or younger than it is. A manifest has of its entry all of the head but magic and CRC-32, and goes
 * on with
 *
 *     16  id of the fill, random: it names the chunks
 *      6  length of the entry
 *      4  length of a chunk; the last one may be shorter
 *     4c  CRC-32 of each chunk
 *
 * The chunks in a row are the entry, so that whoever changed them and their sums still has the checks of the entry
 * before him.
 */
const MAGIC = { entry: 0x4d445847, manifest: 0x4d44584d } as const;
const VERSION = 4;
const CHECKSUM_AT = 48;
const MARKS_AT = 54;
const MARK = 8;
const SEALED = 0x80;
const DIRECTORY = 26;
/** A request names far fewer projects than that (`many-catalogs`). */
const MAX_MARKS = 64;

/** The first bytes of a value within which whoever does not want the body finds the rest. */
export const HEAD_LIMIT = MARKS_AT + MAX_MARKS * MARK + DIRECTORY;

export interface Head {
  readonly kind: keyof typeof MAGIC;
  readonly coding: number;
  readonly sealed: boolean;
  /** Length of the description in bytes. */
  readonly described: number;
  /** Wall clock, ms. */
  readonly requestedAt: number;
  /** 43 characters of base64url. */
  readonly key: string;
  /** How many epochs are marked in it. */
  readonly marked: number;
  /** Length of the head in bytes. */
  readonly length: number;
}

/** Names an epoch without telling its token. */
export function markOf(token: string): string {
  return createHash('sha256')
    .update(token)
    .digest('hex')
    .slice(0, 2 * MARK);
}

export function writeHead(
  head: Omit<Head, 'length' | 'marked'> & { readonly marks: readonly string[] },
): Buffer {
  if (head.marks.length > MAX_MARKS) throw new RangeError(`more than ${MAX_MARKS} epochs`);
  const bytes = Buffer.alloc(MARKS_AT + head.marks.length * MARK);
  bytes.writeUInt32BE(MAGIC[head.kind], 0);
  bytes.writeUInt8(VERSION, 4);
  bytes.writeUInt8(head.coding | (head.sealed ? SEALED : 0), 5);
  bytes.writeUInt16BE(head.described, 6);
  bytes.writeBigUInt64BE(BigInt(head.requestedAt), 8);
  bytes.write(head.key, 16, 'base64url');
  bytes.writeUInt16BE(head.marks.length, 52);
  for (const [i, mark] of head.marks.entries()) bytes.write(mark, MARKS_AT + i * MARK, 'hex');
  return bytes;
}

/**
 * Reads the head of a value of which at least the first {@link HEAD_LIMIT} bytes are there, or all. Its checksum is
 * looked at by {@link isWhole}.
 * @returns why it is none of this layout, if so
 */
export function readHead(value: Buffer): Head | string {
  if (value.length < 16) return 'too short';
  const magic = value.readUInt32BE(0);
  const kind = magic === MAGIC.entry ? 'entry' : magic === MAGIC.manifest ? 'manifest' : undefined;
  if (kind === undefined) return 'not an entry of this gateway';
  if (value.readUInt8(4) !== VERSION) return 'another version';
  if (value.length < MARKS_AT) return 'too short';
  const marked = value.readUInt16BE(52);
  const length = MARKS_AT + marked * MARK;
  if (marked > MAX_MARKS) return 'too many epochs';
  if (value.length < length) return 'too short';
  const flags = value.readUInt8(5);
  return {
    kind,
    coding: flags & ~SEALED,
    sealed: (flags & SEALED) !== 0,
    described: value.readUInt16BE(6),
    requestedAt: value.readUInt32BE(8) * 2 ** 32 + value.readUInt32BE(12),
    key: value.toString('base64url', 16, CHECKSUM_AT),
    marked,
    length,
  };
}

/** Whether it is a manifest, if it is anything of this layout. */
export function looksLikeManifest(value: Buffer): boolean {
  return value.length >= 4 && value.readUInt32BE(0) === MAGIC.manifest;
}

/** The marks of the epochs under which it was filled; a look-up does not need them. */
export function readMarks(value: Buffer, { marked }: Head): readonly string[] {
  return Array.from({ length: marked }, (_, i) =>
    value.toString('hex', MARKS_AT + i * MARK, MARKS_AT + (i + 1) * MARK),
  );
}

/** Writes the checksum of a whole value into it. */
export function makeWhole(value: Buffer): Buffer {
  value.writeUInt32BE(checksum(value), CHECKSUM_AT);
  return value;
}

export function isWhole(value: Buffer): boolean {
  return value.readUInt32BE(CHECKSUM_AT) === checksum(value);
}

function checksum(value: Buffer): number {
  return crc32(value.subarray(CHECKSUM_AT + 4), crc32(value.subarray(0, CHECKSUM_AT)));
}

/** What a manifest says of the chunks. */
export interface Directory {
  /** base64url. */
  readonly fill: string;
  /** Bytes of the whole entry. */
  readonly total: number;
  /** Bytes of each chunk but the last. */
  readonly chunk: number;
}

export const chunksOf = ({ total, chunk }: Omit<Directory, 'fill'>) => Math.ceil(total / chunk);

/**
 * The manifest of an entry.
 * @param fill 16 bytes
 */
export function writeManifest(
  entry: Buffer,
  { fill, chunk, sums }: { fill: Buffer; chunk: number; sums: readonly number[] },
): Buffer {
  const head = readHead(entry);
  if (typeof head === 'string') throw new TypeError(`no manifest of what is ${head}`);
  const rest = Buffer.alloc(DIRECTORY + sums.length * 4);
  fill.copy(rest, 0);
  rest.writeUIntBE(entry.length, 16, 6);
  rest.writeUInt32BE(chunk, 22);
  for (const [i, sum] of sums.entries()) rest.writeUInt32BE(sum, DIRECTORY + i * 4);
  const marks = readMarks(entry, head);
  return makeWhole(Buffer.concat([writeHead({ ...head, marks, kind: 'manifest' }), rest]));
}

/** Undefined when it does not go so far. */
export function readDirectory(manifest: Buffer, { length }: Head): Directory | undefined {
  if (manifest.length < length + DIRECTORY) return undefined;
  return {
    fill: manifest.toString('base64url', length, length + 16),
    total: manifest.readUIntBE(length + 16, 6),
    chunk: manifest.readUInt32BE(length + 22),
  };
}

/** The CRC-32 of each chunk; the manifest is whole. */
export function readSums(manifest: Buffer, { length }: Head): readonly number[] {
  const sums: number[] = [];
  for (let at = length + DIRECTORY; at + 4 <= manifest.length; at += 4) {
    sums.push(manifest.readUInt32BE(at));
  }
  return sums;
}
