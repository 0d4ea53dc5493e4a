import { describe, expect, test } from '@jest/globals';
import type { GatewayEvent } from '../../../src/events.ts';
import { createEpochs } from '../../../src/query-cache/epochs.ts';
import { createPurges } from '../../../src/query-cache/purge.ts';
import { gate } from '../../support/stub-engine.ts';
import { handStore } from './fake-epoch-stores.ts';
import { handClock, quiet } from './fakes.ts';
import { ORDER } from './replica.ts';

function setUp() {
  const clock = handClock();
  const store = handStore();
  const epochs = createEpochs({ store, clock, lease: 1_000 });
  const events: GatewayEvent[] = [];
  const slept: number[] = [];
  const wake = gate();
  const cleared = { times: 0 };
  const { purge, renew } = createPurges({
    epochs,
    clearMemory: () => (cleared.times += 1),
    clock,
    async sleep(milliseconds) {
      slept.push(milliseconds);
      await wake.opened;
      clock.advance(milliseconds);
    },
    newId: () => 'id',
    emit: (event) => events.push(event),
  });
  return { store, epochs, purge, renew, events, slept, wake, cleared };
}

async function settled(promise: Promise<unknown>): Promise<boolean> {
  await quiet();
  const still = Symbol('still under way');
  return (await Promise.race([promise, Promise.resolve(still)])) !== still;
}

describe('a purge', () => {
  test('is answered when the longest lease and a tenth have passed since it was confirmed', async () => {
    const { store, purge, slept, wake, events } = setUp();
    const outcome = purge({ project: 'Food Mart' }, ORDER);
    expect(await settled(outcome)).toBe(false);
    expect(slept).toEqual([]);
    store.renewals[0]?.answer(5_000);
    expect(await settled(outcome)).toBe(false);
    expect(slept).toEqual([5_500]);
    wake.open();
    expect(await outcome).toEqual({
      ok: true,
      receipt: {
        id: 'id',
        scope: { project: 'Food Mart' },
        epochs_renewed: ['project:food mart', 'unassigned'],
        waited: 5_500,
        engine_calls: 0,
      },
    });
    expect(events).toEqual([
      {
        type: 'purged',
        id: 'id',
        scope: { project: 'Food Mart' },
        principal: 'ADMIN',
        cause: 'clear-cache',
        ok: true,
        milliseconds: 5_500,
      },
    ]);
  });

  test('of everything renews the epoch of everything and frees the memory', async () => {
    const { store, purge, wake, cleared } = setUp();
    const outcome = purge('everything', ORDER);
    expect(store.renewals[0]?.scopes).toEqual(['everything', 'unassigned']);
    store.renewals[0]?.answer(1_000);
    wake.open();
    expect(await outcome).toMatchObject({ ok: true });
    expect(cleared.times).toBe(1);
  });

  test('of one project leaves the memory of the others', async () => {
    const { store, purge, wake, cleared } = setUp();
    const outcome = purge({ project: 'a' }, ORDER);
    store.renewals[0]?.answer(1_000);
    wake.open();
    await outcome;
    expect(cleared.times).toBe(0);
  });

  test('waits for nobody where nobody else is', async () => {
    const { store, purge, slept } = setUp();
    const outcome = purge({ project: 'a' }, ORDER);
    store.renewals[0]?.answer(0);
    expect(await outcome).toMatchObject({ ok: true });
    expect(slept).toEqual([]);
  });

  test('that was not confirmed counts as not done and is repeated', async () => {
    const { store, epochs, purge, slept, wake, events } = setUp();
    wake.open();
    const outcome = purge({ project: 'a' }, ORDER);
    store.renewals[0]?.fail();
    await quiet();
    store.renewals[0]?.fail();
    await quiet();
    expect(store.renewals[0]?.scopes).toEqual(['project:a', 'unassigned']);
    store.renewals[0]?.answer(1_000);
    expect(await outcome).toMatchObject({ ok: true });
    expect(slept).toEqual([300, 300, 1_100]);
    expect(epochs.owed()).toEqual([]);
    expect(events.map(({ type }) => type)).toEqual(['redis-failed', 'redis-failed', 'purged']);
  });

  test('that is never confirmed is owed, says so, and empties the memory', async () => {
    const { store, epochs, purge, slept, wake, cleared, events } = setUp();
    wake.open();
    const outcome = purge({ project: 'a' }, ORDER);
    for (let tries = 0; tries < 3; tries += 1) {
      store.renewals[0]?.fail();
      await quiet();
    }
    expect(await outcome).toEqual({ ok: false });
    expect(epochs.owed()).toEqual(['project:a', 'unassigned']);
    expect(cleared.times).toBe(1);
    expect(slept).toEqual([300, 300]);
    expect(events.at(-1)).toMatchObject({ type: 'purged', ok: false, scope: { project: 'a' } });
    await epochs.close();
  });
});

describe('a renewal before a change', () => {
  test('is done when Redis has confirmed it, without waiting for a lease', async () => {
    const { store, renew, slept, events } = setUp();
    const renewed = renew({ project: 'a' });
    expect(await settled(renewed)).toBe(false);
    expect(store.renewals[0]?.scopes).toEqual(['project:a', 'unassigned']);
    store.renewals[0]?.answer(5_000);
    expect(await renewed).toBe(true);
    expect([slept, events]).toEqual([[], []]);
  });

  test('that is never confirmed is owed and empties the memory', async () => {
    const { store, epochs, renew, cleared } = setUp();
    const renewed = renew({ project: 'a' });
    store.renewals[0]?.fail();
    // The purge that follows tries again.
    expect(await renewed).toBe(false);
    expect(epochs.owed()).toEqual(['project:a', 'unassigned']);
    expect(cleared.times).toBe(1);
    await epochs.close();
  });
});
