/** Time, handed to what needs it, so that a test can hold it still. */
export interface Clock {
  /** Milliseconds of a clock that never steps back; its zero means nothing. */
  now(): number;
  /** Milliseconds since 1970 by the wall clock, which an operator or NTP may move. */
  wall(): number;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
};

/** What a lease is waited out with: a tenth more, for clocks that do not run alike. */
export const LEASE_MARGIN = 1.1;

/** The moment from which a lease is counted, by both clocks. */
export interface LeaseStart {
  readonly now: number;
  readonly wall: number;
}

/** A lease that was told to the store with the question that it began with. */
export interface Lease extends LeaseStart {
  /** Milliseconds. */
  readonly length: number;
}

export function leaseStart(clock: Clock): LeaseStart {
  return { now: clock.now(), wall: clock.wall() };
}

/**
 * Whether a lease of `length` milliseconds still holds. It has run out when either clock says so, or when the
 * wall clock stepped back: the monotonic clock may stand still while a machine sleeps, and the wall clock may
 * be set.
 */
export function leaseHolds(start: LeaseStart, length: number, clock: Clock): boolean {
  const wall = clock.wall();
  return clock.now() - start.now < length && wall >= start.wall && wall - start.wall < length;
}

/**
 * What a promise settles to, if that is soon; what becomes of it later is not looked at.
 * @param late makes the error that is thrown after so many milliseconds
 */
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
