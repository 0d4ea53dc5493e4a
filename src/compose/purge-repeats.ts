import type { Emit, Stale } from '../common/events.ts';
import type { Purge } from '../cache/purge/purge.ts';

/** So many purges may wait for their repetition. */
const MAX_REPEATS = 2_000;
/** So many of them are named when they are given up. */
const MAX_NAMED = 20;

export interface PurgeRepeats {
  /** As the purge that was given; one by clearCache is made once more after a pause. */
  readonly purge: Purge;
  /** Gives up what was still to be repeated, and warns of it. */
  close(): void;
}

/**
 * Makes each purge by clearCache once more after a while, for loads that show their data bit by bit: what was read in
 * the middle of one is dropped then. Only one whose epochs were renewed; one that is owed is to be called again anyway.
 *
 * @param options.pause milliseconds; 0 for never. Asked for at every purge, so that a reload changes it
 */
export function createPurgeRepeats(options: {
  purge: Purge;
  pause: () => number;
  emit: Emit;
}): PurgeRepeats {
  const { purge, emit } = options;
  /** The id of a run, which those share who share the run → what is repeated. */
  const repeats = new Map<string, { readonly stale: Stale; readonly timer: NodeJS.Timeout }>();
  let closed = false;

  function repeatLater(id: string, stale: Stale, principal: string): void {
    const pause = options.pause();
    if (pause <= 0 || closed || repeats.has(id)) return;
    if (repeats.size >= MAX_REPEATS) {
      const message = `a purge of ${named(stale)} is not repeated: ${MAX_REPEATS} others wait for their repetition`;
      emit({ type: 'warning', message });
      return;
    }
    const timer = setTimeout(() => {
      repeats.delete(id);
      void purge(stale, { principal, cause: 'repeat' });
    }, pause);
    timer.unref();
    repeats.set(id, { stale, timer });
  }

  return {
    async purge(stale, order) {
      const outcome = await purge(stale, order);
      if (order.cause === 'clear-cache' && (outcome.ok || outcome.failed === 'engine')) {
        repeatLater(outcome.receipt.id, stale, order.principal);
      }
      return outcome;
    },
    close() {
      closed = true;
      for (const { timer } of repeats.values()) clearTimeout(timer);
      const scopes = [...new Set([...repeats.values()].map(({ stale }) => named(stale)))];
      repeats.clear();
      if (scopes.length === 0) return;
      const more = scopes.length > MAX_NAMED ? ` and ${scopes.length - MAX_NAMED} more` : '';
      const message = `purges that were to be repeated are not: ${scopes.slice(0, MAX_NAMED).join(', ')}${more}`;
      emit({ type: 'warning', message });
    },
  };
}

function named(stale: Stale): string {
  return typeof stale === 'string' ? stale : stale.project;
}
