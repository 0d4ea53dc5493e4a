import type { Clock } from './clock.ts';

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
