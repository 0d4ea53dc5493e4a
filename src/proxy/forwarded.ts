import {
  validateHeaderValue,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
} from 'node:http';
import { pipeline, type Readable, type Transform } from 'node:stream';
import { createGunzip, createInflate, createInflateRaw } from 'node:zlib';
import { foldCase } from '../common/fold-case.ts';
import { HOP_BY_HOP, nameAsRead, words } from '../common/header-names.ts';

/** Headers of the upstream's own connection or login. */
const NOT_ANSWERED = HOP_BY_HOP.union(words('set-cookie'));
/** Parameters that name a login to some servers: a client could smuggle an identity in them. */
const IDENTITY_PARAMETERS = words('username password userid');
/** Headers that Connection lists: they belong to that connection. */
const listedIn = ({ connection = '' }: IncomingHttpHeaders) =>
  connection.toLowerCase().split(/[\s,]+/);

function without(headers: IncomingHttpHeaders, isLeft: (name: string) => boolean) {
  const listed = listedIn(headers);
  const kept: Record<string, string | string[]> = {};
  for (const name in headers) {
    const value = headers[name];
    if (value === undefined || isLeft(name)) continue;
    if (!listed.includes(name)) kept[name] = value;
  }
  return kept;
}

/** The client's headers that go to the upstream with a request that passes through. */
export function requestHeaders(
  headers: IncomingHttpHeaders,
  authorization: string | undefined,
  length: number | undefined,
  crosses: (name: string) => boolean,
): IncomingHttpHeaders {
  const crossing: IncomingHttpHeaders = without(headers, (name) => !crosses(name));
  if (authorization !== undefined) crossing.authorization = authorization;
  if (length !== undefined) crossing['content-length'] = String(length);
  return crossing;
}

/**
 * The headers of `engine.headers` as the client sent them, to forward and to key; Node.js joins
 * several values. Headers of the client's connection are not among them.
 * @param names in lower case, sorted
 */
export function namedHeaders(
  headers: IncomingHttpHeaders,
  names: readonly string[],
): Readonly<Record<string, string>> | undefined {
  if (names.length === 0) return undefined;
  const listed = listedIn(headers);
  const there = names.filter((name) => Object.hasOwn(headers, name) && !listed.includes(name));
  if (there.length === 0) return undefined;
  return Object.fromEntries(there.map((name) => [name, String(headers[name])]));
}

export const answerHeaders = (headers: IncomingHttpHeaders): OutgoingHttpHeaders =>
  without(headers, (name) => NOT_ANSWERED.has(nameAsRead(name)));
/** The decoded name of `name=value`. */
export const parameterName = (parameter: string) =>
  [...new URLSearchParams(parameter).keys()][0] ?? '';

/** The parts of a query that may be forwarded, as sent: not a login, however spelt. */
export function forwardedQuery(search: string): readonly string[] {
  return search
    .split('&')
    .filter((piece) => piece !== '' && !IDENTITY_PARAMETERS.has(foldCase(parameterName(piece))));
}

/** @param name in lower case; the query may spell it otherwise */
export const namesParameter = (search: string, name: string) =>
  search.split('&').some((piece) => foldCase(parameterName(piece)) === name);

/** Sorts by name for a key; equal names keep their order. */
export function sortedQuery(parameters: readonly string[]): readonly string[] {
  const named = parameters.map((parameter) => [parameterName(parameter), parameter] as const);
  return named.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([, parameter]) => parameter);
}

/** With the gateway's own login, a 401 says nothing about the client's password. */
export const refusedLogin = (status: number, login: 'forward' | 'service' | 'none') =>
  login !== 'forward' && (status === 401 || status === 407);

/** `received` counts body bytes where they arrive: a reader may lose some. */
export type UpstreamAnswer = IncomingMessage & { readonly received: () => number };

export type UpstreamHead = Readonly<ReturnType<typeof answerHead>>;

/** @throws for a head that is no HTTP, though the parser takes it (RFC 9110 §15, §5.5) */
export function answerHead(
  answer: Pick<UpstreamAnswer, 'statusCode' | 'statusMessage' | 'headers'>,
) {
  const { statusCode: status = 0, statusMessage = '', headers } = answer;
  if (status < 200) throw new Error(`the upstream answered with the status ${status}`);
  const coding = headers['transfer-encoding'] ?? 'chunked';
  if (!/^\s*(?:chunked|identity)\s*$/i.test(coding)) {
    throw new Error(
      `the upstream answered in the transfer coding ${coding}, which was not asked for`,
    );
  }
  validateHeaderValue('reason phrase', statusMessage);
  for (const name in headers) {
    const value = headers[name];
    if (typeof value === 'string') validateHeaderValue(name, value);
    else for (const one of value ?? []) validateHeaderValue(name, one);
  }
  return { status, statusMessage, headers };
}

