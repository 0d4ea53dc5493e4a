/** Lets a bounded number in at one time; the others wait in the order they came. */
export interface Gate {
  /**
   * Resolves, when there is a place, to the function that gives it back (calling it twice does no harm).
   * Rejects with the signal's reason when that aborts first.
   */
  enter(signal: AbortSignal): Promise<() => void>;
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

  return {
    async enter(signal) {
      signal.throwIfAborted();
      if (inside < places) inside += 1;
      else await wait(signal);
      let left = false;
      return () => {
        if (!left) leave();
        left = true;
      };
    },
    usage: () => ({ inside, waiting: waiting.size }),
  };
}
