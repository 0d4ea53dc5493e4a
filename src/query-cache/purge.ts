import type { Clock } from '../clock.ts';
import type { Emit, PurgeCause } from '../events.ts';
import type { Stale } from '../invalidation.ts';
import { LEASE_MARGIN } from '../lease.ts';
import type { Epochs } from './epochs.ts';
import { purgedScopes, type Scope } from './scopes.ts';

/** A renewal that was not confirmed is repeated: renewing twice is only one purge more. */
const RENEWAL_TRIES = 3;
/** Between two tries, so that a Redis that restarts has time for it (ms). */
const RENEWAL_PAUSE = 300;

export interface PurgeReceipt {
  readonly id: string;
  readonly scope: Stale;
  readonly epochs_renewed: readonly Scope[];
  /** Milliseconds that were waited until no replica could still use the old epochs. */
  readonly waited: number;
  /** Calls of the engine's own clear operation. */
  readonly engine_calls: number;
}

export type PurgeOutcome =
  | { readonly ok: true; readonly receipt: PurgeReceipt }
  /** Redis did not confirm the new epochs. This replica's memory is empty; the renewal is owed. */
  | { readonly ok: false };

/** Who wanted a purge, and why. */
export interface PurgeOrder {
  readonly principal: string;
  readonly cause: PurgeCause;
}

/**
 * Drops what the cache holds. When the outcome is ok, a request that arrives from now on, at any replica, gets
 * no answer whose engine request began before this call.
 */
export type Purge = (stale: Stale, order: PurgeOrder) => Promise<PurgeOutcome>;

export interface Purges {
  readonly purge: Purge;
  /**
   * Renews the epochs like a purge, and waits for nobody: other replicas may go on for a lease. For what is
   * followed by a purge, so that it is tried once only.
   * @returns false when Redis did not confirm it; it then stays owed
   */
  renew(stale: Stale): Promise<boolean>;
}

export function createPurges(options: {
  epochs: Epochs;
  /** Empties the memory tier of this replica. */
  clearMemory: () => void;
  clock: Clock;
  sleep: (milliseconds: number) => Promise<void>;
  newId: () => string;
  emit: Emit;
}): Purges {
  const { epochs, clock, emit } = options;

  /** Resolves to the lease that has to pass; undefined when the renewal is owed. */
  async function renew(scopes: readonly Scope[], most: number): Promise<number | undefined> {
    for (let tries = 0; tries < most; tries += 1) {
      if (tries > 0) await options.sleep(RENEWAL_PAUSE);
      try {
        return await epochs.renew(scopes);
      } catch (error) {
        emit({ type: 'redis-failed', operation: 'renew', error });
      }
    }
    epochs.owe(scopes);
    options.clearMemory();
    return undefined;
  }

  async function purge(stale: Stale, order: PurgeOrder): Promise<PurgeOutcome> {
    const id = options.newId();
    const started = clock.now();
    const scopes = purgedScopes(stale);
    const lease = await renew(scopes, RENEWAL_TRIES);
    const ok = lease !== undefined;
    const confirmed = clock.now();
    if (ok) {
      if (stale === 'everything') options.clearMemory();
      if (lease > 0) await options.sleep(lease * LEASE_MARGIN);
    }
    const ended = clock.now();
    emit({ type: 'purged', id, scope: stale, ...order, ok, milliseconds: ended - started });
    if (!ok) return { ok };
    const waited = Math.round(ended - confirmed);
    return { ok, receipt: { id, scope: stale, epochs_renewed: scopes, waited, engine_calls: 0 } };
  }

  return { purge, renew: async (stale) => (await renew(purgedScopes(stale), 1)) !== undefined };
}
