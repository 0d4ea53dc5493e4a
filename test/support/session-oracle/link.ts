import type { Program } from './program.ts';
import type { SessionStore } from './stores.ts';
import type { VirtualTime } from './virtual-time.ts';

/**
 * What a gateway can do with the store: all; nothing, and it is told so at once; nothing is said, and what it asks is done
 * late or never; what it asks is done, and it hears nothing.
 */
export type Mood = 'up' | 'cut' | 'hung' | 'mute';

/** What a gateway waits for an answer (ms). */
const DEADLINES = { read: 100, change: 500 } as const;
type Lane = keyof typeof DEADLINES;

/** What ioredis says, which tells the breaker whether it was a silence. */
const silence = () => new Error('Command timed out');
const lost = () => Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });

interface Call {
  readonly arrive: () => void;
  readonly fail: (error: Error) => void;
}

export type Link = ReturnType<typeof createLink>;

/** The way of one gateway to the store, with the breaker of the product before it. */
export function createLink(options: {
  program: Program;
  store: SessionStore;
  time: VirtualTime;
  random: (below: number) => number;
  /** Whether it found the store again, or lost it. */
  onChange: (isUp: boolean) => void;
}) {
  const { store, time, random } = options;
  const pending = new Set<Call>();
  const held: Call[] = [];
  const lanes = { read: { to: 0, from: 0 }, change: { to: 0, from: 0 } };
  let mood: Mood = 'up';
  let failedAt = -Infinity;

  const now = () => time.clock.now();
  /** Now and then so slow that it is given up; what was sent before on the same connection comes before. */
  function travel(lane: Lane, way: 'to' | 'from'): number {
    const takes = 1 + random(random(60) === 0 ? 200 : 4);
    const arrives = Math.max(now() + takes, lanes[lane][way]);
    lanes[lane][way] = arrives;
    return arrives - now();
  }

  function ask<T>(lane: Lane, run: () => Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    if (mood === 'cut') {
      failedAt = now();
      return Promise.reject(lost());
    }
    const giveUp = time.at(DEADLINES[lane], () => call.fail(silence()));
    const call: Call = {
      arrive() {
        if (mood === 'hung') return void held.push(call);
        // Nothing that was on its way then arrives.
        if (mood === 'cut') return;
        void time.during(run()).then(
          (reply) => void time.at(travel(lane, 'from'), () => tell(() => resolve(reply))),
          (error) => void time.at(travel(lane, 'from'), () => tell(() => reject(error))),
        );
      },
      fail(error) {
        if (!pending.delete(call)) return;
        giveUp();
        failedAt = now();
        reject(error);
      },
    };
    const tell = (settle: () => void) => {
      if (mood !== 'up' || !pending.delete(call)) return;
      giveUp();
      settle();
    };
    pending.add(call);
    time.at(travel(lane, 'to'), call.arrive);
    return promise;
  }

  const health = options.program.health.createRedisHealth({
    isConnected: () => mood !== 'cut',
    probe: () => ask('read', () => store.session('probe', { do: 'peek' })),
    sleep: time.sleep,
    onChange: (trouble) => options.onChange(trouble === undefined),
  });
  async function run<T>(operation: () => Promise<T>): Promise<T> {
    try {
      return await health.run(operation);
    } catch (error) {
      failedAt = now();
      throw error;
    }
  }

  return {
    store: {
      session(name, call) {
        const lane = call.do === 'read' || call.do === 'peek' ? 'read' : 'change';
        const asking = () => ask(lane, () => store.session(name, call));
        // As in the product: a statement waits for it, so it always tries.
        return call.do === 'renew' ? asking() : run(asking);
      },
      renew: (scopes) => ask('change', () => store.renew(scopes)),
    } satisfies SessionStore,
    mood: () => mood,
    /** Whether the gateway could ask for nothing, or an answer did not come, at that moment (ms) or later. */
    failedSince: (moment: number) => mood !== 'up' || failedAt >= moment,
    set(next: Mood): void {
      if (next === mood) return;
      const before = mood;
      mood = next;
      if (next === 'cut') {
        for (const call of pending) call.fail(lost());
        health.failed(lost());
      }
      if (before !== 'hung') return;
      // What lay in a connection is done late, or is lost with it.
      const late = held.splice(0);
      if (next !== 'cut' && random(2) === 0) for (const call of late) call.arrive();
    },
    isUp: () => mood === 'up' && health.state() === 'up',
    close: health.close,
  };
}
