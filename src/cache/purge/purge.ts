import type { Clock } from '../../common/clock.ts';
import type { Emit, PurgeCause, Stale } from '../../common/events.ts';
import { LEASE_MARGIN } from '../../common/leases.ts';
import type { Epochs, Renewal } from '../../freshness/freshness.ts';
import { purgedScopes, type Scope } from '../projects.ts';
import type { PurgeLog, PurgeRecord } from './purge-log.ts';

/** A renewal that was not confirmed is repeated: renewing twice is only one purge more. */
const RENEWAL_TRIES = 3;
/** Between two tries, so that a Redis that restarts has time for it (ms). */
const RENEWAL_PAUSE = 300;

/** One call of an engine's own clear operation. */
export interface EngineClear {
  /** The URL of the replica, as configured. */
  readonly replica: string;
  readonly ok: boolean;
  /** Set when the replica was not even called. */
  readonly called?: false;
  /** One sentence for the operator, when it is not ok: what the engine said or why it could not be asked. */
  readonly why?: string;
}

/** Port: what a purge has to do with engines. */
export interface EngineClearing {
  /**
   * Has every replica of every engine whose answers may be stale clear its own cache, where it has one (`engine.clear`):
   * for what a user wants cleared, not for changes that engines made themselves or are told of. One item for each replica
   * that was called. Never rejects.
   * @param authorization that of the caller; without one, as for a repetition, an engine that is asked with the login of
   *   the client is not called
   */
  clear(stale: Stale, authorization: string | undefined): Promise<readonly EngineClear[]>;
  /** Whether engines are asked with the login of the caller: then only callers who have the same share a run. */
  asksAsCaller(): boolean;
}
export type ClearEngines = EngineClearing['clear'];

/** Who wanted a purge, and why. */
export interface PurgeOrder {
  readonly principal: string;
  readonly cause: PurgeCause;
  /** The header Authorization of the caller, for engines that are asked with the login of the client. */
  readonly authorization?: string | undefined;
}

/** Purges of one cache. */
export type CachePurges = ReturnType<typeof createPurges>;
export type Purges = Pick<CachePurges, 'purge' | 'renew'>;
export type Purge = CachePurges['purge'];
export type PurgeOutcome = Awaited<ReturnType<Purge>>;

/**
 * Purges of one thing that come together share a run: its engines are asked and its tokens renewed once, after all of
 * them came. The lease of one run passes while the next one acts.
 * @param options.clearMemory empties the memory tier of this gateway
 */
