import { setImmediate as nextTurn } from 'node:timers/promises';
import { INSPECTION_SLICE } from '../xmla/answer/inspect-answer.ts';

/**
 * Cuts long chunks, with a turn of the event loop between two pieces of one, so that an answer that comes in one
 * large chunk keeps nobody else waiting while it is inspected.
 */
export async function* inPieces(body: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void> {
  for await (const chunk of body) {
    for (let from = 0; from < chunk.length; from += INSPECTION_SLICE) {
      if (from > 0) await nextTurn();
      yield chunk.subarray(from, from + INSPECTION_SLICE);
    }
  }
}
