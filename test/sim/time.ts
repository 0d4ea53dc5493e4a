interface Event {
  readonly at: number;
  readonly order: number;
  /** Undefined once it was taken back. */
  happen: (() => void) | undefined;
}

const isBefore = (one: Event, other: Event) =>
  one.at < other.at || (one.at === other.at && one.order < other.order);

/** Events by their moments, and of one moment by the order in which they were added: a binary heap. */
function createQueue() {
  const heap: Event[] = [];
  const of = (place: number) => heap[place] as Event;

  function swap(one: number, other: number): void {
    [heap[one], heap[other]] = [of(other), of(one)];
  }

  return {
    add(event: Event): void {
      let place = heap.push(event) - 1;
      while (place > 0) {
        const above = (place - 1) >> 1;
        if (!isBefore(event, of(above))) break;
        swap(place, above);
        place = above;
      }
    },
    next(): Event | undefined {
      const first = heap[0];
      const last = heap.pop();
      if (first === undefined || last === undefined || first === last) return first;
      heap[0] = last;
      for (let place = 0; ;) {
        const below = 2 * place + 1;
        const least = below + 1 < heap.length && isBefore(of(below + 1), of(below)) ? 1 : 0;
        if (below >= heap.length || !isBefore(of(below + least), last)) return first;
        swap(place, below + least);
        place = below + least;
      }
    },
  };
}

function repeat(
  after: (ms: number, act: () => void) => () => void,
  ms: number,
  act: () => void,
): () => void {
  const again = () => {
    cancel = after(ms, again);
    act();
  };
  let cancel = after(ms, again);
  return () => cancel();
}

export type SimulatedTime = ReturnType<typeof createTime>;

/** The wall clock at the beginning of every run (ms). */
const BEGINNING = 1_700_000_000_000;

/**
 * A time that passes only from one event to the next: the same run for the same seed, however busy the machine is. Two
 * events of one moment happen in the order in which they were planned.
 */
export function createTime() {
  const events = createQueue();
  const underWay = new Set<Promise<unknown>>();
  let now = 1_000;
  let order = 0;

  /** Has something happen after a delay; what is returned takes that back. */
  function after(ms: number, happen: () => void): () => void {
    const event: Event = { at: now + Math.max(0, ms), order: (order += 1), happen };
    events.add(event);
    return () => void (event.happen = undefined);
  }

  const every = (ms: number, happen: () => void) => repeat(after, ms, happen);

  const nextTurn = () => new Promise<void>((resolve) => void setImmediate(resolve));

  /** What waits for nothing but its turn has had it then, and what a real server was asked has been answered. */
  async function settle(): Promise<void> {
    await nextTurn();
    while (underWay.size > 0) {
      await Promise.allSettled(underWay);
      await nextTurn();
    }
  }

  return {
    /** One clock for all that is simulated. */
    clock: { now: () => now, wall: () => BEGINNING + now, after, every },
    after,
    sleep: (ms: number) => new Promise<void>((resolve) => void after(ms, resolve)),
    /** Time stands still until it has settled: for what leaves the process, or needs turns of the real event loop. */
    during<T>(work: Promise<T>): Promise<T> {
      underWay.add(work);
      const over = () => void underWay.delete(work);
      work.then(over, over);
      return work;
    },
    /** Lets time pass until then. @throws Error when nothing is left that could happen */
    async run(isOver: () => boolean): Promise<void> {
      await settle();
      while (!isOver()) {
        const next = events.next();
        if (next === undefined) throw new Error('nothing is left that could happen');
        if (next.happen === undefined) continue;
        now = next.at;
        next.happen();
        await settle();
      }
    },
  };
}

export type SimulatedProcess = ReturnType<typeof createProcess>;

/**
 * Time as one process sees it: its clocks run at a rate of their own, its wall clock may be set, and it may stand still,
 * as in a long collection of garbage. What was due meanwhile happens behind that, in its order.
 */
export function createProcess(time: SimulatedTime, rate = 1) {
  let awakeAt = 0;
  let ahead = 0;
  const now = () => time.clock.now() * rate;

  /** Acts as soon as the process runs; what is returned takes that back. */
  function whenAwake(act: () => void): () => void {
    const wait = awakeAt - time.clock.now();
    let cancel = () => {};
    if (wait > 0) cancel = time.after(wait, () => (cancel = whenAwake(act)));
    else act();
    return () => cancel();
  }

  function after(ms: number, act: () => void): () => void {
    let cancel = time.after(ms / rate, () => (cancel = whenAwake(act)));
    return () => cancel();
  }

  return {
    clock: {
      now,
      wall: () => BEGINNING + now() + ahead,
      after,
      every: (ms: number, act: () => void) => repeat(after, ms, act),
    },
    after,
    whenAwake: (act: () => void) => void whenAwake(act),
    sleep: (ms: number) => new Promise<void>((resolve) => void after(ms, resolve)),
    stall: (ms: number) => void (awakeAt = time.clock.now() + ms),
    setWall: (by: number) => void (ahead += by),
  };
}
