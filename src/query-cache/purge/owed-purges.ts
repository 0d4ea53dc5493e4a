import type { Clock } from '../../clock.ts';
import type { PurgeResult } from '../../events.ts';
import { MAX_OWED, type Epochs, type Renewal } from './epochs.ts';
import type { PurgeRecord } from './purge-log.ts';
import { purgedScopes, type Scope } from './scopes.ts';

/** A purge that Redis has not confirmed yet: as it is in the log, and the result that it has when it is done. */
export interface OwedPurge {
  readonly record: PurgeRecord;
  readonly becomes: Exclude<PurgeResult, 'owed'>;
}

/** A wait that is over, until no replica uses the old epochs. */
export interface Passed {
  /** Milliseconds. */
  readonly waited: number;
  readonly replicas: number;
}

export interface OwedPurges {
  /** Notes who wanted a purge that is owed. */
  remember(purge: OwedPurge): void;
  /** Until the scopes are renewed for good; then the purges are told that waited for it. */
  owe(scopes: readonly Scope[], id: string, waits: (purge: OwedPurge) => boolean): void;
  /** Takes over what others owe. @param id under which the other replicas are told */
  takeOver(scopes: readonly Scope[], purges: readonly OwedPurge[], id: string): void;
  /**
   * Hands over the purges that are owed: they are not told here any more. Those whose scopes are renewed already, and
   * whose lease passes, stay and are told here.
   */
  handOver(): readonly OwedPurge[];
  /** Resolves when no purge that was owed waits for its lease any more, and those that did are told. */
  told(): Promise<void>;
}

/**
 * What becomes of purges that Redis did not confirm.
 *
 * @param options.leasePassed waits until no replica uses the old epochs; undefined when the renewal does not stand
 * @param options.tell resolves when it is in the log, or waits to be written there
 */
export function createOwedPurges(options: {
  epochs: Epochs;
  clearMemory: () => void;
  leasePassed: (renewal: Renewal) => Promise<Passed | undefined>;
  clock: Clock;
  tell: (record: PurgeRecord, milliseconds: number) => Promise<void>;
}): OwedPurges {
  const { epochs, clock } = options;
  /** Whose scopes are not renewed yet. */
  const owed = new Set<OwedPurge>();
  /** What is renewed, and whose lease passes. */
  const settling = new Set<Promise<boolean>>();
  /** All that were owed and that one renewal settled wait together. */
  const waits = new WeakMap<Renewal, Promise<Passed | undefined>>();

  function leasePassed(renewal: Renewal): Promise<Passed | undefined> {
    const wait = waits.get(renewal) ?? options.leasePassed(renewal);
    waits.set(renewal, wait);
    return wait;
  }

  function remember(purge: OwedPurge): void {
    owed.add(purge);
    const [oldest] = owed;
    if (owed.size > MAX_OWED && oldest !== undefined) owed.delete(oldest);
  }

  /** @returns false when the renewal does not stand: then the purges are owed again */
  async function settle(renewal: Renewal, purges: readonly OwedPurge[]): Promise<boolean> {
    for (const one of purges) owed.delete(one);
    const passed = await leasePassed(renewal);
    if (passed === undefined) {
      for (const one of purges) remember(one);
      return false;
    }
    const at = clock.wall();
    const told = purges.map(({ record, becomes }) =>
      options.tell({ ...record, ...passed, at, result: becomes }, Math.max(0, at - record.at)),
    );
    await Promise.all(told);
    return true;
  }

  async function pay(
    scopes: readonly Scope[],
    id: string,
    isPaid: (purge: OwedPurge) => boolean,
  ): Promise<void> {
    for (;;) {
      const renewal = await epochs.owe(scopes, id);
      const settled = settle(renewal, [...owed].filter(isPaid));
      settling.add(settled);
      const stands = await settled;
      settling.delete(settled);
      if (stands) return;
      options.clearMemory();
    }
  }

  return {
    remember,
    owe: (...debt) => void pay(...debt),
    takeOver(scopes, purges, id) {
      if (scopes.length === 0) return;
      const taken = new Set(purges);
      for (const one of purges) remember(one);
      void pay(scopes, id, (one) => taken.has(one));
    },
    handOver() {
      const scopes = new Set(epochs.owed());
      const isOwed = ({ record }: OwedPurge) =>
        purgedScopes(record.scope).every((scope) => scopes.has(scope));
      const purges = [...owed].filter(isOwed);
      for (const one of purges) owed.delete(one);
      return purges;
    },
    async told() {
      while (settling.size > 0) await Promise.all(settling);
    },
  };
}
