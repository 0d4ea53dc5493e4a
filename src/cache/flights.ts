import { leaseHolds, leaseStart, type Clock, type LeaseStart } from '../common/clock.ts';
import { createGate, type Gate } from '../common/body-account.ts';
import type { StoredAnswer } from './stored-answer.ts';

/** What a flight brought for those who wait for it. */
export type Landing =
  | { readonly kind: 'answer'; readonly answer: StoredAnswer }
  /** The engine failed: it was asked for all of them. `replica` is the only one that was asked, if there was one. */
  | { readonly kind: 'failed'; readonly error: unknown; readonly replica: string | undefined }
  /** Nothing that may be shared. */
  | { readonly kind: 'unshared' };

/** How the wait for a flight ended. */
export type Awaited =
  /** `turns` lets those who waited go to the engine a few at a time. */
  | (Landing & { readonly turns: Gate })
  /** `late`: it did not land before the deadline. `gone`: the client went away. */
  | { readonly kind: 'late' }
  | { readonly kind: 'gone' };

/** One engine request that others may wait for. */
export interface Flight {
  /** Whether any client waits for it. */
  awaited(): boolean;
  /** Calls it each time the last request that waits has gone. */
  onUnawaited(tell: () => void): void;
  /** Ends it: takes it off the map and releases all who wait. Calls after the first do nothing. */
  land(landing: Landing): void;
}

export interface Flights {
  /**
   * Waits for the flight of this key. Never rejects.
   * @param youngerThan only a flight younger than this (ms) by both clocks is joined
   * @returns undefined when there is none to join (or too many wait already)
   */
  join(key: string, signal: AbortSignal, youngerThan?: number): Promise<Awaited> | undefined;
  /** Whether there is one that could be joined (see {@link Flights.join}). */
  underWay(key: string, youngerThan?: number): boolean;
  /** Enters a flight, which takes the place of one that is under way. The caller must let it land. */
  lead(key: string): Flight;
  /** Flights and waiters now. */
  usage(): { readonly flights: number; readonly waiters: number };
}

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
export function createFlights(options: { clock: Clock; deadline: () => number }): Flights {
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
    underWay: (key, youngerThan) => joinable(key, youngerThan) !== undefined,
    join(key, signal, youngerThan) {
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
        if (awaited.kind === 'late' && entries.get(key) === entry) entries.delete(key);
        return awaited;
      });
    },
    lead(key) {
      const { promise, resolve } = Promise.withResolvers<Awaited>();
      const entry: Entry = { since: leaseStart(clock), landing: promise, waiters: 0 };
      entries.set(key, entry);
      return {
        awaited: () => entry.waiters > 0,
        onUnawaited(tell) {
          entry.tellUnawaited = tell;
        },
        land(landing) {
          // A flight that was given up for its age, or for a fresh answer, may have been replaced by a younger one.
          if (entries.get(key) === entry) entries.delete(key);
          resolve({ ...landing, turns: createGate(TURNS) });
        },
      };
    },
    usage: () => ({ flights: entries.size, waiters }),
  };
}

function orSooner(
  landing: Promise<Awaited>,
  milliseconds: number,
  signal: AbortSignal,
): Promise<Awaited> {
  const { promise, resolve } = Promise.withResolvers<Awaited>();
  const timer = setTimeout(resolve, milliseconds, { kind: 'late' }).unref();
  const onAbort = () => resolve({ kind: 'gone' });
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, { once: true });
  void landing.then(resolve);
  return promise.finally(() => {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  });
}
