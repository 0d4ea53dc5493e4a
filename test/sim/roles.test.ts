import { dirname } from 'node:path';
import { afterEach, describe, expect, test } from '@jest/globals';
import { fuzzSeed } from '../support/mutate.ts';
import { mutantProgram, type MutantProgram } from './mutants.ts';
import { loadFrom } from './program.ts';
import { ROLE_MUTANTS } from './roles/mutants.ts';
import { loadRoles, runRoles, type RoleProgram } from './roles/run.ts';

const QUERIES = 5_000;
const RUNS = 10;

/** @returns what was found by the first run that found anything, in words; '' for nothing */
async function search(program: RoleProgram, first: number): Promise<string> {
  for (let seed = first; seed < first + RUNS; seed += 1) {
    const { violations } = await runRoles({ seed, queries: QUERIES, program });
    if (violations.length > 0) return `FUZZ_SEED=${seed}\n${violations.join('\n\n')}`;
  }
  return '';
}

test('no gateway shares by roles that a user had before a change that was acknowledged', async () => {
  expect(await search(await loadRoles(), fuzzSeed())).toBe('');
});

test('the same seed is the same run, in which many share and much changes', async () => {
  const program = await loadRoles();
  const run = await runRoles({ seed: 7, queries: QUERIES, program });
  expect(await runRoles({ seed: 7, queries: QUERIES, program })).toEqual(run);
  expect(run.named).toBeGreaterThan(QUERIES / 10);
  expect(run.changes).toBeGreaterThan(20);
});

describe('the simulation of roles finds it when', () => {
  let mutant: MutantProgram | undefined;
  afterEach(() => {
    mutant?.remove();
    mutant = undefined;
  });

  test.each(Object.entries(ROLE_MUTANTS))('%s', async (_name, replacements) => {
    mutant = mutantProgram(replacements);
    expect(await search(await loadRoles(loadFrom(dirname(mutant.main))), 1)).not.toBe('');
  });
});
