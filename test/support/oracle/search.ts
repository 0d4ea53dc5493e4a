import { fuzzSeed } from '../mutate.ts';
import { sizes } from '../sizes.ts';
import type { OracleForm } from './forms.ts';
import { counts, runOracle, told } from './run.ts';

/**
 * A run that found nothing soon rarely finds anything later: its draws do not lead there. The next one draws anew. Some
 * faults are found by no more than one run in two: of so many one finds each.
 */
const RUNS = 40;
/** Of a search; nobody waits for it unless something hangs, or a fault is found by no run (ms). */
export const SEARCH_DEADLINE = 4 * sizes.oracle.deadline;

/**
 * Runs the oracle, each time from the beginning and with a seed of its own, until it finds something.
 * @param start starts the gateways' house of one run, which is closed after it
 * @returns the first answers that broke the promise, in words; none when no run found any
 */
export async function searchFault(
  start: () => Promise<OracleForm>,
  options: Omit<Parameters<typeof runOracle>[0], 'seed' | 'form'>,
): Promise<readonly string[]> {
  for (let number = 1; number <= RUNS; number += 1) {
    const form = await start();
    try {
      const seed = fuzzSeed();
      const run = await runOracle({ ...options, seed, form });
      if (run.violations.length > 0) {
        console.log(`found in run ${number}: ${told(run, seed).split('\n').at(-1)}`);
        return run.violations.map(({ what }) => what);
      }
      console.log(`nothing found in run ${number}: ${counts(run, seed)}`);
    } finally {
      await form.close();
    }
  }
  return [];
}
