import { createLink, type Habits, type Mood } from '../links.ts';
import type { Random } from '../random.ts';
import type { SimulatedProcess, SimulatedTime } from '../time.ts';
import type { Program } from '../program.ts';
import type { SessionStore } from './stores.ts';

/** What a gateway waits for an answer (ms). */
const LANES = { read: 100, change: 500 };

export type SessionLink = ReturnType<typeof createSessionLink>;

/** The link of one gateway to the store of sessions, with the breaker of the product before it. */
export function createSessionLink(options: {
  program: Pick<Program, 'health'>;
  store: SessionStore;
  time: SimulatedTime;
  home?: SimulatedProcess;
  random: Random;
  habits?: Partial<Habits>;
}) {
  const { store, time, home, random, habits } = options;
  const onCut = (error: Error) => health.failed(error);
  const link = createLink({ time, home, random, habits, lanes: LANES, onCut });
  const health = options.program.health.createRedisHealth({
    isConnected: () => link.mood() !== 'cut',
    probe: () => link.ask('read', () => store.session('probe', { do: 'peek' })),
    sleep: (home ?? time).sleep,
    onChange() {},
  });

  async function run<T>(operation: () => Promise<T>): Promise<T> {
    try {
      return await health.run(operation);
    } catch (error) {
      link.fails();
      throw error;
    }
  }

  return {
    store: {
      session(name, call) {
        const lane = call.do === 'read' || call.do === 'peek' ? 'read' : 'change';
        const asking = () => link.ask(lane, () => store.session(name, call));
        // As in the product: a statement waits for it, so it always tries.
        return call.do === 'renew' ? asking() : run(asking);
      },
      renew: (scopes) => link.ask('change', () => store.renew(scopes)),
    } satisfies SessionStore,
    mood: link.mood,
    failedSince: link.failedSince,
    set: (next: Mood) => link.set(next),
    close: health.close,
  };
}
