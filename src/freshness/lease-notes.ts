import type { Clock } from '../common/clock.ts';

/** Which holders use what they read, and for how long. */
export interface LeaseNotes {
  /**
   * Notes that this holder uses what it reads now for `lease` milliseconds.
   * @param kept for how long the note counts (ms); ten leases when left out, so that a change that comes late finds it
   */
  note(holder: string, lease: number, kept?: number): void;
  /** The longest lease of all holders but this one (ms); 0 where there is none. */
  longest(but?: string): number;
}

interface Note {
  readonly holder: string;
  readonly lease: number;
  /** By the clock that never steps back. */
  readonly over: number;
}

/** So many leases a note counts. */
const KEPT = 10;
/** From so many notes on, each new one looks for those that are over. */
const MANY = 256;

/** @param clock of the process that keeps the notes */
export function createLeaseNotes(clock: Pick<Clock, 'now'>): LeaseNotes {
  const notes = new Map<string, Note>();

  function sweep(now: number): void {
    for (const [key, { over }] of notes) if (over <= now) notes.delete(key);
  }

  return {
    note(holder, lease, kept = lease * KEPT) {
      const now = clock.now();
      if (notes.size >= MANY) sweep(now);
      // A holder whose lease was changed may use for the longer one what it read before.
      notes.set(`${lease} ${holder}`, { holder, lease, over: now + kept });
    },
    longest(but) {
      sweep(clock.now());
      let longest = 0;
      for (const { holder, lease } of notes.values()) {
        if (holder !== but) longest = Math.max(longest, lease);
      }
      return longest;
    },
  };
}
