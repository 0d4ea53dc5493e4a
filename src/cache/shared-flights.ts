import type { Clock } from '../common/clock.ts';
import type { Emit } from '../common/events.ts';
import type { StoredAnswer } from './stored-answer.ts';

/** Name of a lock that gateways share; `key` holds the epochs, which `query` outlives. */
export interface FlightLock {
  readonly query: string;
  readonly key: string;
}

/** `nothing`: the last answer could not be shared. `expected`: what the engine needed (ms). */
export type Standing =
  | { readonly kind: 'fast' | 'nothing' }
  | { readonly kind: 'lead' | 'wait'; readonly expected: number };

/** Port: locks that all gateways see. Rejects when they cannot be reached. All in ms. */
export interface FlightLocks {
  /** Takes the lock of a slow query if it is free, for `life` without a beat. */
  enter(lock: FlightLock, token: string, life: number, within: number): Promise<Standing>;
  /** Holds the lock for another while. False when it is no longer the token's. */
  beat(lock: FlightLock, token: string, life: number): Promise<boolean>;
  /** Frees the token's lock; with `nothing` it says for so long that no gateway need wait. */
  leave(lock: FlightLock, token: string, nothing?: number): Promise<void>;
  /** Notes for `life` that the engine needed so long. */
  markSlow(query: string, milliseconds: number, life: number): Promise<void>;
  unmark(query: string): Promise<void>;
}

export interface Missed {
  readonly lock: FlightLock;
  readonly ttl: number;
  /** Time spent for tier 2 (ms). */
  readonly spent: number;
  /** How long it may wait for another gateway (ms). */
  readonly patience: number;
  /** Never rejects. */
  readonly find: () => Promise<StoredAnswer | undefined>;
  /** Whether any client still waits. */
  readonly wanted: () => boolean;
}

/** When tier 2 has the answer (`reachable`: for others), or may not keep it. Never rejects. */
export type EndTurn = (answer: StoredAnswer | undefined, reachable: boolean) => Promise<void>;
export type SharedFlights = ReturnType<typeof createSharedFlights>;
/** From here on a query is slow (ms): waiting makes its answer up to {@link LONGEST_PAUSE} late. */
const SLOW = 1_000;
/** Shortest time for which a query is known to be slow (ms): loads often come once a day. */
const SHORTEST_MARK = 24 * 3_600_000;
/** A lock whose holder is silent for so long is free (ms). */
const LOCK_LIFE = 6_000;
const BEAT = 2_000;
/** No gateway waits for so long after an answer that could not be shared (ms). */
const NOTHING_FOR = 5_000;
/** The pauses between two looks grow from the first to the longest (ms). */
const FIRST_PAUSE = 25;
const LONGEST_PAUSE = 250;
const PAUSE_GROWTH = 1.5;
/** Longest wait beyond twice what the engine needed last time (ms). */
const SPARE = 3_000;
/** Longest wait of a miss for Redis in all (ms): the deadline of one look-up. */
const LOOKUP_BUDGET = 100;
/** Failures in a row, after which a gateway that waits asks by itself. */
const MAX_FAILURES = 6;
/**
 * Single flight across gateways, for queries known to be slow: whatever fails, more than one asks.
 * The answer that a gateway takes has the full key of its request, thus the epochs that this
 * captured when it came: it began after every purge that had been acknowledged by then.
 * @param options.longestFlight for how long a gateway holds a lock at most (ms)
 */
export function createSharedFlights(options: {
  locks: FlightLocks;
  clock: Clock;
  sleep: (milliseconds: number) => Promise<void>;
  newToken: () => string;
  longestFlight: () => number;
  emit: Emit;
}) {
  const { locks, clock, emit } = options;
  const told = (error: unknown) => emit({ type: 'redis-failed', operation: 'flights', error });

  async function look(lock: FlightLock, token: string, within = LOOKUP_BUDGET) {
    if (within <= 0) return undefined;
    try {
      return await locks.enter(lock, token, LOCK_LIFE, within);
    } catch (error) {
      told(error);
      // It may have taken the lock without this gateway hearing of it.
      locks.leave(lock, token).catch(() => {});
      return undefined;
    }
  }

  async function waitOut(missed: Missed, token: string, expected: number) {
    const { lock, find, wanted } = missed;
    const began = clock.now();
    const bound = Math.min(missed.patience, 2 * expected + SPARE);
    let failures = 0;
    for (let pause = FIRST_PAUSE; ; pause = Math.min(pause * PAUSE_GROWTH, LONGEST_PAUSE)) {
      await options.sleep(pause);
      if (!wanted()) return 'unwanted';
      const answer = await find();
      if (answer !== undefined) return answer;
      if (clock.now() - began >= bound) return 'late';
      const standing = await look(lock, token);
      if (standing !== undefined && standing.kind !== 'wait') return standing.kind;
      failures = standing === undefined ? failures + 1 : 0;
      if (failures === MAX_FAILURES) return 'late';
    }
  }

  /** Returns what ends that. */
  function hold(lock: FlightLock, token: string): () => void {
    const until = clock.now() + options.longestFlight();
    const stop = clock.every(BEAT, () => {
      if (clock.now() >= until) return stop();
      locks.beat(lock, token, LOCK_LIFE).then((held) => {
        if (!held) stop();
      }, told);
    });
    return stop;
  }

  /** Asks the engine. @param token under which this gateway holds the lock, if it asks for all */
  function ask({ lock, ttl }: Missed, knownSlow: boolean, token?: string) {
    const letGo = token === undefined ? undefined : hold(lock, token);
    let ended = false;
    const end: EndTurn = async (answer, reachable) => {
      if (ended) return;
      ended = true;
      letGo?.();
      const nothing = answer !== undefined && reachable ? undefined : NOTHING_FOR;
      if (token !== undefined) await locks.leave(lock, token, nothing).catch(told);
      if (answer === undefined) return;
      const took = answer.engineMilliseconds;
      const life = Math.max(SHORTEST_MARK, 2 * ttl);
      if (took >= SLOW) await locks.markSlow(lock.query, took, life).catch(told);
      else if (knownSlow) await locks.unmark(lock.query).catch(told);
    };
    return { kind: 'ask' as const, end };
  }

  return {
    /** Waits for another gateway that asks the same under these epochs, if that is slow. */
    async enter(missed: Missed) {
      const token = options.newToken();
      const { lock, find, spent } = missed;
      const first = await look(lock, token, LOOKUP_BUDGET - spent);
      if (first?.kind !== 'lead' && first?.kind !== 'wait') return ask(missed, false);
      const waited =
        first.kind === 'wait' ? await waitOut(missed, token, first.expected) : first.kind;
      if (waited === 'unwanted') return ask(missed, true);
      // The lock may have become free, or the query fast, after this gateway had looked for the
      // entry.
      const answer = typeof waited === 'string' ? await find() : waited;
      if (answer !== undefined) {
        if (waited === 'lead') await locks.leave(lock, token).catch(told);
        emit({ type: 'shared-flight', end: 'joined' });
        return { kind: 'answer' as const, answer };
      }
      const leads = waited === 'lead';
      emit({ type: 'shared-flight', end: leads ? 'led' : 'gave-up' });
      return ask(missed, true, leads ? token : undefined);
    },
  };
}
