import { hash } from 'node:crypto';
import { promisify } from 'node:util';
import { crc32, deflateRaw, deflateRawSync, inflateRawSync } from 'node:zlib';
import { createSemaphore } from '../common/semaphore.ts';
import type { EntryFlaw } from '../common/events.ts';
import type { Sealer } from '../common/sealing.ts';
import {
  bytesOf,
  decompress,
  deflated,
  dropPiece,
  HEADER_VALUE,
  LONG,
  ownBytes,
  type SessionGap,
  type StoredAnswer,
} from './stored-answer.ts';
import type { FillParts } from './fill.ts';
import type { OrderedFill } from './flights.ts';
import { remaining } from './memory-tier.ts';

/** Port: bytes by key outside this process. Rejects when not reached, or too slow. */
export interface ValueTier {
  /** Returns up to `count` bytes, none where there is no value. */
  get(key: string, from: number, count: number): Promise<Buffer>;
  /** Keeps the value, unless one that began later is there (bytes 8 to 15, big-endian). */
  set(key: string, value: Buffer, lifetimeMs: number, replace?: boolean): Promise<void>;
}

/** Longer values stay in memory (bytes): in Redis one holds up all others. */
export const LONGEST_VALUE = 16 * 1024 * 1024;
/** Larger values are written one after the other (bytes). */
export const LARGE = 512 * 1024;
/** While more wait, large values are not kept and long ones not read: they fill the memory. */
const MOST_WAITING = 16;
/** First part that is read (bytes): all of most values. */
export const FIRST = 32 * 1024;
export const PIECE = 1024 * 1024;
/** Long values read at a time: Redis drops entries for replies that wait. */
const READ_AT_ONCE = 4;
/** First bytes, which differ in any two values: moment, checksum or seal. */
const TELLING = 1024;
export interface Filled {
  readonly fill: OrderedFill;
  readonly answer: StoredAnswer;
  readonly tokens: readonly string[];
  /** Asked for as a fresh one, it replaces whatever is there. */
  readonly replace: boolean;
}

type Parts = Omit<FillParts, 'memory'> & {
  /** How long past its lifetime an answer is kept (ms). */
  readonly staleIfError?: () => number;
};
export type SharedEntries = ReturnType<typeof createSharedEntries>;
export function createSharedEntries(values: ValueTier, sealer: Sealer, parts: Parts) {
  const { clock, emit, staleIfError = () => 0 } = parts;
  const counted = countIn(parts.account);
  const { look, find } = createReading(values, sealer, parts, counted);
  const largeWrites = createSemaphore(1);
  /** Copies of the body that a write takes: compressed, put together, sealed. */
  const copies = sealer.kind === 'none' ? 2 : 4;

  /** Looks for a later answer in the turn that sends the value. False: too long. */
  async function keepLatest(key: string, { fill, tokens, replace, ...filled }: Filled) {
    for (;;) {
      const answer = fill.latest() ?? filled.answer;
      // Its own fill writes it; but in the usual way, which a clock that runs ahead can hinder.
      if (answer !== filled.answer && !replace) return true;
      if (bytesOf(answer.body) > LONGEST_VALUE) return false;
      const value = await encodeEntry(key, answer, tokens, sealer);
      if ((fill.latest() ?? answer) !== answer) continue;
      if (value.length > LONGEST_VALUE) return false;
      const life = remaining(answer, clock.wall()) + staleIfError();
      await values.set(key, value, life, replace);
      return true;
    }
  }

  return {
    find,
    /** Emits nothing. @throws when tier 2 cannot say */
    async peek(key: string): Promise<StoredAnswer | undefined> {
      const found = await look(key);
      return typeof found === 'string' ? undefined : found;
    },
    /** True when others find it, or a later one. Never rejects. Its lease may be over. */
    async keep(key: string, filled: Filled): Promise<boolean> {
      const length = bytesOf(filled.answer.body);
      const isLarge = length > LARGE;
      let leave: (() => void) | undefined;
      try {
        if (isLarge && largeWrites.usage().waiting >= MOST_WAITING) {
          throw new Error('too many large answers wait to be written to Redis');
        }
        if (isLarge) leave = await largeWrites.acquire(FOR_EVER);
        const isKept = await counted((take) => {
          take(copies * length);
          return keepLatest(key, filled);
        });
        return isKept ?? false;
      } catch (error) {
        emit({ type: 'redis-failed', operation: 'set', error });
        return false;
      } finally {
        leave?.();
      }
    },
  };
}

