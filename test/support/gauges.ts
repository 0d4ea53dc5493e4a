import { systemClock } from '../../src/common/clock.ts';
import { createFeatures } from '../../src/features/all.ts';
import { EVENTS } from '../../src/features/events.ts';
import { createMemoryFleet } from '../../src/freshness/fleet.ts';
import type { MemoryTier } from '../../src/cache/memory-tier.ts';
import type { Gauges } from '../../src/observability/figures.ts';
import { bodyAccount } from '../unit/cache/fakes.ts';

const NODE = { pid: 7, version: 'v26.0.0', memoryUsage: { rss: () => 100_000_000 } };
export const ABOUT = {
  version: '1.2.3',
  node: NODE,
  certificateEnd: () => undefined,
  inForce: async () => ({ waiting: [], reloaded: true, workers: 1 }),
  configuration: async () => '',
};

const HELD = {
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
  states: { engines: () => [], reloaded: () => true },
  certificateEnd: () => undefined,
} as const;

/** What a process that holds nothing says of itself. */
export const READINGS = {
  ...HELD,
  owed: () => [],
  droppedHeaders: () => [],
  timedOut: () => [],
  enginesAway: () => [],
  node: NODE,
};

const nothing = () => {
  throw new Error('nothing is asked here');
};
/** What features take of a process that no request reaches. */
export const NO_FLEET = {
  id: 'id',
  newId: () => 'id',
  memory: {
    warmed: () => ({ hits: 0, wasted: 0 }),
    list: () => ({ total: 0, each: (function* () {})() }),
  } as Partial<MemoryTier> as MemoryTier,
  names: { find: () => undefined },
  readings: READINGS,
  reports: undefined,
  about: ABOUT,
  events: EVENTS,
  metrics: nothing,
  line: nothing,
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
  ...HELD,
  ofFeatures: IDLE.gauges,
  ...changes,
});
