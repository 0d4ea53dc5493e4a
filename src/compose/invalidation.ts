import type { Invalidate, Stale } from '../common/invalidation.ts';
import type { Purges } from '../cache/purge/purge.ts';
import { purgedScopes } from '../cache/projects.ts';

/**
 * A change of which it is not known whether it was made may still be made: by a database that hangs, a remote server
 * that works on, or an engine that reads its data anew. What it would make stale is dropped again so long after it (ms).
 */
const DROPPED_AGAIN = [5_000, 60_000, 300_000, 900_000, 3_600_000];
/** Of so many scopes at most it is kept that they are dropped again; of more, everything is. */
const MAX_SERIES = 2_000;

export interface Invalidation {
  readonly invalidate: Invalidate;
  /** Nothing is dropped again from now on. */
  close(): void;
}

/** What changes of datasets, and statements at the engine, do to the cache. */
export function createInvalidation(purges: Purges): Invalidation {
  /** What is dropped again → its next time. */
  const series = new Map<string, NodeJS.Timeout>();
  let closed = false;

  const drop: Invalidate = async (stale, principal, state, cause = 'change') => {
    if (state === 'before') return purges.renew(stale);
    const { ok } = await purges.purge(stale, { principal, cause });
    return ok;
  };

  /** From the beginning, whatever was left of an earlier change: the last drop comes an hour after the last change. */
  function dropAgain(...[changed, principal, , cause]: Parameters<Invalidate>): void {
    if (closed) return;
    const full = series.size >= MAX_SERIES && !series.has(seriesOf(changed));
    const stale = full ? 'everything' : changed;
    const name = seriesOf(stale);
    // From now on it drops whatever they would, and its last time is not before theirs.
    if (stale === 'everything') stopAll();
    clearTimeout(series.get(name));

    const next = (times: number) => {
      const pause = DROPPED_AGAIN[times];
      if (pause === undefined) {
        series.delete(name);
        return;
      }
      const timer = setTimeout(
        () => {
          next(times + 1);
          void drop(stale, principal, 'after', cause);
        },
        pause - (DROPPED_AGAIN[times - 1] ?? 0),
      );
      timer.unref();
      series.set(name, timer);
    };
    next(0);
  }

  function stopAll(): void {
    for (const timer of series.values()) clearTimeout(timer);
    series.clear();
  }

  return {
    async invalidate(...change) {
      const dropped = await drop(...change);
      if (change[2] === 'unknown') dropAgain(...change);
      return dropped;
    },
    close() {
      closed = true;
      stopAll();
    },
  };
}

/** Spellings of one project share a series, as they share an epoch. */
function seriesOf(stale: Stale): string {
  return purgedScopes(stale).join();
}
