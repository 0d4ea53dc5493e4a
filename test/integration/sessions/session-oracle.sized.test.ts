import { afterEach, describe, expect, test } from '@jest/globals';
import { dirname } from 'node:path';
import { fuzzSeed } from '../../support/mutate.ts';
import { mutantProgram, type MutantProgram } from '../../sim/mutants.ts';
import { SESSION_MUTANTS } from '../../sim/sessions/mutants.ts';
import { loadProgram } from '../../sim/sessions/program.ts';
import { runInTurn, told } from '../../sim/sessions/search.ts';
import { memoryStore, realRedis } from '../../sim/sessions/stores.ts';
import { sampled, sizes } from '../../support/sizes.ts';

const goals = sizes.sessionOracle;
/** Nobody waits for it unless something hangs (ms). */
const DEADLINE = 900_000;

let end: (() => Promise<void> | void) | undefined;
afterEach(async () => {
  await end?.();
  end = undefined;
});

describe('gateways that lose and find Redis at different moments answer as the engine would, and turn away nobody who asks in a session that began there', () => {
  test(
    'over what workers share',
    async () => {
      const runs = await runInTurn({
        seed: fuzzSeed(),
        requests: goals.memory,
        openStore: memoryStore,
      });
      console.log(`session oracle: ${JSON.stringify(runs)}`);
      expect(told(runs)).toBe('');
      expect(runs.counts['hit']).toBeGreaterThan(goals.memory / 50);
    },
    DEADLINE,
  );

  test(
    'over a real Redis',
    async () => {
      const { open, close } = await realRedis();
      end = close;
      const runs = await runInTurn({ seed: fuzzSeed(), requests: goals.redis, openStore: open });
      console.log(`session oracle: ${JSON.stringify(runs)}`);
      expect(told(runs)).toBe('');
      expect(runs.counts['hit']).toBeGreaterThan(goals.redis / 50);
    },
    DEADLINE,
  );
});

describe('the oracle of sessions finds it when', () => {
  test.each(sampled(Object.entries(SESSION_MUTANTS)))(
    '%s',
    async (_name, { replacements, only }) => {
      const mutant: MutantProgram = mutantProgram(replacements);
      end = mutant.remove;
      const program = await loadProgram(dirname(mutant.main));
      const { found, requests } = await runInTurn({
        ...{ seed: fuzzSeed(), requests: goals.mutant, openStore: memoryStore, program, only },
      });
      console.log(`found after ${requests} requests: ${found?.violations[0]?.split('\n').at(-1)}`);
      expect(found).toBeDefined();
    },
    DEADLINE,
  );
});
