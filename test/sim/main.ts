/**
 * Fleets, sessions and roles in simulated time, from one seed: `npm run sim -- --help` tells how. A failing seed is played
 * again with `--of NAME --seed N`, exactly. To look into it: `node_modules/.bin/node --inspect-brk test/sim/main.ts --of NAME
 * --seed N --whole` (or `--mutant TEXT --whole`), connect a debugger, and let the program go on once from its first line. It
 * stops in `accuse`, where the promise is broken. The frame at the bottom of the stack has all gateways in its closure, and what they share.
 */
import { parseArgs } from 'node:util';
import { FAULTS } from './faults.ts';
import { mutantProgram } from './mutants.ts';
import { programOf, search, type Simulation, told } from './simulation.ts';
import { ACCEPTED } from './simulations.ts';

const NAMES = ACCEPTED.map(([{ name }]) => name).join(', ');
const HELP = `npm run sim -- [options]

Simulates what the product promises, in worlds that are drawn from a seed: ${NAMES}.
fleet: whole gateways below HTTP, whose configurations differ, while engine, Redis and passwords come and go; each answer is held
against what acknowledged purges promised, its age against ttl and stale_if_error, and its login against what the engine said. look-ups: sessions that are
looked up while they change. requests: whole requests in sessions, held against what the engine would say. roles: who shares
by which roles while they change. Without options: ${ACCEPTED.map(([{ name }, steps]) => `${steps.toLocaleString('en')} of ${name}`).join(', ')}.

  --of NAME      one of them alone
  --seed N       the first seed: the same one is the same run, to the last event. With --of or --mutant, this run alone
  --steps N      how many are judged at the least: runs end whole
  --mutant TEXT  with the first fault whose name has this text, in the worlds that show it (test/sim/faults.ts)
  --whole        leaves a failing run as large as it is; by default a simpler one is looked for
  --help         this text
`;

const { values } = parseArgs({
  options: {
    of: { type: 'string' },
    seed: { type: 'string' },
    steps: { type: 'string' },
    mutant: { type: 'string' },
    whole: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

const tell = (facts: object) => console.log(JSON.stringify(facts));
const cpuSeconds = () => {
  const { user, system } = process.cpuUsage();
  return Math.round((user + system) / 1e5) / 10;
};

/** @throws Error where none has such a name */
function named<T>(what: string, text: string, all: readonly (readonly [name: string, T])[]): T {
  const found = all.find(([name]) => name.includes(text));
  if (found === undefined) throw new Error(`no ${what} has this in its name: ${text}`);
  return found[1];
}

/** @returns whether nothing was found */
async function simulate(
  simulation: Simulation,
  seed: number,
  steps: number,
  mutant?: ReturnType<typeof mutantProgram>,
): Promise<boolean> {
  const program = await programOf(simulation, mutant);
  let runs = 0;
  const onRun = (last: number) => {
    if ((runs += 1) % 20 === 0) tell({ runs, of: simulation.name, seed: last });
  };
  const before = cpuSeconds();
  const all = await search({ simulation, seed, steps, program, onRun });
  const spent = Math.round(10 * (cpuSeconds() - before)) / 10;
  const violations = all.found === undefined ? 0 : 1;
  const { name } = simulation;
  tell({ of: name, seed, steps: all.steps, ...all.counts, violations, cpuSeconds: spent });
  if (all.found === undefined) return true;
  console.log(await told(simulation, all, program, values.whole));
  return false;
}

async function main(): Promise<boolean> {
  const given = values.seed === undefined ? undefined : Number(values.seed);
  const seed = given ?? Date.now() % 1e6;
  if (values.mutant !== undefined) {
    const fault = named('fault', values.mutant, Object.entries(FAULTS));
    const mutant = mutantProgram(fault.replacements);
    try {
      const steps = Number(values.steps ?? (given === undefined ? 100_000 : 1));
      return await simulate(fault.simulation, given ?? fault.seed ?? 1, steps, mutant);
    } finally {
      mutant.remove();
    }
  }
  let isWell = true;
  const { of = '' } = values;
  const some = ACCEPTED.filter(([{ name }]) => name.includes(of));
  if (some.length === 0) throw new Error(`--of is one of ${NAMES}`);
  for (const [simulation, accepted] of some) {
    const isOne = values.of !== undefined && given !== undefined;
    const steps = Number(values.steps ?? (isOne ? 1 : accepted));
    isWell = (await simulate(simulation, seed, steps)) && isWell;
  }
  return isWell;
}

if (values.help) {
  console.log(HELP);
} else {
  const isWell = await main();
  tell({ cpuSeconds: cpuSeconds() });
  console.log(isWell ? 'No promise was broken.' : 'A promise was broken, as told above.');
  // Timers of what was simulated are not waited for.
  process.exit(isWell ? 0 : 1);
}
