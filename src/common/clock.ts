/** Ends a timer; may be called again. */
export type Cancel = () => void;

export interface Clock {
  /** Monotonic (ms); its zero means nothing. */
  now(): number;
  /** Wall clock (ms since 1970), which an operator or NTP may move. */
  wall(): number;
  after(milliseconds: number, act: () => void): Cancel;
  /** Keeps no process alive, like `after`. */
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

export function pause(clock: Timers, milliseconds: number, signal?: AbortSignal) {
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

/** Settles as the promise does if in time; else throws `late()`, and leaves it alone. */
export async function inTime<T>(
  promise: Promise<T>,
  milliseconds: number,
  late: () => Error,
  clock: Timers = systemClock,
): Promise<T> {
  promise.catch(() => undefined);
  let cancel: Cancel | undefined;
  const over = new Promise<never>((_resolve, reject) => {
    // One more turn, for what came while the process was busy.
    cancel = clock.after(milliseconds, () => setImmediate(() => reject(late())));
  });
  try {
    return await Promise.race([promise, over]);
  } finally {
    cancel?.();
  }
}

/** Callers share the running check, and its result for some time after. */
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
