import { FLEET } from './fleet/run.ts';
import { ROLES } from './roles/run.ts';
import { LOOK_UPS } from './sessions/look-ups.ts';
import { requestsOver } from './sessions/requests.ts';
import { memoryStore } from './sessions/stores.ts';
import type { Simulation } from './simulation.ts';

export const REQUESTS = requestsOver(memoryStore);
export { FLEET, LOOK_UPS, ROLES };

/** All simulations, with the steps of an acceptance. */
export const ACCEPTED: readonly (readonly [Simulation, steps: number])[] = [
  [FLEET, 500_000],
  [LOOK_UPS, 400_000],
  [REQUESTS, 50_000],
  [ROLES, 100_000],
];
