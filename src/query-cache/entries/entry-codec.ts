import { promisify } from 'node:util';
import { constants, deflateRawSync, inflateRawSync, zstdCompress, zstdDecompress } from 'node:zlib';
import type { Sealer } from '../../sealing.ts';
import type { TextEncoding } from '../../xml/text-encoding.ts';
import { isWhole, makeWhole, markOf, readHead, writeHead, type Head } from './entry-layout.ts';
import { ownBytes } from './own-bytes.ts';
import { HEADER_VALUE, type SessionPlace, type StoredAnswer } from './stored-answer.ts';

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

const CODING = { identity: 0, zstd: 1, deflate: 2 } as const;
/**
 * Shorter bodies are kept as they are (bytes). To decompress 2 KB takes 8 µs, as long as all else of their look-up; the
 * 1.4 KB that it saves take Redis 1.1 KB of memory and the network 1 µs.
 */
const COMPRESS_FROM = 4 * 1024;
/**
 * Up to this size bodies are compressed and decompressed in the turn that needs it (bytes). The thread pool takes five to
 * ten times as much of the processors: 50 KB back in 45 µs instead of 500.
 *
 * They are compressed by deflate, longer ones by zstd. To set up a decoder takes 2 µs with deflate and 13 with zstd, which
 * leaves more to collect as well: 8 KB are back in 8 µs instead of 20, 50 KB in 16 instead of 29, which is no more than it
 * takes to read them from Redis as they are. A rowset of 50 KB is 15 to 40 % longer so, an eighth of its length at most.
 */
const AT_ONCE = 64 * 1024;
/** Level 6 takes up to four times as long and makes rowsets 2 % shorter (measured). */
const DEFLATE_OPTIONS = { level: 1 };
/** zlib takes no buffer smaller than this (bytes). */
const LEAST_PIECE = 64;
/** zstd 3 makes long rowsets 5 to 35 % shorter than deflate 1, in about the same time (measured). */
const ZSTD_OPTIONS = { params: { [constants.ZSTD_c_compressionLevel]: 3 } };

/**
 * A description is four numbers, as doubles (lifetime, engineMilliseconds, bodyLength, and where the session id belongs
 * or 0), and then the texts as JSON: these are the same for most entries and need not be read each time (a short entry is
 * read in 2.4 µs instead of 3.2).
 */
const NUMBERS = 4 * 8;

interface Texts {
  readonly contentType: string;
  readonly contentLanguage: string | null;
  readonly sessionHeader: boolean;
  /** Null where no session id belongs in the body. */
  readonly sessionEncoding: TextEncoding | null;
}

/** How many texts are remembered. */
const REMEMBERED = 64;

/** All of them, as the compiler checks: another gateway may know of more. */
const ENCODINGS: Readonly<Record<TextEncoding, true>> = {
  'utf-8': true,
  'utf-16le': true,
  'utf-16be': true,
  'iso-8859-1': true,
  'us-ascii': true,
};

/**
 * Makes the value that is kept in tier 2; where things stand in it says entry-layout.ts.
 * @param key the entry's key, 43 characters of base64url
 * @param tokens the epochs under which it was filled
 */
export async function encodeEntry(
  key: string,
  answer: StoredAnswer,
  tokens: readonly string[],
  sealer: Sealer,
): Promise<Buffer> {
  const described = describe(answer);
  const { coding, coded } = await encodeBody(answer.body);
  const sealed = sealer.kind !== 'none';
  const head = writeHead({
    kind: 'entry',
    coding,
    sealed,
    described: described.length,
    requestedAt: answer.requestedAt,
    key,
    marks: tokens.map(markOf),
  });
  if (!sealed) return makeWhole(Buffer.concat([head, described, coded]));
  return Buffer.concat([head, sealer.seal(Buffer.concat([described, coded]), head)]);
}

