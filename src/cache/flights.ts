import { createSemaphore, type Semaphore } from '../common/semaphore.ts';
import type { Clock } from '../common/clock.ts';
import { leaseHolds, leaseStart, type LeaseStart } from '../common/leases.ts';
import type { Verdict } from './fill.ts';
import type { StoredAnswer } from './stored-answer.ts';

/**
 * `late`: it has waited as long as it may, and no answer has begun; `gone`: with the client.
 * `replica`: the only one that was asked. `turns` let those who waited go to the engine a few at a
 * time.
 */
export type Landing =
  | (Verdict & { readonly replica: string | undefined; readonly turns: () => Semaphore })
  | 'late'
  | 'gone';
export type Flights = ReturnType<typeof createFlights>;
export type Flight = ReturnType<Flights['lead']>;
/** Beyond this many waiters a request leads another flight. */
const MAX_WAITERS = 2_000;
/** Waiters of a flight that brought nothing go to the engine so many at a time. */
const TURNS = 4;

interface Entry {
  /** Before its engine request began. */
  readonly since: LeaseStart;
  readonly landing: Promise<Landing>;
  waiters: number;
  unawaited: (() => void) | undefined;
  /** Whether the engine has begun to answer: from then on it ends as its leader does. */
  answers: boolean;
}

/** One engine request for equal ones, bound to no client, which others join until the deadline. */
export function createFlights(options: { clock: Clock; deadline: () => number }) {
  const { clock, deadline } = options;
  const entries = new Map<string, Entry>();
  let waiters = 0;

  function joinable(key: string, youngerThan = Infinity): Entry | undefined {
    const entry = entries.get(key);
    if (entry === undefined || entry.waiters >= MAX_WAITERS) return undefined;
    const length = Math.min(youngerThan, deadline());
    return leaseHolds(entry.since, length, leaseStart(clock)) ? entry : undefined;
  }

  return {
    underWay: (key: string, youngerThan?: number) => joinable(key, youngerThan) !== undefined,
    /**
     * Never rejects. Undefined when none is younger than `youngerThan` (ms), or too many wait.
     * @param patience for how long it may wait until an answer begins (ms)
     */
    join(
      key: string,
      signal: AbortSignal,
      patience: number,
      youngerThan?: number,
    ): Promise<Landing> | undefined {
      const entry = joinable(key, youngerThan);
      if (entry === undefined) return undefined;
      entry.waiters += 1;
      waiters += 1;
      return orSooner(entry, clock, patience, signal).then((awaited) => {
        entry.waiters -= 1;
        waiters -= 1;
        if (entry.waiters === 0) entry.unawaited?.();
        return awaited;
      });
    },
    /** Takes the place of one that is under way. The caller must let it land. */
    lead(key: string) {
      const { promise: landing, resolve } = Promise.withResolvers<Landing>();
      const since = leaseStart(clock);
      const entry: Entry = { since, landing, waiters: 0, unawaited: undefined, answers: false };
      entries.set(key, entry);
      return {
        awaited: () => entry.waiters > 0,
        /** Tells that the engine has begun to answer. */
        answers: () => void (entry.answers = true),
        /** Aborted when the client that leads has gone and no other waits. */
        unwanted(signal: AbortSignal): AbortSignal {
          const unwanted = new AbortController();
          const look = () => {
            if (signal.aborted && entry.waiters === 0) unwanted.abort(signal.reason);
          };
          signal.addEventListener('abort', look, { once: true });
          entry.unawaited = look;
          void landing.then(() => signal.removeEventListener('abort', look));
          look();
          return unwanted.signal;
        },
        /** Releases all who wait. Calls after the first do nothing. */
        land(verdict: Verdict, replica?: string): void {
          // A younger one may stand in its place.
          if (entries.get(key) === entry) entries.delete(key);
          // A dead table of the Map may keep the entry, and through this its client (see Queue).
          entry.unawaited = undefined;
          let turns: Semaphore | undefined;
          resolve({ ...verdict, replica, turns: () => (turns ??= createSemaphore(TURNS, clock)) });
        },
      };
    },
    usage: () => ({ flights: entries.size, waiters }),
  };
}

function orSooner(entry: Entry, clock: Clock, milliseconds: number, signal: AbortSignal) {
  const { promise, resolve } = Promise.withResolvers<Landing>();
  const cancel = clock.after(milliseconds, () => {
    if (!entry.answers) resolve('late');
  });
  const onAbort = () => resolve('gone');
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, { once: true });
  void entry.landing.then(resolve);
  return promise.finally(() => {
    cancel();
    signal.removeEventListener('abort', onAbort);
  });
}

/** A fill from before its engine request until nothing of it is left to be kept. */
export type OrderedFill = ReturnType<ReturnType<typeof createFillOrder>['enter']>;

/**
 * The order of the fills of a key in this process, which the wall clock cannot tell. Only fills
 * under way are held: one that is entered after another ended began later.
 */
export function createFillOrder() {
  /** `began`: of the engine request. */
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
        /** Its answer is whole and may be kept. `began` by the monotonic clock (ms). */
        landed(answer: StoredAnswer, began: number): void {
          for (const one of all) {
            const { latest } = one;
            const later = latest && (began - latest.began || sequence - latest.sequence);
            if (later === undefined || later >= 0) one.latest = { answer, began, sequence };
          }
        },
        /** The answer asked for last of those that landed meanwhile; others were kept elsewhere. */
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
