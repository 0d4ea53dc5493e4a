import { LRUCache } from 'lru-cache';
import { type Waiter, waitIn, type WaitQueue } from '../common/semaphore.ts';
import type { Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';

/** A proxy or a person would wait no longer either. */
const LONGEST_WAIT_MS = 30_000;
/** Limit of all waiting logins; beyond it, the last one of the longest line is refused. */
const MOST_BYTES = 32 * 1024 * 1024;
/** The duration of a check is the mean of about this many. */
const LATEST = 16;

const MOST_KNOWN = 10_000;

export interface Place {
  /** The network whose turns it shares; undefined goes first. */
  readonly network: string | undefined;
  readonly bytes: number;
  /** Ends the wait, with the error for its clients. */
  readonly leaving: AbortController;
  readonly throttled: (retryAfter: number) => GatewayError;
}

type Line = WaitQueue<Waiter & Place>;

/**
 * Runs password checks, each of which takes a core or a connection to the engine. Networks take
 * turns: those whose latest login was wrong come last, those whose latest was right have at least
 * every second turn. So a flood of wrong logins, also from new addresses, hardly delays right ones.
 */
export function createCheckLine(atOnce: number, clock: Pick<Clock, 'now'>) {
  const preferred: Line = [];
  const networks = new Map<string, Line>();
  const wasRight = new LRUCache<string, boolean>({ max: MOST_KNOWN });
  let wasUnknown = false;
  let running = 0;
  let bytes = 0;
  /** Checks since the line was last idle; earlier ones tell nothing about now. */
  let measured = 0;
  let duration = 0;

  /** Milliseconds until the turn of a new login. */
  const expected = (network?: string) =>
    (aheadOf(network, { preferred, networks, wasRight }) * duration) / atOnce;

  const full = (network?: string) => {
    const retryAfter = Math.max(1, Math.ceil(expected(network) / 1000));
    return new GatewayError('login-queue', TOO_MANY, { retryAfter });
  };

  async function wait(place: Place): Promise<void> {
    const { network, leaving } = place;
    const line = network === undefined ? preferred : (networks.get(network) ?? []);
    if (expected(network) > LONGEST_WAIT_MS) throw full(network);
    if (network !== undefined) networks.set(network, line);
    bytes += place.bytes;
    const late = { after: LONGEST_WAIT_MS, error: () => full(network) };
    const entering = waitIn(line, place, leaving.signal, late);
    if (bytes > MOST_BYTES) {
      let longest = line === preferred ? [] : line;
      for (const one of networks.values()) if (one.length > longest.length) longest = one;
      const last = longest.at(-1);
      last?.leaving.abort(full(last.network));
    }
    await entering.finally(() => (bytes -= place.bytes));
  }

  function next(): Waiter | undefined {
    if (preferred.length > 0) return preferred[0];
    let turn: { readonly network: string; readonly line: Line; readonly rank: number } | undefined;
    for (const [network, line] of networks) {
      if (line.length === 0) networks.delete(network);
      const isRight = wasRight.get(network);
      const rank = isRight === undefined && wasUnknown ? 1 : Number(isRight !== false) * 2;
      if (line.length > 0 && rank > (turn?.rank ?? -1)) turn = { network, line, rank };
      if (turn?.rank === 2) break;
    }
    if (turn === undefined) return undefined;
    const { network, line } = turn;
    wasUnknown = !wasRight.has(network);
    networks.delete(network);
    if (line.length > 1) networks.set(network, line);
    return line[0];
  }

  return {
    /** @throws GatewayError `login-queue`; the reason of `leaving`; errors of the check */
    async check<T>(place: Place, check: () => Promise<T>): Promise<T> {
      const { signal } = place.leaving;
      signal.throwIfAborted();
      if (running < atOnce) running += 1;
      else await wait(place);
      const began = clock.now();
      try {
        // The client may have left in the turn in which its own came.
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
    ended: (network: string, right: boolean) => void wasRight.set(network, right),
    /** Refuses waiting logins of a network. @param retryAfter seconds */
    throttle(network: string, retryAfter: number): void {
      // Each abort changes the line.
      for (const { leaving, throttled } of networks.get(network)?.slice() ?? []) {
        leaving.abort(throttled(retryAfter));
      }
    },
    waiting: () => networks.values().reduce((sum, line) => sum + line.length, preferred.length),
  };
}

interface Lines {
  readonly preferred: Line;
  readonly networks: ReadonlyMap<string, Line>;
  readonly wasRight: Pick<LRUCache<string, boolean>, 'get'>;
}
function aheadOf(network: string | undefined, { preferred, networks, wasRight }: Lines): number {
  let ahead = preferred.length;
  if (network === undefined) return ahead;
  let unknown = 0;
  const own = networks.get(network)?.length ?? 0;
  const isRight = wasRight.get(network);
  for (const [other, { length }] of networks) {
    const theirs = wasRight.get(other);
    if (other === network) ahead += own;
    // Only its next login is sure to come first.
    else if (theirs === undefined) unknown += Math.min(length, 1);
    else if (theirs === (isRight ?? true)) ahead += Math.min(length, own + 1);
    else if (theirs) ahead += length;
  }
  return ahead + (isRight ? Math.min(unknown, ahead + 1) : unknown);
}

const TOO_MANY =
  'The login could not be checked, because too many others wait for that. Nothing is said of whether it is right. Try again later.';
