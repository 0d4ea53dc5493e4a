import { pipeline, type Transform } from 'node:stream';
import { createGunzip, createInflate, createInflateRaw } from 'node:zlib';
import type { UpstreamHead } from './answer-head.ts';
import type { UpstreamAnswer } from './upstream-answer.ts';

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
  const pieces = answer[Symbol.asyncIterator]();
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
