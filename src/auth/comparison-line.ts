import type { ComparePassword } from './password-hash.ts';

/** Half of the default thread pool of libuv: files and DNS names need the other half. */
const COMPARISONS_AT_ONCE = 2;

/** At cost 10 the last of them waits about two seconds. */
const COMPARISONS_WAITING = 64;

export interface ComparisonLineOptions {
  readonly compare: ComparePassword;
  /** Comparisons that run at one time. Default: 2. */
  readonly atOnce?: number;
  /** Comparisons that may wait. Default: 64. */
  readonly waiting?: number;
}

export interface ComparisonLine {
  /**
   * Compares when it is this login's turn.
   *
   * @param preferred - goes before all that are not, and finds room in a full line: for credentials that
   * were right before, so that a flood of guesses does not put out those who work.
   * @returns undefined, at once, when the line is full; otherwise what the comparison says.
   */
  compare(password: string, hash: string, preferred: boolean): Promise<boolean> | undefined;
}

/** Keeps a flood of logins from taking every thread of the pool: few comparisons at once, few that wait. */
export function createComparisonLine({
  compare,
  atOnce = COMPARISONS_AT_ONCE,
  waiting = COMPARISONS_WAITING,
}: ComparisonLineOptions): ComparisonLine {
  const preferredLine: (() => void)[] = [];
  const commonLine: (() => void)[] = [];
  let running = 0;

  const callNext = (): void => {
    const next = preferredLine.shift() ?? commonLine.shift();
    if (next === undefined) running -= 1;
    else next();
  };

  const turn = (line: (() => void)[]): Promise<void> => {
    if (running < atOnce) {
      running += 1;
      return Promise.resolve();
    }
    return new Promise((resolve) => line.push(resolve));
  };

  return {
    compare(password, hash, preferred) {
      if (!preferred && running >= atOnce && commonLine.length >= waiting) return undefined;
      return turn(preferred ? preferredLine : commonLine)
        .then(() => compare(password, hash))
        .finally(callNext);
    },
  };
}
