import { expect, test } from '@jest/globals';
import { LOGIN_MUTANTS } from '../support/locked-out/mutants.ts';
import { mutantProgram } from '../sim/mutants.ts';
import { FAULTS } from '../sim/faults.ts';
import { MUTANTS } from '../support/oracle/mutants.ts';

// Told here at once; whether they are found is tested in test/sim, test/chaos and test/unit/auth.
test.each([
  ...Object.entries(MUTANTS),
  ...Object.entries(FAULTS),
  ...Object.entries(LOGIN_MUTANTS),
])(
  'the fault that the oracle has to find can be put into the source as it is: %s',
  (_name, { replacements }) => {
    expect(() => mutantProgram(replacements).remove()).not.toThrow();
  },
);
