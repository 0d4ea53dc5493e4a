import { setImmediate as nextTurn } from 'node:timers/promises';
import { INSPECTION_SLICE } from '../../xmla/answer/inspect-answer.ts';

type Next = IteratorResult<Buffer>;

/**
 * Cuts long chunks, with a turn of the event loop between two pieces of one, so that an answer that comes in one
 * large chunk keeps nobody else waiting while it is inspected. No generator: a short chunk costs one promise more.
 */
export function inPieces(body: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
  const chunks = body[Symbol.asyncIterator]();
  /** Of a chunk that was cut. */
  let rest: Buffer | undefined;

  function firstOf(found: Next): Next | Promise<Next> {
    if (found.done === true) return found;
    const { value } = found;
    if (value.length === 0) return next();
    rest = value.length > INSPECTION_SLICE ? value.subarray(INSPECTION_SLICE) : undefined;
    return rest === undefined ? found : { value: value.subarray(0, INSPECTION_SLICE) };
  }

  function next(): Promise<Next> {
    if (rest === undefined) return chunks.next().then(firstOf);
    const value = rest;
    return nextTurn().then(() => firstOf({ value }));
  }

  return {
    [Symbol.asyncIterator]: () => ({
      next,
      async return() {
        await chunks.return?.();
        return { done: true, value: undefined };
      },
    }),
  };
}
