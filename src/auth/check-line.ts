import { LRUCache } from 'lru-cache';
import { type Waiter, waitIn, type WaitQueue } from '../common/semaphore.ts';
import type { Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';

/** Longest wait of a login: a proxy or a person waits for no more either. */
const LONGEST_WAIT_MS = 30_000;
/** Most memory of all that wait together; beyond it the last one of the longest line goes. */
const MOST_BYTES = 32 * 1024 * 1024;
/** The duration of a check is the mean of about this many of the latest. */
const LATEST = 16;

/** Networks of which it is known how the latest check ended. */
const MOST_KNOWN = 10_000;

/** A login that is to be checked. */
export interface Place {
  /** The network whose turns it shares. Undefined: it goes first. */
  readonly network: string | undefined;
  readonly bytes: number;
  /** Ends its waiting, with the error that its clients are told. */
  readonly leaving: AbortController;
  /** Makes that error, where its network failed too often. */
  readonly throttled: (retryAfter: number) => GatewayError;
}

type Line = WaitQueue<Waiter & Place>;

/**
 * Checks of passwords, so many at one time; they take a core each, or a connection to the engine. Networks have their turns, those
 * whose latest login was wrong behind all others, and those whose latest was right at least every second one: so a flood of wrong
 * ones, also from addresses that are always new, makes right ones from elsewhere wait for little.
 */
export function createCheckLine(atOnce: number, clock: Pick<Clock, 'now'>) {
  const preferred: Line = [];
  /** In the order of their turns. */
  const networks = new Map<string, Line>();
  const wasRight = new LRUCache<string, boolean>({ max: MOST_KNOWN });
  /** Whether the latest turn was that of a network of which nothing was known. */
  let wasUnknown = false;
  let running = 0;
  let bytes = 0;
  /** Checks since none was running: earlier ones tell nothing of now. */
  let measured = 0;
  let duration = 0;

  /** Milliseconds until the turn of one that would come now. */
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
    // Behind all others.
    if (line.length > 1) networks.set(network, line);
    return line[0];
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
    /** Told how a login of a network was. */
    ended: (network: string, right: boolean) => void wasRight.set(network, right),
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

interface Lines {
  readonly preferred: Line;
  readonly networks: ReadonlyMap<string, Line>;
  readonly wasRight: Pick<LRUCache<string, boolean>, 'get'>;
}
/** How many logins have their turn before one that would come now. */
function aheadOf(network: string | undefined, { preferred, networks, wasRight }: Lines): number {
  let ahead = preferred.length;
  if (network === undefined) return ahead;
  let unknown = 0;
  const own = networks.get(network)?.length ?? 0;
  const isRight = wasRight.get(network);
  for (const [other, { length }] of networks) {
    const theirs = wasRight.get(other);
    if (other === network) ahead += own;
    // Nothing says yet that its others come before.
    else if (theirs === undefined) unknown += Math.min(length, 1);
    else if (theirs === (isRight ?? true)) ahead += Math.min(length, own + 1);
    else if (theirs) ahead += length;
  }
  return ahead + (isRight ? Math.min(unknown, ahead + 1) : unknown);
}

const TOO_MANY =
  'The login could not be checked, because too many others wait for that. Nothing is said of whether it is right. Try again later.';