/** Throws NoRoom. `long`: leaves a part to what is short. */
type Take = (bytes: number, long?: boolean) => void;
type Counted = ReturnType<typeof countIn>;
/** Undefined where there is no room for values on their way. */
function countIn(account: Parts['account']) {
  return async <T>(run: (take: Take) => Promise<T>) => {
    const room = account.open('value');
    try {
      return await run((bytes, long) => {
        if (bytes > 0 && !room.grow(bytes, long)) throw new NoRoom();
      });
    } catch (error) {
      if (error instanceof NoRoom) return undefined;
      throw error;
    } finally {
      room.release();
    }
  };
}

function createReading(values: ValueTier, sealer: Sealer, parts: Parts, counted: Counted) {
  const { emit, maxEntry } = parts;
  const longReads = createSemaphore(READ_AT_ONCE);
  const finding = new Map<string, Promise<StoredAnswer | undefined>>();

  const look = (key: string) =>
    counted(async (take) => {
      take(FIRST);
      const first = await values.get(key, 0, FIRST);
      const isLong = first.length === FIRST;
      const takeMore = (bytes: number) => take(bytes, isLong);
      const found = isLong ? await readLong(key, first, takeMore) : first;
      if (found.length === 0) return undefined;
      const decoded = await decodeEntry(key, found, maxEntry(), sealer, takeMore);
      if (isLong) dropPiece(found);
      return decoded;
    });

  /** Takes room for each piece first. Reads nothing where the value was replaced meanwhile. */
  async function readLong(key: string, first: Buffer, take: Take) {
    if (longReads.usage().waiting >= MOST_WAITING) throw new NoRoom();
    const leave = await longReads.acquire(FOR_EVER);
    try {
      const pieces = [first];
      let length = first.length;
      for (;;) {
        take(PIECE);
        const piece = await values.get(key, length, PIECE);
        length += piece.length;
        pieces.push(piece);
        if (piece.length < PIECE) break;
      }
      const now = await values.get(key, 0, TELLING);
      if (!now.equals(first.subarray(0, TELLING))) return Buffer.of();
      take(length);
      return Buffer.concat(pieces);
    } finally {
      leave();
    }
  }

  async function findOnce(key: string): Promise<StoredAnswer | undefined> {
    try {
      const found = await look(key);
      if (typeof found !== 'string') return found;
      emit({ type: 'entry-rejected', why: found });
    } catch (error) {
      emit({ type: 'redis-failed', operation: 'get', error });
    } finally {
      finding.delete(key);
    }
    return undefined;
  }

  return {
    look,
    /**
     * Undefined also where tier 2 cannot say. Never rejects. Callers that ask for a key at one time
     * share a look-up: a purge acknowledged since it began has given later callers another key, and
     * these no right to use what it brings (`take`).
     * @param besideBytes memory that the asker takes
     */
    find: (key: string, besideBytes = 0): Promise<StoredAnswer | undefined> =>
      counted((take) => {
        take(besideBytes);
        const found = finding.get(key) ?? findOnce(key);
        finding.set(key, found);
        return found;
      }),
  };
}

const FOR_EVER = new AbortController().signal;
class NoRoom extends Error {}

/*
 * What lies in tier 2 under the key of an entry (numbers are big-endian):
 *
 *   0  4  magic
 *   4  1  version of this layout
 *   5  1  coding of the body: 0 as it is, 2 deflate (RFC 1951), 3 as it is up to the session id,
 *         then deflate; 128 more when description and body are sealed
 *   6  2  length of the description
 *   8  8  requestedAt, ms: the tier keeps the later fill by it, of whatever version
 *  16 32  key of the entry, so that a value can never answer for another key
 *  48  4  CRC-32 of all other bytes; 0 in a sealed entry, whose seal says more
 *  52  2  number of marks
 *  54 8m  marks of the epochs under which it was filled: a sweep reads them without the body
 *      n  description: the answer less body and requestedAt, as JSON
 *         coded body
 *
 * A seal covers description and body as one, and binds them to the whole head: nothing of it can
 * be moved to another key, or made older or younger.
 */
