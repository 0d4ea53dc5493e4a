import type { Clock } from '../clock.ts';
import { createGate, type Gate } from '../gate.ts';
import { leaseHolds, leaseStart, type LeaseStart } from '../lease.ts';
import { createTransientMap } from '../transient-map.ts';
import type { StoredAnswer } from './entries/stored-answer.ts';

/** How a flight ended for those who waited. Without an answer they go to the engine themselves. */
export type Landing =
  | { readonly kind: 'answer'; readonly answer: StoredAnswer }
  | {
      readonly kind: 'nothing';
      /** Lets those who waited go to the engine a few at a time. */
      readonly turns: Gate;
    };

/** One engine request that others may wait for. */
export interface Flight {
  /** When it was entered, which is before its engine request began. */
  readonly since: LeaseStart;
  /** Whether anybody waits for it. */
  awaited(): boolean;
  /** Calls it each time the last request that waits has gone. */
  onUnawaited(tell: () => void): void;
  /** Ends it: takes it off the map and releases all who wait. Calls after the first do nothing. */
  land(answer: StoredAnswer | undefined): void;
}

export interface Flights {
  /**
   * Waits for the flight of this key.
   * @param youngerThan only a flight younger than this (ms) by both clocks is joined
   * @returns undefined when there is none to join (or too many wait already), else how it landed, or
   *   'late' when it did not land before the deadline; rejects with the signal's reason when that aborts
   */
  join(
    key: string,
    signal: AbortSignal,
    youngerThan?: number,
  ): Promise<Landing | 'late'> | undefined;
  /** Whether there is one that could be joined (see {@link Flights.join}). */
  underWay(key: string, youngerThan?: number): boolean;
  /** Enters a flight, which takes the place of one that is under way. The caller must let it land. */
  lead(key: string): Flight;
  /** Flights and waiters now. */
  usage(): { readonly flights: number; readonly waiters: number };
}

/** Beyond this many waiters a request goes to the engine itself. */
const MAX_WAITERS = 2_000;
/** Waiters of a flight that brought nothing go to the engine so many at a time. */
const TURNS = 4;

interface Entry {
  readonly flight: Flight;
  readonly landing: Promise<Landing>;
  waiters: number;
  tellUnawaited?: () => void;
}

/**
 * Single flight: many equal requests, one engine request. The flight belongs to nobody's connection, so a
 * client that goes away harms nobody else.
 *
 * @param options.deadline milliseconds after which a flight is no longer joined nor waited for
 */
export function createFlights(options: { clock: Clock; deadline: number }): Flights {
  const { clock } = options;
  const entries = createTransientMap<string, Entry>();
  let waiters = 0;

  function joinable(key: string, youngerThan = options.deadline): Entry | undefined {
    const entry = entries.get(key);
    if (entry === undefined || entry.waiters >= MAX_WAITERS) return undefined;
    const youngEnough = Math.min(youngerThan, options.deadline);
    return leaseHolds(entry.flight.since, youngEnough, clock) ? entry : undefined;
  }

  return {
    underWay: (key, youngerThan) => joinable(key, youngerThan) !== undefined,
    join(key, signal, youngerThan) {
      const entry = joinable(key, youngerThan);
      if (entry === undefined) return undefined;
      const age = clock.now() - entry.flight.since.now;
      entry.waiters += 1;
      waiters += 1;
      return orSooner(entry.landing, options.deadline - age, signal).finally(() => {
        entry.waiters -= 1;
        waiters -= 1;
        if (entry.waiters === 0) entry.tellUnawaited?.();
      });
    },
    lead(key) {
      const { promise, resolve } = Promise.withResolvers<Landing>();
      const flight: Flight = {
        since: leaseStart(clock),
        awaited: () => entry.waiters > 0,
        onUnawaited(tell) {
          entry.tellUnawaited = tell;
        },
        land(answer) {
          // A flight that was given up for its age, or for a fresh answer, may have been replaced by a younger one.
          if (entries.get(key)?.flight === flight) entries.delete(key);
          resolve(
            answer === undefined
              ? { kind: 'nothing', turns: createGate(TURNS) }
              : { kind: 'answer', answer },
          );
        },
      };
      const entry: Entry = { flight, landing: promise, waiters: 0 };
      entries.set(key, entry);
      return flight;
    },
    usage: () => ({ flights: entries.size(), waiters }),
  };
}

function orSooner<T>(promise: Promise<T>, milliseconds: number, signal: AbortSignal) {
  return new Promise<T | 'late'>((resolve, reject) => {
    const timer = setTimeout(() => resolve('late'), milliseconds);
    timer.unref();
    const onAbort = () => reject(signal.reason as Error);
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    });
  });
}
