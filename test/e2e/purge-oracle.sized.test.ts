import { afterEach, describe, expect, test } from '@jest/globals';
import { fuzzSeed } from '../support/mutate.ts';
import type { OracleForm } from '../support/oracle/forms.ts';
import {
  clusteredRedis,
  redisBehindSentinels,
  standaloneRedis,
} from '../support/oracle/redis-forms.ts';
import { counts, runOracle, told } from '../support/oracle/run.ts';
import { sampled, sizes } from '../support/sizes.ts';

/** For how long each run goes on at least, by option: ORACLE_MINUTES=60. */
const LASTING = Number(process.env['ORACLE_MINUTES'] ?? 0) * 60_000;
/** Of one run; nobody waits for it unless something hangs (ms). */
const DEADLINE = LASTING + sizes.oracle.deadline;

/** A run that takes longer tells how far it is (s). */
const LONG = 240;

const closers: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

async function started(starting: Promise<OracleForm>): Promise<OracleForm> {
  const form = await starting;
  closers.push(form.close);
  return form;
}

describe('a request that is sent after a purge was acknowledged gets no answer from before it', () => {
  test.each(
    sampled([
      ['a Redis that stands alone', standaloneRedis, sizes.oracle.alone],
      ['a Redis behind sentinels', redisBehindSentinels, sizes.oracle.watched],
      ['a cluster', clusteredRedis, sizes.oracle.watched],
    ] as const),
  )(
    'on three gateways and %s, whatever happens to them',
    async (_name, start, goals) => {
      const form = await started(start());
      const seed = fuzzSeed();
      const run = await runOracle({
        seed,
        form,
        goals: { ...goals, lasting: LASTING },
        disturbedBy: (_disturbance, at) => (at + seed) % sizes.oracle.disturbanceStride === 0,
        triesWatcher: sizes.oracle.triesWatcher,
        onProgress(soFar) {
          if (LASTING > 0 || soFar.seconds > LONG) process.stderr.write(`${counts(soFar, seed)}\n`);
        },
      });
      console.log(`oracle: ${counts(run, seed)}`);
      expect(told(run, seed)).toBe('');
      expect(run.requests).toBeGreaterThanOrEqual(goals.requests);
      expect(run.purges.acknowledged).toBeGreaterThanOrEqual(goals.purges);
    },
    DEADLINE,
  );
});
