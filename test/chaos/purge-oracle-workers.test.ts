import { afterEach, describe, expect, test } from '@jest/globals';
import { fuzzSeed } from '../support/mutate.ts';
import type { OracleForm } from '../support/oracle/forms.ts';
import { counts, runOracle, told } from '../support/oracle/run.ts';
import { servedWorkers } from '../support/oracle/served-workers.ts';
import { workersOfOne } from '../support/oracle/worker-forms.ts';
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
      ['three workers of one process', workersOfOne, sizes.oracle.workers],
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
