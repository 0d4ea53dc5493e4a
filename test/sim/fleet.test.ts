import { afterEach, describe, expect, test } from '@jest/globals';
import { dirname } from 'node:path';
import { fuzzSeed } from '../support/mutate.ts';
import { FLEET_MUTANTS } from './fleet/mutants.ts';
import { loadProgram } from './fleet/program.ts';
import { runFleet, settingsOf } from './fleet/run.ts';
import { runFleets, shrink, told } from './fleet/search.ts';
import { mutantProgram } from './mutants.ts';

/** Answers of the sample; `npm run sim` judges a million. */
const ANSWERS = 40_000;
/** Found by far fewer. Seeds are counted up from one, so that each fault is found by the same run each time. */
const MOST = 100_000;
const FIRST_SEED = 1;

let end: (() => void) | undefined;
afterEach(() => {
  end?.();
  end = undefined;
});

test('a request that is sent after a change was acknowledged gets no answer from before it, whatever happens to gateways, links and what they share', async () => {
  const seed = fuzzSeed() % 1e6;
  const runs = await runFleets({ seed, answers: ANSWERS });
  console.log(`fleet: ${JSON.stringify({ seed, answers: runs.answers, ...runs.counts })}`);
  expect(told(runs)).toBe('');
  expect(runs.counts['acknowledged']).toBeGreaterThan(ANSWERS / 100);
  expect(runs.counts['hits']).toBeGreaterThan(ANSWERS / 4);
});

test.each(['redis', 'workers'] as const)(
  'the same seed is the same run, to the last event: %s',
  async (form) => {
    const program = await loadProgram();
    const settings = { ...settingsOf(7, 2_000), form };
    const [one, again] = [await runFleet(program, settings), await runFleet(program, settings)];
    expect(again).toEqual(one);
    const other = await runFleet(program, { ...settings, seed: 8 });
    expect(other.digest).not.toBe(one.digest);
  },
);

describe('the simulation finds it when', () => {
  test.each(Object.entries(FLEET_MUTANTS))('%s', async (_name, { replacements, settings = {} }) => {
    const mutant = mutantProgram(replacements);
    end = mutant.remove;
    const program = await loadProgram(dirname(mutant.main));
    const few = { answers: 4_000, ...settings };
    const { found } = await runFleets({
      ...{ seed: FIRST_SEED, answers: MOST, program, settings: few },
    });
    expect(found?.violations[0]).toMatch(/instead of at least/);
  });
});

test('what it has found is made smaller, and still found', async () => {
  const mutant = mutantProgram(
    FLEET_MUTANTS['a change is not dropped behind it']?.replacements ?? [],
  );
  end = mutant.remove;
  const program = await loadProgram(dirname(mutant.main));
  const { found } = await runFleets({ seed: FIRST_SEED, answers: MOST, program });
  if (found === undefined) throw new Error('nothing was found');
  const least = await shrink(program, found);
  expect(least.violations.join()).toMatch(/instead of at least/);
  const { clients, gateways, troubles } = least.settings;
  expect({ clients, gateways, troubles }).toEqual({ clients: 1, gateways: 1, troubles: [] });
});
