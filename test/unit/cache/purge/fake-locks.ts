import type { Clock } from '../../../../src/common/clock.ts';
import type { FlightLocks } from '../../../../src/cache/shared-flights.ts';
import { quiet, type HandClock } from '../fakes.ts';

export interface FakeLocks extends FlightLocks {
  /** Queries that are known to be slow, with what the engine needed (ms). */
  readonly slow: Map<string, number>;
  /** Who holds the lock of a full key now: a token, or `nothing`. */
  holder(key: string): string | undefined;
  /** Gives the lock away, for ever unless told. */
  seize(key: string, token: string, life?: number): void;
  /** Held here before a lock is looked at. */
  beforeEnter: () => Promise<void>;
  /** Whether they can be reached. */
  reachable: boolean;
  readonly enters: number;
  readonly beats: number;
  readonly leaves: number;
}

/** Places that several gateways see, as in Redis. */
export function fakeLocks(clock: Clock): FakeLocks {
  const slow = new Map<string, number>();
  const locks = new Map<string, { readonly holder: string; readonly until: number }>();
  const count = { enters: 0, beats: 0, leaves: 0 };

  function reached(): void {
    if (!fake.reachable) throw new Error('the locks cannot be reached');
  }
  function holder(key: string): string | undefined {
    const place = locks.get(key);
    return place !== undefined && place.until > clock.now() ? place.holder : undefined;
  }
  function hold(key: string, token: string, life: number): void {
    locks.set(key, { holder: token, until: clock.now() + life });
  }

  const fake: FakeLocks = {
    slow,
    holder,
    seize: (key, token, life = Infinity) => hold(key, token, life),
    beforeEnter: async () => {},
    reachable: true,
    async enter({ query, key }, token, life) {
      count.enters += 1;
      await fake.beforeEnter();
      reached();
      const expected = slow.get(query);
      if (expected === undefined) return { kind: 'fast' };
      const held = holder(key);
      if (held === 'nothing') return { kind: 'nothing' };
      if (held !== undefined && held !== token) return { kind: 'wait', expected };
      hold(key, token, life);
      return { kind: 'lead', expected };
    },
    async beat({ key }, token, life) {
      count.beats += 1;
      reached();
      if (holder(key) !== token) return false;
      hold(key, token, life);
      return true;
    },
    async leave({ key }, token, nothing) {
      count.leaves += 1;
      reached();
      if (holder(key) !== token) return;
      if (nothing === undefined) locks.delete(key);
      else hold(key, 'nothing', nothing);
    },
    async markSlow(query, milliseconds) {
      reached();
      slow.set(query, milliseconds);
    },
    async unmark(query) {
      reached();
      slow.delete(query);
    },
    get enters() {
      return count.enters;
    },
    get beats() {
      return count.beats;
    },
    get leaves() {
      return count.leaves;
    },
  };
  return fake;
}

export interface HandSleep {
  readonly sleep: (milliseconds: number) => Promise<void>;
  /** How long those sleep who sleep now (ms). */
  readonly pauses: readonly number[];
  /** Moves the clock by the longest pause, and wakes all. */
  wake(): Promise<void>;
}

/** Sleep that lasts until a test ends it. */
export function handSleep(clock: HandClock): HandSleep {
  const sleepers: { readonly milliseconds: number; readonly wake: () => void }[] = [];
  return {
    sleep: (milliseconds) =>
      new Promise((wake) => {
        sleepers.push({ milliseconds, wake });
      }),
    get pauses() {
      return sleepers.map(({ milliseconds }) => milliseconds);
    },
    async wake() {
      const woken = sleepers.splice(0);
      clock.advance(Math.max(0, ...woken.map(({ milliseconds }) => milliseconds)));
      for (const { wake } of woken) wake();
      await quiet();
    },
  };
}
