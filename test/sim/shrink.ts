/** A run that broke a promise. */
interface Failure<S> {
  readonly settings: S;
  /** How long it took to break it. */
  readonly steps: number;
}

/** The next seeds are tried too: what is taken away changes every draw behind it. */
const SEEDS = 40;

/**
 * Looks for a simpler world that breaks a promise in no more steps than the one that was found, until none of its simpler
 * ones does.
 * @param simpler the settings with one thing less, each
 * @param run gives the steps until a promise was broken, within so many; undefined where none was
 */
export async function shrink<S extends { readonly seed: number }>(
  found: Failure<S>,
  simpler: (settings: S) => readonly S[],
  run: (settings: S, most: number) => Promise<number | undefined>,
): Promise<Failure<S>> {
  let best = found;
  for (let isBetter = true; isBetter;) {
    isBetter = false;
    for (const settings of simpler(best.settings)) {
      const next = await firstOf(settings, best.steps, run);
      if (next === undefined) continue;
      [best, isBetter] = [next, true];
      break;
    }
  }
  return best;
}

async function firstOf<S extends { readonly seed: number }>(
  settings: S,
  most: number,
  run: (settings: S, most: number) => Promise<number | undefined>,
): Promise<Failure<S> | undefined> {
  for (let seed = settings.seed; seed < settings.seed + SEEDS; seed += 1) {
    const tried = { ...settings, seed };
    const steps = await run(tried, most);
    if (steps !== undefined) return { settings: tried, steps };
  }
  return undefined;
}
