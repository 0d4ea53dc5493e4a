import type { Clock } from '../common/clock.ts';
import type { Emit, GatewayEvent } from '../common/events.ts';
import type { Link } from '../workers/link.ts';

export interface Parts {
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly randomBytes: (count: number) => Buffer;
  readonly sleep: (milliseconds: number) => Promise<void>;
  readonly emit: Emit;
  /** Longest time that a short answer waits to say in its head whether it was stored (ms). */
  readonly holdMs?: number | undefined;
  /** Time that idle connections stay while the server closes (ms). */
  readonly breath?: number | undefined;
  /** How many passwords are compared at one time; each takes a core. Default: 1. */
  readonly comparisons?: number | undefined;
  /** To the primary process; none where this process is the only one. */
  readonly primary?: Link | undefined;
}

/** Bytes of an id, which are 22 letters of base64url. */
const ID = 16;
/** Bytes fetched together: a call takes as long for few as for many. */
const FETCHED = 1_024 * ID;

export function createIds({ randomBytes }: Pick<Parts, 'randomBytes'>): () => string {
  let bytes: Buffer = Buffer.alloc(0);
  let used = 0;
  return () => {
    if (used === bytes.length) [bytes, used] = [randomBytes(FETCHED), 0];
    return bytes.toString('base64url', used, (used += ID));
  };
}

/** Tells each event to all. A fault of one ends neither request nor process; others hear of it. */
export function tellAll(subscribers: readonly Emit[]): Emit {
  return (event) => {
    for (const subscriber of subscribers) {
      try {
        subscriber(event);
      } catch (error) {
        const tellOthers = tellAll(subscribers.filter((one) => one !== subscriber));
        const message = `the event ${event.type} could not be told`;
        tellOthers({ type: 'warning', message, error });
      }
    }
  };
}

/** Tells events to a listener, and to later subscribers, who then hear the earlier events too. */
export function createHub(listener: Emit) {
  const early: GatewayEvent[] = [];
  const all: Emit[] = [listener, (event) => void early.push(event)];
  return {
    emit: tellAll(all),
    tellTo(subscribers: readonly Emit[]): void {
      early.splice(0).forEach(tellAll(subscribers));
      all.splice(0, all.length, ...subscribers, listener);
    },
  };
}

/**
 * Tells the events of one turn of the event loop together at its end: told one by one between
 * requests they take twice as long. Those of a turn in which the program breaks are lost.
 */
export function tellTogether(emit: Emit): Emit {
  let told: Parameters<Emit>[0][] = [];
  return (event) => {
    if (told.push(event) > 1) return;
    setImmediate(() => {
      const events = told;
      told = [];
      for (const one of events) emit(one);
    });
  };
}