export function createPurges(options: {
  epochs: Epochs;
  clearMemory: () => void;
  engineClearing: EngineClearing;
  log: PurgeLog;
  clock: Clock;
  sleep: (milliseconds: number) => Promise<void>;
  newId: () => string;
  emit: Emit;
}) {
  const { epochs, engineClearing, clock, emit, clearMemory, newId } = options;
  /** Undefined when Redis did not confirm the new tokens, or was replaced: they are pending. */
  type Passed = Awaited<ReturnType<typeof leasePassed>>;
  type Run = { id: string; engines: readonly EngineClear[]; passed: Passed };
  const share = createSharedRuns<Run>();
  /** The waits for leases of what was pending, each for all who wait for it, and what follows them. */
  const passing = new WeakMap<Renewal, Promise<Passed>>();
  const settling = new Set<Promise<void>>();
  const failed = (error: unknown) => emit({ type: 'redis-failed', operation: 'renew', error });

  /** Undefined when Redis did not confirm it: then it is pending. */
  async function renew(scopes: readonly Scope[], id: string, most: number) {
    for (let tries = 0; tries < most; tries += 1) {
      if (tries > 0) await options.sleep(RENEWAL_PAUSE);
      try {
        return await epochs.renew(scopes, id);
      } catch (error) {
        failed(error);
      }
    }
    return giveUp(scopes, id);
  }

  /** From this turn on this gateway uses nothing of them, until they are renewed in the background. */
  function giveUp(scopes: readonly Scope[], id: string): undefined {
    clearMemory();
    void epochs.renewLater(scopes, id);
  }

  /**
   * Waits until no gateway uses the old tokens; to be called in the turn in which the new ones were confirmed.
   * @returns what was waited (ms), and the gateways that told meanwhile that they have forgotten the old tokens, this one
   *   included. Undefined when Redis was replaced: its successor, or its snapshot, may not know the new ones, and gateways
   *   may use what they read there
   */
  async function leasePassed({ lease, replicas, stands }: Renewal) {
    const confirmed = clock.now();
    if (lease > 0) await options.sleep(lease * LEASE_MARGIN);
    const passed = { waited: Math.round(clock.now() - confirmed), replicas: replicas() };
    try {
      return (await stands()) ? passed : undefined;
    } catch (error) {
      failed(error);
      return undefined;
    }
  }

  /** Done in the background: what was given up is renewed, and its lease passes. Once more when Redis was replaced. */
  async function passLater(
    scopes: readonly Scope[],
    id: string,
    tellDone?: (passed: NonNullable<Passed>) => Promise<void>,
  ): Promise<void> {
    const renewal = await epochs.renewLater(scopes, id);
    const wait = passing.get(renewal) ?? leasePassed(renewal);
    passing.set(renewal, wait);
    const settled = wait.then(async (passed) => {
      if (passed !== undefined) return tellDone?.(passed);
      giveUp(scopes, id);
      return void passLater(scopes, id, tellDone);
    });
    settling.add(settled);
    void settled.finally(() => settling.delete(settled));
  }

  /** New tokens, and the wait for them; once more when Redis was replaced meanwhile. */
  async function renewForAll(scopes: readonly Scope[], id: string, acted: () => void) {
    for (let tries = 0; tries < RENEWAL_TRIES; tries += 1) {
      const renewal = await renew(scopes, id, RENEWAL_TRIES);
      acted();
      if (renewal === undefined) return undefined;
      if (scopes.includes('everything')) clearMemory();
      const passed = await leasePassed(renewal);
      if (passed !== undefined) return passed;
    }
    return giveUp(scopes, id);
  }

  /** Resolves when it is in the log. */
  function tell(record: PurgeRecord, milliseconds: number): Promise<void> {
    const { at: _, ...told } = record;
    emit({ ...told, type: 'purged', milliseconds });
    return options.log.add(record);
  }

  /**
   * Drops what the cache holds. When the outcome is ok, a request that arrives from now on, at any gateway, gets
   * no answer whose engine request began before this call.
   */
  async function purge(stale: Stale, { principal, cause, ...order }: PurgeOrder) {
    const at = clock.wall();
    const started = clock.now();
    const scopes = purgedScopes(stale);
    const clears = cause === 'clear-cache' || cause === 'repeat';
    const authorization = clears && engineClearing.asksAsCaller() ? order.authorization : undefined;
    const key = JSON.stringify([stale, clears, authorization ?? null]);
    const { id, engines, passed } = await share(key, async (acted) => {
      const run = newId();
      // Before the tokens are new: an engine that clears later could give what is old to a fill under the new ones.
      const cleared = clears ? await engineClearing.clear(stale, authorization) : [];
      return { id: run, engines: cleared, passed: await renewForAll(scopes, run, acted) };
    });
    const engine_calls = engines.filter(({ called = true }) => called).length;
    const isCleared = engines.every(({ ok }) => ok);
    const result = isCleared ? 'cleared' : 'engine-failed';
    const record = { id, at, principal, cause, scope: stale, result, engine_calls } as const;
    // Not awaited: the caller does not wait for the log.
    if (passed === undefined) {
      const owed = { ...record, result: 'owed', replicas: 1, waited: 0 } as const;
      void tell(owed, clock.now() - started);
      void passLater(scopes, id, (later) => {
        const done = clock.wall();
        return tell({ ...record, ...later, at: done }, Math.max(0, done - at));
      });
      // The memory of this gateway is empty; the renewal is owed.
      return { ok: false as const, failed: 'redis' as const, engines };
    }
    void tell({ ...record, ...passed }, clock.now() - started);
    const receipt = { id, scope: stale, epochs_renewed: scopes, ...passed, engine_calls };
    if (isCleared) return { ok: true as const, receipt };
    // The tokens are new and the wait is over, but some engine did not clear its own cache.
    return { ok: false as const, failed: 'engine' as const, receipt, engines };
  }

  return {
    purge,
    /**
     * Renews the epochs like a purge, and does not wait: other gateways may go on for a lease. For what is followed by a
     * purge, so that it is tried once only.
     * @returns false when Redis did not confirm it; it then stays owed
     */
    async renew(stale: Stale): Promise<boolean> {
      const scopes = purgedScopes(stale);
      const id = newId();
      if ((await renew(scopes, id, 1)) !== undefined) return true;
      void passLater(scopes, id);
      return false;
    },
    /** Resolves when no purge that was pending waits for its lease any more, and those that did are told. */
    async told(): Promise<void> {
      while (settling.size > 0) await Promise.all(settling);
    },
  };
}

/** Begins a run, and calls `acted` when the next one of its key may begin to act; at its end at the latest. */
type Begin<T> = (acted: () => void) => Promise<T>;

/**
 * Work that must begin after it was asked for, and is the same for all who ask: of one key at most one run acts at a
 * time, and one waits for it, which all share who come meanwhile. No caller is given a run that had begun before it came.
 */
function createSharedRuns<T>() {
  /** Keys of which a run acts, with the one that waits for it. */
  const acting = new Map<string, (PromiseWithResolvers<T> & { begin: Begin<T> }) | undefined>();

  function start(key: string, begin: Begin<T>): Promise<T> {
    acting.set(key, undefined);
    let over = false;
    const acted = () => {
      if (over) return;
      over = true;
      const next = acting.get(key);
      acting.delete(key);
      next?.resolve(start(key, next.begin));
    };
    return begin(acted).finally(acted);
  }

  return function share(key: string, begin: Begin<T>): Promise<T> {
    if (!acting.has(key)) return start(key, begin);
    const waiting = acting.get(key) ?? { begin, ...Promise.withResolvers<T>() };
    acting.set(key, waiting);
    return waiting.promise;
  };
}
