import { hash } from 'node:crypto';
import { promisify } from 'node:util';
import {
  constants,
  crc32,
  deflateRawSync,
  inflateRawSync,
  zstdCompress,
  zstdDecompress,
} from 'node:zlib';
import { type BodyAccount, createGate } from '../common/body-account.ts';
import type { Clock } from '../common/clock.ts';
import type { Emit } from '../common/events.ts';
import type { Sealer } from '../common/sealing.ts';
import type { TextEncoding } from '../xml/text-encoding.ts';
import type { OrderedFill } from './flights.ts';
import { remaining } from './memory-tier.ts';
import { HEADER_VALUE, ownBytes, type SessionPlace, type StoredAnswer } from './stored-answer.ts';

/**
 * Port: a tier outside this process that keeps bytes by key. A tier that cannot be reached, or is slower than its
 * deadline, rejects. It is closed by what made it.
 */
export interface ValueTier {
  /** Null where there is none. */
  get(key: string): Promise<Buffer | null>;
  /**
   * Keeps the value for `lifetime` milliseconds, unless a value is there whose fill began later (bytes 8 to
   * 15 of both, compared as big-endian numbers). With `replace` it takes the place of any:
   * the clocks of two gateways differ, and this one was asked for.
   */
  set(
    key: string,
    value: Buffer,
    lifetime: number,
    options?: { readonly replace: boolean },
  ): Promise<void>;
}

/** Longer values stay in memory (bytes): Redis does one thing at a time, so a long one holds up all others. */
export const LONGEST_VALUE = 16 * 1024 * 1024;
/** Answers above this are written one after the other, so that nothing piles up in front of the connection (bytes). */
export const LONG = 512 * 1024;
/** More answers that are long are not kept while so many wait to be written: they would fill the memory. */
const MOST_WAITING = 16;
/** What an entry takes while it is written, as a multiple of its body at most: compressed, put together, sealed. */
const COPIES = { open: 2, sealed: 4 };

/** A fill whose answer, or one that began later, is still to be kept in tier 2. */
export interface Filled {
  readonly fill: OrderedFill;
  readonly answer: StoredAnswer;
  /** The epochs under which it was filled. */
  readonly tokens: readonly string[];
  /** Whether it was asked for as a fresh one, which takes the place of whatever is there. */
  readonly replace: boolean;
}

export type SharedEntries = ReturnType<typeof createSharedEntries>;

