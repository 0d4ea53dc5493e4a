import { hookFigures } from '../../src/features/hooks/events.ts';
import { warmFigures } from '../../src/features/warm/events.ts';
import { watchFigures } from '../../src/features/watch/events.ts';
import type { Gauges } from '../../src/observability/figures.ts';
import { bodyAccount } from '../unit/cache/fakes.ts';

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
  ofFeatures: [
    ...hookFigures(() => []),
    ...warmFigures(() => ({ hits: 0, wasted: 0 })),
    ...watchFigures(() => []),
  ],
  states: { engines: () => [], reloaded: () => true },
  certificateEnd: () => undefined,
  ...changes,
});
