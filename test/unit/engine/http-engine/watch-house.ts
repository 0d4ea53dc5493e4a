import { type IncomingMessage, request } from 'node:http';
import type { AnswerWatch } from '../../../../src/engine/http-engine.ts';
import { portOf } from '../../../support/http-client.ts';
import { gate, type StubEngine } from '../../../support/stub-engine.ts';

/** A watch that notes in `told` what it is told, and does what the test says besides. */
export function notingWatch(told: string[], does: Partial<AnswerWatch> = {}): AnswerWatch {
  return {
    holdsLast: does.holdsLast ?? true,
    head(head) {
      told.push(`head ${head.status}`);
      does.head?.(head);
    },
    write(chunk) {
      told.push(chunk.toString());
      return does.write?.(chunk);
    },
    end(outcome) {
      told.push(outcome);
      return does.end?.(outcome);
    },
  };
}

/** A piece as long as what a watch holds back at least, so that the one before it is let go. */
export const longPiece = (letter: string) => letter.repeat(16 * 1024);

/** Begins a request; what came of its answer so far is in `text`. */
export function begin(url: string, headers: Record<string, string> = {}) {
  const asked = request({
    host: '127.0.0.1',
    port: portOf(url),
    method: 'POST',
    headers,
    agent: false,
  });
  asked.on('error', () => {});
  asked.end('<q/>');
  const state = { asked, text: '', begun: false, head: {} as IncomingMessage };
  const over = Promise.withResolvers<'whole' | 'broken'>();
  asked.on('response', (answer) => {
    state.begun = true;
    state.head = answer;
    answer.on('data', (chunk: Buffer) => (state.text += chunk.toString()));
    answer.on('error', () => {});
    answer.on('close', () => over.resolve(answer.complete ? 'whole' : 'broken'));
  });
  asked.on('close', () => {
    if (!state.begun) over.resolve('broken');
  });
  return Object.assign(state, { over: over.promise });
}

/** Sends pieces one by one, each when the test has opened its gate. */
export function inPieces(
  stub: StubEngine,
  pieces: readonly string[],
  ending: 'end' | 'destroy' = 'end',
) {
  const gates = pieces.map(() => gate());
  const last = gate();
  stub.answerWith(async (response) => {
    response.writeHead(200, { 'content-type': 'text/xml' });
    response.flushHeaders();
    for (const [index, piece] of pieces.entries()) {
      await gates[index]?.opened;
      response.write(piece);
    }
    await last.opened;
    response[ending]();
  });
  return { open: (index: number) => gates[index]?.open(), last: last.open };
}
