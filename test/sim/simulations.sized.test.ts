import { expect, test } from '@jest/globals';
import { fuzzSeed } from '../support/mutate.ts';
import { sizes } from '../support/sizes.ts';
import { programOf, search, type Simulation, told, within } from './simulation.ts';
import { FLEET, LOOK_UPS, REQUESTS, ROLES } from './simulations.ts';

const goals = sizes.simulated;
/** Reached by what hangs alone (ms). */
const DEADLINE = 3_600_000;
const SEED = fuzzSeed() % 1e6;

/** @returns how often what happened in a sample that has broken no promise */
async function sample(simulation: Simulation, steps: number) {
  const runs = await search({ simulation, seed: SEED, steps });
  const { name } = simulation;
  console.log(JSON.stringify({ of: name, FUZZ_SEED: SEED, steps: runs.steps, ...runs.counts }));
  expect(await told(simulation, runs)).toBe('');
  return (what: string) => (runs.counts[what] ?? 0) / runs.steps;
}

test(
  'a request that is sent after a change was acknowledged gets no answer from before it, whatever happens to gateways, links and what they share',
  async () => {
    const share = await sample(FLEET, goals.fleet);
    expect(share('acknowledged')).toBeGreaterThan(1 / 400);
    expect(share('hits')).toBeGreaterThan(1 / 4);
  },
  DEADLINE,
);

test('behind a failure of the engine answers are past their ttl, marked, and older than no acknowledged purge', async () => {
  const away = {
    troubles: ['the engine is away', 'a reload'],
    ttl: 1_000,
    staleIfError: 3_600_000,
  };
  const share = await sample(within(FLEET, { ...away, timeout: 1_500 }), 5_000);
  expect(share('stale')).toBeGreaterThan(1 / 1_000);
});

test(
  'what was made dirty, or given a catalog, is taken for clean by no gateway once that was acknowledged',
  async () => {
    const share = await sample(LOOK_UPS, goals.lookUps);
    expect(share('find: confirmed')).toBeGreaterThan(1 / 50);
  },
  DEADLINE,
);

test(
  'requests are answered as the engine would, and no user is turned away who asks in a session that began there',
  async () => {
    const share = await sample(REQUESTS, goals.requests);
    expect(share('hit')).toBeGreaterThan(1 / 50);
  },
  DEADLINE,
);

test(
  'no gateway shares by roles that a user had before a change that was acknowledged',
  async () => {
    const share = await sample(ROLES, goals.roles);
    expect(share('named')).toBeGreaterThan(1 / 10);
    expect(share('changes')).toBeGreaterThan(1 / 250);
  },
  DEADLINE,
);

test('a session that the store has lost is not moved to another catalog while a gateway takes it for clean', async () => {
  // The store restarts, another gateway is asked in a catalog, and the first answers from its cache.
  const runs = await search({ simulation: REQUESTS, seed: 720_434, steps: 1 });
  expect(await told(REQUESTS, runs)).toBe('');
  expect(runs.counts['losses']).toBeGreaterThan(0);
});

test('an id that the engine gives out again is told once no gateway takes its session of before for clean', async () => {
  // It ends and begins through one gateway, and the next query goes to the other.
  const runs = await search({ simulation: REQUESTS, seed: 5_000, steps: 1 });
  expect(await told(REQUESTS, runs)).toBe('');
  expect(runs.counts['hit']).toBeGreaterThan(0);
});

test.each([
  within(FLEET, { form: 'redis', steps: 300, clients: 2 }),
  within(FLEET, { form: 'workers', steps: 300, clients: 2 }),
  within(LOOK_UPS, { steps: 500 }),
  within(REQUESTS, { steps: 500 }),
  within(ROLES, { steps: 500 }),
] as readonly Simulation[])(
  'the same seed is the same run, to the last event, and another one is not: $name',
  async (simulation) => {
    const program = await programOf(simulation);
    const run = (seed: number) => simulation.run(program, simulation.settingsOf(seed));
    const one = await run(7);
    expect(await run(7)).toEqual(one);
    expect((await run(8)).digest).not.toBe(one.digest);
  },
);