const MAGIC = 0x4d445847;
const VERSION = 6;
const CHECKSUM_AT = 48;
const MARKS_AT = 54;
const MARK = 8;
const SEALED = 0x80;
/** More epochs than any request names (`many-catalogs`). */
const MAX_MARKS = 64;
export const HEAD_LIMIT = MARKS_AT + MAX_MARKS * MARK;
const CODING = { identity: 0, deflate: 2, long: 3 } as const;
/** Shorter bodies are not compressed (bytes): 2 KB take as long as all else of a look-up. */
const COMPRESS_FROM = 4 * 1024;
/** Shorter bodies are deflated in this turn (bytes): the thread pool takes much longer. */
const AT_ONCE = 64 * 1024;
/** Level 6 takes up to four times as long and makes rowsets 2 % shorter. */
const DEFLATE_OPTIONS = { level: 1 };
/** zlib takes no buffer smaller than this (bytes). */
const LEAST_PIECE = 64;
const ENCODINGS = new Set<string>(['utf-8', 'utf-16le', 'utf-16be', 'iso-8859-1', 'us-ascii']);
const compress = promisify<Buffer, object, Buffer>(deflateRaw);
type Description = Omit<StoredAnswer, 'body' | 'requestedAt'> & {
  readonly bodyLength: number;
  readonly tailCrc?: number | undefined;
};
/** Names an epoch without telling its token. */
export const markOf = (token: string) => hash('sha256', token).slice(0, 2 * MARK);

export async function encodeEntry(
  key: string,
  { body, requestedAt, ...rest }: StoredAnswer,
  tokens: readonly string[],
  sealer: Sealer,
): Promise<Buffer> {
  const tailCrc = Buffer.isBuffer(body) ? undefined : body.tailCrc;
  const description: Description = { ...rest, bodyLength: body.length, tailCrc };
  const described = Buffer.from(JSON.stringify(description));
  const { coding, coded } = Buffer.isBuffer(body)
    ? await encodeBody(body)
    : { coding: CODING.long, coded: Buffer.concat([body.front, body.tail]) };
  const isSealed = sealer.kind !== 'none';
  if (tokens.length > MAX_MARKS) throw new RangeError(`more than ${MAX_MARKS} epochs`);
  const head = Buffer.alloc(MARKS_AT + tokens.length * MARK);
  head.writeUInt32BE(MAGIC, 0);
  head.writeUInt8(VERSION, 4);
  head.writeUInt8(coding | (isSealed ? SEALED : 0), 5);
  head.writeUInt16BE(described.length, 6);
  head.writeBigUInt64BE(BigInt(requestedAt), 8);
  head.write(key, 16, 'base64url');
  head.writeUInt16BE(tokens.length, 52);
  for (const [i, token] of tokens.entries()) head.write(markOf(token), MARKS_AT + i * MARK, 'hex');
  if (isSealed) return Buffer.concat([head, sealer.seal(Buffer.concat([described, coded]), head)]);
  const value = Buffer.concat([head, described, coded]);
  value.writeUInt32BE(checksum(value), CHECKSUM_AT);
  return value;
}

async function encodeBody(body: Buffer): Promise<{ coding: number; coded: Buffer }> {
  const plain = { coding: CODING.identity, coded: body };
  if (body.length < COMPRESS_FROM) return plain;
  const isShort = body.length <= AT_ONCE;
  const coded = isShort
    ? deflateRawSync(body, DEFLATE_OPTIONS)
    : await compress(body, DEFLATE_OPTIONS);
  return coded.length < body.length ? { coding: CODING.deflate, coded } : plain;
}

/** Lengths in bytes, wall clock in ms; or why it has another layout. */
export function readHead(value: Buffer) {
  if (value.length < 16) return 'too short';
  if (value.readUInt32BE(0) !== MAGIC) return 'not an entry of this gateway';
  if (value.readUInt8(4) !== VERSION) return 'another version';
  if (value.length < MARKS_AT) return 'too short';
  const marks = value.readUInt16BE(52);
  const length = MARKS_AT + marks * MARK;
  if (marks > MAX_MARKS) return 'too many epochs';
  if (value.length < length) return 'too short';
  const flags = value.readUInt8(5);
  return {
    coding: flags & ~SEALED,
    sealed: (flags & SEALED) !== 0,
    described: value.readUInt16BE(6),
    requestedAt: value.readUInt32BE(8) * 2 ** 32 + value.readUInt32BE(12),
    key: value.toString('base64url', 16, CHECKSUM_AT),
    length,
  };
}

export const readMarks = (value: Buffer, head: { readonly length: number }): readonly string[] =>
  value.toString('hex', MARKS_AT, head.length).match(/.{16}/g) ?? [];

