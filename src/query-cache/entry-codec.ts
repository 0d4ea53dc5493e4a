import { promisify } from 'node:util';
import {
  constants,
  zstdCompress,
  zstdCompressSync,
  zstdDecompress,
  zstdDecompressSync,
} from 'node:zlib';
import type { Sealer } from '../sealing.ts';
import type { AnswerEncoding } from '../xmla/answer/answer-encoding.ts';
import { isWhole, makeWhole, markOf, readHead, writeHead, type Head } from './entry-layout.ts';
import { ownBytes } from './own-bytes.ts';
import { HEADER_VALUE, type SessionPlace, type StoredAnswer } from './stored-answer.ts';

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

const CODING = { identity: 0, zstd: 1 } as const;
/**
 * Shorter bodies are kept as they are (bytes). To decompress 2 KB takes 14 µs, as long as all else of their look-up; the
 * 1.4 KB that it saves take Redis 1.1 KB of memory and the network 1 µs.
 */
const COMPRESS_FROM = 4 * 1024;
/**
 * Up to this size bodies are compressed and decompressed in the turn that needs it (bytes). The thread pool takes five to
 * ten times as much of the processors: 50 KB back in 45 µs instead of 500.
 */
const AT_ONCE = 64 * 1024;
/** zlib takes no buffer smaller than this (bytes). */
const LEAST_PIECE = 64;
/** zstd 3 makes a 50 KB rowset nine times smaller in less time than gzip 1 needs for six times (measured). */
const ZSTD_LEVEL = 3;

interface Description {
  readonly contentType: string;
  readonly contentLanguage: string | null;
  readonly lifetime: number;
  readonly engineMilliseconds: number;
  readonly bodyLength: number;
  readonly session: SessionPlace | null;
  readonly sessionHeader: boolean;
}

/** All of them, as the compiler checks: another gateway may know of more. */
const ENCODINGS: Readonly<Record<AnswerEncoding, true>> = {
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
  const description: Description = {
    contentType: answer.contentType,
    contentLanguage: answer.contentLanguage ?? null,
    lifetime: answer.lifetime,
    engineMilliseconds: answer.engineMilliseconds,
    bodyLength: answer.body.length,
    session: answer.session ?? null,
    sessionHeader: answer.sessionHeader,
  };
  const described = Buffer.from(JSON.stringify(description));
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

/** What does not get shorter is kept as it is, so that no value is much longer than its body. */
async function encodeBody(body: Buffer): Promise<{ coding: number; coded: Buffer }> {
  if (body.length >= COMPRESS_FROM) {
    const options = { params: { [constants.ZSTD_c_compressionLevel]: ZSTD_LEVEL } };
    const coded =
      body.length <= AT_ONCE ? zstdCompressSync(body, options) : await compress(body, options);
    if (coded.length < body.length) return { coding: CODING.zstd, coded };
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
  const description = readDescription(content.subarray(0, head.described));
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
  return {
    ok: true,
    answer: {
      body,
      session: description.session ?? undefined,
      sessionHeader: description.sessionHeader,
      contentType: description.contentType,
      contentLanguage: description.contentLanguage ?? undefined,
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

/** Whoever replays it, or counts it, need not look again: what it says can be said in a head and in metrics. */
function readDescription(bytes: Buffer): Description | undefined {
  try {
    const read = JSON.parse(bytes.toString()) as Partial<Description>;
    const sound =
      isHeaderValue(read.contentType) &&
      (read.contentLanguage === null || isHeaderValue(read.contentLanguage, 'or empty')) &&
      isAmount(read.lifetime) &&
      isAmount(read.engineMilliseconds) &&
      isAmount(read.bodyLength) &&
      Number.isInteger(read.bodyLength) &&
      (read.session === null || isPlace(read.session, read.bodyLength)) &&
      typeof read.sessionHeader === 'boolean';
    return sound ? (read as Description) : undefined;
  } catch {
    return undefined;
  }
}

/** An engine may send a header with nothing in it. */
function isHeaderValue(value: unknown, empty?: 'or empty'): boolean {
  if (typeof value !== 'string') return false;
  return HEADER_VALUE.test(value) || (value === '' && empty !== undefined);
}

/** Beyond that a number is not exact, and is written with an exponent. */
const isAmount = (value: unknown) =>
  typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER;

/** An id stands between two quotes, never at an end of the body. */
function isPlace(place: Partial<SessionPlace> | undefined, bodyLength = 0): boolean {
  if (place === undefined) return false;
  const { at = NaN, encoding = '' } = place;
  return (
    Number.isSafeInteger(at) &&
    at > 0 &&
    at < bodyLength &&
    typeof encoding === 'string' &&
    Object.hasOwn(ENCODINGS, encoding)
  );
}

/** The body in memory of its own; undefined when it is not what its coding and its length say. */
function decodeBody(
  coding: number,
  coded: Buffer,
  length: number,
): Buffer | undefined | Promise<Buffer | undefined> {
  switch (coding) {
    case CODING.identity:
      return coded.length === length ? ownBytes([coded]) : undefined;
    case CODING.zstd:
      return length <= AT_ONCE ? decompressAtOnce(coded, length) : decompressAside(coded, length);
    default:
      return undefined;
  }
}

function decompressAtOnce(coded: Buffer, length: number): Buffer | undefined {
  // With one byte more than it needs the decoder is done after one piece.
  const chunkSize = Math.max(length + 1, LEAST_PIECE);
  try {
    const body = zstdDecompressSync(coded, { chunkSize, maxOutputLength: Math.max(length, 1) });
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
