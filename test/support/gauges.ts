import { systemClock } from '../../src/common/clock.ts';
import { createFeatures } from '../../src/features/all.ts';
import { createMemoryFleet } from '../../src/freshness/fleet.ts';
import type { Gauges } from '../../src/observability/figures.ts';
import { bodyAccount } from '../unit/cache/fakes.ts';

/** What features take of a process that no request reaches. */
export const NO_FLEET = {
  id: 'id',
  newId: () => 'id',
  memory: { warmed: () => ({ hits: 0, wasted: 0 }) },
  line: () => {
    throw new Error('nothing is asked here');
  },
};
const IDLE = createFeatures({
  ...NO_FLEET,
  clock: systemClock,
  emit() {},
  fleet: createMemoryFleet(systemClock)(''),
  purge: () => Promise.reject(new Error('nothing is purged here')),
});

/** Of a gateway that holds nothing, and knows nothing of what it is built on. */
export const gauges = (changes: Partial<Gauges> = {}): Gauges => ({
  memory: () => ({ entries: 0, bytes: 0 }),
  evictions: () => ({ all: 0, unused: 0 }),
  limits: () => ({ memory: 0, concurrency: 1, queue: 1 }),
  flights: () => ({ flights: 0, waiters: 0 }),
  engine: () => ({ atEngine: 0, waiting: 0 }),
  logins: () => 0,
  bodies: bodyAccount().usage,
  connections: () => ({ open: 0, limit: 0 }),
  epochAge: () => undefined,
  owedPurges: () => 0,
  redisConditions: () => [],
  ofFeatures: IDLE.gauges,
  states: { engines: () => [], reloaded: () => true },
  certificateEnd: () => undefined,
  ...changes,
});
