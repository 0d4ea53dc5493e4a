import { afterEach, describe, expect, jest, test } from '@jest/globals';
import type { GatewayEvent } from '../../../../src/common/events.ts';
import { createSharedFlights, type Missed } from '../../../../src/cache/shared-flights.ts';
import { until } from '../../../support/http-client.ts';
import { told } from '../fake-client.ts';
import { fakeLocks, handSleep } from '../purge/fake-locks.ts';
import { handClock, quiet, rowset, storedAnswer } from '../fakes.ts';
import { endsOf, flightHouse } from '../flight-house.ts';

/** A lock that is not heard of for so long is free, by the promise (ms). */
const PLACE_LIFE = 6_000;
const LONGEST_PAUSE = 250;

const LOCK = { query: 'query', key: 'key' };

/** The rules of one gateway alone, on locks of this test. */
function alone({ longestFlight = Infinity, patience = Infinity } = {}) {
  const clock = handClock();
  const locks = fakeLocks(clock);
  const night = handSleep(clock);
  const events: GatewayEvent[] = [];
  let tokens = 0;
  const flights = createSharedFlights({
    locks,
    clock,
    sleep: night.sleep,
    newToken: () => `token ${(tokens += 1)}`,
    longestFlight: () => longestFlight,
    emit: (event) => void events.push(event),
  });
  let finds = 0;
  const missed: Missed = {
    lock: LOCK,
    ttl: 60_000,
    spentMs: 0,
    patience,
    wanted: () => true,
    async find() {
      finds += 1;
      return undefined;
    },
  };
  return {
    clock,
    locks,
    night,
    events,
    enter: (changed: Partial<Missed> = {}) => flights.enter({ ...missed, ...changed }),
    get finds() {
      return finds;
    },
  };
}

/** Wakes whoever sleeps until the promise is settled. */
async function wakeUntil<T>(night: ReturnType<typeof handSleep>, promise: Promise<T>): Promise<T> {
  const state = { settled: false };
  const done = promise.finally(() => (state.settled = true));
  while (!state.settled) {
    await until(() => state.settled || night.pauses.length > 0);
    await night.wake();
  }
  return done;
}

describe('a gateway that waits for another one', () => {
  test.each([
    ['twice what the engine needed and three seconds', 4_000, Infinity, 11_000],
    ['no longer than the request may wait', 60_000, 30_000, 30_000],
  ])('waits %s, then asks by itself', async (_what, expected, patience, bound) => {
    const { clock, locks, night, events, enter } = alone({ patience });
    locks.slow.set('query', expected);
    locks.seize('key', 'another');
    const began = clock.now();
    expect((await wakeUntil(night, enter())).kind).toBe('ask');
    const waited = clock.now() - began;
    expect(waited).toBeGreaterThanOrEqual(bound);
    expect(waited).toBeLessThanOrEqual(bound + LONGEST_PAUSE);
    expect(events).toEqual([{ type: 'shared-flight', end: 'gave-up' }]);
    expect(locks.holder('key')).toBe('another');
  });

  test('looks again after pauses that grow from 25 to 250 ms', async () => {
    const { locks, night, enter } = alone();
    locks.slow.set('query', 5_000);
    locks.seize('key', 'another');
    const entered = enter();
    const pauses: number[] = [];
    for (let i = 0; i < 9; i += 1) {
      await until(() => night.pauses.length > 0);
      pauses.push(...night.pauses.map(Math.round));
      await night.wake();
    }
    expect(pauses).toEqual([25, 38, 56, 84, 127, 190, 250, 250, 250]);
    await wakeUntil(night, entered);
  });

  test('takes the lock of one that died, and has lost no more than the life of the lock', async () => {
    const house = flightHouse();
    const { clock, query, gateway, locks, engine, set } = house;
    house.markSlow(60_000);
    set.took = 0;
    const b = gateway();
    locks.seize((await house.lockOf(b)).key, 'dead', PLACE_LIFE);
    const began = clock.now();
    const asked = b.answer(query);
    await house.wakeUntil(() => engine.asked === 1);
    expect(clock.now() - began).toBeGreaterThanOrEqual(PLACE_LIFE);
    expect(clock.now() - began).toBeLessThanOrEqual(PLACE_LIFE + LONGEST_PAUSE);
    expect([told(await asked), endsOf(b)]).toEqual(['miss', ['led']]);
  });

  test('asks by itself after six looks in a row that failed', async () => {
    const { locks, night, events, enter } = alone();
    locks.slow.set('query', 60_000);
    locks.seize('key', 'another');
    const entered = enter();
    const away = Array<boolean>(5).fill(false);
    for (const reachable of [...away, true, ...away]) {
      await until(() => night.pauses.length === 1);
      locks.reachable = reachable;
      await night.wake();
    }
    await until(() => night.pauses.length === 1);
    await night.wake();
    expect((await entered).kind).toBe('ask');
    expect(events.filter(({ type }) => type === 'redis-failed')).toHaveLength(11);
    expect(events.at(-1)).toEqual({ type: 'shared-flight', end: 'gave-up' });
  });

  test('looks for the entry once more when the query is no longer slow', async () => {
    const { locks, night, enter } = alone();
    locks.slow.set('query', 5_000);
    locks.seize('key', 'another');
    const answer = storedAnswer();
    let finds = 0;
    const find = async () => ((finds += 1) === 1 ? undefined : answer);
    const entered = enter({ find });
    await until(() => night.pauses.length === 1);
    locks.slow.clear();
    await night.wake();
    expect(await entered).toEqual({ kind: 'answer', answer });
  });
});

