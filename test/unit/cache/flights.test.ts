import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { getEventListeners } from 'node:events';
import { createFlights } from '../../../src/cache/flights.ts';
import { handClock, quiet, storedAnswer } from './fakes.ts';

const DEADLINE = 10_000;
/** How long a request waits for an answer to begin (ms). */
const PATIENCE = 7_000;

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['setImmediate'] });
});
afterEach(() => {
  jest.useRealTimers();
});

function setUp() {
  const clock = handClock();
  return { clock, flights: createFlights({ clock, deadline: () => DEADLINE }) };
}

const signal = () => new AbortController().signal;
const answered = () => ({ kind: 'answer', answer: storedAnswer(), began: 0 }) as const;
const NOTHING = { kind: 'refused', reason: 'fault' } as const;

describe('a flight', () => {
  test('is joined by all who ask for the same key, and by nobody else', async () => {
    const { flights } = setUp();
    expect(flights.join('key', signal(), PATIENCE)).toBeUndefined();
    const flight = flights.lead('key');
    const waiting = [
      flights.join('key', signal(), PATIENCE),
      flights.join('key', signal(), PATIENCE),
    ];
    expect(flights.join('other key', signal(), PATIENCE)).toBeUndefined();
    expect(flights.usage()).toEqual({ flights: 1, waiters: 2 });
    const answer = storedAnswer();
    flight.land({ kind: 'answer', answer, began: 0 });
    expect(await Promise.all(waiting)).toMatchObject([
      { kind: 'answer', answer },
      { kind: 'answer', answer },
    ]);
    expect(flights.usage()).toEqual({ flights: 0, waiters: 0 });
    expect(flights.join('key', signal(), PATIENCE)).toBeUndefined();
    expect(jest.getTimerCount()).toBe(0);
  });

  test('lands once: what is said afterwards changes nothing', async () => {
    const { flights } = setUp();
    const flight = flights.lead('key');
    const joined = flights.join('key', signal(), PATIENCE);
    flight.land(answered());
    flight.land(NOTHING);
    expect(await joined).toMatchObject({ kind: 'answer' });
  });

  test('that brings nothing lets those who waited go on four at a time', async () => {
    const { flights } = setUp();
    const flight = flights.lead('key');
    const joined = flights.join('key', signal(), PATIENCE);
    flight.land(NOTHING);
    const landed = await joined;
    if (typeof landed !== 'object') {
      throw new Error('it brought something');
    }
    for (let i = 0; i < 6; i += 1) void landed.turns().acquire(signal());
    await quiet();
    expect(landed.turns().usage()).toEqual({ held: 4, waiting: 2 });
  });

  test('is left by a client that goes away, and by nobody else', async () => {
    const { flights } = setUp();
    const flight = flights.lead('key');
    const leaving = new AbortController();
    const left = flights.join('key', leaving.signal, PATIENCE);
    const stays = flights.join('key', signal(), PATIENCE);
    leaving.abort(new Error('gone'));
    expect(await left).toBe('gone');
    expect(flights.usage()).toEqual({ flights: 1, waiters: 1 });
    flight.land(answered());
    expect(await stays).toMatchObject({ kind: 'answer' });
  });

  test('keeps nothing at the client that leads once it has landed', async () => {
    const { flights } = setUp();
    const [flight, leading] = [flights.lead('key'), signal()];
    flight.unwanted(leading);
    expect(getEventListeners(leading, 'abort').length).toBe(1);
    flight.land(answered());
    await quiet();
    expect(getEventListeners(leading, 'abort').length).toBe(0);
  });

  test('is not waited for by a client that went away before', async () => {
    const { flights } = setUp();
    flights.lead('key');
    const gone = AbortSignal.abort(new Error('gone'));
    expect(await flights.join('key', gone, PATIENCE)).toBe('gone');
  });

  test('is late for each who waited as long as it may, and is joined by others', async () => {
    const { flights } = setUp();
    flights.lead('key');
    const [first, second] = [1, 0].map((less) => flights.join('key', signal(), PATIENCE - less));
    jest.advanceTimersByTime(PATIENCE - 1);
    expect(await first).toBe('late');
    expect(flights.usage().waiters).toBe(1);
    jest.advanceTimersByTime(1);
    expect(await second).toBe('late');
    expect(flights.join('key', signal(), PATIENCE)).toBeDefined();
  });

  test('is waited for to its end once the engine has begun to answer', async () => {
    const { flights } = setUp();
    const flight = flights.lead('key');
    const joined = flights.join('key', signal(), PATIENCE);
    flight.answers();
    jest.advanceTimersByTime(10 * PATIENCE);
    flight.land(answered());
    expect(await joined).toMatchObject({ kind: 'answer' });
  });

  test('is not joined any more at its deadline', () => {
    const { clock, flights } = setUp();
    flights.lead('key');
    clock.advance(DEADLINE);
    expect(flights.join('key', signal(), PATIENCE)).toBeUndefined();
  });

  test('is under way for as long as it can be joined', () => {
    const { clock, flights } = setUp();
    expect(flights.underWay('key')).toBe(false);
    const flight = flights.lead('key');
    expect([flights.underWay('key'), flights.underWay('other key')]).toEqual([true, false]);
    clock.advance(99);
    expect([flights.underWay('key', 100), flights.underWay('key', 99)]).toEqual([true, false]);
    clock.advance(DEADLINE - 99);
    expect(flights.underWay('key')).toBe(false);
    flights.lead('other key').land(NOTHING);
    expect(flights.underWay('other key')).toBe(false);
    flight.land(NOTHING);
  });

  test('is joined only while it is younger than the one who asks demands', () => {
    const { clock, flights } = setUp();
    flights.lead('key');
    clock.advance(99);
    expect(flights.join('key', signal(), PATIENCE, 100)).toBeDefined();
    clock.advance(1);
    expect(flights.join('key', signal(), PATIENCE, 100)).toBeUndefined();
    expect(flights.join('key', signal(), PATIENCE)).toBeDefined();
  });

  test('is too old when the wall clock alone says so: a machine may have slept', () => {
    const { clock, flights } = setUp();
    flights.lead('key');
    clock.stepWall(100);
    expect(flights.join('key', signal(), PATIENCE, 100)).toBeUndefined();
  });

  test('that demands an age below nothing is never joined', () => {
    const { flights } = setUp();
    flights.lead('key');
    expect(flights.join('key', signal(), PATIENCE, 0)).toBeUndefined();
  });

  test('that was given up does not take a younger one off the map when it lands', async () => {
    const { flights } = setUp();
    const old = flights.lead('key');
    const young = flights.lead('key');
    old.land(NOTHING);
    const joined = flights.join('key', signal(), PATIENCE);
    expect(joined).toBeDefined();
    young.land(answered());
    expect(await joined).toMatchObject({ kind: 'answer' });
  });

  test('takes so many who wait and no more', async () => {
    const { flights } = setUp();
    const flight = flights.lead('key');
    for (let i = 0; i < 2_000; i += 1)
      expect(flights.join('key', signal(), PATIENCE)).toBeDefined();
    expect(flights.join('key', signal(), PATIENCE)).toBeUndefined();
    flight.land(NOTHING);
    await quiet();
    expect(flights.usage()).toEqual({ flights: 0, waiters: 0 });
  });
});
