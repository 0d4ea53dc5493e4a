import type { MutantProgram } from './mutants.ts';
import { loadProgram, type PartName, type Program } from './program.ts';

/** A world, and how long it lasts. */
export interface Settings {
  readonly seed: number;
  /** What is judged in one run: answers, look-ups, requests, queries. */
  readonly steps: number;
}

export interface Run {
  /** What was promised and not kept, each behind what happened before. */
  readonly violations: readonly string[];
  /** What was judged. */
  readonly steps: number;
  /** How often what happened. */
  readonly counts: Readonly<Record<string, number>>;
  /** Of all that happened: the same for the same settings. */
  readonly digest: string;
}

/** One kind of world, with a promise that holds in it. Methods, so that one of special settings is one of any. */
export interface Simulation<S extends Settings = Settings> {
  readonly name: string;
  /** Parts of the product that it runs. */
  readonly parts: readonly PartName[];
  /** The world of one seed, with the usual number of steps. */
  settingsOf(seed: number): S;
  /** Worlds with one thing less, each. */
  simpler(settings: S): readonly S[];
  /** Until so many steps were judged or a promise was broken. */
  run(program: Program, settings: S): Promise<Run>;
}

/** The same, in worlds that have something in common. */
export const within = <S extends Settings>(
  simulation: Simulation<S>,
  common: Partial<S>,
): Simulation<S> => ({
  ...simulation,
  settingsOf: (seed) => ({ ...simulation.settingsOf(seed), ...common }),
});

/** A run that broke a promise. */
export interface Found {
  readonly settings: Settings;
  readonly run: Run;
}

/** All runs of one search. */
export interface Runs {
  /** The first one that broke a promise. */
  readonly found: Found | undefined;
  readonly steps: number;
  /** Sums of what happened in them. */
  readonly counts: Readonly<Record<string, number>>;
}

/** The parts that it runs, of this tree or of one with a fault. */
export const programOf = async ({ parts }: Simulation, mutant?: MutantProgram) =>
  (await loadProgram(parts, mutant)) as Program;

/** Runs one seed after the other until so many steps were judged, or a promise was broken. */
export async function search(options: {
  simulation: Simulation;
  seed: number;
  steps: number;
  /** That of this tree unless given. */
  program?: Program | undefined;
  onRun?: (seed: number) => void;
}): Promise<Runs> {
  const { simulation, program = await programOf(simulation), onRun } = options;
  const counts: Record<string, number> = {};
  let steps = 0;
  for (let { seed } = options; steps < options.steps; seed += 1) {
    const settings = simulation.settingsOf(seed);
    const run = await simulation.run(program, settings);
    steps += run.steps;
    for (const [what, times] of Object.entries(run.counts)) {
      counts[what] = (counts[what] ?? 0) + times;
    }
    if (run.violations.length > 0) return { steps, counts, found: { settings, run } };
    onRun?.(seed);
  }
  return { steps, counts, found: undefined };
}

/** The next seeds are tried too: what is taken away changes every draw behind it. */
const SEEDS = 5;

/**
 * Looks for a simpler world that breaks a promise in no more steps than the one that was found, until none of its simpler
 * ones does.
 */
async function shrink(simulation: Simulation, found: Found, program: Program): Promise<Found> {
  let best = found;
  for (let isBetter = true; isBetter;) {
    isBetter = false;
    for (const settings of simulation.simpler(best.settings)) {
      const steps = best.run.steps + 1;
      const next = await firstOf(simulation, { ...settings, steps }, program);
      if (next === undefined) continue;
      [best, isBetter] = [next, true];
      break;
    }
  }
  return best;
}

async function firstOf(
  simulation: Simulation,
  settings: Settings,
  program: Program,
): Promise<Found | undefined> {
  for (let seed = settings.seed; seed < settings.seed + SEEDS; seed += 1) {
    const tried = { ...settings, seed };
    const run = await simulation.run(program, tried);
    if (run.violations.length > 0) return { settings: tried, run };
  }
  return undefined;
}

/**
 * What one has to know of a search that found something; '' of one that found nothing.
 * @param isWhole whether no simpler world is looked for
 */
export async function told(
  simulation: Simulation,
  { found }: Pick<Runs, 'found'>,
  program?: Program,
  isWhole = false,
): Promise<string> {
  if (found === undefined) return '';
  const command = `npm run sim -- --of ${simulation.name} --seed ${found.settings.seed}`;
  const words = [command, JSON.stringify(found.settings), ...found.run.violations];
  if (isWhole) return words.join('\n\n');
  const least = await shrink(simulation, found, program ?? (await programOf(simulation)));
  words.push(`The simplest: ${JSON.stringify(least.settings)}`, ...least.run.violations);
  return words.join('\n\n');
}
