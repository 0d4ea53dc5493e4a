import type { Replacement } from '../../sim/mutants.ts';

/** A fault, and the weather that it takes to show it. */
export interface Mutant {
  readonly replacements: readonly Replacement[];
  readonly needs?: 'snapshots';
}

/** Faults that only processes show; the simulated fleet finds the others (test/sim/faults.ts). */
export const MUTANTS: Readonly<Record<string, Mutant>> = {
  'nobody notices that Redis came back from a snapshot': {
    replacements: [
      {
        file: 'redis/redis-freshness.ts',
        find: `if redis.call('GET', KEYS[1]) ~= replid then`,
        put: `if not redis.call('GET', KEYS[1]) then`,
      },
    ],
    needs: 'snapshots',
  },
  'a hook says cleared too early': {
    replacements: [
      {
        file: 'features/hooks/route.ts',
        find: `return { result: await Promise.race([during(purged), late]), projects };`,
        put: `const early = Promise.resolve('cleared' as const);
    during(purged).catch(() => {});
    return { result: await Promise.race([early, late]), projects };`,
      },
    ],
  },
};
