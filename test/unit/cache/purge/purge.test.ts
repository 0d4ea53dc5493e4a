import { describe, expect, test } from '@jest/globals';
import { gate } from '../../../support/stub-engine.ts';
import { quiet } from '../fakes.ts';
import { purgeHouse, settled } from './purge-house.ts';
import { ORDER } from './replica.ts';

const A = { project: 'a' };

describe('a purge', () => {
  test('is answered when the longest lease and a tenth have passed since it was confirmed', async () => {
    const { store, purge, slept, wake, events } = purgeHouse();
    const outcome = purge({ project: 'Food Mart' }, ORDER);
    await quiet();
    expect(await settled(outcome)).toBe(false);
    expect(slept).toEqual([]);
    store.renewals[0]?.answer(5_000);
    expect(await settled(outcome)).toBe(false);
    expect(slept).toEqual([5_500]);
    wake.open();
    expect(await outcome).toEqual({
      ok: true,
      receipt: {
        id: 'id 1',
        scope: { project: 'Food Mart' },
        epochs_renewed: ['project:food mart', 'unassigned'],
        replicas: 1,
        waited: 5_500,
        known: true,
        engine_calls: 0,
      },
    });
    expect(events).toEqual([
      {
        type: 'purged',
        id: 'id 1',
        scope: { project: 'Food Mart' },
        principal: 'ADMIN',
        cause: 'clear-cache',
        result: 'cleared',
        replicas: 1,
        waited: 5_500,
        known: true,
        engine_calls: 0,
        milliseconds: 5_500,
      },
    ]);
  });

  test.each([
    ['the configuration names, or the engine has answered about', true, false, true],
    ['a gateway was asked for', false, true, true],
    ['no gateway has seen', false, false, false],
  ])('says whether it is of a project that %s', async (_what, isKnown, known, told) => {
    const { store, purge, wake, events } = purgeHouse({ isKnown: () => isKnown });
    store.known = known;
    wake.open();
    const outcome = purge(A, ORDER);
    await quiet();
    store.renewals[0]?.answer(1_000);
    expect(await outcome).toMatchObject({ receipt: { known: told } });
    expect(events.at(-1)).toMatchObject({ type: 'purged', known: told });
  });

  test('of everything renews the epoch of everything and frees the memory', async () => {
    const { store, purge, wake, cleared } = purgeHouse();
    store.known = false;
    const outcome = purge('everything', ORDER);
    await quiet();
    expect(store.renewals[0]?.scopes).toEqual(['everything', 'unassigned']);
    store.renewals[0]?.answer(1_000);
    wake.open();
    expect(await outcome).toMatchObject({ ok: true, receipt: { known: true } });
    expect(cleared.times).toBe(1);
  });

  test('of one project leaves the memory of the others', async () => {
    const { store, purge, wake, cleared } = purgeHouse();
    const outcome = purge(A, ORDER);
    await quiet();
    store.renewals[0]?.answer(1_000);
    wake.open();
    await outcome;
    expect(cleared.times).toBe(0);
  });

  test('waits for nobody where nobody else is', async () => {
    const { store, purge, slept } = purgeHouse();
    const outcome = purge(A, ORDER);
    await quiet();
    store.renewals[0]?.answer(0);
    expect(await outcome).toMatchObject({ ok: true });
    expect(slept).toEqual([]);
  });

  test('that was not confirmed counts as not done and is repeated', async () => {
    const { store, epochs, purge, slept, wake, events } = purgeHouse();
    wake.open();
    const outcome = purge(A, ORDER);
    await quiet();
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

  test('is made once more when Redis was replaced before the wait was over', async () => {
    const { store, purge, slept, wake } = purgeHouse();
    const outcome = purge(A, ORDER);
    await quiet();
    store.renewals[0]?.answer(1_000);
    await quiet();
    store.incarnationNow = 'second';
    wake.open();
    await quiet();
    expect(store.renewals[0]?.scopes).toEqual(['project:a', 'unassigned']);
    store.renewals[0]?.answer(1_000);
    expect(await outcome).toMatchObject({ ok: true });
    expect(slept).toEqual([1_100, 1_100]);
  });

  test.each([
    ['is replaced again and again', (calls: number) => `server ${calls}`],
    ['cannot be asked whether it was', (calls: number) => (calls % 2 ? 'one' : new Error('away'))],
  ])('is owed when Redis %s', async (_what, incarnation) => {
    const { store, epochs, purge, wake, cleared } = purgeHouse();
    let calls = 0;
    store.incarnation = async () => {
      const said = incarnation((calls += 1));
      if (typeof said === 'string') return said;
      throw said;
    };
    wake.open();
    const outcome = purge(A, ORDER);
    for (let tries = 0; tries < 3; tries += 1) {
      await quiet();
      store.renewals[0]?.answer(1_000);
    }
    expect(await outcome).toEqual({ ok: false, failed: 'redis', engines: [] });
    expect(epochs.owed()).toEqual(['project:a', 'unassigned']);
    expect(cleared.times).toBe(1);
    epochs.close();
  });

  test('that is never confirmed is owed, says so, and empties the memory', async () => {
    const { epochs, purge, slept, wake, cleared, events, failRenewals } = purgeHouse();
    wake.open();
    const outcome = purge(A, ORDER);
    await failRenewals();
    expect(await outcome).toEqual({ ok: false, failed: 'redis', engines: [] });
    expect(epochs.owed()).toEqual(['project:a', 'unassigned']);
    expect(cleared.times).toBe(1);
    expect(slept).toEqual([300, 300]);
    expect(events.at(-1)).toMatchObject({ type: 'purged', result: 'owed', scope: A });
    epochs.close();
  });
});

describe('the announcement of a purge', () => {
  test('is made when the epochs are new, and names the purge and its scopes', async () => {
    const { store, purge } = purgeHouse();
    void purge(A, ORDER);
    await quiet();
    expect(store.announced).toEqual([]);
    store.renewals[0]?.answer(1_000);
    await quiet();
    expect(store.announced).toEqual([{ purge: 'id 1', scopes: ['project:a', 'unassigned'] }]);
  });

  test('does not hold the purge up when it is never taken', async () => {
    const { store, purge, wake } = purgeHouse();
    store.announce = () => new Promise(() => {});
    const outcome = purge(A, ORDER);
    await quiet();
    store.renewals[0]?.answer(1_000);
    wake.open();
    expect(await outcome).toMatchObject({ ok: true });
  });

  test('is acknowledged by replicas that are counted, and the wait is none the shorter', async () => {
    const { store, purge, slept, wake } = purgeHouse();
    const outcome = purge(A, ORDER);
    await quiet();
    store.renewals[0]?.answer(1_000);
    await quiet();
    for (const gateway of ['one', 'other', 'one']) store.forgotten('id 1', gateway);
    store.forgotten('another', 'third');
    expect(await settled(outcome)).toBe(false);
    wake.open();
    expect(await outcome).toMatchObject({ receipt: { replicas: 3, waited: 1_100 } });
    expect(slept).toEqual([1_100]);
  });
});

describe('engines', () => {
  const OK = { replica: 'http://one', ok: true };
  const BAD = { replica: 'http://two', ok: false, why: 'It said no.' };

  test('are cleared before the epochs are new', async () => {
    const { store, purge, wake, engine } = purgeHouse({ engines: [OK, OK] });
    engine.hold = gate();
    const outcome = purge(A, { ...ORDER, authorization: 'Basic x' });
    await quiet();
    expect([engine.asked, store.renewals.length]).toEqual([[[A, undefined]], 0]);
    engine.hold.open();
    await quiet();
    expect(store.renewals).toHaveLength(1);
    store.renewals[0]?.answer(1_000);
    wake.open();
    expect(await outcome).toMatchObject({ ok: true, receipt: { engine_calls: 2 } });
  });

  test('that were not cleared are told of, after new epochs and the whole wait', async () => {
    const { store, purge, wake, slept, events } = purgeHouse({ engines: [OK, BAD] });
    const outcome = purge(A, ORDER);
    await quiet();
    store.renewals[0]?.answer(1_000);
    expect(await settled(outcome)).toBe(false);
    expect(slept).toEqual([1_100]);
    wake.open();
    expect(await outcome).toMatchObject({
      ok: false,
      failed: 'engine',
      engines: [OK, BAD],
      receipt: { id: 'id 1', waited: 1_100, engine_calls: 2 },
    });
    expect(events.at(-1)).toMatchObject({ result: 'engine-failed', engine_calls: 2 });
  });

  test('that were not even called are not counted', async () => {
    const { store, purge, wake, events } = purgeHouse({
      engines: [OK, { ...BAD, called: false }],
    });
    wake.open();
    const outcome = purge(A, ORDER);
    await quiet();
    store.renewals[0]?.answer(1_000);
    expect(await outcome).toMatchObject({ ok: false, receipt: { engine_calls: 1 } });
    expect(events.at(-1)).toMatchObject({ result: 'engine-failed', engine_calls: 1 });
  });

  test('are told of when Redis did not confirm the new epochs', async () => {
    const { epochs, purge, wake, failRenewals, events } = purgeHouse({ engines: [OK, BAD] });
    wake.open();
    const outcome = purge(A, ORDER);
    await failRenewals();
    expect(await outcome).toEqual({ ok: false, failed: 'redis', engines: [OK, BAD] });
    expect(events.at(-1)).toMatchObject({ result: 'owed', engine_calls: 2 });
    epochs.close();
  });

  test.each(['change', 'statement'] as const)('are not asked for a %s', async (cause) => {
    const { store, purge, wake, engine } = purgeHouse({ engines: [BAD] });
    wake.open();
    const outcome = purge(A, { principal: 'ADMIN', cause });
    await quiet();
    store.renewals[0]?.answer(1_000);
    expect(await outcome).toMatchObject({ ok: true });
    expect(engine.asked).toEqual([]);
  });

  test('are asked without a login for a watcher', async () => {
    const { store, purge, wake, engine } = purgeHouse({ engines: [OK], asksAsCaller: true });
    wake.open();
    const outcome = purge(A, { principal: 'watch:a', cause: 'watch' });
    await quiet();
    store.renewals[0]?.answer(1_000);
    expect(await outcome).toMatchObject({ ok: true });
    expect(engine.asked).toEqual([[A, undefined]]);
  });

  test.each([
    ['the login of whoever purges, where they are asked with it', true, 'Basic x'],
    ['no login otherwise', false, undefined],
  ])('are given %s', async (_name, asksAsCaller, given) => {
    const { store, purge, wake, engine } = purgeHouse({ engines: [OK], asksAsCaller });
    wake.open();
    const outcome = purge(A, { ...ORDER, authorization: 'Basic x' });
    await quiet();
    store.renewals[0]?.answer(1_000);
    await outcome;
    expect(engine.asked).toEqual([[A, given]]);
  });
});

describe('a renewal before a change', () => {
  test('is done when Redis has confirmed it, without waiting for a lease', async () => {
    const { store, renew, slept, events } = purgeHouse();
    const renewed = renew(A);
    expect(await settled(renewed)).toBe(false);
    expect(store.renewals[0]?.scopes).toEqual(['project:a', 'unassigned']);
    store.renewals[0]?.answer(5_000);
    expect(await renewed).toBe(true);
    expect([slept, events]).toEqual([[], []]);
  });

  test('that is never confirmed is owed and empties the memory', async () => {
    const { store, epochs, renew, cleared } = purgeHouse();
    const renewed = renew(A);
    store.renewals[0]?.fail();
    // The purge that follows tries again.
    expect(await renewed).toBe(false);
    expect(epochs.owed()).toEqual(['project:a', 'unassigned']);
    expect(cleared.times).toBe(1);
    epochs.close();
  });
});
