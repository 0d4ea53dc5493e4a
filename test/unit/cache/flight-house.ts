import { queryKey } from '../../../src/cache/key.ts';
import type { Query } from '../../../src/cache/query.ts';
import type { FlightLock } from '../../../src/cache/shared-flights.ts';
import { until } from '../../support/http-client.ts';
import { sharedEpochs } from './purge/fake-epoch-stores.ts';
import { fakeLocks, handSleep } from './purge/fake-locks.ts';
import { checkpoint, engineAnswer, fakeTier, handClock, queryOf, rowset } from './fakes.ts';
import { fakeEngine, replica, type Replica } from './purge/replica.ts';

const LEASE = 1_000;
/** What the engine needs for an answer in these tests, unless told otherwise (ms). */
const TOOK = 5_000;

/** Gateways on one Redis, and an engine whose every answer can be held and takes as long as told. */
export function flightHouse() {
  const clock = handClock();
  const epochs = sharedEpochs();
  const values = fakeTier();
  const locks = fakeLocks(clock);
  const night = handSleep(clock);
  const set = {
    /** What the next answers hold, and what the engine needs for them (ms). */
    answer: (call: number) => rowset(`answer ${call}`),
    took: TOOK,
    /** Passed by every engine request. */
    atEngine: checkpoint(),
    /** Passed by every answer when half of it is sent. */
    half: async () => {},
  };
  set.atEngine.release();
  const engine = fakeEngine(async (call) => {
    const began = { now: clock.now(), wall: clock.wall() };
    await set.atEngine.arrive();
    clock.advance(set.took);
    return engineAnswer(set.answer(call), clock, { began, half: () => set.half() });
  });
  const query = queryOf(engine.ask);
  const gateway = () =>
    replica({
      clock,
      values,
      locks,
      sleep: night.sleep,
      store: epochs.replica(LEASE),
      lease: LEASE,
    });

  return {
    clock,
    epochs,
    values,
    locks,
    night,
    engine,
    query,
    set,
    gateway,
    /** Where the gateways meet for this query, under the epochs that this one may use. */
    async lockOf(one: Replica, of: Query = query): Promise<FlightLock> {
      const { key } = await one.explain(of);
      return { key, query: knownAs(of) };
    },
    /** From now on every engine request waits. */
    holdEngine() {
      set.atEngine = checkpoint();
      return set.atEngine;
    },
    markSlow: (milliseconds = TOOK, of: Query = query) =>
      void locks.slow.set(knownAs(of), milliseconds),
    /** Resolves when so many wait for another gateway. */
    asleep: (count = 1) => until(() => night.pauses.length === count),
    /** Wakes all until the condition holds. */
    async wakeUntil(condition: () => boolean): Promise<void> {
      while (!condition()) await night.wake();
    },
  };
}

/** How a query is known without epochs: the fake epoch stores have this key secret. */
function knownAs({ parts }: Query): string {
  return queryKey(parts, { scopes: [], tokens: [], keySecret: 'secret' });
}

/** How the flights of this gateway across gateways ended, in order. */
export function endsOf({ events }: Replica): string[] {
  return events.flatMap((event) => (event.type === 'shared-flight' ? [event.end] : []));
}
