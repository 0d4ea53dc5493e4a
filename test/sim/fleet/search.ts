import { loadProgram, type Program } from './program.ts';
import { type FleetRun, type FleetSettings, runFleet, settingsOf } from './run.ts';

/** Answers of one run. Each run has another seed, and with it another form and other troubles. */
export const ANSWERS = 20_000;

export interface FleetRuns {
  /** The first run that found something. */
  readonly found: FleetRun | undefined;
  readonly answers: number;
  /** Sums of what happened in them. */
  readonly counts: Readonly<Record<string, number>>;
}

/** Runs fleets with one seed after the other until so many answers were judged, or a promise was broken. */
export async function runFleets(options: {
  seed: number;
  answers: number;
  /** That of this tree unless given. */
  program?: Program;
  /** What differs from what the seed draws. */
  settings?: Partial<FleetSettings>;
  onRun?: (run: FleetRun) => void;
}): Promise<FleetRuns> {
  const { program = await loadProgram(), settings } = options;
  const counts: Record<string, number> = {};
  let answers = 0;
  for (let { seed } = options; answers < options.answers; seed += 1) {
    const wanted = Math.min(ANSWERS, options.answers - answers);
    const run = await runFleet(program, { ...settingsOf(seed, wanted), ...settings, seed });
    answers += run.answers;
    options.onRun?.(run);
    const { hits, warmed, acknowledged, refused, engineRequests, virtualSeconds } = run;
    const all = { hits, warmed, acknowledged, refused, engineRequests, virtualSeconds };
    for (const [name, many] of Object.entries(all)) counts[name] = (counts[name] ?? 0) + many;
    if (run.violations.length > 0) return { found: run, answers, counts };
  }
  return { found: undefined, answers, counts };
}

/** Smaller settings, one step each. */
function* smaller(from: FleetSettings): Generator<FleetSettings> {
  if (from.clients > 1) yield { ...from, clients: Math.floor(from.clients / 2) };
  if (from.gateways > 1) yield { ...from, gateways: from.gateways - 1 };
  if (from.loaders > 1) yield { ...from, loaders: from.loaders - 1 };
  for (const trouble of from.troubles) {
    yield { ...from, troubles: from.troubles.filter((one) => one !== trouble) };
  }
}

/** Makes a run that found something smaller, as long as it still finds something. */
export async function shrink(program: Program, found: FleetRun): Promise<FleetRun> {
  let least = found;
  for (let isSmaller = true; isSmaller;) {
    isSmaller = false;
    for (const settings of smaller({ ...least.settings, answers: 2 * least.answers + 100 })) {
      const run = await runFleet(program, settings);
      if (run.violations.length === 0) continue;
      least = run;
      isSmaller = true;
      break;
    }
  }
  return least;
}

/** What one has to know of runs that found something; '' of those that found nothing. */
export const told = ({ found }: Pick<FleetRuns, 'found'>): string =>
  found === undefined
    ? ''
    : [`npm run sim -- --seed ${found.settings.seed}`, ...found.violations].join('\n\n');
