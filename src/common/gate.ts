/** Lets a bounded number in at one time; the others wait in the order they came. */
export interface Gate {
  /**
   * Resolves, when there is a place, to the function that gives it back (calling it twice does no harm).
   * Rejects with the signal's reason when that aborts first.
   */
  enter(signal: AbortSignal): Promise<() => void>;
  /** The same without a promise, where there is a place now; undefined where there is none. */
  tryEnter(): (() => void) | undefined;
  /** How many are in, and how many wait. */
  usage(): { readonly inside: number; readonly waiting: number };
}

export function createGate(places: number): Gate {
  let inside = 0;
  const waiting = new Set<() => void>();

  function leave(): void {
    const [next] = waiting;
    if (next === undefined) inside -= 1;
    else {
      waiting.delete(next);
      next();
    }
  }

  function wait(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        waiting.delete(enter);
        reject(signal.reason as Error);
      };
      const enter = () => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      };
      signal.addEventListener('abort', onAbort, { once: true });
      waiting.add(enter);
    });
  }

  function entered(): () => void {
    let left = false;
    return () => {
      if (!left) leave();
      left = true;
    };
  }

  function tryEnter(): (() => void) | undefined {
    // None waits then.
    if (inside >= places) return undefined;
    inside += 1;
    return entered();
  }

  return {
    tryEnter,
    async enter(signal) {
      signal.throwIfAborted();
      const now = tryEnter();
      if (now !== undefined) return now;
      await wait(signal);
      return entered();
    },
    usage: () => ({ inside, waiting: waiting.size }),
  };
}
