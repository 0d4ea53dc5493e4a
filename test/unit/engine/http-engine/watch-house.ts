import { afterEach, beforeEach } from '@jest/globals';
import { type IncomingMessage, request } from 'node:http';
import type { AnswerWatch } from '../../../../src/engine/http-engine.ts';
import { portOf } from '../../../support/http-client.ts';
import { shared } from '../../../support/opened.ts';
import { gate, startStubEngine, type StubEngine } from '../../../support/stub-engine.ts';
import { engineHouse, type EngineHouse, type Front, startFront } from '../engine-house.ts';

/** A watch that notes in `told` what it is told, and does what the test says besides. */
function notingWatch(told: string[], does: Partial<AnswerWatch> = {}): AnswerWatch {
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

/** An engine behind a front for all tests of a suite, and a watch that notes; each test starts its front. */
export function watchedEngine() {
  const stub = shared(() => startStubEngine(() => {}));
  /** `told`: what the watch was told, in order. */
  const now = {
    house: {} as EngineHouse,
    front: undefined as Front | undefined,
    told: [] as string[],
  };
  beforeEach(() => {
    stub.seen.length = 0;
    now.told = [];
  });
  afterEach(async () => {
    await now.front?.close();
    now.front = undefined;
  });

  return {
    stub,
    now,
    noting: (does?: Partial<AnswerWatch>) => notingWatch(now.told, does),
    async start(
      watch: AnswerWatch | undefined,
      urls: readonly string[] = [stub.url],
      changed: Parameters<typeof engineHouse>[1] = {},
    ) {
      now.house = engineHouse(urls, changed);
      now.front = await startFront(now.house, watch);
      return now.front;
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
