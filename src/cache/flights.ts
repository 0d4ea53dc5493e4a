import { createSemaphore, type Semaphore } from '../common/semaphore.ts';
import type { Clock } from '../common/clock.ts';
import { leaseHolds, leaseStart, type LeaseStart } from '../common/leases.ts';
import type { Verdict } from './fill.ts';
import type { StoredAnswer } from './stored-answer.ts';

/**
 * `late`: waited as long as it may, and no answer has begun. `gone`: its client has. `replica`: the
 * only one that was asked. `turns` lets those who waited go to the engine a few at a time.
 */
export type Landing =
  | (Verdict & { readonly replica: string | undefined; readonly turns: () => Semaphore })
  | 'late'
  | 'gone';
export type Flights = ReturnType<typeof createFlights>;
export type Flight = ReturnType<Flights['lead']>;
/** With more waiters a request leads another flight. */
const MAX_WAITERS = 2_000;
/** Waiters that go to the engine at a time, behind a flight that brought nothing. */
const TURNS = 4;

interface Running {
  readonly since: LeaseStart;
  readonly landing: Promise<Landing>;
  waiters: number;
  unawaited: (() => void) | undefined;
  /** Once the engine answers, it ends as its leader does. */
  answers: boolean;
}

/** Engine requests for equal queries, bound to no client; others join until the deadline. */
export function createFlights(options: { clock: Clock; deadline: () => number }) {
  const { clock, deadline } = options;
  const flights = new Map<string, Running>();
  let waiters = 0;

  function joinable(key: string, youngerThan = Infinity): Running | undefined {
    const flight = flights.get(key);
    if (flight === undefined || flight.waiters >= MAX_WAITERS) return undefined;
    const length = Math.min(youngerThan, deadline());
    return leaseHolds(flight.since, length, leaseStart(clock)) ? flight : undefined;
  }

  return {
    underWay: (key: string, youngerThan?: number) => joinable(key, youngerThan) !== undefined,
    /** Never rejects. Undefined when none is younger than `youngerThan` (ms), or too many wait. */
    join(
      key: string,
      signal: AbortSignal,
      patience: number,
      youngerThan?: number,
    ): Promise<Landing> | undefined {
      const flight = joinable(key, youngerThan);
      if (flight === undefined) return undefined;
      flight.waiters += 1;
      waiters += 1;
      return orSooner(flight, clock, patience, signal).then((awaited) => {
        flight.waiters -= 1;
        waiters -= 1;
        if (flight.waiters === 0) flight.unawaited?.();
        return awaited;
      });
    },
    /** Replaces a flight under way. The caller must let it land. */
    lead(key: string) {
      const { promise: landing, resolve } = Promise.withResolvers<Landing>();
      const since = leaseStart(clock);
      const flight: Running = { since, landing, waiters: 0, unawaited: undefined, answers: false };
      flights.set(key, flight);
      return {
        awaited: () => flight.waiters > 0,
        answers: () => void (flight.answers = true),
        unwanted(signal: AbortSignal): AbortSignal {
          const unwanted = new AbortController();
          const look = () => {
            if (signal.aborted && flight.waiters === 0) unwanted.abort(signal.reason);
          };
          signal.addEventListener('abort', look, { once: true });
          flight.unawaited = look;
          void landing.then(() => signal.removeEventListener('abort', look));
          look();
          return unwanted.signal;
        },
        land(verdict: Verdict, replica?: string): void {
          // A younger one may stand in its place.
          if (flights.get(key) === flight) flights.delete(key);
          // A dead table of the Map may keep the flight and so its client (see WaitQueue).
          flight.unawaited = undefined;
          let turns: Semaphore | undefined;
          resolve({ ...verdict, replica, turns: () => (turns ??= createSemaphore(TURNS, clock)) });
        },
      };
    },
    usage: () => ({ flights: flights.size, waiters }),
  };
}

function orSooner(flight: Running, clock: Clock, milliseconds: number, signal: AbortSignal) {
  const { promise, resolve } = Promise.withResolvers<Landing>();
  const cancel = clock.after(milliseconds, () => {
    if (!flight.answers) resolve('late');
  });
  const onAbort = () => resolve('gone');
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, { once: true });
  void flight.landing.then(resolve);
  return promise.finally(() => {
    cancel();
    signal.removeEventListener('abort', onAbort);
  });
}

export type OrderedFill = ReturnType<ReturnType<typeof createFillOrder>['enter']>;

/**
 * Orders the fills of a key in this process, which the wall clock cannot. Only fills under way are
 * held: one entered after another ended began later.
 */
export function createFillOrder() {
  type Fill = { latest?: { answer: StoredAnswer; began: number; sequence: number } | undefined };
  const underWay = new Map<string, Fill[]>();
  let entered = 0;

  return {
    enter(key: string) {
      const sequence = (entered += 1);
      const own: Fill = {};
      const others = underWay.get(key);
      others?.push(own);
      const all = others ?? [own];
      if (others === undefined) underWay.set(key, all);
      return {
        /** The answer is whole and may be kept. `began`: monotonic (ms). */
        landed(answer: StoredAnswer, began: number): void {
          for (const one of all) {
            const { latest } = one;
            const later = latest && (began - latest.began || sequence - latest.sequence);
            if (later === undefined || later >= 0) one.latest = { answer, began, sequence };
          }
        },
        /** Latest asked for among the answers that landed meanwhile. */
        latest: () => own.latest?.answer,
        end(): void {
          own.latest = undefined;
          const at = all.indexOf(own);
          if (at >= 0) all.splice(at, 1);
          if (all.length === 0) underWay.delete(key);
        },
      };
    },
  };
}
