import { createPurgeLog, type PurgeRecord } from '../../../../src/cache/purge/purge-log.ts';
import {
  type CachePurges,
  createPurges,
  type EngineClear,
} from '../../../../src/cache/purge/purge.ts';
import type { GatewayEvent, Stale } from '../../../../src/common/events.ts';
import { createEpochs, type Epochs } from '../../../../src/freshness/freshness.ts';
import { gate } from '../../../support/stub-engine.ts';
import { handClock, type HandClock, quiet } from '../fakes.ts';
import { handStore, type HandStore } from './fake-epoch-stores.ts';

interface PurgeHouse extends CachePurges {
  readonly store: HandStore;
  readonly epochs: Epochs;
  readonly clock: HandClock;
  readonly events: GatewayEvent[];
  /** What was slept, or is (ms). */
  readonly slept: number[];
  /** Every sleep ends when this is open. */
  readonly wake: ReturnType<typeof gate>;
  /** With `leases: 'held'` a sleep for a lease also waits for this. */
  readonly leases: ReturnType<typeof gate>;
  readonly cleared: { times: number };
  /** Engines are held here as long as `hold` is set and closed. */
  readonly engine: {
    asked: (readonly [Stale, string | undefined])[];
    hold?: ReturnType<typeof gate>;
  };
  /** The log, the latest first. */
  logged(): Promise<readonly PurgeRecord[]>;
  /** Fails every try of one purge to renew. */
  failRenewals(): Promise<void>;
}

/** Between two tries to renew (ms). */
const RENEWAL_PAUSE = 300;

/** Purges of one gateway whose Redis, engines and sleep a test holds in its hand. Ids are `id 1`, `id 2` … */
export function purgeHouse(
  given: {
    engines?: readonly EngineClear[];
    asksAsCaller?: boolean;
    store?: HandStore;
    isKnown?: (project: string) => boolean;
    leases?: 'held';
  } = {},
): PurgeHouse {
  const clock = handClock();
  const store = given.store ?? handStore();
  const epochs = createEpochs({ store, clock, lease: () => 1_000 });
  const events: GatewayEvent[] = [];
  const slept: number[] = [];
  const wake = gate();
  const leases = gate();
  const cleared = { times: 0 };
  const log = createPurgeLog();
  const engine: PurgeHouse['engine'] = { asked: [] };
  let ids = 0;
  const purges = createPurges({
    epochs,
    isKnown: given.isKnown ?? (() => false),
    clearMemory: () => (cleared.times += 1),
    engineClearing: {
      async clear(...order) {
        engine.asked.push(order);
        await engine.hold?.opened;
        return given.engines ?? [];
      },
      asksAsCaller: () => given.asksAsCaller ?? false,
    },
    log,
    clock,
    async sleep(milliseconds) {
      slept.push(milliseconds);
      await wake.opened;
      if (given.leases === 'held' && milliseconds !== RENEWAL_PAUSE) await leases.opened;
      clock.advance(milliseconds);
    },
    newId: () => `id ${(ids += 1)}`,
    emit: (event) => events.push(event),
  });
  return {
    ...purges,
    store,
    epochs,
    clock,
    events,
    slept,
    wake,
    leases,
    cleared,
    engine,
    logged: async () => (await log.latest(1_000)).purges,
    async failRenewals() {
      for (let tries = 0; tries < 3; tries += 1) {
        await quiet();
        store.renewals[0]?.fail();
      }
      await quiet();
    },
  };
}

export async function settled(promise: Promise<unknown>): Promise<boolean> {
  await quiet();
  const still = Symbol('still under way');
  return (await Promise.race([promise, Promise.resolve(still)])) !== still;
}
