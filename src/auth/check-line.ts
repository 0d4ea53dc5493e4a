/** How many wait by default. Comparisons of cost 10, two at one time: the last of them waits about two seconds. */
const CHECKS_WAITING = 64;

export interface CheckLine {
  /**
   * Runs a check when it is its turn.
   *
   * @param preferred - goes before all that are not, and finds room in a full line: for credentials that
   * were right before, so that a flood of guesses does not put out those who work.
   * @returns undefined, at once, when the line is full; otherwise what the check says.
   */
  run<T>(check: () => Promise<T>, preferred: boolean): Promise<T> | undefined;
}

/** Keeps a flood of logins from taking every thread, or every place at an engine: few checks at once, few that wait. */
export function createCheckLine({
  atOnce,
  waiting = CHECKS_WAITING,
}: {
  /** Checks that run at one time. */
  readonly atOnce: number;
  /** Checks that may wait. Default: 64. */
  readonly waiting?: number;
}): CheckLine {
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
    run(check, preferred) {
      if (!preferred && running >= atOnce && commonLine.length >= waiting) return undefined;
      return turn(preferred ? preferredLine : commonLine)
        .then(check)
        .finally(callNext);
    },
  };
}
