import { purgedScopes } from '../cache/projects.ts';
import type { Purge, Purges } from '../cache/purge/purge.ts';
import type { Cancel, Clock } from '../common/clock.ts';
import { CAUSES, type Emit, type Invalidate, type Stale } from '../common/events.ts';
import { listOf } from '../common/list-of.ts';

const MAX_REPEATS = 2_000;
/** Purges that are named when their repetition is given up. */
const MAX_NAMED = 20;
/**
 * Pauses before each repetition of a purge (ms), the last an hour after the change. A change of
 * which it is not known whether it was made may still be made: by a database that hangs, a remote
 * server that works on, or an engine that reads its data anew.
 */
const DROPPED_AGAIN = [5_000, 55_000, 240_000, 600_000, 2_700_000];
/** Scopes that are dropped again by themselves; of more, everything is dropped. */
const MAX_SERIES = 2_000;

/** Purges for clients and changes. @param pause tells when a purge is repeated (ms); 0 for never */
export function createPurging(purges: Purges, pause: () => number, clock: Clock, emit: Emit) {
  /** Repetitions by the id of a run; callers who share a run share it. */
  const repeats = createTimers(clock);
  /** Series of later drops by scopes; spellings of one project share one. */
  const series = createTimers(clock);
  let closed = false;

  /**
   * Repeats each purge by clearCache or a hook after a while, for loads that show their data bit by
   * bit: what was read in the middle of one is dropped then. A purge that is owed is not repeated.
   */
  const purge: Purge = async (stale, order) => {
    const outcome = await purges.purge(stale, order);
    const { principal, cause } = order;
    if (closed || !CAUSES[cause].isCall || !('receipt' in outcome)) return outcome;
    const { id } = outcome.receipt;
    const after = pause();
    if (after <= 0 || repeats.set.has(id)) return outcome;
    if (repeats.set.size < MAX_REPEATS) {
      repeats.start(id, stale, [after], () => purges.purge(stale, { principal, cause: 'repeat' }));
    } else {
      const message = `a purge of ${named(stale)} is not repeated: ${MAX_REPEATS} others wait for their repetition`;
      emit({ type: 'warning', message });
    }
    return outcome;
  };

  /** Drops what changes of datasets, and statements at the engine, make stale. */
  const invalidate: Invalidate = async (stale, principal, state, by) => {
    if (state === 'before') return purges.renew(stale);
    const drop = (what: Stale) => purges.purge(what, { principal, ...(by ?? { cause: 'change' }) });
    const { ok } = await drop(stale);
    if (state === 'unknown' && !closed) dropAgain(stale, drop);
    return ok;
  };

  /** Begins a series anew: the last drop comes an hour after the last change. */
  function dropAgain(changed: Stale, drop: (what: Stale) => unknown): void {
    const isFull = series.set.size >= MAX_SERIES && !series.set.has(nameOf(changed));
    const stale = isFull ? 'everything' : changed;
    // From now on it drops whatever they would, and its last time is not before theirs.
    if (stale === 'everything') series.clear();
    series.start(nameOf(stale), stale, DROPPED_AGAIN, () => drop(stale));
  }

  return {
    purge,
    invalidate,
    /** Gives up what was still to be done. Warns of what was to be repeated. */
    close(): void {
      closed = true;
      series.clear();
      const scopes = [...new Set([...repeats.set.values()].map(({ stale }) => named(stale)))];
      repeats.clear();
      if (scopes.length === 0) return;
      const message = `purges that were to be repeated are not: ${listOf(scopes, MAX_NAMED)}`;
      emit({ type: 'warning', message });
    },
  };
}

function createTimers(clock: Clock) {
  const set = new Map<string, { readonly stale: Stale; readonly cancel: Cancel }>();

  /** Replaces what the name stood for. @param pauses before each time (ms) */
  function start(name: string, stale: Stale, pauses: readonly number[], act: () => unknown): void {
    const [pause, ...later] = pauses;
    set.get(name)?.cancel();
    set.delete(name);
    if (pause === undefined) return;
    const cancel = clock.after(pause, () => {
      start(name, stale, later, act);
      void act();
    });
    set.set(name, { stale, cancel });
  }

  function clear(): void {
    for (const { cancel } of set.values()) cancel();
    set.clear();
  }

  return { set, start, clear };
}

const nameOf = (stale: Stale) => purgedScopes(stale).join();
const named = (stale: Stale) => (typeof stale === 'string' ? stale : stale.project);
