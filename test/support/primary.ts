import { randomUUID } from 'node:crypto';
import type { Clock } from '../../src/common/clock.ts';
import { createPrimary } from '../../src/workers/shared.ts';

/** What a primary process keeps for its workers, without engines and a configuration of its own. */
export const testPrimary = (clock: Clock, orphanLease = 0) =>
  createPrimary({
    clock,
    newToken: randomUUID,
    orphanLease,
    engineStates: async () => undefined,
    inForce: () => undefined,
    configuration: () => '',
    states: { engines: () => [], reloaded: () => true },
  });
