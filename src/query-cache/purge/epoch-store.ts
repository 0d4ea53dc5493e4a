import type { Scope } from './scopes.ts';

export interface EpochReading {
  /** Aligned with the scopes that were asked for. */
  readonly tokens: readonly string[];
  /** The secret under which all replicas make keys. */
  readonly keySecret: string;
}

/** What is told to the other replicas. It never holds an epoch. */
export interface Announcement {
  /** The id of the purge. */
  readonly purge: string;
  readonly scopes: readonly Scope[];
}

/**
 * Port: where the epochs live. An epoch is a random token, never a counter: a lost token is only one purge
 * more, while a counter that restarts would make old entries reachable again.
 *
 * Every method rejects when the store cannot be reached or does not answer within its deadline; then nothing
 * is known of what it did.
 */
export interface EpochStore {
  /** Reads the epochs of the scopes, and makes those that are absent. */
  read(scopes: readonly Scope[]): Promise<EpochReading>;
  /**
   * Gives all the scopes new epochs in one atomic step.
   * @returns the longest lease (milliseconds) under which any replica may still use the old ones
   */
  renew(scopes: readonly Scope[]): Promise<number>;
  /**
   * Names what keeps the epochs now: new after every restart and failover, of which a renewal that was confirmed just
   * before may know nothing. Asked for together with a renewal, both are of one place.
   */
  incarnation(): Promise<string>;
  /** Tells the other replicas to forget the scopes. Nothing depends on its arrival. */
  announce(announcement: Announcement): Promise<void>;
  /**
   * How many replicas have told that they handled the announcement of this purge, this one included. For
   * information only: one that does not tell may still use the old epochs.
   */
  acknowledged(purge: string): number;
  /** The listener is called for every announcement, also one's own; once the store is closed, never. */
  onAnnouncement(listener: (scopes: readonly Scope[]) => void): void;
  close(): Promise<void>;
}
