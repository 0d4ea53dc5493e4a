import type { Invalidate } from '../invalidation.ts';
import type { Purges } from '../query-cache/purge.ts';

/**
 * A change of which nobody knows whether it was made may still be made: by a database that hangs, a remote server
 * that works on, or an engine that reads its data anew. What it would make stale is dropped again so long after it (ms).
 */
const DROPPED_AGAIN = [5_000, 60_000, 300_000, 900_000, 3_600_000];

export interface Invalidation {
  readonly invalidate: Invalidate;
  /** Nothing is dropped again from now on. */
  close(): void;
}

/** What changes of datasets, and statements at the engine, do to the cache. */
export function createInvalidation(purges: Purges): Invalidation {
  const timers = new Set<NodeJS.Timeout>();

  const drop: Invalidate = async (stale, principal, state, cause = 'change') => {
    if (state === 'before') return purges.renew(stale);
    const { ok } = await purges.purge(stale, { principal, cause });
    return ok;
  };

  function dropAgain(...[stale, principal, , cause]: Parameters<Invalidate>): void {
    for (const pause of DROPPED_AGAIN) {
      const timer = setTimeout(() => {
        timers.delete(timer);
        void drop(stale, principal, 'after', cause);
      }, pause);
      timer.unref();
      timers.add(timer);
    }
  }

  return {
    async invalidate(...change) {
      const dropped = await drop(...change);
      if (change[2] === 'unknown') dropAgain(...change);
      return dropped;
    },
    close() {
      for (const timer of timers) clearTimeout(timer);
      timers.clear();
    },
  };
}
