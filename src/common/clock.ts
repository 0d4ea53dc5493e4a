/** Time, so that a test can hold it still. */
export interface Clock {
  /** Milliseconds of a clock that never steps back; its zero means nothing. */
  now(): number;
  /** Milliseconds since 1970 by the wall clock, which an operator or NTP may move. */
  wall(): number;
}

export const systemClock: Clock = { now: performance.now.bind(performance), wall: Date.now };

/** What a promise settles to, if that is soon; else the error is thrown, and what becomes of it is not looked at. */
export async function inTime<T>(
  promise: Promise<T>,
  milliseconds: number,
  late: () => Error,
): Promise<T> {
  promise.catch(() => undefined);
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<never>((_resolve, reject) => {
    // One more turn, for what came while this process was busy.
    timer = setTimeout(() => setImmediate(() => reject(late())), milliseconds);
  });
  try {
    return await Promise.race([promise, over]);
  } finally {
    clearTimeout(timer);
  }
}

/** Concurrent callers share the running check, and later ones its result for so many milliseconds. */
export function shareFor<T>(
  milliseconds: number,
  clock: Pick<Clock, 'now'>,
  check: () => Promise<T>,
): () => Promise<T> {
  let shared: Promise<T> | undefined;
  let until = 0;
  return () => {
    if (shared !== undefined && clock.now() < until) return shared;
    until = Infinity;
    shared = check().finally(() => (until = clock.now() + milliseconds));
    return shared;
  };
}