/** Tier 2 as answers: whatever fails there is told as an event, and is a miss. */
export function createSharedEntries(
  values: ValueTier,
  sealer: Sealer,
  parts: {
    readonly account: Pick<BodyAccount, 'open'>;
    readonly clock: Clock;
    /** Of a body, now (bytes). */
    readonly maxEntry: () => number;
    readonly emit: Emit;
  },
) {
  const { account, clock, emit, maxEntry } = parts;
  const longWrites = createGate(1);
  const forEver = new AbortController().signal;

  /** Runs what takes room for values on their way; undefined where there is none: then it is done without. */
  async function counted<T>(run: (take: (bytes: number) => void) => Promise<T>) {
    const share = account.open('value');
    try {
      return await run((bytes) => {
        if (bytes > 0 && !share.grow(bytes)) throw new NoRoom();
      });
    } catch (error) {
      if (error instanceof NoRoom) return undefined;
      throw error;
    } finally {
      share.release();
    }
  }

  /** The entry, or why it does not check out. */
  function look(key: string, beside: number): Promise<StoredAnswer | string | undefined> {
    return counted(async (take) => {
      take(beside);
      const found = await values.get(key);
      if (found === null) return undefined;
      take(found.length);
      return decodeEntry(key, found, maxEntry(), sealer, take);
    });
  }

  /**
   * What began later must not be overwritten: whether something has is looked at in the turn that sends the value.
   * @returns false when the value is too long for Redis
   */
  async function keepLatest(key: string, { fill, tokens, replace, ...filled }: Filled) {
    for (;;) {
      const answer = fill.latest() ?? filled.answer;
      // Its own fill writes it; but in the usual way, which a clock that runs ahead can hinder.
      if (answer !== filled.answer && !replace) return true;
      const value = await encodeEntry(key, answer, tokens, sealer);
      if ((fill.latest() ?? answer) !== answer) continue;
      if (value.length > LONGEST_VALUE) return false;
      await values.set(key, value, remaining(answer, clock.wall()), { replace });
      return true;
    }
  }

  async function keepInTurn(key: string, filled: Filled): Promise<boolean | undefined> {
    const { length } = filled.answer.body;
    if (length > LONG && longWrites.usage().waiting >= MOST_WAITING) {
      throw new Error('too many long answers wait to be written to Redis');
    }
    const leave = length > LONG ? await longWrites.enter(forEver) : undefined;
    const kept = counted(async (take) => {
      take(COPIES[sealer.kind === 'none' ? 'open' : 'sealed'] * length);
      return keepLatest(key, filled);
    });
    return kept.finally(leave);
  }

  return {
    /** Looks at an entry, and tells no one. @throws when tier 2 cannot say */
    async peek(key: string): Promise<StoredAnswer | undefined> {
      const found = await look(key, 0);
      return typeof found === 'string' ? undefined : found;
    },
    /**
     * Undefined when it is not there, does not check out, has no room, or tier 2 cannot say. Never rejects.
     * @param beside what the asker keeps in memory meanwhile, to be counted here (bytes)
     */
    async find(key: string, beside = 0): Promise<StoredAnswer | undefined> {
      try {
        const found = await look(key, beside);
        if (typeof found !== 'string') return found;
        emit({ type: 'entry-rejected', why: found });
      } catch (error) {
        emit({ type: 'redis-failed', operation: 'get', error });
      }
      return undefined;
    },
    /**
     * Keeps the answer. Also when the lease of its epochs ran out meanwhile: whether they are still in force is asked
     * by those who look for it. Never rejects.
     * @returns whether other gateways find it there, or one that began later
     */
    async keep(key: string, filled: Filled): Promise<boolean> {
      try {
        return (await keepInTurn(key, filled)) ?? false;
      } catch (error) {
        emit({ type: 'redis-failed', operation: 'set', error });
        return false;
      }
    },
  };
}

class NoRoom extends Error {}

/*
 * What lies in tier 2 under the key of an entry (numbers are big-endian):
 *
 *   0  4  magic
 *   4  1  version of this layout
 *   5  1  coding of the body: 0 as it is, 1 zstd, 2 deflate (RFC 1951); 128 more when description and body are sealed
 *   6  2  length of the description
 *   8  8  requestedAt, ms: the tier compares it to keep the later fill, also with those of other versions
 *  16 32  key of the entry, so that a value can never answer for another key
 *  48  4  CRC-32 of all other bytes; 0 in a sealed entry, whose seal says more
 *  52  2  number of marks
 *  54 8m  marks of the epochs under which it was filled: a sweep reads them without the body
 *      n  description: the answer less body and requestedAt, as JSON
 *         coded body
 *
 * A sealed one has description and body sealed as one, bound to the whole head: nothing of it can be moved to another
 * key or said to be older or younger than it is.
 */
const MAGIC = 0x4d445847;
const VERSION = 5;
const CHECKSUM_AT = 48;
const MARKS_AT = 54;
const MARK = 8;
const SEALED = 0x80;
/** A request names far fewer projects than that (`many-catalogs`). */
const MAX_MARKS = 64;
/** The first bytes of a value, in which the whole head stands. */
export const HEAD_LIMIT = MARKS_AT + MAX_MARKS * MARK;

const CODING = { identity: 0, zstd: 1, deflate: 2 } as const;
/**
 * Shorter bodies are kept as they are (bytes). To decompress 2 KB takes 8 µs, as long as all else of their look-up; the
 * 1.4 KB that it saves take Redis 1.1 KB of memory and the network 1 µs.
 */
const COMPRESS_FROM = 4 * 1024;
/**
 * Up to this size bodies are compressed by deflate in the turn that needs it, longer ones by zstd on the thread pool
 * (bytes). The pool takes five to ten times as much of the processors: 50 KB back in 45 µs instead of 500. To set up a
 * decoder takes 2 µs with deflate and 13 with zstd, which makes long rowsets 5 to 35 % shorter.
 */
