import { setImmediate as nextTurn } from 'node:timers/promises';

/** @returns acts when it is first called */
export function onlyOnce(act: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    act();
  };
}

/** @returns runs works one after the other; a failure stops no other */
export function oneAfterTheOther(): <T>(work: () => Promise<T> | T) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const own = last.then(work);
    last = own.catch(() => undefined);
    return own;
  };
}

export async function inTurns<T>(items: Iterable<T>, atOnce: number, work: (item: T) => void) {
  let begun = 0;
  for (const item of items) {
    if (begun > 0 && begun % atOnce === 0) await nextTurn();
    begun += 1;
    work(item);
  }
}
