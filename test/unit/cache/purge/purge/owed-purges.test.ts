import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { quiet } from '../../fakes.ts';
import { purgeHouse } from '../purge-house.ts';
import { ORDER } from '../replica.ts';

const A = { project: 'a' };

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['setImmediate'] });
});
afterEach(() => {
  jest.useRealTimers();
});

async function owing(...given: Parameters<typeof purgeHouse>) {
  const house = purgeHouse(...given);
  house.wake.open();
  const outcome = house.purge(A, ORDER);
  await house.failRenewals();
  expect(await outcome).toMatchObject({ ok: false, failed: 'redis' });
  return house;
}

/** Lets the next try to settle what is owed succeed. */
async function settle({ store }: ReturnType<typeof purgeHouse>): Promise<void> {
  jest.advanceTimersByTime(1_000);
  await quiet();
  store.renewals[0]?.answer(2_000);
  await quiet();
}

describe('a purge that was owed', () => {
  test.each([
    ['was replaced', 'second'],
    ['cannot say what it is', new Error('no answer')],
  ])('is owed again when Redis %s while its lease passed', async (_what, incarnation) => {
    const house = await owing();
    const cleared = house.cleared.times;
    jest.advanceTimersByTime(1_000);
    await quiet();
    house.store.renewals[0]?.answer(2_000);
    house.store.incarnationNow = incarnation;
    await quiet();
    expect((await house.logged()).map(({ result }) => result)).toEqual(['owed']);
    expect(house.epochs.owed()).toEqual(['project:a', 'unassigned']);
    expect(house.cleared.times).toBe(cleared + 1);
    house.store.incarnationNow = 'second';
    await settle(house);
    expect((await house.logged()).map(({ id, result }) => `${id} ${result}`)).toEqual([
      'id 1 cleared',
      'id 1 owed',
    ]);
    expect(house.epochs.owed()).toEqual([]);
  });

  test('is logged as owed, and once more when it is done and waited for, in the name of who wanted it', async () => {
    const house = await owing();
    const { clock, slept, events, logged, store } = house;
    const asked = clock.wall();
    expect(await logged()).toMatchObject([{ id: 'id 1', result: 'owed', principal: 'ADMIN' }]);
    clock.advance(60_000);
    await settle(house);
    expect(store.announced).toEqual([{ purge: 'id 1', scopes: ['project:a', 'unassigned'] }]);
    expect(slept.at(-1)).toBe(2_200);
    const done = {
      id: 'id 1',
      principal: 'ADMIN',
      cause: 'clear-cache',
      scope: A,
      result: 'cleared',
      waited: 2_200,
      replicas: 1,
      known: true,
      engine_calls: 0,
    };
    const [last, first, ...more] = await logged();
    expect([first, more]).toMatchObject([{ id: 'id 1', result: 'owed' }, []]);
    expect(last).toEqual({ ...done, at: clock.wall() });
    expect(events.at(-1)).toMatchObject({ type: 'purged', ...done });
    expect(clock.wall()).toBeGreaterThanOrEqual(asked + 62_200);
  });

  test('keeps that an engine was not cleared', async () => {
    const house = await owing({ engines: [{ replica: 'http://one', ok: false, why: 'No.' }] });
    await settle(house);
    expect((await house.logged()).map(({ result }) => result)).toEqual(['engine-failed', 'owed']);
  });

  test('is told for each who asked for it', async () => {
    const house = purgeHouse();
    house.wake.open();
    const all = ['alice', 'bob', 'carol'].map((principal) =>
      house.purge(A, { ...ORDER, principal }),
    );
    for (let run = 0; run < 2; run += 1) await house.failRenewals();
    await Promise.all(all);
    await settle(house);
    await settle(house);
    const told = (await house.logged()).map(({ principal, result }) => `${principal} ${result}`);
    expect(told.sort()).toEqual(
      ['alice', 'bob', 'carol'].flatMap((who) => [`${who} cleared`, `${who} owed`]),
    );
  });
});

test('purges that are settled at one time wait for their leases at one time', async () => {
  const house = purgeHouse();
  house.wake.open();
  const all = ['a', 'b', 'c'].map((project) => house.purge({ project }, ORDER));
  for (let tries = 0; tries < 3; tries += 1) {
    await quiet();
    while (house.store.renewals.length > 0) house.store.renewals[0]?.fail();
  }
  await Promise.all(all);
  const slept = house.slept.length;
  jest.advanceTimersByTime(1_000);
  await quiet();
  for (const renewal of [...house.store.renewals]) renewal.answer(2_000);
  await quiet();
  expect((await house.logged()).map(({ result }) => result)).toEqual([
    ...Array<string>(3).fill('cleared'),
    ...Array<string>(3).fill('owed'),
  ]);
  expect(house.slept.slice(slept)).toEqual([2_200, 2_200, 2_200]);
});
