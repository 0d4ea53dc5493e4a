import { loadProgram, type Program } from './program.ts';
import { runSessionOracle, type SessionRun, type Weather } from './run.ts';
import type { OpenStore } from './stores.ts';

/** Requests of one run. Each run has another seed, and with it another kind of engine; so many that outages lie on outages. */
const REQUESTS = 2_500;

/** All runs together. */
export interface SessionRuns {
  /** The first run that found something. */
  readonly found: SessionRun | undefined;
  readonly requests: number;
  /** Sums of what happened in them. */
  readonly counts: Readonly<Record<string, number>>;
}

/** Runs the oracle with one seed after the other until so many requests were judged, or it has found something. */
export async function runInTurn(options: {
  seed: number;
  requests: number;
  openStore: OpenStore;
  /** That of this tree unless given. */
  program?: Program;
  only?: Weather | undefined;
}): Promise<SessionRuns> {
  const { openStore, only, program = await loadProgram() } = options;
  const counts = new Map<string, number>();
  let requests = 0;
  for (let { seed } = options; requests < options.requests; seed += 1) {
    const run = await runSessionOracle({ seed, requests: REQUESTS, program, openStore, only });
    requests += run.requests;
    const { outages, losses } = run;
    const all = { outages, losses, ...run.outcomes, ...run.allowed };
    for (const [name, times] of Object.entries(all)) {
      counts.set(name, (counts.get(name) ?? 0) + times);
    }
    if (run.violations.length > 0) return { found: run, requests, counts: sorted(counts) };
  }
  return { found: undefined, requests, counts: sorted(counts) };
}

const sorted = (counts: ReadonlyMap<string, number>) =>
  Object.fromEntries([...counts].sort(([, one], [, other]) => other - one));

/** What one has to know of runs that found something; '' of those that found nothing. */
export const told = ({ found }: SessionRuns): string =>
  found === undefined ? '' : `FUZZ_SEED=${found.seed}\n${found.violations.join('\n\n')}`;
