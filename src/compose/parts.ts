import type { Clock } from '../common/clock.ts';
import type { Emit } from '../common/events.ts';
import type { Link } from '../workers/link.ts';

/** What the whole house is built with and a test may want to hold. */
export interface Parts {
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  /** That many random bytes, fit for keys. */
  readonly randomBytes: (count: number) => Buffer;
  readonly sleep: (milliseconds: number) => Promise<void>;
  readonly emit: Emit;
  /** To the primary process; none where this process is the only one. */
  readonly primary?: Link | undefined;
}

/** Random bytes that are fetched at one time for ids. */
const BLOCK = 4_096;
const ID = 16;

/** Makes ids and tokens of 128 bits, some for each request: from a block of random bytes, 0.3 µs instead of 3. */
export function createIds({ randomBytes }: Pick<Parts, 'randomBytes'>): () => string {
  let block: Buffer = Buffer.alloc(0);
  let next = 0;
  return () => {
    if (next + ID > block.length) [block, next] = [randomBytes(BLOCK), 0];
    next += ID;
    return block.toString('base64url', next - ID, next);
  };
}

/**
 * Tells each event to all. A fault of one subscriber must end neither a request nor the process; the others hear of it,
 * if they can.
 */
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
