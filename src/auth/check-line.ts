import { type Queue, type Waiting, waitIn } from '../common/body-account.ts';
import type { Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';

/** Also what a proxy or a person waits for at most (ms). */
const LONGEST_WAIT = 30_000;
/** Of all that wait together; beyond it the last one of the longest line goes. */
const MOST_BYTES = 32 * 1024 * 1024;
/** The duration of a check is the mean of about so many of the latest. */
const LATEST = 16;

/** A login that is to be checked. */
export interface Place {
  /** Whose turns it shares. Undefined: it goes first. */
  readonly network: string | undefined;
  readonly bytes: number;
  /** Ends its waiting, with the error that its clients are told. */
  readonly leaving: AbortController;
  /** That error, where its network failed too often. */
  readonly throttled: (retryAfter: number) => GatewayError;
}

type Line = Queue<Waiting & Place>;

/**
 * Checks of passwords, so many at one time; they take a core each, or a connection to the engine. Networks have their turns, so
 * that a flood from one of them makes logins from another one wait for little.
 */
export function createCheckLine(atOnce: number, clock: Pick<Clock, 'now'>) {
  const preferred: Line = [];
  /** In the order of their turns. */
  const networks = new Map<string, Line>();
  let running = 0;
  let bytes = 0;
  /** Of the checks since none was running: earlier ones tell nothing of now. */
  let measured = 0;
  let duration = 0;

  /** Milliseconds until the turn of one that would come now. */
  function expected(line: Line): number {
    let ahead = preferred.length;
    if (line !== preferred) {
      for (const { length } of networks.values()) ahead += Math.min(length, line.length + 1);
    }
    return (ahead * duration) / atOnce;
  }

  const full = (line: Line) => {
    const retryAfter = Math.max(1, Math.ceil(expected(line) / 1000));
    return new GatewayError('login-queue', TOO_MANY, { retryAfter });
  };

  async function wait(place: Place): Promise<void> {
    const { network, leaving } = place;
    const line = network === undefined ? preferred : (networks.get(network) ?? []);
    if (expected(line) > LONGEST_WAIT) throw full(line);
    if (network !== undefined) networks.set(network, line);
    bytes += place.bytes;
    const late = { after: LONGEST_WAIT, error: () => full(line), gaveUp() {} };
    const entering = waitIn(line, place, leaving.signal, late);
    if (bytes > MOST_BYTES) {
      let longest = line === preferred ? [] : line;
      for (const one of networks.values()) if (one.length > longest.length) longest = one;
      longest.at(-1)?.leaving.abort(full(longest));
    }
    await entering.finally(() => (bytes -= place.bytes));
  }

  function next(): Waiting | undefined {
    if (preferred.length > 0) return preferred[0];
    for (const [network, line] of networks) {
      networks.delete(network);
      // All of it may have gone.
      if (line.length === 0) continue;
      // Behind all others.
      if (line.length > 1) networks.set(network, line);
      return line[0];
    }
    return undefined;
  }

  return {
    /** @throws GatewayError `login-queue`; why it left; what the check throws */
    async check<T>(place: Place, check: () => Promise<T>): Promise<T> {
      const { signal } = place.leaving;
      signal.throwIfAborted();
      if (running < atOnce) running += 1;
      else await wait(place);
      const began = clock.now();
      try {
        // It may have left in the very turn in which its own came.
        signal.throwIfAborted();
        const checked = await check();
        measured = Math.min(measured + 1, LATEST);
        duration += (clock.now() - began - duration) / measured;
        return checked;
      } finally {
        const following = next();
        if (following === undefined) running -= 1;
        else following.enter();
        if (running === 0) measured = duration = 0;
      }
    },
    /** Refuses those of a network that wait, but for those that go first. @param retryAfter seconds */
    throttle(network: string, retryAfter: number): void {
      // Each leaves the line then.
      for (const { leaving, throttled } of networks.get(network)?.slice() ?? []) {
        leaving.abort(throttled(retryAfter));
      }
    },
    waiting: () => networks.values().reduce((sum, line) => sum + line.length, preferred.length),
  };
}

const TOO_MANY =
  'The login could not be checked, because too many others wait for that. Nothing is said of whether it is right. Try again later.';