describe('two gateways that lead', () => {
  test('each answer their own clients, and neither ends the flight of the other', async () => {
    const house = flightHouse();
    const { clock, query, gateway, locks, engine } = house;
    house.markSlow();
    const [a, b] = [gateway(), gateway()];
    const { key } = await house.lockOf(a);
    const ofA = house.holdEngine();
    const first = a.answer(query);
    await ofA.arrived;
    // It stood still for so long that its lock became free.
    clock.advance(PLACE_LIFE);
    const ofB = house.holdEngine();
    const second = b.answer(query);
    await ofB.arrived;
    const holder = locks.holder(key);
    ofA.release();
    expect([told(await first), locks.holder(key)]).toEqual(['miss', holder]);
    ofB.release();
    expect([told(await second), locks.holder(key)]).toEqual(['miss', undefined]);
    expect([endsOf(a), endsOf(b), engine.asked]).toEqual([['led'], ['led'], 2]);
    // Whoever comes later finds what began later.
    expect((await gateway().answer(query)).body).toBe(`${rowset('answer 2')}`);
  });
});

describe('the lock of a gateway that asks', () => {
  afterEach(() => {
    jest.useRealTimers();
  });

  test('is held for as long as the engine needs, and then left', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'setTimeout', 'nextTick', 'queueMicrotask'] });
    const { clock, locks, enter } = alone();
    locks.slow.set('query', 5_000);
    const entered = await enter();
    if (entered.kind !== 'ask') throw new Error('it does not ask');
    for (let passed = 0; passed < 10 * PLACE_LIFE; passed += 500) {
      clock.advance(500);
      jest.advanceTimersByTime(500);
      await quiet();
      expect(locks.holder('key')).toBe('token 1');
    }
    await entered.end(storedAnswer({ engineMilliseconds: 60_000 }), true);
    const { beats } = locks;
    expect([locks.holder('key'), jest.getTimerCount(), beats]).toEqual([undefined, 0, 30]);
  });

  test('is not held for longer than a flight lasts', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'setTimeout', 'nextTick', 'queueMicrotask'] });
    const { clock, locks, enter } = alone({ longestFlight: 30_000 });
    locks.slow.set('query', 5_000);
    await enter();
    for (let passed = 0; passed < 30_000 + PLACE_LIFE; passed += 500) {
      clock.advance(500);
      jest.advanceTimersByTime(500);
      await quiet();
    }
    expect([locks.holder('key'), jest.getTimerCount()]).toEqual([undefined, 0]);
  });

  test('is given up when another one took it', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'setTimeout', 'nextTick', 'queueMicrotask'] });
    const { locks, enter } = alone();
    locks.slow.set('query', 5_000);
    const entered = await enter();
    if (entered.kind !== 'ask') throw new Error('it does not ask');
    locks.seize('key', 'another');
    jest.advanceTimersByTime(2_000);
    await quiet();
    expect([locks.beats, jest.getTimerCount()]).toEqual([1, 0]);
    await entered.end(undefined, false);
    expect(locks.holder('key')).toBe('another');
  });

  test('is held on through a Redis that is away for a moment', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'setTimeout', 'nextTick', 'queueMicrotask'] });
    const { locks, enter, events } = alone();
    locks.slow.set('query', 5_000);
    const entered = await enter();
    if (entered.kind !== 'ask') throw new Error('it does not ask');
    locks.reachable = false;
    jest.advanceTimersByTime(2_000);
    await quiet();
    locks.reachable = true;
    jest.advanceTimersByTime(2_000);
    await quiet();
    expect([locks.beats, locks.holder('key')]).toEqual([2, 'token 1']);
    locks.reachable = false;
    await entered.end(storedAnswer(), true);
    expect(events.map(({ type }) => type)).toEqual([
      'shared-flight',
      'redis-failed',
      'redis-failed',
      'redis-failed',
    ]);
  });
});

describe('a Redis that is away or slow', () => {
  test('is no reason to wait: the engine is asked', async () => {
    const house = flightHouse();
    const { query, gateway, locks } = house;
    house.markSlow();
    locks.reachable = false;
    const a = gateway();
    expect(told(await a.answer(query))).toBe('miss');
    expect([endsOf(a), locks.enters]).toEqual([[], 1]);
    expect(a.events).toContainEqual(
      expect.objectContaining({ type: 'redis-failed', operation: 'flights' }),
    );
    // Redis may have heard of it nevertheless.
    expect(locks.leaves).toBe(1);
  });

  test('and needed its whole deadline for the look-up is not asked once more', async () => {
    const house = flightHouse();
    const { query, gateway, locks, values, clock } = house;
    house.markSlow();
    values.beforeGet = async () => clock.advance(100);
    expect(told(await gateway().answer(query))).toBe('miss');
    expect(locks.enters).toBe(0);
  });

  test('is asked for as long as is left of the deadline', async () => {
    const clock = handClock();
    const withins: number[] = [];
    const flights = createSharedFlights({
      locks: {
        ...fakeLocks(clock),
        async enter(_place, _token, _life, within) {
          withins.push(within);
          return { kind: 'fast' };
        },
      },
      clock,
      sleep: async () => {},
      newToken: () => 'token',
      longestFlight: () => Infinity,
      emit: () => {},
    });
    const find = async () => undefined;
    const missed = { lock: LOCK, ttl: 1, patience: Infinity, find, wanted: () => true };
    for (const spentMs of [0, 30, 99, 100]) await flights.enter({ ...missed, spentMs });
    expect(withins).toEqual([100, 70, 1]);
  });
});
