import { LEASE_MARGIN, type Clock } from '../../common/clock.ts';
import type { Emit, PurgeCause, PurgeResult, Stale } from '../../common/events.ts';
import type { Epochs, Renewal } from '../../freshness/freshness.ts';
import type { ClearEngines, EngineClear } from './engine-clear.ts';
import type { PurgeLog, PurgeRecord } from './purge-log.ts';
import { purgedScopes, type Scope } from './scopes.ts';
import { createSharedRuns } from './shared-runs.ts';

/** A renewal that was not confirmed is repeated: renewing twice is only one purge more. */
const RENEWAL_TRIES = 3;
/** Between two tries, so that a Redis that restarts has time for it (ms). */
const RENEWAL_PAUSE = 300;
/** So many callers are told when what is pending is done, the latest. */
const MAX_WAITING = 1_000;

export interface PurgeReceipt {
  readonly id: string;
  readonly scope: Stale;
  readonly epochs_renewed: readonly Scope[];
  /** Gateways that told within the wait that they have forgotten the old epochs, this one included. */
  readonly replicas: number;
  /** Milliseconds that were waited until no replica could still use the old epochs. */
  readonly waited: number;
  /** Calls of the engine's own clear operation. */
  readonly engine_calls: number;
}

export type PurgeOutcome =
  | { readonly ok: true; readonly receipt: PurgeReceipt }
  /** The epochs are new and the wait is over, but some engine did not clear its own cache. */
  | {
      readonly ok: false;
      readonly failed: 'engine';
      readonly receipt: PurgeReceipt;
      readonly engines: readonly EngineClear[];
    }
  /** Redis did not confirm the new epochs. This replica's memory is empty; the renewal is owed. */
  | { readonly ok: false; readonly failed: 'redis'; readonly engines: readonly EngineClear[] };

/** What a purge has to do with engines. */
export interface EngineClearing {
  /** Called for what a user wants cleared, not for changes that engines made themselves or are told of. */
  readonly clear: ClearEngines;
  /** Whether engines are asked with the login of the caller: then only callers who have the same share a run. */
  readonly asksAsCaller: () => boolean;
}

/** Who wanted a purge, and why. */
export interface PurgeOrder {
  readonly principal: string;
  readonly cause: PurgeCause;
  /** The header Authorization of the caller, for engines that are asked with the login of the client. */
  readonly authorization?: string | undefined;
}

/**
 * Drops what the cache holds. When the outcome is ok, a request that arrives from now on, at any replica, gets
 * no answer whose engine request began before this call.
 */
export type Purge = (stale: Stale, order: PurgeOrder) => Promise<PurgeOutcome>;

export interface Purges {
  readonly purge: Purge;
  /**
   * Renews the epochs like a purge, and does not wait: other gateways may go on for a lease. For what is
   * followed by a purge, so that it is tried once only.
   * @returns false when Redis did not confirm it; it then stays owed
   */
  renew(stale: Stale): Promise<boolean>;
}

/** A purge that Redis has not confirmed yet: as it is in the log, and the result that it has when it is done. */
interface WaitingPurge {
  readonly record: PurgeRecord;
  readonly becomes: Exclude<PurgeResult, 'owed'>;
}

/** Scopes whose renewal is pending, with the purges that wait for it. */
interface PendingPurge {
  readonly scopes: readonly Scope[];
  readonly id: string;
  readonly waiting: readonly WaitingPurge[];
}

/** Purges of one cache. */
export interface CachePurges extends Purges {
  /** Resolves when no purge that was pending waits for its lease any more, and those that did are told. */
  told(): Promise<void>;
}

/** A wait that is over, until no gateway uses the old tokens. */
interface Passed {
  /** Milliseconds. */
  readonly waited: number;
  readonly replicas: number;
}

/** What all who share a run are told. */
type RunOutcome = PurgeOutcome & { readonly id: string };

/**
 * Purges of one thing that come together share a run: its engines are asked and its tokens renewed once, after all of
 * them came. The lease of one run passes while the next one acts.
 */
