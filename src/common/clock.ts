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
