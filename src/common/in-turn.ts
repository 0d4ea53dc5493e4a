import { setImmediate as nextTurn } from 'node:timers/promises';

/** @returns what does one work after the other, in the order of the calls. One that fails keeps none of the next from its turn. */
export function oneAfterTheOther(): <T>(work: () => Promise<T> | T) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const own = last.then(work);
    last = own.catch(() => undefined);
    return own;
  };
}

/** Does something with each of many, with so many in one turn of the event loop: nothing else waits for longer than these take. */
export async function inTurns<T>(items: Iterable<T>, atOnce: number, work: (item: T) => void) {
  let begun = 0;
  for (const item of items) {
    if (begun > 0 && begun % atOnce === 0) await nextTurn();
    begun += 1;
    work(item);
  }
}
