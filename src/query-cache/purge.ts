import type { Clock } from '../clock.ts';
import type { Emit } from '../events.ts';
import type { Epochs } from './epochs.ts';
import { purgedScopes, type Scope } from './scopes.ts';

/** A tenth more than the lease, for clocks that do not run alike. */
const LEASE_MARGIN = 1.1;
/** A renewal that was not confirmed is repeated: renewing twice is only one purge more. */
const RENEWAL_TRIES = 3;
/** Between two tries, so that a Redis that restarts has time for it (ms). */
const RENEWAL_PAUSE = 300;

export interface PurgeReceipt {
  readonly id: string;
  /** The project, or undefined for everything. */
  readonly project: string | undefined;
  readonly epochs_renewed: readonly Scope[];
  /** Milliseconds that were waited until no replica could still use the old epochs. */
  readonly waited: number;
  /** Calls of the engine's own clear operation. */
  readonly engine_calls: number;
}

export type PurgeOutcome =
  | { readonly ok: true; readonly receipt: PurgeReceipt }
  | {
      /** Redis did not confirm the new epochs. This replica's memory is empty; the renewal is owed. */
      readonly ok: false;
      readonly id: string;
      readonly project: string | undefined;
    };

export interface Purge {
  /**
   * Drops what the cache holds of one project, or everything (undefined). When the outcome is ok, a request
   * that arrives from now on, at any replica, gets no answer whose engine request began before this call.
   */
  (project: string | undefined, principal: string): Promise<PurgeOutcome>;
}

export function createPurge(options: {
  epochs: Epochs;
  /** Empties the memory tier of this replica. */
  clearMemory: () => void;
  clock: Clock;
  sleep: (milliseconds: number) => Promise<void>;
  newId: () => string;
  emit: Emit;
}): Purge {
  const { epochs, clock, emit } = options;

  async function renew(scopes: readonly Scope[]): Promise<number | undefined> {
    for (let tries = 0; tries < RENEWAL_TRIES; tries += 1) {
      if (tries > 0) await options.sleep(RENEWAL_PAUSE);
      try {
        return await epochs.renew(scopes);
      } catch (error) {
        emit({ type: 'redis-failed', operation: 'renew', error });
      }
    }
    return undefined;
  }

  return async function purge(project, principal) {
    const id = options.newId();
    const started = clock.now();
    const scopes = purgedScopes(project);
    const lease = await renew(scopes);
    if (lease === undefined) {
      epochs.owe(scopes);
      options.clearMemory();
      emit({
        type: 'purged',
        id,
        project,
        principal,
        ok: false,
        milliseconds: clock.now() - started,
      });
      return { ok: false, id, project };
    }
    if (project === undefined) options.clearMemory();
    const confirmed = clock.now();
    if (lease > 0) await options.sleep(lease * LEASE_MARGIN);
    const receipt: PurgeReceipt = {
      id,
      project,
      epochs_renewed: scopes,
      waited: Math.round(clock.now() - confirmed),
      engine_calls: 0,
    };
    emit({ type: 'purged', id, project, principal, ok: true, milliseconds: clock.now() - started });
    return { ok: true, receipt };
  };
}
