import type { Client } from '../../../src/cache/query.ts';
import { oneIn, type Random } from '../random.ts';
import type { SimulatedTime } from '../time.ts';

/** What a client got. */
export interface Got {
  /** Undefined where it got no answer, or one that broke off. */
  readonly text: string | undefined;
  readonly how: string;
}

/** How long a client may wait for the engine (ms). */
const PATIENCE = 30_000;

/** A client that now and then takes its time, which makes the gateway wait for it. */
export function createClient(time: SimulatedTime, random: Random) {
  const gone = new AbortController();
  const { promise, resolve } = Promise.withResolvers<Got>();
  const pieces: Buffer[] = [];
  const isSlow = oneIn(random, 20);
  let how = '';
  const breath = () => (isSlow ? time.sleep(random(200)) : Promise.resolve());
  const end = (text: string | undefined, told = how) => resolve({ text, how: told });
  const client: Client = {
    signal: gone.signal,
    waits: () => PATIENCE,
    replay: ({ body }, { outcome }) => end(body.toString(), `hit ${outcome.detail}`),
    open: (_head, outcome) =>
      void (how = `${outcome.kind} ${'detail' in outcome ? outcome.detail : ''}`),
    notStored() {},
    write: (chunk) => pieces.push(chunk) > 0 && !isSlow,
    backlog: () => 0,
    drained: breath,
    over: breath,
    end(_length, last) {
      if (last !== undefined) pieces.push(last);
      end(Buffer.concat(pieces).toString());
    },
    fail(error) {
      // Anything else is a mistake of the program, or of the simulation.
      const isTold = error instanceof Error && ('reason' in error || gone.signal.aborted);
      end(undefined, isTold ? 'failed' : `broke: ${String(error)}`);
    },
  };
  return {
    client,
    got: promise,
    /** Goes away without its answer. */
    leave(): void {
      gone.abort(new Error('the client has gone'));
      end(undefined, 'gone');
    },
  };
}
