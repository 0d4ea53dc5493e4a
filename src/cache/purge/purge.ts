import type { Clock } from '../../common/clock.ts';
import { CAUSES, type Emit, type PurgeCause, type Stale } from '../../common/events.ts';
import { onlyOnce } from '../../common/in-turn.ts';
import { LEASE_MARGIN, RENEWAL_TRIES, tryToRenew } from '../../common/leases.ts';
import type { Epochs, Renewal } from '../../freshness/freshness.ts';
import type { CacheScope } from '../../freshness/freshness-store.ts';
import { purgedScopes } from '../projects.ts';
import type { PurgeLog, PurgeRecord } from './purge-log.ts';

export interface EngineClear {
  readonly replica: string;
  readonly ok: boolean;
  readonly called?: false;
  readonly why?: string;
}

export interface EngineClearing {
  /**
   * Clears all replicas that may be stale (`engine.clear`). Never rejects. Engines with `login:
   * forward` need `authorization`.
   */
  clear(stale: Stale, authorization: string | undefined): Promise<readonly EngineClear[]>;
  /** Engines get the caller's login: only callers with one login share a run. */
  asksAsCaller(): boolean;
}
export type ClearEngines = EngineClearing['clear'];

export interface PurgeOrder {
  readonly principal: string;
  readonly cause: PurgeCause;
  readonly authorization?: string | undefined;
  readonly call?: string;
  readonly why?: string;
}

export type CachePurges = ReturnType<typeof createPurges>;
export type Purges = Pick<CachePurges, 'purge' | 'renew'>;
export type Purge = CachePurges['purge'];
export type PurgeOutcome = Awaited<ReturnType<Purge>>;

interface RenewalOptions {
  readonly epochs: Epochs;
  readonly clearMemory: () => void;
  readonly clock: Clock;
  readonly sleep: (milliseconds: number) => Promise<void>;
  readonly emit: Emit;
}
type Passed = NonNullable<Awaited<ReturnType<ReturnType<typeof createRenewals>['renewForAll']>>>;

/** Purges; callers that purge the same share a run that begins after they came. */
export function createPurges(
  options: RenewalOptions & {
    isKnown: (project: string) => boolean;
    engineClearing: EngineClearing;
    log: PurgeLog;
    newId: () => string;
  },
) {
  const { engineClearing, clock, newId } = options;
  /** `passed`: undefined when Redis did not confirm the new tokens, or was replaced. */
  type Run = { id: string; engines: readonly EngineClear[]; passed: Passed | undefined };
  const runOrJoin = createSharedRuns<Run>();
  const { renew, renewForAll, passLater, settled } = createRenewals(options);

  function tell(record: PurgeRecord, milliseconds: number): Promise<void> {
    const { at: _, ...told } = record;
    options.emit({ ...told, type: 'purged', milliseconds });
    return options.log.add(record);
  }

  /** When ok, later requests at any gateway get no answer asked for before the purge. */
  async function purge(stale: Stale, { authorization: login, ...order }: PurgeOrder) {
    const at = clock.wall();
    const started = clock.now();
    const scopes = purgedScopes(stale);
    const { clears } = CAUSES[order.cause];
    const authorization = clears && engineClearing.asksAsCaller() ? login : undefined;
    const key = JSON.stringify([stale, clears, authorization ?? null]);
    const { id, engines, passed } = await runOrJoin(key, async (acted) => {
      const run = newId();
      // Before the tokens are new: else a new fill could still get old data of the engine.
      const cleared = clears ? await engineClearing.clear(stale, authorization) : [];
      return { id: run, engines: cleared, passed: await renewForAll(scopes, run, acted) };
    });
    const engine_calls = engines.filter(({ called = true }) => called).length;
    const isCleared = engines.every(({ ok }) => ok);
    const result = isCleared ? 'cleared' : 'engine-failed';
    const record = { ...order, id, at, scope: stale, result, engine_calls } as const;
    const isKnownHere = stale === 'everything' || options.isKnown(stale.project);
    const known = isKnownHere || passed?.known === true;
    // The caller does not wait for the log.
    if (passed === undefined) {
      const owed = { ...record, known, result: 'owed', replicas: 1, waited: 0 } as const;
      void tell(owed, clock.now() - started);
      void passLater(scopes, id, (later) => {
        const done = clock.wall();
        const told = { ...record, ...later, known: known || later.known, at: done };
        return tell(told, Math.max(0, done - at));
      });
      return { ok: false as const, failed: 'redis' as const, engines };
    }
    void tell({ ...record, ...passed, known }, clock.now() - started);
    const receipt = { id, scope: stale, epochs_renewed: scopes, ...passed, known, engine_calls };
    if (isCleared) return { ok: true as const, receipt };
    return { ok: false as const, failed: 'engine' as const, receipt, engines };
  }

  return {
    purge,
    /** Tries once: a purge follows. False when Redis did not confirm: it is owed. */
    async renew(stale: Stale): Promise<boolean> {
      const scopes = purgedScopes(stale);
      const id = newId();
      if ((await renew(scopes, id, 1)) !== undefined) return true;
      void passLater(scopes, id);
      return false;
    },
    told: settled,
  };
}

