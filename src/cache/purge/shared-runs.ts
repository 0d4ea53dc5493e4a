/**
 * Begins a run for a caller, or lets several share one.
 * @param key whose runs can stand for each other
 * @param begin begins it, and calls `acted` when the next one of the key may begin to act; at its end at the latest
 *   that is taken for called
 */
export type ShareRun<T> = (key: string, begin: (acted: () => void) => Promise<T>) => Promise<T>;

interface Waiting<T> {
  readonly promise: Promise<T>;
  readonly resolve: (run: Promise<T>) => void;
  readonly begin: (acted: () => void) => Promise<T>;
}

/**
 * Work that must begin after it was asked for, and is the same for all who ask: of one key at most one run acts at a
 * time, and one waits for it, which all share who come meanwhile. No caller is given a run that had begun before it came.
 */
export function createSharedRuns<T>(): ShareRun<T> {
  /** Keys of which a run acts, with the one that waits for it. */
  const acting = new Map<string, Waiting<T> | undefined>();

  function start(key: string, begin: Waiting<T>['begin']): Promise<T> {
    acting.set(key, undefined);
    let over = false;
    const acted = () => {
      if (over) return;
      over = true;
      const next = acting.get(key);
      acting.delete(key);
      next?.resolve(start(key, next.begin));
    };
    return begin(acted).finally(acted);
  }

  return function share(key, begin) {
    if (!acting.has(key)) return start(key, begin);
    const waiting = acting.get(key) ?? { begin, ...Promise.withResolvers<T>() };
    acting.set(key, waiting);
    return waiting.promise;
  };
}
