import type { IncomingMessage } from 'node:http';
import type { Client } from '../../../src/cache/query.ts';
import { oneIn, type Random } from '../random.ts';
import type { SimulatedTime } from '../time.ts';

/** A request below HTTP: its head, its body, and what it asks. */
export interface SimulatedRequest extends Pick<
  IncomingMessage,
  'method' | 'url' | 'httpVersion' | 'headers' | 'rawHeaders'
> {
  readonly body: Buffer;
}

/** An answer that was kept, as it went out. Times in ms. */
export interface Hit {
  readonly text: string;
  readonly detail: string;
  /** What it says of itself. */
  readonly ttl: number;
}

/** What a client got. */
export interface Got {
  /** Undefined where it got no answer, or one that broke off. */
  readonly text: string | undefined;
  readonly how: string;
}

const LEFT = new Error('the client has gone');
/** How long a client may wait for the engine (ms). */
const PATIENCE = 30_000;

/**
 * A client that now and then takes its time, which makes the gateway wait for it. To the steps of a request it is what
 * `src/line/client.ts` is.
 * @param options.request undefined for one that asks for no user
 * @param options.heard told of an answer that was kept in the turn that sends it
 */
export function createClient(options: {
  time: SimulatedTime;
  random: Random;
  request?: SimulatedRequest;
  heard?: (hit: Hit) => void;
}) {
  const { time, random, request, heard } = options;
  /** Made when something has to be broken off with it. */
  let gone: AbortController | undefined;
  let isGone = false;
  const { promise, resolve } = Promise.withResolvers<Got>();
  const pieces: Buffer[] = [];
  const isSlow = oneIn(random, 20);
  let how = '';
  const breath = () => (isSlow ? time.sleep(random(200)) : Promise.resolve());
  const end = (text: string | undefined, told = how) => resolve({ text, how: told });
  const client = {
    get signal() {
      gone ??= new AbortController();
      if (isGone) gone.abort(LEFT);
      return gone.signal;
    },
    get isGone() {
      return isGone;
    },
    waits: () => PATIENCE,
    replay({ body }, { outcome, ttl }) {
      const text = body.toString();
      if (how !== '')
        return end(undefined, `broke: an old answer though it has bytes of another: ${how}`);
      if (!isGone) heard?.({ text, detail: outcome.detail, ttl });
      end(text, `hit ${outcome.detail}`);
    },
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
      const isTold = error instanceof Error && ('reason' in error || isGone);
      const reason = isTold && 'reason' in error ? String(error.reason) : '';
      end(undefined, isTold ? `failed ${reason}` : `broke: ${String(error)}`);
    },
    request,
    facts: { id: '', principal: '', project: '', why: '', trace: '' },
    owner: '',
    wishes: { page: undefined },
    takeBody: () => request?.body,
    watch() {},
    asks() {},
    engineStep() {},
    patience: () => PATIENCE,
  } satisfies Client & Record<string, unknown>;
  return {
    client,
    got: promise,
    /** Goes away without its answer. */
    leave(): void {
      isGone = true;
      gone?.abort(LEFT);
      end(undefined, 'gone');
    },
  };
}
