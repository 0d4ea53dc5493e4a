import { afterEach, describe, expect, test } from '@jest/globals';
import { mutantProgram, type MutantProgram } from '../sim/mutants.ts';
import { MUTANTS } from '../support/oracle/mutants.ts';
import { standaloneRedis } from '../support/oracle/redis-forms.ts';
import { SEARCH_DEADLINE, searchFault } from '../support/oracle/search.ts';
import { sizes } from '../support/sizes.ts';

describe('the oracle finds it when', () => {
  const SNAPSHOT = 'Redis comes back from an old snapshot';
  let mutant: MutantProgram | undefined;
  afterEach(() => {
    mutant?.remove();
    mutant = undefined;
  });

  test.each(Object.entries(MUTANTS))(
    '%s',
    async (_name, { replacements, needs }) => {
      mutant = mutantProgram(replacements);
      const found = await searchFault(standaloneRedis, {
        goals: sizes.oracle.mutant,
        triesWatcher: false,
        // Without messages there is nothing but epochs and lease.
        allDeaf: true,
        disturbedBy: (name) => needs === 'snapshots' && name === SNAPSHOT,
        main: mutant.main,
      });
      expect(found).toContainEqual(expect.stringContaining('instead of at least'));
    },
    SEARCH_DEADLINE,
  );
});
