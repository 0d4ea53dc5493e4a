import { createGate, type Gate } from '../common/body-account.ts';
import type { Clock } from '../common/clock.ts';
import { leaseHolds, leaseStart, type LeaseStart } from '../common/leases.ts';
import type { Verdict } from './fill.ts';
import type { StoredAnswer } from './stored-answer.ts';

/** How the wait for a flight ended. */
export type Awaited =
  /**
   * With what its fill brought. `replica` is the only one that was asked, if there was one; `turns` lets those who waited
   * go to the engine a few at a time.
   */
  | (Verdict & { readonly replica: string | undefined; readonly turns: Gate })
  /** `late`: it did not land before the deadline. `gone`: the client went away. */
  | 'late'
  | 'gone';

export type Flights = ReturnType<typeof createFlights>;
/** One engine request that others may wait for. */
export type Flight = ReturnType<Flights['lead']>;

/** Beyond this many waiters a request leads another flight. */
const MAX_WAITERS = 2_000;
/** Waiters of a flight that brought nothing go to the engine so many at a time. */
const TURNS = 4;

interface Entry {
  /** When it was entered, which is before its engine request began. */
  readonly since: LeaseStart;
  readonly landing: Promise<Awaited>;
  waiters: number;
  tellUnawaited?: () => void;
}

/**
 * Single flight: many equal requests, one engine request. The flight belongs to no connection, so a client that goes
 * away harms no other.
 *
 * @param options.deadline milliseconds after which a flight is no longer joined nor waited for
 */
export function createFlights(options: { clock: Clock; deadline: () => number }) {
  const { clock } = options;
  const entries = new Map<string, Entry>();
  let waiters = 0;

  function joinable(key: string, youngerThan = Infinity): Entry | undefined {
    const entry = entries.get(key);
    if (entry === undefined || entry.waiters >= MAX_WAITERS) return undefined;
    const youngEnough = Math.min(youngerThan, options.deadline());
    return leaseHolds(entry.since, youngEnough, clock) ? entry : undefined;
  }

  return {
    /** Whether there is one that could be joined. */
    underWay: (key: string, youngerThan?: number) => joinable(key, youngerThan) !== undefined,
    /**
     * Waits for the flight of this key. Never rejects.
     * @param youngerThan only a flight younger than this (ms) by both clocks is joined
     * @returns undefined when there is none to join (or too many wait already)
     */
    join(key: string, signal: AbortSignal, youngerThan?: number): Promise<Awaited> | undefined {
      const entry = joinable(key, youngerThan);
      if (entry === undefined) return undefined;
      const left = options.deadline() - (clock.now() - entry.since.now);
      entry.waiters += 1;
      waiters += 1;
      return orSooner(entry.landing, left, signal).then((awaited) => {
        entry.waiters -= 1;
        waiters -= 1;
        if (entry.waiters === 0) entry.tellUnawaited?.();
        // The first who gives it up leads another one, which the others find.
        if (awaited === 'late' && entries.get(key) === entry) entries.delete(key);
        return awaited;
      });
    },
    /** Enters a flight, which takes the place of one that is under way. The caller must let it land. */
    lead(key: string) {
      const { promise, resolve } = Promise.withResolvers<Awaited>();
      const entry: Entry = { since: leaseStart(clock), landing: promise, waiters: 0 };
      entries.set(key, entry);
      return {
        /** Whether any client waits for it. */
        awaited: () => entry.waiters > 0,
        /** Calls it each time the last request that waits has gone. */
        onUnawaited(tell: () => void): void {
          entry.tellUnawaited = tell;
        },
        /** Ends it: takes it off the map and releases all who wait. Calls after the first do nothing. */
        land(landing: Verdict, replica?: string): void {
          // A flight that was given up for its age, or for a fresh answer, may have been replaced by a younger one.
          if (entries.get(key) === entry) entries.delete(key);
          resolve({ ...landing, replica, turns: createGate(TURNS) });
        },
      };
    },
    /** Flights and waiters now. */
    usage: () => ({ flights: entries.size, waiters }),
  };
}

function orSooner(landing: Promise<Awaited>, milliseconds: number, signal: AbortSignal) {
  const { promise, resolve } = Promise.withResolvers<Awaited>();
  const timer = setTimeout(resolve, milliseconds, 'late').unref();
  const onAbort = () => resolve('gone');
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, { once: true });
  void landing.then(resolve);
  return promise.finally(() => {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  });
}

/** One fill that is under way, from before its engine request until nothing of it is left to be kept. */
export type OrderedFill = ReturnType<ReturnType<typeof createFillOrder>['enter']>;

/**
 * The order of the fills of each key within this process. The wall clock cannot tell it: it is set back, and two fills
 * can begin in one millisecond. What other processes do is not seen here.
 *
 * A fill that is entered after another one ended began later; so only those that are under way are held.
 */
export function createFillOrder() {
  /** `began`: when its engine request did; those of one moment in the order in which they were entered. */
  type Fill = { latest?: { answer: StoredAnswer; began: number; sequence: number } };
  const underWay = new Map<string, Set<Fill>>();
  let entered = 0;

  return {
    enter(key: string) {
      const sequence = (entered += 1);
      const own: Fill = {};
      const all = underWay.get(key) ?? new Set();
      underWay.set(key, all.add(own));
      return {
        /**
         * Notes that its answer is whole and may be kept.
         * @param began when its engine request began, by the clock that never steps back (ms)
         */
        landed(answer: StoredAnswer, began: number): void {
          for (const one of all) {
            const { latest } = one;
            const later = latest && (began - latest.began || sequence - latest.sequence);
            if (later === undefined || later >= 0) one.latest = { answer, began, sequence };
          }
        },
        /**
         * Of this answer and those of other fills of the key that landed while it was under way, the one whose engine
         * request began last; undefined when none of them landed. Another one than its own has been kept by its own
         * fill, as far as the tiers let it.
         */
        latest: () => own.latest?.answer,
        end(): void {
          all.delete(own);
          if (all.size === 0) underWay.delete(key);
        },
      };
    },
  };
}
