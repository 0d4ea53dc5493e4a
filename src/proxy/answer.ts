import {
  validateHeaderValue,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import { pipeline, type Readable, type Transform } from 'node:stream';
import { createGunzip, createInflate, createInflateRaw } from 'node:zlib';

/** The answer of an upstream as it comes, whichever library speaks HTTP with it; an `IncomingMessage` is one. */
export interface UpstreamAnswer extends Readable {
  readonly statusCode?: number | undefined;
  readonly statusMessage?: string | undefined;
  /** Names in lower case, bytes as ISO-8859-1, fields of one name put together as node does. */
  readonly headers: IncomingHttpHeaders;
}

export interface UpstreamHead {
  readonly status: number;
  readonly statusMessage: string;
  /** As the upstream sent them. */
  readonly headers: IncomingHttpHeaders;
}

/**
 * The head of an upstream's answer, in a form that can be sent on.
 * @throws when it is no head of HTTP (RFC 9110 §15: a final status is 200 or more; §5.5: no control
 *   characters), which the parser lets through
 */
export function answerHead(
  answer: Pick<UpstreamAnswer, 'statusCode' | 'statusMessage' | 'headers'>,
): UpstreamHead {
  const { statusCode: status = 0, statusMessage = '', headers } = answer;
  if (status < 200) throw new Error(`the upstream answered with the status ${status}`);
  check('reason phrase', statusMessage);
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value === 'string') check(name, value);
    else for (const one of value ?? []) check(name, one);
  }
  return { status, statusMessage, headers };
}

const PLAIN = /^[\t\x20-\x7e]*$/;

/** Nearly every value is plain, which is found much faster. */
function check(name: string, value: string): void {
  if (!PLAIN.test(value)) validateHeaderValue(name, value);
}

/** Makes a decoder; the first byte tells a `deflate` that is zlib, as it should be, from a bare one. */
type Decoder = (first: Buffer) => Transform;

const DECODERS: ReadonlyMap<string, Decoder> = new Map<string, Decoder>([
  ['gzip', () => createGunzip()],
  ['x-gzip', () => createGunzip()],
  ['deflate', (first) => (isZlib(first) ? createInflate() : createInflateRaw())],
]);

/** RFC 1950 §2.2: the low half of the first byte names the method, and 8 is the only one. */
function isZlib(first: Buffer): boolean {
  return ((first[0] ?? 0) & 0x0f) === 8;
}

/**
 * An answer without its content coding, where that is gzip or deflate (RFC 9110 §8.4.1). The head then speaks
 * neither of the coding nor of the length. In another coding, also in several, it stays as it is.
 *
 * The body throws when the answer breaks off, and when the coding is cut off or corrupt. Leaving its loop early
 * ends the request. What is kept of it in memory does not grow with it.
 * @param onCorrupt told when the coding is at fault: nothing else tells that of an answer that came whole
 */
export function decodedAnswer(
  answer: UpstreamAnswer,
  head: UpstreamHead,
  onCorrupt: (error: unknown) => void,
): { readonly head: UpstreamHead; readonly body: AsyncIterable<Buffer> } {
  const coding = head.headers['content-encoding']?.trim().toLowerCase() ?? '';
  const decoder = DECODERS.get(coding);
  if (decoder === undefined) return { head, body: answer };
  const { 'content-encoding': _coding, 'content-length': _length, ...headers } = head.headers;
  return { head: { ...head, headers }, body: decode(answer, decoder, onCorrupt) };
}

async function* decode(
  answer: UpstreamAnswer,
  decoder: Decoder,
  onCorrupt: (error: unknown) => void,
): AsyncGenerator<Buffer, void, undefined> {
  const pieces = answer[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  const first = await pieces.next();
  // An answer that has no body, as to HEAD, has no coding either.
  if (first.done) return;
  let taken = false;
  async function* all(start: Buffer): AsyncGenerator<Buffer, void, undefined> {
    yield start;
    yield* { [Symbol.asyncIterator]: () => pieces };
    taken = true;
  }
  try {
    const decoded = pipeline(all(first.value), decoder(first.value), () => {});
    for await (const piece of decoded) yield piece as Buffer;
    if (!taken) throw new Error('the coded answer goes on after its end');
  } catch (error) {
    if (answer.errored === null) onCorrupt(error);
    throw error;
  } finally {
    // The pieces may wait for bytes that never come.
    answer.destroy();
  }
}

/** The whole body, or undefined when it is longer. Leaves it there then, which ends the request. */
export async function bodyUpTo(
  body: AsyncIterable<Buffer>,
  most: number,
): Promise<Buffer | undefined> {
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
 * Ends an answer that cannot be finished, so that no client takes it for whole: in HTTP/1.1 the missing last
 * chunk or bytes show it; in HTTP/1.0 only a reset tells it from a normal end.
 */
export function breakOff(request: IncomingMessage, response: ServerResponse): void {
  const { socket } = request;
  if (request.httpVersion === '1.0' && !('encrypted' in socket)) socket.resetAndDestroy();
  else response.destroy();
}
