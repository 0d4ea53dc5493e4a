import { expect, test } from '@jest/globals';
import { LOGIN_MUTANTS } from '../support/locked-out/mutants.ts';
import { mutantProgram } from '../sim/mutants.ts';
import { FAULTS } from '../sim/faults.ts';
import { MUTANTS } from '../support/oracle/mutants.ts';
import { TOLD_MUTANTS } from '../support/told-properties/mutants.ts';

// Told here at once; whether they are found is tested in test/sim, test/chaos, test/unit/auth and test/e2e.
test.each([
  ...Object.entries(MUTANTS),
  ...Object.entries(FAULTS),
  ...Object.entries(LOGIN_MUTANTS),
  ...Object.entries(TOLD_MUTANTS),
])(
  'the fault that the oracle has to find can be put into the source as it is: %s',
  (_name, { replacements }) => {
    expect(() => mutantProgram(replacements).remove()).not.toThrow();
  },
);
