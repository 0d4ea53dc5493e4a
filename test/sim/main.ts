/**
 * Fleets and sessions in simulated time, from one seed: `npm run sim -- --help` tells how. A failing seed is played again with
 * `--seed N`, exactly. To look into it: `node --inspect-brk test/sim/main.ts --seed N`, connect a debugger, and let the program
 * go on: it stops where the promise is broken, with the whole fleet behind the closures of the stack.
 */
import { dirname } from 'node:path';
import { parseArgs } from 'node:util';
import { type FleetMutant, FLEET_MUTANTS } from './fleet/mutants.ts';
import { loadProgram } from './fleet/program.ts';
import { runFleet, settingsOf } from './fleet/run.ts';
import { ANSWERS, runFleets, shrink, told } from './fleet/search.ts';
import { mutantProgram } from './mutants.ts';
import { simulateSessions } from './sessions/all.ts';

const HELP = `npm run sim -- [options]

Whole gateways below HTTP, with what they share, an engine, clients, loads and bad weather, in simulated time. Each answer is
held against what acknowledged purges promised; then sessions against what the engine would say. Without options: 1,000,000
answers, 400,000 look-ups of sessions against their changes, and 50,000 requests in sessions.

  --seed N       plays one fleet again: the same seed is the same run, to the last event
  --answers N    answers that are judged in all (with --seed: in the one run)
  --sessions N   look-ups of sessions, and an eighth as many requests in them (0: none)
  --mutant TEXT  with the first fault whose name has this text (test/sim/fleet/mutants.ts)
  --whole        leaves a failing run as large as it is; by default it is made smaller
  --help         this text
`;
/** What an acceptance takes. */
const ACCEPTED = { answers: 1_000_000, sessions: 400_000 };

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    answers: { type: 'string' },
    sessions: { type: 'string' },
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

/** @throws Error where no fault has such a name */
function mutantNamed(text: string): FleetMutant {
  const found = Object.entries(FLEET_MUTANTS).find(([name]) => name.includes(text));
  if (found === undefined) throw new Error(`no fault has this in its name: ${text}`);
  return found[1];
}

async function fleets(): Promise<boolean> {
  const mutant = values.mutant === undefined ? undefined : mutantNamed(values.mutant);
  const faulty = mutant && mutantProgram(mutant.replacements);
  try {
    const program = await loadProgram(faulty && dirname(faulty.main));
    const isOne = values.seed !== undefined;
    const seed = Number(values.seed ?? Date.now() % 1e6);
    const answers = Number(values.answers ?? (isOne ? ANSWERS : ACCEPTED.answers));
    const settings = mutant?.settings ?? {};
    const runs = isOne
      ? await only(await runFleet(program, { ...settingsOf(seed, answers), ...settings, seed }))
      : await runFleets({ seed, answers, program, settings, onRun: progress });
    tell({ seed, answers: runs.answers, ...runs.counts, violations: runs.found ? 1 : 0 });
    if (runs.found === undefined) return true;
    const found = values.whole ? runs.found : await shrink(program, runs.found);
    console.log(`${told({ found })}\n\n${JSON.stringify(found.settings)}`);
    return false;
  } finally {
    faulty?.remove();
  }
}

const only = async (run: Awaited<ReturnType<typeof runFleet>>) => ({
  answers: run.answers,
  counts: { hits: run.hits, acknowledged: run.acknowledged, digest: run.digest },
  found: run.violations.length > 0 ? run : undefined,
});

let runs = 0;
/** Tells now and then how far it is. */
function progress({ settings }: Awaited<ReturnType<typeof runFleet>>): void {
  if ((runs += 1) % 10 === 0) tell({ runs, seed: settings.seed, cpuSeconds: cpuSeconds() });
}

async function sessions(): Promise<boolean> {
  const isSkipped = values.seed !== undefined || values.answers !== undefined;
  const lookUps = Number(values.sessions ?? (isSkipped ? 0 : ACCEPTED.sessions));
  if (lookUps === 0) return true;
  const seed = Number(values.seed ?? Date.now() % 1e6);
  const { facts, broken } = await simulateSessions({ seed, lookUps, requests: lookUps / 8 });
  tell({ ...facts, violations: broken === '' ? 0 : 1 });
  console.log(broken);
  return broken === '';
}

if (values.help) {
  console.log(HELP);
} else {
  const isWell = (await fleets()) && (await sessions());
  tell({ cpuSeconds: cpuSeconds() });
  // Timers of what was simulated are not waited for.
  process.exit(isWell ? 0 : 1);
}
