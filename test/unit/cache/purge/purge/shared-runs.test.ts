import { describe, expect, test } from '@jest/globals';
import { gate } from '../../../../support/stub-engine.ts';
import { quiet } from '../../fakes.ts';
import { purgeHouse, settled } from '../purge-house.ts';
import { ORDER } from '../replica.ts';

const A = { project: 'a' };
const OK = { replica: 'http://one', ok: true };

const idOf = async (outcome: Promise<unknown>) =>
  ((await outcome) as { receipt?: { id: string } }).receipt?.id;

describe('purges of one scope that come together', () => {
  test('share the run that has not begun to act; those that came before have one of their own', async () => {
    const { store, purge, wake, engine, logged } = purgeHouse({ engines: [OK] });
    wake.open();
    const first = purge(A, ORDER);
    const others = [1, 2, 3].map(() => purge(A, { ...ORDER, principal: 'bob' }));
    await quiet();
    expect([engine.asked.length, store.renewals.length]).toEqual([1, 1]);
    store.renewals[0]?.answer(1_000);
    await quiet();
    expect([engine.asked.length, store.renewals.length]).toEqual([2, 1]);
    store.renewals[0]?.answer(1_000);
    expect(await idOf(first)).toBe('id 1');
    expect(await Promise.all(others.map(idOf))).toEqual(['id 2', 'id 2', 'id 2']);
    expect(engine.asked).toHaveLength(2);
    expect((await logged()).map(({ id, principal }) => [id, principal])).toEqual([
      ['id 2', 'bob'],
      ['id 2', 'bob'],
      ['id 2', 'bob'],
      ['id 1', 'ADMIN'],
    ]);
  });

  test.each(['engine called', 'renewal sent'] as const)(
    'do not join a run that has begun to act (%s)',
    async (step) => {
      const { store, purge, wake, engine } = purgeHouse({ engines: [OK] });
      wake.open();
      if (step === 'engine called') engine.hold = gate();
      const first = purge(A, ORDER);
      await quiet();
      const second = purge(A, ORDER);
      await quiet();
      expect(engine.asked).toHaveLength(1);
      engine.hold?.open();
      await quiet();
      store.renewals[0]?.answer(1_000);
      await quiet();
      expect([engine.asked.length, store.renewals.length]).toEqual([2, 1]);
      store.renewals[0]?.answer(1_000);
      expect([await idOf(first), await idOf(second)]).toEqual(['id 1', 'id 2']);
    },
  );

  test('do not wait for the lease of the run before', async () => {
    const { store, purge, wake } = purgeHouse();
    const first = purge(A, ORDER);
    const second = purge(A, ORDER);
    await quiet();
    store.renewals[0]?.answer(1_000);
    expect(await settled(first)).toBe(false);
    expect(store.renewals).toHaveLength(1);
    store.renewals[0]?.answer(1_000);
    await quiet();
    // Both wait now.
    wake.open();
    expect(await idOf(first)).toBe('id 1');
    expect(await idOf(second)).toBe('id 2');
  });

  test('run one at a time, however many come; only one run waits', async () => {
    const { store, purge, wake } = purgeHouse();
    wake.open();
    const all: Promise<unknown>[] = [];
    for (let round = 0; round < 4; round += 1) {
      for (let caller = 0; caller < 10; caller += 1) all.push(purge(A, ORDER));
      await quiet();
      expect(store.renewals).toHaveLength(1);
      store.renewals[0]?.answer(1_000);
      await quiet();
    }
    store.renewals[0]?.answer(1_000);
    const ids = await Promise.all(all.map(idOf));
    expect(new Set(ids).size).toBe(5);
  });

  test('go on after a run that failed, each with its own outcome', async () => {
    const { store, epochs, purge, wake, failRenewals, events } = purgeHouse();
    wake.open();
    const first = purge(A, ORDER);
    const second = [purge(A, ORDER), purge(A, ORDER)];
    await failRenewals();
    expect(await first).toMatchObject({ ok: false, failed: 'redis' });
    store.renewals[0]?.answer(1_000);
    for (const one of second) expect(await one).toMatchObject({ ok: true });
    const results = events.flatMap((event) => (event.type === 'purged' ? [event.result] : []));
    expect(results).toEqual(['owed', 'cleared', 'cleared']);
    epochs.close();
  });

  test('of another scope, or of a cause without engines, have runs of their own', async () => {
    const { store, purge, wake } = purgeHouse();
    wake.open();
    const all = [
      purge(A, ORDER),
      purge({ project: 'b' }, ORDER),
      purge('everything', ORDER),
      purge(A, { principal: 'ADMIN', cause: 'change' }),
    ];
    await quiet();
    expect(store.renewals).toHaveLength(4);
    for (const renewal of [...store.renewals]) renewal.answer(1_000);
    expect(new Set(await Promise.all(all.map(idOf))).size).toBe(4);
  });
});

describe('purges with different logins', () => {
  const orders = [
    { ...ORDER, authorization: 'Basic alice' },
    { ...ORDER, authorization: 'Basic bob' },
  ];

  test('share no run where engines are asked with the login of whoever purges', async () => {
    const { store, purge, engine, wake } = purgeHouse({ engines: [OK], asksAsCaller: true });
    wake.open();
    const all = orders.map((order) => purge(A, order));
    await quiet();
    expect(engine.asked).toEqual([
      [A, 'Basic alice'],
      [A, 'Basic bob'],
    ]);
    for (const renewal of [...store.renewals]) renewal.answer(1_000);
    expect(new Set(await Promise.all(all.map(idOf))).size).toBe(2);
  });

  test('share one otherwise', async () => {
    const { store, purge, engine, wake } = purgeHouse({ engines: [OK] });
    wake.open();
    const all = [...orders, ...orders].map((order) => purge(A, order));
    for (let run = 0; run < 2; run += 1) {
      await quiet();
      store.renewals[0]?.answer(1_000);
    }
    expect(await Promise.all(all.map(idOf))).toEqual(['id 1', 'id 2', 'id 2', 'id 2']);
    expect(engine.asked).toHaveLength(2);
  });
});