export function createPurges(options: {
  epochs: Epochs;
  /** Empties the memory tier of this gateway. */
  clearMemory: () => void;
  engineClearing: EngineClearing;
  log: PurgeLog;
  clock: Clock;
  sleep: (milliseconds: number) => Promise<void>;
  newId: () => string;
  emit: Emit;
}): CachePurges {
  const { epochs, engineClearing, clock, emit } = options;
  const share = createSharedRuns<RunOutcome>();
  /** What is pending, by its scopes. */
  const pending = new Map<string, PendingPurge>();
  /** What is renewed, and whose lease passes. */
  const passing = new Set<Promise<void>>();

  /** Undefined when Redis did not confirm it: then it is pending. */
  async function renew(
    scopes: readonly Scope[],
    id: string,
    most: number,
  ): Promise<Renewal | undefined> {
    for (let tries = 0; tries < most; tries += 1) {
      if (tries > 0) await options.sleep(RENEWAL_PAUSE);
      try {
        return await epochs.renew(scopes, id);
      } catch (error) {
        emit({ type: 'redis-failed', operation: 'renew', error });
      }
    }
    giveUp({ scopes, id, waiting: [] });
    return undefined;
  }

  /**
   * Waits until no gateway uses the old tokens; to be called in the turn in which the new ones were confirmed.
   * Undefined when Redis was replaced meanwhile: its successor, or its snapshot, may not know the new ones, and gateways
   * may use what they read there.
   */
  async function leasePassed({ lease, replicas, stands }: Renewal): Promise<Passed | undefined> {
    const confirmed = clock.now();
    if (lease > 0) await options.sleep(lease * LEASE_MARGIN);
    const passed = { waited: Math.round(clock.now() - confirmed), replicas: replicas() };
    try {
      return (await stands()) ? passed : undefined;
    } catch (error) {
      emit({ type: 'redis-failed', operation: 'renew', error });
      return undefined;
    }
  }

  /** New tokens, and the wait for them; once more when Redis was replaced meanwhile. */
  async function renewForAll(stale: Stale, id: string, acted: () => void) {
    const scopes = purgedScopes(stale);
    for (let tries = 0; tries < RENEWAL_TRIES; tries += 1) {
      const renewal = await renew(scopes, id, RENEWAL_TRIES);
      acted();
      if (renewal === undefined) return undefined;
      if (scopes.includes('everything')) options.clearMemory();
      const passed = await leasePassed(renewal);
      if (passed !== undefined) return passed;
    }
    giveUp({ scopes, id, waiting: [] });
    return undefined;
  }

  function giveUp(purge: PendingPurge): void {
    options.clearMemory();
    markPending(purge);
  }

  /** Its scopes are renewed in the background; then the purges are told that waited for it. */
  function markPending({ scopes, id, waiting }: PendingPurge): void {
    const key = JSON.stringify(scopes);
    const others = pending.get(key)?.waiting ?? [];
    pending.set(key, { scopes, id, waiting: [...others, ...waiting].slice(-MAX_WAITING) });
    epochs.pending.add(scopes, async () => {
      // A purge that comes while they are renewed has a renewal of its own.
      const before = pending.get(key)?.waiting ?? [];
      const renewal = await epochs.renew(scopes, id);
      const since = pending.get(key)?.waiting.filter((one) => !before.includes(one)) ?? [];
      if (since.length === 0) pending.delete(key);
      else pending.set(key, { scopes, id, waiting: since });
      const settled = settle({ scopes, id, waiting: before }, renewal);
      passing.add(settled);
      void settled.finally(() => passing.delete(settled));
    });
  }

  async function settle(renewed: PendingPurge, renewal: Renewal): Promise<void> {
    const passed = await leasePassed(renewal);
    if (passed === undefined) return giveUp(renewed);
    const at = clock.wall();
    const told = renewed.waiting.map(({ record, becomes }) =>
      tell({ ...record, ...passed, at, result: becomes }, Math.max(0, at - record.at)),
    );
    await Promise.all(told);
  }

  async function run(
    stale: Stale,
    engineClears: () => Promise<readonly EngineClear[]>,
    acted: () => void,
  ): Promise<RunOutcome> {
    const id = options.newId();
    // Before the tokens are new: an engine that clears later could give what is old to a fill under the new ones.
    const engines = await engineClears();
    const passed = await renewForAll(stale, id, acted);
    if (passed === undefined) return { id, ok: false, failed: 'redis', engines };
    const receipt: PurgeReceipt = {
      id,
      scope: stale,
      epochs_renewed: purgedScopes(stale),
      ...passed,
      engine_calls: callsMade(engines),
    };
    if (engines.every(({ ok }) => ok)) return { id, ok: true, receipt };
    return { id, ok: false, failed: 'engine', receipt, engines };
  }

  /** Resolves when it is in the log. */
  function tell(record: PurgeRecord, milliseconds: number): Promise<void> {
    const { at: _, ...told } = record;
    emit({ ...told, type: 'purged', milliseconds });
    return options.log.add(record);
  }

  async function purge(stale: Stale, order: PurgeOrder): Promise<PurgeOutcome> {
    const { principal, cause } = order;
    const at = clock.wall();
    const started = clock.now();
    const clears = cause === 'clear-cache' || cause === 'repeat';
    const authorization = clears && engineClearing.asksAsCaller() ? order.authorization : undefined;
    const key = JSON.stringify([stale, clears, authorization ?? null]);
    const { id, ...outcome } = await share(key, (acted) =>
      run(stale, async () => (clears ? engineClearing.clear(stale, authorization) : []), acted),
    );
    const asked = { id, at, principal, cause, scope: stale };
    if (outcome.ok || outcome.failed === 'engine') {
      const { replicas, waited, engine_calls } = outcome.receipt;
      const result = outcome.ok ? 'cleared' : 'engine-failed';
      // Not awaited: the caller does not wait for the log.
      void tell({ ...asked, result, replicas, waited, engine_calls }, clock.now() - started);
      return outcome;
    }
    const engine_calls = callsMade(outcome.engines);
    const record = { ...asked, result: 'owed', replicas: 1, waited: 0, engine_calls } as const;
    void tell(record, clock.now() - started);
    const becomes = outcome.engines.every(({ ok }) => ok) ? 'cleared' : 'engine-failed';
    markPending({ scopes: purgedScopes(stale), id, waiting: [{ record, becomes }] });
    return outcome;
  }

  return {
    purge,
    async renew(stale) {
      return (await renew(purgedScopes(stale), options.newId(), 1)) !== undefined;
    },
    async told() {
      while (passing.size > 0) await Promise.all(passing);
    },
  };
}

function callsMade(engines: readonly EngineClear[]): number {
  return engines.filter(({ called = true }) => called).length;
}