function describe(answer: StoredAnswer): Buffer {
  const texts: Texts = {
    contentType: answer.contentType,
    contentLanguage: answer.contentLanguage ?? null,
    sessionHeader: answer.sessionHeader,
    sessionEncoding: answer.session?.encoding ?? null,
  };
  const numbers = Buffer.alloc(NUMBERS);
  numbers.writeDoubleBE(answer.lifetime, 0);
  numbers.writeDoubleBE(answer.engineMilliseconds, 8);
  numbers.writeDoubleBE(answer.body.length, 16);
  numbers.writeDoubleBE(answer.session?.at ?? 0, 24);
  return Buffer.concat([numbers, Buffer.from(JSON.stringify(texts))]);
}

/** What does not get shorter is kept as it is, so that no value is much longer than its body. */
async function encodeBody(body: Buffer): Promise<{ coding: number; coded: Buffer }> {
  if (body.length >= COMPRESS_FROM) {
    const made =
      body.length <= AT_ONCE
        ? { coding: CODING.deflate, coded: deflateRawSync(body, DEFLATE_OPTIONS) }
        : { coding: CODING.zstd, coded: await compress(body, ZSTD_OPTIONS) };
    if (made.coded.length < body.length) return made;
  }
  return { coding: CODING.identity, coded: body };
}

export type Decoded =
  | { readonly ok: true; readonly answer: StoredAnswer }
  /** `why` is for log and metrics; the entry is a miss. */
  | { readonly ok: false; readonly why: string };

/**
 * Reads a value of tier 2. Whatever does not check out is refused, never repaired. Where there is a key, what is not
 * sealed is refused as well: anybody who can write to Redis could have made it.
 * @param maxBody larger bodies are refused before they are decompressed (bytes)
 * @param take told how many bytes are needed beside the value, before they are; what it throws ends it
 */
export function decodeEntry(
  key: string,
  value: Buffer,
  maxBody: number,
  sealer: Sealer,
  take?: (bytes: number) => void,
): Decoded | Promise<Decoded> {
  const head = readHead(value);
  if (typeof head === 'string') return refused(head);
  if (head.kind !== 'entry') return refused('a manifest');
  if (head.key !== key) return refused('another key');
  if (head.sealed) take?.(value.length);
  const content = openContent(value, head, sealer);
  if (typeof content === 'string') return refused(content);
  const description = readDescription(content, head.described);
  if (description === undefined) return refused('unreadable description');
  if (description.bodyLength > maxBody) return refused('larger than cache.max_entry');
  // The decoder has its pieces and then the whole.
  take?.((head.coding === CODING.identity ? 1 : 2) * description.bodyLength);
  const body = decodeBody(head.coding, content.subarray(head.described), description.bodyLength);
  return body instanceof Promise
    ? body.then((read) => decoded(head, description, read))
    : decoded(head, description, body);
}

function decoded(head: Head, description: Description, body: Buffer | undefined): Decoded {
  if (body === undefined) return refused('unreadable body');
  const { texts } = description;
  return {
    ok: true,
    answer: {
      body,
      session: description.session,
      sessionHeader: texts.sessionHeader,
      contentType: texts.contentType,
      contentLanguage: texts.contentLanguage ?? undefined,
      requestedAt: head.requestedAt,
      lifetime: description.lifetime,
      engineMilliseconds: description.engineMilliseconds,
    },
  };
}

function refused(why: string): Decoded {
  return { ok: false, why };
}

/** Description and body as they were written, or why not. */
function openContent(value: Buffer, head: Head, sealer: Sealer): Buffer | string {
  const content = value.subarray(head.length);
  if (!head.sealed) {
    if (sealer.kind !== 'none') return 'not sealed';
    return isWhole(value) ? content : 'wrong checksum';
  }
  if (sealer.kind === 'none') return 'sealed';
  return sealer.open(content, value.subarray(0, head.length)) ?? 'sealed otherwise';
}

interface Description {
  readonly lifetime: number;
  readonly engineMilliseconds: number;
  readonly bodyLength: number;
  readonly session: SessionPlace | undefined;
  readonly texts: Texts;
}

