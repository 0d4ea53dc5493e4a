import { oneIn, type Random } from './random.ts';
import type { SimulatedProcess, SimulatedTime } from './time.ts';

/**
 * What a process can do over its link: all; nothing, and it is told so at once; nothing is said, and what it asks is done
 * late or never; what it asks is done, and it hears nothing.
 */
export type Mood = 'up' | 'cut' | 'hung' | 'mute';

/** What a link does to what goes over it. Everything is a hop of some milliseconds in order unless given. */
export interface Habits {
  /** A hop takes at most so long (ms). */
  readonly hopMs: number;
  /** One hop in so many takes up to `slowMs` (0: none). */
  readonly slowOneIn: number;
  readonly slowMs: number;
  /** One hop in so many is lost (0: none). */
  readonly loseOneIn: number;
  /** One request in so many arrives twice, the second time later (0: none). */
  readonly doubleOneIn: number;
  /** One hop in so many does not wait for those that were sent before it (0: all keep their order). */
  readonly reorderOneIn: number;
}

const STEADY: Habits = {
  ...{ hopMs: 4, slowOneIn: 60, slowMs: 200 },
  ...{ loseOneIn: 0, doubleOneIn: 0, reorderOneIn: 0 },
};

/** What ioredis says, which tells the breaker of the product whether it was a silence. */
const silence = () => new Error('Command timed out');
const lost = () => Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });

interface Call {
  readonly arrive: () => void;
  readonly fail: (error: Error) => void;
}

/**
 * The way of one process to what others share. A lane is one connection: its requests arrive in the order in which they
 * were sent, and so do its replies.
 * @param options.home the process that asks, where it may stand still
 * @param options.lanes how long an answer is waited for in each (ms)
 * @param options.onCut told when the connection breaks
 */
export function createLink<Lane extends string>(options: {
  time: SimulatedTime;
  home?: SimulatedProcess | undefined;
  random: Random;
  lanes: Readonly<Record<Lane, number>>;
  habits?: Partial<Habits> | undefined;
  onCut?: (error: Error) => void;
}) {
  const { time, random } = options;
  const { after, whenAwake = (act: () => void) => act() } = options.home ?? { after: time.after };
  const habits = { ...STEADY, ...options.habits };
  const pending = new Set<Call>();
  const held: Call[] = [];
  const latest = new Map<string, number>();
  let mood: Mood = 'up';
  let failedAt = -Infinity;
  /** What each hop takes longer now (ms). */
  let slowBy = 0;
  /** The one connection that is broken while the others are not. */
  let broken: string | undefined;
  const now = time.clock.now;

  function travel(lane: string, way: 'to' | 'from', arrive: () => void): void {
    if (oneIn(random, habits.loseOneIn)) return;
    const usual = oneIn(random, habits.slowOneIn) ? habits.slowMs : habits.hopMs;
    const takes = 1 + slowBy + random(usual);
    const isFree = oneIn(random, habits.reorderOneIn);
    const arrives = isFree ? now() + takes : Math.max(now() + takes, latest.get(lane + way) ?? 0);
    if (!isFree) latest.set(lane + way, arrives);
    time.after(arrives - now(), arrive);
  }

  /** Sends, and sends again what the link doubles. */
  function carry(lane: string, arrive: () => void): void {
    travel(lane, 'to', arrive);
    if (oneIn(random, habits.doubleOneIn)) time.after(random(habits.slowMs), arrive);
  }

  /** Has something done at the other end, and brings its answer back. */
  function ask<T>(lane: Lane, run: () => Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    if (mood === 'cut' || lane === broken) {
      failedAt = now();
      return Promise.reject(lost());
    }
    const giveUp = after(options.lanes[lane], () => call.fail(silence()));
    const hear = (settle: () => void) =>
      whenAwake(() => {
        if (mood !== 'up' || !pending.delete(call)) return;
        giveUp();
        settle();
      });
    const call: Call = {
      arrive() {
        if (mood === 'hung') return void held.push(call);
        // Nothing that was on its way then arrives.
        if (mood === 'cut') return;
        void time.during(run()).then(
          (reply) => travel(lane, 'from', () => hear(() => resolve(reply))),
          (error) => travel(lane, 'from', () => hear(() => reject(error))),
        );
      },
      fail(error) {
        if (!pending.delete(call)) return;
        giveUp();
        failedAt = now();
        reject(error);
      },
    };
    pending.add(call);
    carry(lane, call.arrive);
    return promise;
  }

  return {
    ask,
    /** Sends what no answer comes to: a message to who listens. */
    tell(lane: string, run: () => void): void {
      carry(lane, () => {
        if (mood === 'up') run();
      });
    },
    mood: () => mood,
    /** From now on each hop takes so much longer (ms). */
    slowDown: (ms: number) => void (slowBy = ms),
    /** One of its connections is broken from now on, or none. */
    breakLane: (lane: Lane | undefined) => void (broken = lane),
    /** Notes that the process could not ask although the link may be up. */
    fails: () => void (failedAt = now()),
    /** Whether the process could ask for nothing, or an answer did not come, at that moment (ms) or later. */
    failedSince: (moment: number) => mood !== 'up' || failedAt >= moment,
    set(next: Mood): void {
      if (next === mood) return;
      const before = mood;
      mood = next;
      if (next === 'cut') {
        for (const call of pending) call.fail(lost());
        options.onCut?.(lost());
      }
      if (before !== 'hung') return;
      // What lay in a connection is done late, or is lost with it.
      const late = held.splice(0);
      if (next !== 'cut' && random(2) === 0) for (const call of late) call.arrive();
    },
  };
}
