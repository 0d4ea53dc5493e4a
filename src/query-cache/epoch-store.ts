import type { Scope } from './scopes.ts';

export interface EpochReading {
  /** Aligned with the scopes that were asked for. */
  readonly tokens: readonly string[];
  /** The secret under which all replicas make keys. */
  readonly keySecret: string;
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
  /** Tells the other replicas to forget the scopes. Nothing depends on its arrival. */
  announce(scopes: readonly Scope[]): Promise<void>;
  /** The listener is called for every announcement, also one's own; once the store is closed, never. */
  onAnnouncement(listener: (scopes: readonly Scope[]) => void): void;
  close(): Promise<void>;
}
