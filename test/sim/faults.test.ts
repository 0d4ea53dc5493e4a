import { afterEach, describe, expect, test } from '@jest/globals';
import { FAULTS } from './faults.ts';
import { mutantProgram, type MutantProgram } from './mutants.ts';
import { programOf, search, told } from './simulation.ts';

/** A fault is found by far fewer. Seeds are counted up from its own, so that the same run finds it each time. */
const MOST = 100_000;

let mutant: MutantProgram | undefined;
afterEach(() => {
  mutant?.remove();
  mutant = undefined;
});

/** Looks for a fault in the worlds that show it. */
async function find(name: string) {
  const fault = FAULTS[name];
  if (fault === undefined) throw new Error(`no fault is called ${name}`);
  const { replacements, simulation, seed = 1 } = fault;
  mutant = mutantProgram(replacements);
  const program = await programOf(simulation, mutant);
  const runs = await search({ simulation, seed, steps: MOST, program });
  return { simulation, runs, program };
}

describe('the simulation finds it when', () => {
  test.each(Object.keys(FAULTS))('%s', async (name) => {
    const { runs } = await find(name);
    expect(runs.found?.run.violations.join()).toMatch(/instead of|though|unknown|refused/);
  });
});

describe('what it has found is told with its seed, and in the simplest world that shows it', () => {
  test.each([
    ['a change is not dropped behind it', /"clients":1/, /instead of at least/],
    ['a change does not wait for the lease of others', /"gateways":2/, /found clean .*though it/],
    ['a session that begins while Redis is away is not noted', /"gateways":/, /unknown/],
    ['roles of a user are remembered under every token', /"gateways":1/, /instead of/],
  ])('%s', async (name, settings, violation) => {
    const { simulation, runs, program } = await find(name);
    const words = await told(simulation, runs, program);
    const [command, , , simplest = ''] = words.split('\n\n', 4);
    expect(command).toBe(
      `npm run sim -- --of ${simulation.name} --seed ${runs.found?.settings.seed}`,
    );
    expect(simplest).toMatch(settings);
    expect(words).toMatch(violation);
  });
});