/**
 * Reads a value, or says why it is refused. With a key, unsealed values are refused too: others who
 * can write to Redis could have made them.
 * @param maxBody larger bodies are refused before they are decompressed (bytes)
 * @param take called with the bytes needed beside the value, in advance; may throw
 */
export async function decodeEntry(
  key: string,
  value: Buffer,
  maxBody: number,
  sealer: Sealer,
  take?: (bytes: number) => void,
): Promise<StoredAnswer | EntryFlaw> {
  const head = readHead(value);
  if (typeof head === 'string') return head;
  if (head.key !== key) return 'another key';
  const isSealed = sealer.kind !== 'none';
  if (head.sealed !== isSealed) return isSealed ? 'not sealed' : 'sealed';
  if (isSealed) take?.(value.length);
  else if (value.readUInt32BE(CHECKSUM_AT) !== checksum(value)) return 'wrong checksum';
  const content = sealer.open(value.subarray(head.length), value.subarray(0, head.length));
  if (content === undefined) return 'sealed otherwise';
  const description = readDescription(content, head.described);
  if (description === undefined) return 'unreadable description';
  const { bodyLength, tailCrc: _tailCrc, ...described } = description;
  if (bodyLength > maxBody) return 'larger than cache.max_entry';
  const body = await decodeBody(head.coding, content.subarray(head.described), description, take);
  if (body?.length !== bodyLength) return 'unreadable body';
  return { ...described, body, requestedAt: head.requestedAt };
}

const checksum = (value: Buffer) =>
  crc32(value.subarray(CHECKSUM_AT + 4), crc32(value.subarray(0, CHECKSUM_AT)));

/** Checks all of it: heads and metrics use it without another look. */
function readDescription(content: Buffer, length: number): Description | undefined {
  if (content.length < length) return undefined;
  try {
    const read = JSON.parse(content.toString('utf8', 0, length)) as Description;
    const { lifetime, engineMilliseconds, bodyLength, tailCrc, ...texts } = read;
    const { sessionHeader, contentType, contentLanguage, session } = texts;
    const isSound =
      [lifetime, engineMilliseconds, bodyLength].every(isAmount) &&
      Number.isInteger(bodyLength) &&
      (tailCrc === undefined || isAmount(tailCrc)) &&
      typeof sessionHeader === 'boolean' &&
      isHeaderValue(contentType) &&
      // Engines may send an empty header.
      (contentLanguage === undefined || contentLanguage === '' || isHeaderValue(contentLanguage)) &&
      (session === undefined || leavesGap(session, bodyLength));
    // Leaves out what another version may have added.
    const described = { sessionHeader, contentType, contentLanguage, session };
    return isSound
      ? { lifetime, engineMilliseconds, bodyLength, tailCrc, ...described }
      : undefined;
  } catch {
    return undefined;
  }
}

const isAmount = (value: unknown) =>
  typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER;
const isHeaderValue = (value: unknown) => typeof value === 'string' && HEADER_VALUE.test(value);
/** An id stands between two quotes, never first. Another version may know more encodings. */
const leavesGap = ({ at, encoding }: SessionGap, bodyLength: number) =>
  Number.isSafeInteger(at) && at > 0 && at < bodyLength && ENCODINGS.has(encoding);

/** Makes memory of its own; undefined when it is not what its coding says. */
async function decodeBody(
  coding: number,
  coded: Buffer,
  { bodyLength: length, tailCrc, session }: Description,
  take?: (bytes: number) => void,
) {
  if (coding === CODING.long) {
    const front = session?.at ?? 0;
    if (tailCrc === undefined || coded.length <= front) return undefined;
    take?.(coded.length);
    const [start, tail] = [coded.subarray(0, front), coded.subarray(front)];
    return deflated(length, ownBytes([start]), ownBytes([tail]), tailCrc);
  }
  take?.((coding === CODING.identity ? 1 : 2) * length);
  if (coding === CODING.identity) return ownBytes([coded]);
  try {
    if (coding !== CODING.deflate || length > LONG) return undefined;
    // With one byte more than it needs the decoder is done after one piece.
    const chunkSize = Math.max(length + 1, LEAST_PIECE);
    const options = { chunkSize, maxOutputLength: Math.max(length, 1) };
    const isShort = length <= AT_ONCE;
    const body = isShort ? inflateRawSync(coded, options) : await decompress(coded, options);
    return body.buffer.byteLength === chunkSize ? body : ownBytes([body]);
  } catch {
    return undefined;
  }
}
