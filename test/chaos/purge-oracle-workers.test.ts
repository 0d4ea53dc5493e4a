import { afterEach, describe, expect, test } from '@jest/globals';
import { fuzzSeed } from '../support/mutate.ts';
import type { OracleForm } from '../support/oracle/forms.ts';
import { mutantProgram, type MutantProgram } from '../sim/mutants.ts';
import { counts, runOracle, told } from '../support/oracle/run.ts';
import { SEARCH_DEADLINE, searchFault } from '../support/oracle/search.ts';
import { servedWorkers } from '../support/oracle/served-workers.ts';
import { workersOfOne } from '../support/oracle/worker-forms.ts';
import { WORKER_MUTANTS } from '../support/oracle/worker-mutants.ts';
import { sampled, sizes } from '../support/sizes.ts';

/** For how long each run goes on at least, by option: ORACLE_MINUTES=60. */
const LASTING = Number(process.env['ORACLE_MINUTES'] ?? 0) * 60_000;
/** Of one run; nobody waits for it unless something hangs (ms). */
const DEADLINE = LASTING + sizes.oracle.deadline;

let form: OracleForm | undefined;
afterEach(async () => {
  await form?.close();
  form = undefined;
});

describe('a request that is sent after a purge was acknowledged gets no answer from before it', () => {
  test.each(
    sampled([
      ['three workers of one process', () => workersOfOne(), sizes.oracle.workers],
      ['workers as an operator starts them', servedWorkers, sizes.oracle.served],
    ] as const),
  )(
    'on %s, whatever happens to them',
    async (_name, start, goals) => {
      form = await start();
      const seed = fuzzSeed();
      const run = await runOracle({
        seed,
        form,
        goals: { ...goals, lasting: LASTING },
        onProgress: (soFar) => void process.stderr.write(`${counts(soFar, seed)}\n`),
      });
      console.log(`oracle: ${counts(run, seed)}`);
      expect(told(run, seed)).toBe('');
      expect(run.requests).toBeGreaterThanOrEqual(goals.requests);
      expect(run.purges.acknowledged).toBeGreaterThanOrEqual(goals.purges);
    },
    DEADLINE,
  );
});

describe('the oracle finds it when', () => {
  let mutant: MutantProgram | undefined;
  afterEach(() => {
    mutant?.remove();
    mutant = undefined;
  });

  test.each(sampled(Object.entries(WORKER_MUTANTS)))(
    '%s',
    async (_name, { replacements, needs, leases }) => {
      mutant = mutantProgram(replacements);
      const { main } = mutant;
      const found = await searchFault(() => workersOfOne({ main, leases }), {
        // It ends as soon as it has found something.
        goals: sizes.oracle.workerMutant,
        // Without messages there is nothing but epochs and lease.
        allDeaf: true,
        disturbedBy: (name) => name === needs,
      });
      expect(found).toContainEqual(expect.stringContaining('instead of at least'));
    },
    SEARCH_DEADLINE,
  );
});