const AT_ONCE = 64 * 1024;
/** Level 6 takes up to four times as long and makes rowsets 2 % shorter (measured). */
const DEFLATE_OPTIONS = { level: 1 };
const ZSTD_OPTIONS = { params: { [constants.ZSTD_c_compressionLevel]: 3 } };
/** zlib takes no buffer smaller than this (bytes). */
const LEAST_PIECE = 64;

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

type Description = Omit<StoredAnswer, 'body' | 'requestedAt'> & { readonly bodyLength: number };

/** Names an epoch without telling its token. */
export const markOf = (token: string) => hash('sha256', token).slice(0, 2 * MARK);

/**
 * Makes the value that is kept in tier 2.
 * @param key the entry's key, 43 characters of base64url
 * @param tokens the epochs under which it was filled
 */
export async function encodeEntry(
  key: string,
  { body, requestedAt, ...rest }: StoredAnswer,
  tokens: readonly string[],
  sealer: Sealer,
): Promise<Buffer> {
  const description: Description = { ...rest, bodyLength: body.length };
  const described = Buffer.from(JSON.stringify(description));
  const { coding, coded } = await encodeBody(body);
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

/** What does not get shorter is kept as it is, so that no value is much longer than its body. */
async function encodeBody(body: Buffer): Promise<{ coding: number; coded: Buffer }> {
  const isShort = body.length <= AT_ONCE;
  if (body.length >= COMPRESS_FROM) {
    const coded = isShort
      ? deflateRawSync(body, DEFLATE_OPTIONS)
      : await compress(body, ZSTD_OPTIONS);
    if (coded.length < body.length)
      return { coding: isShort ? CODING.deflate : CODING.zstd, coded };
  }
  return { coding: CODING.identity, coded: body };
}

/**
 * Reads the head of a value of which at least the first {@link HEAD_LIMIT} bytes are there, or all.
 * @returns why it is none of this layout, if so
 */
export function readHead(value: Buffer) {
  if (value.length < 16) return 'too short';
  if (value.readUInt32BE(0) !== MAGIC) return 'not an entry of this gateway';
  if (value.readUInt8(4) !== VERSION) return 'another version';
  if (value.length < MARKS_AT) return 'too short';
  const marked = value.readUInt16BE(52);
  const length = MARKS_AT + marked * MARK;
  if (marked > MAX_MARKS) return 'too many epochs';
  if (value.length < length) return 'too short';
  const flags = value.readUInt8(5);
  return {
    coding: flags & ~SEALED,
    sealed: (flags & SEALED) !== 0,
    /** Length of the description in bytes. */
    described: value.readUInt16BE(6),
    /** Wall clock, ms. */
    requestedAt: value.readUInt32BE(8) * 2 ** 32 + value.readUInt32BE(12),
    /** 43 characters of base64url. */
    key: value.toString('base64url', 16, CHECKSUM_AT),
    /** How many epochs are marked in it. */
    marked,
    /** Length of the head in bytes. */
    length,
  };
}

type Head = Exclude<ReturnType<typeof readHead>, string>;

/** The marks of the epochs under which it was filled; a look-up does not need them. */
export function readMarks(value: Buffer, { marked }: Head): readonly string[] {
  const marks = value.toString('hex', MARKS_AT, MARKS_AT + marked * MARK);
  return Array.from({ length: marked }, (_, i) => marks.slice(i * 2 * MARK, (i + 1) * 2 * MARK));
}

/**
 * Reads a value of tier 2. What does not check out is refused; where there is a key, also what is not sealed: others who
 * can write to Redis could have made it.
 * @param maxBody larger bodies are refused before they are decompressed (bytes)
 * @param take told how many bytes are needed beside the value, before they are; what it throws ends it
 * @returns or why it is refused, for log and metrics: the entry is a miss
 */
export function decodeEntry(
  key: string,
  value: Buffer,
  maxBody: number,
  sealer: Sealer,
  take?: (bytes: number) => void,
): StoredAnswer | string | Promise<StoredAnswer | string> {
  const head = readHead(value);
  if (typeof head === 'string') return head;
  const { requestedAt } = head;
  if (head.key !== key) return 'another key';
  if (head.sealed) take?.(value.length);
  const content = openContent(value, head, sealer);
  if (typeof content === 'string') return content;
  const description = readDescription(content, head.described);
  if (description === undefined) return 'unreadable description';
  const { bodyLength, ...described } = description;
  if (bodyLength > maxBody) return 'larger than cache.max_entry';
  // The decoder has its pieces and then the whole.
  take?.((head.coding === CODING.identity ? 1 : 2) * bodyLength);
  const toAnswer = (body: Buffer | undefined) =>
    body?.length === bodyLength ? { ...described, body, requestedAt } : 'unreadable body';
  const body = decodeBody(head.coding, content.subarray(head.described), bodyLength);
  return body === undefined || Buffer.isBuffer(body) ? toAnswer(body) : body.then(toAnswer);
}

/** Description and body as they were written, or why not. */
function openContent(value: Buffer, head: Head, sealer: Sealer): Buffer | string {
  const content = value.subarray(head.length);
  if (!head.sealed) {
    if (sealer.kind !== 'none') return 'not sealed';
    return value.readUInt32BE(CHECKSUM_AT) === checksum(value) ? content : 'wrong checksum';
  }
  if (sealer.kind === 'none') return 'sealed';
  return sealer.open(content, value.subarray(0, head.length)) ?? 'sealed otherwise';
}

function checksum(value: Buffer): number {
  return crc32(value.subarray(CHECKSUM_AT + 4), crc32(value.subarray(0, CHECKSUM_AT)));
}

/** What it says can be said in a head and in metrics without another look. */
function readDescription(content: Buffer, length: number): Description | undefined {
  if (content.length < length) return undefined;
  try {
    const read = Object(JSON.parse(content.toString('utf8', 0, length))) as Description;
    const { lifetime, engineMilliseconds, bodyLength, ...texts } = read;
    const { sessionHeader, contentType, contentLanguage, session } = texts;
    const isSound =
      [lifetime, engineMilliseconds, bodyLength].every(isAmount) &&
      Number.isInteger(bodyLength) &&
      typeof sessionHeader === 'boolean' &&
      isHeaderValue(contentType) &&
      // An engine may send a header with nothing in it.
      (contentLanguage === undefined || contentLanguage === '' || isHeaderValue(contentLanguage)) &&
      (session === undefined || isPlace(session, bodyLength));
    // Nothing that another gateway may have added.
    const described = { sessionHeader, contentType, contentLanguage, session };
    return isSound ? { lifetime, engineMilliseconds, bodyLength, ...described } : undefined;
  } catch {
    return undefined;
  }
}

/** Beyond the largest safe integer a number is not exact. */
const isAmount = (value: unknown) =>
  typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER;
const isHeaderValue = (value: unknown) => typeof value === 'string' && HEADER_VALUE.test(value);

/** An id stands between two quotes, never at an end of the body. Another gateway may know of more encodings. */
function isPlace({ at, encoding }: SessionPlace, bodyLength: number): boolean {
  return Number.isSafeInteger(at) && at > 0 && at < bodyLength && ENCODINGS.has(encoding);
}

const ENCODINGS: ReadonlySet<TextEncoding> = new Set([
  'utf-8',
  'utf-16le',
  'utf-16be',
  'iso-8859-1',
  'us-ascii',
]);

/** The body in memory of its own; undefined when it is not what its coding says. */
function decodeBody(coding: number, coded: Buffer, length: number) {
  if (coding === CODING.identity) return ownBytes([coded]);
  if (coding === CODING.deflate && length <= AT_ONCE) return inflateAtOnce(coded, length);
  if (coding !== CODING.zstd) return undefined;
  return decompress(coded, { maxOutputLength: length }).catch(() => undefined);
}

/** Undefined where it is broken. */
function inflateAtOnce(coded: Buffer, length: number): Buffer | undefined {
  // With one byte more than it needs the decoder is done after one piece.
  const chunkSize = Math.max(length + 1, LEAST_PIECE);
  try {
    const body = inflateRawSync(coded, { chunkSize, maxOutputLength: Math.max(length, 1) });
    return body.buffer.byteLength === chunkSize ? body : ownBytes([body]);
  } catch {
    return undefined;
  }
}
