import type { Clock } from '../common/clock.ts';
import type { Emit } from '../common/events.ts';
import type { StoredAnswer } from './stored-answer.ts';

/** Names a lock of all gateways; `key` holds the epochs, which `query` outlives. */
export interface FlightLock {
  readonly query: string;
  readonly key: string;
}

/** `nothing`: the last answer could not be shared. `expected`: time of the engine (ms). */
export type Standing =
  | { readonly kind: 'fast' | 'nothing' }
  | { readonly kind: 'lead' | 'wait'; readonly expected: number };

/** Port: locks of all gateways. Rejects when they cannot be reached. All times in ms. */
export interface FlightLocks {
  /** Takes the lock of a slow query if it is free, for `life` without a beat. */
  enter(lock: FlightLock, token: string, life: number, within: number): Promise<Standing>;
  /** False when the lock is no longer of the token. */
  beat(lock: FlightLock, token: string, life: number): Promise<boolean>;
  /** Frees the lock; `nothing`: time for which no gateway need wait. */
  leave(lock: FlightLock, token: string, nothing?: number): Promise<void>;
  markSlow(query: string, milliseconds: number, life: number): Promise<void>;
  unmark(query: string): Promise<void>;
}

export interface Missed {
  readonly lock: FlightLock;
  readonly ttl: number;
  readonly spentMs: number;
  readonly patience: number;
  readonly find: () => Promise<StoredAnswer | undefined>;
  readonly wanted: () => boolean;
}

/** Call when tier 2 has the answer (`reachable`: for others), or may not keep it. Never rejects. */
export type EndTurn = (answer: StoredAnswer | undefined, reachable: boolean) => Promise<void>;
export type SharedFlights = ReturnType<typeof createSharedFlights>;
/** A slow query (ms): waiting makes its answer up to {@link LONGEST_PAUSE} late. */
const SLOW = 1_000;
/** A query is known as slow at least this long (ms): loads often come once a day. */
const SHORTEST_MARK = 24 * 3_600_000;
/** Silence after which a lock is free (ms). */
const LOCK_LIFE = 6_000;
const BEAT = 2_000;
/** After an answer that could not be shared, no gateway waits this long (ms). */
const NOTHING_FOR = 5_000;
/** Pauses between two looks grow (ms). */
const FIRST_PAUSE = 25;
const LONGEST_PAUSE = 250;
const PAUSE_GROWTH = 1.5;
/** Longest wait (ms), beside twice the engine's time for the last answer. */
const SPARE = 3_000;
/** Longest wait of a miss for Redis (ms), in all: the deadline of one look-up. */
const LOOKUP_BUDGET = 100;
/** Failures in a row before a waiting gateway asks itself. */
const MAX_FAILURES = 6;
/**
 * Single flight across gateways, for slow queries: whatever fails, more than one asks. The answer
 * that a gateway takes has the full key of its request, and so the epochs captured when that came:
 * it began after every purge acknowledged by then.
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
      // It may have the lock without knowing it.
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

  /** @param token of the lock, if this gateway asks for all */
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
    /** Waits for another gateway that asks the same under these epochs, if it is slow. */
    async enter(missed: Missed) {
      const token = options.newToken();
      const { lock, find, spentMs } = missed;
      const first = await look(lock, token, LOOKUP_BUDGET - spentMs);
      if (first?.kind !== 'lead' && first?.kind !== 'wait') return ask(missed, false);
      const waited =
        first.kind === 'wait' ? await waitOut(missed, token, first.expected) : first.kind;
      if (waited === 'unwanted') return ask(missed, true);
      // Lock or query may have changed after the look for the entry.
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
