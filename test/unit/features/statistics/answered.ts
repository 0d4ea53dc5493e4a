import type { Clock } from '../../../../src/common/clock.ts';
import { EVENTS } from '../../../../src/features/events.ts';
import {
  createOwnFigures,
  createSharedStatistics,
  type EntryFacts,
  onlyProcess,
} from '../../../../src/features/statistics/shared-statistics.ts';
import { READINGS } from '../../../support/gauges.ts';
import { createStatistics } from '../../../../src/features/statistics/remembered.ts';

/** Numbers in [0, 1) that are the same in each run (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A clock that a test moves by hand. */
export function handClock(wall = Date.UTC(2026, 0, 2, 8, 55)) {
  const moved = { now: 0, wall };
  return { now: () => moved.now, wall: () => moved.wall, moved };
}

const NOTHING = {
  entries: () => ({ total: 0, each: [] as readonly EntryFacts[] }),
  readings: READINGS,
  started: Date.UTC(2026, 0, 2, 7),
};
/** The engine has answered these projects. */
export const NAMES = {
  find: (name: string): { readonly spelling: string } | undefined =>
    ['Shop', 'Sales']
      .filter((one) => one.toLowerCase() === name.toLowerCase())
      .map((spelling) => ({ spelling }))[0],
};

/** Those of a gateway that is one process, and shares them with others where there is a store. */
export function statisticsOf(
  parts: {
    readonly clock: Pick<Clock, 'now' | 'wall'>;
    readonly names?: typeof NAMES;
  },
  of: Partial<Parameters<typeof createOwnFigures>[1]> = {},
  { id = 'a', ...rest }: Partial<Parameters<typeof createSharedStatistics>[0]> = {},
) {
  const { on, ...statistics } = createStatistics({ rows: EVENTS, names: NAMES, ...parts });
  const own = createOwnFigures(statistics, { ...NOTHING, clock: parts.clock, ...of });
  const processes = onlyProcess(own, id);
  const common = { own, processes, store: undefined, onError: () => {} };
  const { configure } = statistics;
  return { on, own, configure, shared: createSharedStatistics({ ...common, id, ...rest }) };
}