function createRenewals(options: RenewalOptions) {
  const { epochs, clock, emit, clearMemory } = options;
  const passing = new WeakMap<Renewal, ReturnType<typeof leasePassed>>();
  const settling = new Set<Promise<void>>();
  const failed = (error: unknown) => emit({ type: 'redis-failed', operation: 'renew', error });

  /** Undefined when Redis did not confirm it: then it is pending. */
  async function renew(scopes: readonly CacheScope[], id: string, most: number) {
    const renew = () => epochs.renew(scopes, id);
    return (await tryToRenew(renew, options.sleep, failed, most)) ?? giveUp(scopes, id);
  }

  /** From this turn on this gateway uses nothing of them, until they are renewed. */
  function giveUp(scopes: readonly CacheScope[], id: string): undefined {
    clearMemory();
    void epochs.renewLater(scopes, id);
  }

  /**
   * Waits until no gateway uses the old tokens. Undefined when Redis was replaced: its successor
   * may not know the new ones.
   */
  async function leasePassed({ lease, known, replicas, stands }: Renewal) {
    const confirmed = clock.now();
    if (lease > 0) await options.sleep(lease * LEASE_MARGIN);
    const passed = { known, waited: Math.round(clock.now() - confirmed), replicas: replicas() };
    try {
      return (await stands()) ? passed : undefined;
    } catch (error) {
      failed(error);
      return undefined;
    }
  }

  async function passLater(
    scopes: readonly CacheScope[],
    id: string,
    tellDone?: (passed: Passed) => Promise<void>,
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

  /** Tries again when Redis was replaced meanwhile. */
  async function renewForAll(scopes: readonly CacheScope[], id: string, acted: () => void) {
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

  /** Resolves when no pending purge waits any more, and the last is in the log. */
  async function settled(): Promise<void> {
    while (settling.size > 0) await Promise.all(settling);
  }

  return { renew, renewForAll, passLater, settled };
}

/** Begins a run. `acted`: the next of its key may act; at the end at the latest. */
type Begin<T> = (acted: () => void) => Promise<T>;

/**
 * Lets one run of a key act at a time. All who come meanwhile share the next one: no caller is
 * given a run that had begun before it came.
 */
function createSharedRuns<T>() {
  const acting = new Map<string, (PromiseWithResolvers<T> & { begin: Begin<T> }) | undefined>();

  function start(key: string, begin: Begin<T>): Promise<T> {
    acting.set(key, undefined);
    const acted = onlyOnce(() => {
      const next = acting.get(key);
      acting.delete(key);
      next?.resolve(start(key, next.begin));
    });
    return begin(acted).finally(acted);
  }

  return (key: string, begin: Begin<T>): Promise<T> => {
    if (!acting.has(key)) return start(key, begin);
    const waiting = acting.get(key) ?? { begin, ...Promise.withResolvers<T>() };
    acting.set(key, waiting);
    return waiting.promise;
  };
}
