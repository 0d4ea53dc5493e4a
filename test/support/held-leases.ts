import { setTimeout as delay } from 'node:timers/promises';
import { gate } from './stub-engine.ts';

/** Between two tries to renew a purge waits for so long (ms), which is no lease. */
const RENEWAL_PAUSE = 300;
/** The shortest lease of a configuration (ms). */
const SHORTEST_LEASE = 100;

/** The sleep of a gateway, whose purges wait for leases until a test lets these pass. */
export function heldLeases() {
  const held = gate();
  let waiting = 0;
  return {
    async sleep(milliseconds: number): Promise<void> {
      if (milliseconds < SHORTEST_LEASE || milliseconds === RENEWAL_PAUSE) {
        return void (await delay(milliseconds));
      }
      waiting += 1;
      await held.opened;
    },
    /** How often a lease was waited for so far. */
    waiting: () => waiting,
    /** From now on they pass at once. */
    pass: () => held.open(),
  };
}
