/** Ends a timer; calls after the first, or after its end, do nothing. */
export type Cancel = () => void;

/** Time, so that a test can hold it still, and a simulation can let it pass. */
export interface Clock {
  /** Milliseconds of a clock that never steps back; its zero means nothing. */
  now(): number;
  /** Milliseconds since 1970 by the wall clock, which an operator or NTP may move. */
  wall(): number;
  /** Calls once. Keeps no process alive. */
  after(milliseconds: number, act: () => void): Cancel;
  /** Calls again and again. Keeps no process alive. */
  every(milliseconds: number, act: () => void): Cancel;
}

type Timers = Pick<Clock, 'after'>;

export const systemClock: Clock = {
  now: performance.now.bind(performance),
  wall: Date.now,
  after(milliseconds, act) {
    const timer = setTimeout(act, milliseconds).unref();
    return () => clearTimeout(timer);
  },
  every(milliseconds, act) {
    const timer = setInterval(act, milliseconds).unref();
    return () => clearInterval(timer);
  },
};

/** Resolves after this time, or as soon as the signal aborts. */
export function pause(
  clock: Timers,
  milliseconds: number,
  signal?: AbortSignal | undefined,
): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  const { promise, resolve } = Promise.withResolvers<void>();
  const cancel = clock.after(milliseconds, end);
  function end(): void {
    cancel();
    signal?.removeEventListener('abort', end);
    resolve();
  }
  signal?.addEventListener('abort', end, { once: true });
  return promise;
}

/** Resolves as the promise does, if that is soon; else the error is thrown, and the promise is left alone. */
export async function inTime<T>(
  promise: Promise<T>,
  milliseconds: number,
  late: () => Error,
  clock: Timers = systemClock,
): Promise<T> {
  promise.catch(() => undefined);
  let cancel: Cancel | undefined;
  const over = new Promise<never>((_resolve, reject) => {
    // One more turn, for what came while this process was busy.
    cancel = clock.after(milliseconds, () => setImmediate(() => reject(late())));
  });
  try {
    return await Promise.race([promise, over]);
  } finally {
    cancel?.();
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
