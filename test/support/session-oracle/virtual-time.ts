import type { Clock } from '../../../src/common/clock.ts';

interface Event {
  readonly at: number;
  readonly order: number;
  readonly happen: () => void;
}

export type VirtualTime = ReturnType<typeof createVirtualTime>;

/** A time that passes only from one thing that happens to the next: the same run for the same seed, however busy the machine. */
export function createVirtualTime() {
  /** The next one last. */
  const events: Event[] = [];
  const underWay = new Set<Promise<unknown>>();
  let now = 1_000;
  let order = 0;

  function at(delay: number, happen: () => void): () => void {
    const event = { at: now + delay, order: (order += 1), happen };
    let [low, high] = [0, events.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((events[middle]?.at ?? 0) > event.at) low = middle + 1;
      else high = middle;
    }
    events.splice(low, 0, event);
    return () => {
      const place = events.indexOf(event);
      if (place >= 0) events.splice(place, 1);
    };
  }

  /** What waits for nothing but its turn has had it then, and what a real server was asked has been answered. */
  async function settle(): Promise<void> {
    do {
      await Promise.allSettled(underWay);
      await new Promise((resolve) => setImmediate(resolve));
    } while (underWay.size > 0);
  }

  const clock: Clock = {
    now: () => now,
    wall: () => 1_700_000_000_000 + now,
    after: at,
    every(milliseconds, act) {
      let cancel = at(milliseconds, again);
      function again(): void {
        cancel = at(milliseconds, again);
        act();
      }
      return () => cancel();
    },
  };
  return {
    clock,
    /** Has something happen after so many milliseconds; what is returned takes that back. */
    at,
    sleep: (milliseconds: number) =>
      new Promise<void>((resolve) => void at(milliseconds, () => resolve())),
    /** Time stands still until it has settled. */
    during<T>(work: Promise<T>): Promise<T> {
      underWay.add(work);
      const over = () => void underWay.delete(work);
      work.then(over, over);
      return work;
    },
    async run(isOver: () => boolean): Promise<void> {
      await settle();
      while (!isOver()) {
        const next = events.pop();
        if (next === undefined) throw new Error('nothing is left that could happen');
        now = next.at;
        next.happen();
        await settle();
      }
    },
  };
}
