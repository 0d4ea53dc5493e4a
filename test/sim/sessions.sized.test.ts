import { dirname } from 'node:path';
import { afterEach, describe, expect, test } from '@jest/globals';
import { fuzzSeed } from '../support/mutate.ts';
import { sizes } from '../support/sizes.ts';
import { mutantProgram, type MutantProgram } from './mutants.ts';
import { loadFrom } from './program.ts';
import { SESSION_MUTANTS, type SessionMutant } from './sessions/mutants.ts';
import { loadProgram, loadSessions } from './sessions/program.ts';
import { runLookUps } from './sessions/look-ups.ts';
import { searchLookUps, settingsOf, shrinkLookUps, toldLookUps } from './sessions/runs.ts';
import { runInTurn, told } from './sessions/search.ts';
import { memoryStore } from './sessions/stores.ts';

const goals = sizes.sessionOracle;
/** Of a search for a fault. Each begins at one seed, so that it finds it again. */
const FIRST_SEED = 1;
const MOST = 200_000;
/** Nobody waits for it unless something hangs (ms). */
const DEADLINE = 900_000;

describe('whatever happens to gateways, stores and links', () => {
  test(
    'what was made dirty, or given a catalog, is taken for clean by no gateway once that was acknowledged',
    async () => {
      const program = await loadSessions();
      const runs = await searchLookUps({ seed: fuzzSeed(), lookUps: goals.lookUps, program });
      console.log(`look-ups of sessions: ${JSON.stringify(runs.counts)}`);
      expect(await toldLookUps(runs, program)).toBe('');
      expect(runs.counts['find: confirmed']).toBeGreaterThan(goals.lookUps / 50);
    },
    DEADLINE,
  );

  test(
    'requests are answered as the engine would, and nobody is turned away who asks in a session that began there',
    async () => {
      const runs = await runInTurn({
        ...{ seed: fuzzSeed(), requests: goals.memory, openStore: memoryStore },
      });
      console.log(`requests in sessions: ${JSON.stringify(runs.counts)}`);
      expect(told(runs)).toBe('');
      expect(runs.counts['hit']).toBeGreaterThan(goals.memory / 50);
    },
    DEADLINE,
  );
});

test('a session that the store has lost is not moved to another catalog while a gateway takes it for clean', async () => {
  // The store restarts, another gateway is asked in a catalog, and the first answers from its cache.
  const runs = await runInTurn({ seed: 720_434, requests: 1, openStore: memoryStore });
  expect(told(runs)).toBe('');
  expect(runs.counts['losses']).toBeGreaterThan(0);
});

test('the same seed is the same run, and another one is not', async () => {
  const program = await loadSessions();
  const digestOf = async (seed: number) => {
    const run = await runLookUps({ ...settingsOf(seed), program, lookUps: 500 });
    return run.digest;
  };
  expect(await digestOf(7)).toBe(await digestOf(7));
  expect(await digestOf(7)).not.toBe(await digestOf(8));
});

describe('the simulation of sessions finds it when', () => {
  let mutant: MutantProgram | undefined;
  afterEach(() => {
    mutant?.remove();
    mutant = undefined;
  });

  /** @returns what was found, in words; '' for nothing */
  async function search({ replacements, requests, only }: SessionMutant): Promise<string> {
    mutant = mutantProgram(replacements);
    const part = loadFrom(dirname(mutant.main));
    const seed = FIRST_SEED;
    if (requests === undefined) {
      const program = await loadSessions(part);
      const { found } = await searchLookUps({ seed, lookUps: MOST, program, only });
      return found?.run.violations.join('\n\n') ?? '';
    }
    const program = await loadProgram(part);
    const weather = requests === 'any' ? undefined : requests;
    const asked = { seed, requests: MOST, openStore: memoryStore, program, only: weather };
    return told(await runInTurn(asked));
  }

  test.each(Object.entries(SESSION_MUTANTS))('%s', async (_name, fault) => {
    expect(await search(fault)).not.toBe('');
  });

  test('anything, and tells the simplest world that shows it', async () => {
    const fault = SESSION_MUTANTS['a change does not wait for the lease of others'];
    mutant = mutantProgram(fault?.replacements ?? []);
    const program = await loadSessions(loadFrom(dirname(mutant.main)));
    const { found } = await searchLookUps({ seed: FIRST_SEED, lookUps: MOST, program });
    const words = await shrinkLookUps(
      found?.settings ?? settingsOf(0),
      found?.run.lookUps ?? 0,
      program,
    );
    expect(words).toMatch(/"gateways":2,"actors":[12],"faults":\[\]/);
    expect(words).toMatch(/found clean .*though it/);
  });
});