/** Whoever replays it, or counts it, need not look again: what it says can be said in a head and in metrics. */
function readDescription(content: Buffer, length: number): Description | undefined {
  if (content.length < length) return undefined;
  // Also undefined where there is nothing but numbers, or not even these.
  const texts = readTexts(content.toString('latin1', NUMBERS, length));
  if (texts === undefined) return undefined;
  const lifetime = content.readDoubleBE(0);
  const engineMilliseconds = content.readDoubleBE(8);
  const bodyLength = content.readDoubleBE(16);
  const at = content.readDoubleBE(24);
  const { sessionEncoding: encoding } = texts;
  const sound =
    isAmount(lifetime) &&
    isAmount(engineMilliseconds) &&
    isAmount(bodyLength) &&
    Number.isInteger(bodyLength) &&
    (encoding === null ? at === 0 : isWithin(at, bodyLength));
  if (!sound) return undefined;
  const session = encoding === null ? undefined : { at, encoding };
  return { lifetime, engineMilliseconds, bodyLength, session, texts };
}

const remembered = new Map<string, Texts>();

/** @param bytes of the JSON, as latin1 */
function readTexts(bytes: string): Texts | undefined {
  const known = remembered.get(bytes);
  if (known !== undefined) return known;
  try {
    const read = JSON.parse(Buffer.from(bytes, 'latin1').toString()) as Partial<Texts>;
    const sound =
      isHeaderValue(read.contentType) &&
      (read.contentLanguage === null || isHeaderValue(read.contentLanguage, 'or empty')) &&
      typeof read.sessionHeader === 'boolean' &&
      (read.sessionEncoding === null || isEncoding(read.sessionEncoding));
    if (!sound) return undefined;
    if (remembered.size >= REMEMBERED) remembered.clear();
    remembered.set(bytes, read as Texts);
    return read as Texts;
  } catch {
    return undefined;
  }
}

const isEncoding = (value: unknown) => typeof value === 'string' && Object.hasOwn(ENCODINGS, value);

/** An engine may send a header with nothing in it. */
function isHeaderValue(value: unknown, empty?: 'or empty'): boolean {
  if (typeof value !== 'string') return false;
  return HEADER_VALUE.test(value) || (value === '' && empty !== undefined);
}

/** Beyond that a number is not exact, and is written with an exponent. */
const isAmount = (value: number) => value >= 0 && value <= Number.MAX_SAFE_INTEGER;

/** An id stands between two quotes, never at an end of the body. */
const isWithin = (at: number, bodyLength: number) =>
  Number.isSafeInteger(at) && at > 0 && at < bodyLength;

/** The body in memory of its own; undefined when it is not what its coding and its length say. */
function decodeBody(
  coding: number,
  coded: Buffer,
  length: number,
): Buffer | undefined | Promise<Buffer | undefined> {
  switch (coding) {
    case CODING.identity:
      return coded.length === length ? ownBytes([coded]) : undefined;
    case CODING.deflate:
      return length <= AT_ONCE ? inflateAtOnce(coded, length) : undefined;
    case CODING.zstd:
      return decompressAside(coded, length);
    default:
      return undefined;
  }
}

function inflateAtOnce(coded: Buffer, length: number): Buffer | undefined {
  // With one byte more than it needs the decoder is done after one piece.
  const chunkSize = Math.max(length + 1, LEAST_PIECE);
  try {
    const body = inflateRawSync(coded, { chunkSize, maxOutputLength: Math.max(length, 1) });
    if (body.length !== length) return undefined;
    return body.buffer.byteLength === chunkSize ? body : ownBytes([body]);
  } catch {
    return undefined;
  }
}

async function decompressAside(coded: Buffer, length: number): Promise<Buffer | undefined> {
  try {
    const body = await decompress(coded, { maxOutputLength: length });
    return body.length === length ? body : undefined;
  } catch {
    return undefined;
  }
}
