import type { Replacement } from '../../sim/mutants.ts';

/** A fault of workers, and the disturbance that it takes to show it. */
interface WorkerMutant {
  readonly replacements: readonly Replacement[];
  readonly needs?: string;
  /** Of the workers (ms). */
  readonly leases: readonly number[];
}

/** All alike, as short as may be. */
const ALIKE = [100];

/** The faults of workers that the oracle has to find. */
export const WORKER_MUTANTS: Readonly<Record<string, WorkerMutant>> = {
  'a worker uses epochs after its lease': {
    replacements: [
      {
        file: 'common/leases.ts',
        find: `return now - start.now < length && wall >= start.wall && wall - start.wall < length;`,
        put: `return now - start.now < 100 * length && wall >= start.wall;`,
      },
    ],
    leases: ALIKE,
  },
  'a purge does not wait for the lease': {
    replacements: [
      {
        file: 'cache/purge/purge.ts',
        find: `if (lease > 0) await options.sleep(lease * LEASE_MARGIN);`,
        put: ``,
      },
    ],
    leases: ALIKE,
  },
  'the primary process forgets the leases of all workers but the one that asks': {
    replacements: [
      {
        file: 'freshness/memory-store.ts',
        find: `[leases.longest(), leases.longest(holder.id)]`,
        put: `[holder.lease, leases.longest(holder.id)]`,
      },
    ],
    leases: [100, 1_000, 100],
  },
  'a worker counts its lease from the answer': {
    replacements: [
      {
        file: 'common/leases.ts',
        find: `      const since = begin();
      using watching = watch(names);
      try {
        const reply = await ask();`,
        put: `      using watching = watch(names);
      try {
        const reply = await ask();
        const since = begin();`,
      },
    ],
    needs: 'what a worker is told comes late',
    leases: ALIKE,
  },
};
