import { randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { createSessions } from '../../../../src/sessions/sessions.ts';
import { createUnnoted } from '../../../../src/freshness/unnoted.ts';
import { sessionLeaseContract } from '../../../support/session-lease-contract.ts';
import { sessionRecord } from '../../../support/session-calls.ts';
import {
  asBegun,
  type LateBeginning,
  lateBeginningContract,
  sessionStoreContract,
} from '../../../support/session-store-contract.ts';
import { workerHouse, type WorkerHouse } from '../../../support/worker-house.ts';
import { checkpoint, handClock, quiet } from '../../cache/fakes.ts';

const SET = { catalog: 'Sales', profile: 'other', version: 'set' };

describe('the store of a worker', () => {
  sessionStoreContract(async () => {
    const { sessions, leave } = workerHouse().join();
    return { store: sessions, close: async () => leave() };
  });
});

describe('the stores of several workers', () => {
  let shared: WorkerHouse | undefined;
  sessionLeaseContract(
    async (lease) => (shared ??= workerHouse()).join({ lease }).sessions,
    async () => {
      shared = undefined;
    },
  );
});

describe('sessions in the primary process', () => {
  let house: WorkerHouse;
  beforeEach(() => {
    house = workerHouse();
  });

  test('are the same for all workers', async () => {
    const [one, other] = [house.join(), house.join()];
    const record = sessionRecord();
    await one.sessions.begin('name', record);
    expect((await other.sessions.read('name')).record).toEqual(record);
    await other.sessions.markDirty('name', 'next');
    expect((await one.sessions.read('name')).record).toMatchObject({ dirty: true });
    await one.sessions.end('name');
    expect((await other.sessions.read('name')).record).toBeUndefined();
  });

  test('outlive the worker that began them, and so does the lease that it had', async () => {
    const [one, other] = [house.join({ lease: 1_500 }), house.join()];
    const record = await one.sessions.begin('name', sessionRecord());
    one.leave();
    one.pair.worker.close();
    expect((await other.sessions.read('name')).record).toEqual(record);
    expect((await other.sessions.markDirty('name', 'next')).lease).toBe(1_500);
  });

  test('count who held them for ten leases', async () => {
    const [one, other] = [house.join(), house.join({ lease: 200 })];
    await other.sessions.begin('name', sessionRecord());
    house.clock.advance(1_999);
    expect((await one.sessions.setCatalog('name', 'wrong version', SET)).lease).toBe(200);
    house.clock.advance(1);
    expect((await one.sessions.setCatalog('name', 'wrong version', SET)).lease).toBe(0);
    expect(await one.sessions.markAllDirty()).toBe(0);
  });

  test('count workers of a primary process that has just died, of which nothing is known', async () => {
    const after = workerHouse({ orphanLease: 2_000 });
    const { sessions } = after.join();
    after.clock.advance(1_999);
    expect((await sessions.markDirty('unknown', 'next')).lease).toBe(2_000);
    expect(await sessions.markAllDirty()).toBe(2_000);
    after.clock.advance(1);
    expect((await sessions.markDirty('unknown', 'next')).lease).toBe(0);
  });
});

describe('a beginning that the primary process carries out late', () => {
  /** A worker whose second half of a beginning is on its way until it is let go; its caller has given up then. */
  async function lateBeginning(house: WorkerHouse): Promise<LateBeginning> {
    const one = house.join();
    const sent = checkpoint();
    one.pair.toPrimary.filter = (message) => {
      if (!JSON.stringify(message).includes('"do":"put"')) return true;
      one.pair.toPrimary.hold();
      void sent.arrive();
      return true;
    };
    const begun = asBegun(one.sessions.begin('name', sessionRecord()));
    await sent.arrived;
    return { begun, letGo: () => one.pair.toPrimary.release() };
  }

  lateBeginningContract(async () => {
    const house = workerHouse();
    return { other: house.join().sessions, late: () => lateBeginning(house) };
  });
});

test('when a session was made dirty at one worker, no other takes it for clean once that is confirmed', async () => {
  const house = workerHouse();
  const clock = handClock();
  const waits: { milliseconds: number; over: () => void }[] = [];
  const registry = () =>
    createSessions({
      store: house.join().store,
      clock,
      lease: () => 1_000,
      sleep: (milliseconds) =>
        new Promise((resolve) => waits.push({ milliseconds, over: () => resolve() })),
      newToken: randomUUID,
      onError: (error) => {
        throw error;
      },
      unnoted: createUnnoted(
        async () => {},
        async () => {},
      ),
    });
  const [one, other] = [registry(), registry()];
  const name = { endpoint: 'engine', id: 'id' };
  const { principal, profile, catalog, replica } = sessionRecord();
  await one.begin(name, { principal, profile, catalog, replica });
  expect(await other.find(name)).toMatchObject({ kind: 'known', record: { dirty: false } });

  let confirmed = false;
  const dirtied = one.dirty([name]).then((is) => (confirmed = is));
  while (waits.length === 0) await quiet();
  // The other one may use what it holds, so the first must not go on.
  expect(await other.find(name)).toMatchObject({ record: { dirty: false } });
  await quiet();
  expect([confirmed, waits.map(({ milliseconds }) => milliseconds)]).toEqual([false, [1_100]]);
  clock.advance(1_100);
  for (const { over } of waits) over();
  await dirtied;
  expect(confirmed).toBe(true);
  expect(await other.find(name)).toMatchObject({ record: { dirty: true } });
});
