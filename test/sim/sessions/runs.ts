import { randomSources } from '../random.ts';
import { shrink } from '../shrink.ts';
import { FORMS } from './house.ts';
import { FAULTS, runLookUps, type LookUpRun, type LookUpSettings } from './look-ups.ts';
import type { SessionProgram } from './program.ts';

/** Look-ups of one run. Each has another seed, and with it another form and other faults. */
const LOOK_UPS = 4_000;
/** So few faults at one time that they leave something to be lost. */
const MOST_FAULTS = 3;

/** The world of one seed. */
export function settingsOf(seed: number): LookUpSettings {
  const random = randomSources(seed)(9);
  const form = FORMS[random(FORMS.length)] ?? 'redis';
  const chance = random(MOST_FAULTS + 1);
  const faults = FAULTS.filter(() => random(FAULTS.length) < chance);
  return { seed, form, gateways: 2 + random(3), actors: 6 + random(8), faults };
}

/** The same world with one thing less, each. */
const simpler = (settings: LookUpSettings): readonly LookUpSettings[] => [
  ...settings.faults.map((gone) => ({
    ...settings,
    faults: settings.faults.filter((fault) => fault !== gone),
  })),
  ...(settings.gateways > 2 ? [{ ...settings, gateways: settings.gateways - 1 }] : []),
  ...(settings.actors > 2 ? [{ ...settings, actors: Math.ceil(settings.actors / 2) }] : []),
  ...(settings.form === 'workers and redis' ? [{ ...settings, form: 'redis' as const }] : []),
];

export interface LookUpRuns {
  readonly lookUps: number;
  readonly counts: Readonly<Record<string, number>>;
  /** The first one that broke a promise. */
  readonly found: { readonly settings: LookUpSettings; readonly run: LookUpRun } | undefined;
}

/** Runs one seed after the other until so many look-ups were judged, or a promise was broken. */
export async function searchLookUps(options: {
  seed: number;
  lookUps: number;
  program: SessionProgram;
  /** What all worlds have in common. */
  only?: Partial<LookUpSettings> | undefined;
}): Promise<LookUpRuns> {
  const counts: Record<string, number> = {};
  let lookUps = 0;
  for (let { seed } = options; lookUps < options.lookUps; seed += 1) {
    const settings = { ...settingsOf(seed), ...options.only };
    const run = await runLookUps({ ...settings, program: options.program, lookUps: LOOK_UPS });
    lookUps += run.lookUps;
    for (const [what, times] of Object.entries(run.counts)) {
      counts[what] = (counts[what] ?? 0) + times;
    }
    if (run.violations.length > 0) return { lookUps, counts, found: { settings, run } };
  }
  return { lookUps, counts, found: undefined };
}

/** The simplest world that was found to break a promise, and its history. */
export async function shrinkLookUps(
  settings: LookUpSettings,
  steps: number,
  program: SessionProgram,
): Promise<string> {
  const found = await shrink({ settings, steps }, simpler, async (tried, most) => {
    const { violations, lookUps } = await runLookUps({ ...tried, program, lookUps: most });
    return violations.length > 0 ? lookUps : undefined;
  });
  const run = await runLookUps({ ...found.settings, program, lookUps: found.steps });
  return `${JSON.stringify(found.settings)}\n${run.violations.join('\n\n')}`;
}

/** What one has to know of runs that found something; '' of those that found nothing. */
export async function toldLookUps({ found }: LookUpRuns, program: SessionProgram): Promise<string> {
  if (found === undefined) return '';
  const { settings, run } = found;
  const simplest = await shrinkLookUps(settings, run.lookUps, program);
  return `FUZZ_SEED=${settings.seed}\n${run.violations.join('\n\n')}\n\nThe simplest: ${simplest}`;
}
