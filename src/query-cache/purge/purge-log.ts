import type { PurgeCause, PurgeResult } from '../../events.ts';
import type { Stale } from '../../invalidation.ts';

/**
 * What is remembered of one purge. Those that shared a run have one id, and a record for each who asked. A purge that
 * was owed has a second one when it was done at last.
 */
export interface PurgeRecord {
  readonly id: string;
  /** When it was asked for; of one that was owed, when it was done (wall clock, ms). */
  readonly at: number;
  readonly principal: string;
  readonly cause: PurgeCause;
  readonly scope: Stale;
  readonly result: PurgeResult;
  /** Gateways that told that they have forgotten it, this one included. */
  readonly replicas: number;
  /** Milliseconds that were waited until no replica could still use the old epochs. */
  readonly waited: number;
  /** Calls of the engine's own clear operation. */
  readonly engine_calls: number;
}

/** So many purges are remembered, the latest. */
export const MAX_PURGES = 1_000;

/** Port: the latest purges of all gateways. Bounded: the oldest are forgotten. */
export interface PurgeLog {
  /** Never rejects: what cannot be kept where all see it is kept here, and carried over later. */
  add(record: PurgeRecord): Promise<void>;
  /**
   * The latest first.
   * @returns `complete` false when those of other gateways could not be read
   */
  latest(
    most: number,
  ): Promise<{ readonly complete: boolean; readonly purges: readonly PurgeRecord[] }>;
}

/** One line of a log that gateways share. */
export interface PurgeLine {
  /** Random, so that a line that was written twice is found to be one. */
  readonly line: string;
  readonly record: PurgeRecord;
}

/**
 * Port: where gateways keep the log that they share. Every method rejects when it cannot be reached; then nothing is
 * known of what it did.
 */
export interface PurgeLines {
  /** Adds the lines, oldest first, and forgets all but the `most` that were added last. */
  add(lines: readonly PurgeLine[], most: number): Promise<void>;
  /** The `most` that were added last, oldest first, without what cannot be read. */
  all(most: number): Promise<readonly PurgeLine[]>;
}