/** A `deflate` in zlib format has 8 in the low half of its first byte (RFC 1950 §2.2). */
function decoderOf(coding: string, first: Buffer): Transform {
  if (coding !== 'deflate') return createGunzip();
  return ((first[0] ?? 0) & 0x0f) === 8 ? createInflate() : createInflateRaw();
}

/** Counts the bytes that reach a stream, not those that are read from it. */
export function bytesPushed(stream: Readable): () => number {
  let bytes = 0;
  const push = stream.push.bind(stream);
  stream.push = (piece: Buffer | null) => {
    bytes += piece?.length ?? 0;
    return push(piece);
  };
  return () => bytes;
}

/** Keeps the content coding. `length`: bytes of the whole body, known at its end. */
export const plainAnswer = (answer: UpstreamAnswer, head: UpstreamHead) => ({
  head,
  body: answer as AsyncIterable<Buffer>,
  length: answer.received,
});

/**
 * Takes off gzip or deflate (RFC 9110 §8.4.1), also from the head; other or several codings stay.
 * The body throws when it breaks off or is corrupt. Leaving its loop early ends the request.
 * @param onCorrupt hears that the coding is at fault, which a whole answer does not show otherwise
 */
export function decodedAnswer(
  answer: UpstreamAnswer,
  head: UpstreamHead,
  onCorrupt: (error: unknown) => void,
): ReturnType<typeof plainAnswer> {
  const coding = head.headers['content-encoding']?.trim().toLowerCase() ?? '';
  if (!['gzip', 'x-gzip', 'deflate'].includes(coding)) return plainAnswer(answer, head);
  const { 'content-encoding': _coding, 'content-length': _length, ...headers } = head.headers;
  let made = NOTHING_PUSHED;
  const body = decode(answer, coding, (decoder) => (made = bytesPushed(decoder)), onCorrupt);
  return { head: { ...head, headers }, body, length: () => made() };
}

const NOTHING_PUSHED = () => 0;

/** @param begins receives the decoder once there is one */
async function* decode(
  answer: UpstreamAnswer,
  coding: string,
  begins: (decoder: Transform) => void,
  onCorrupt: (error: unknown) => void,
): AsyncGenerator<Buffer, void, undefined> {
  const pieces = answer[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  const first = await pieces.next();
  // An answer without a body, as to HEAD, has no coding either.
  if (first.done) return;
  let taken = false;
  async function* all(start: Buffer): AsyncGenerator<Buffer, void, undefined> {
    yield start;
    yield* { [Symbol.asyncIterator]: () => pieces };
    taken = true;
  }
  try {
    const decoder = decoderOf(coding, first.value);
    begins(decoder);
    const decoded = pipeline(all(first.value), decoder, () => {});
    for await (const piece of decoded) yield piece as Buffer;
    if (!taken) throw new Error('the encoded answer has bytes behind its end');
  } catch (error) {
    if (answer.errored === null) onCorrupt(error);
    throw error;
  } finally {
    // The pieces may wait for bytes that never come.
    answer.destroy();
  }
}

/** Reads the whole body; undefined for a longer one, whose request it ends. */
export async function bodyUpTo(body: AsyncIterable<Buffer>, most: number) {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > most) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/**
 * Bytes up to which a body is sent as text, joined to the head, which Node.js keeps as text. One
 * plain write saves up to 3 µs of 19 over a gathering one; from about 4 KB on, copying costs more.
 */
export const SHORT_BODY_BYTES = 3 * 1024;

export function endWith(message: NodeJS.WritableStream, last: Buffer): void {
  if (last.length <= SHORT_BODY_BYTES) message.end(last.toString('latin1'), 'latin1');
  else message.end(last);
}

/** Keeps a client from taking the answer for whole: in HTTP/1.0 only a reset tells that. */
export function breakOff(request: IncomingMessage, response: ServerResponse): void {
  const { socket } = request;
  if (request.httpVersion === '1.0' && !('encrypted' in socket)) socket.resetAndDestroy();
  else response.destroy();
}
