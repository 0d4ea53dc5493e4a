import { describe, expect, test } from '@jest/globals';
import { CircuitOpenError, createCircuitBreaker } from '../../../src/redis/circuit-breaker.ts';

const PAUSE = 1_000;

function setUp() {
  let now = 0;
  let asked = 0;
  const changes: (readonly [open: boolean, error: unknown])[] = [];
  const breaker = createCircuitBreaker({
    failures: 3,
    pause: PAUSE,
    now: () => now,
    onChange: (open, error) => changes.push([open, error]),
  });
  const failure = new Error('no Redis');
  const count = <T>(outcome: () => Promise<T>) =>
    breaker.run(() => {
      asked += 1;
      return outcome();
    });
  return {
    breaker,
    changes,
    failure,
    advance: (milliseconds: number) => (now += milliseconds),
    succeed: () => count(async () => 'value'),
    fail: () => count(() => Promise.reject(failure)),
    count,
    asked: () => asked,
  };
}

type House = ReturnType<typeof setUp>;

async function open(house: House): Promise<void> {
  for (let failures = 0; failures < 3; failures += 1) {
    await expect(house.fail()).rejects.toBe(house.failure);
  }
}

describe('the circuit breaker', () => {
  test('passes results and failures through as they are', async () => {
    const { succeed, fail, failure } = setUp();
    expect(await succeed()).toBe('value');
    await expect(fail()).rejects.toBe(failure);
  });

  test('opens after so many failures in a row, and asks nothing then', async () => {
    const house = setUp();
    await open(house);
    expect(house.breaker.open).toBe(true);
    await expect(house.succeed()).rejects.toBeInstanceOf(CircuitOpenError);
    expect(house.asked()).toBe(3);
    expect(house.changes).toEqual([[true, house.failure]]);
  });

  test('stays closed when a success comes between', async () => {
    const { fail, succeed, breaker, changes } = setUp();
    for (let round = 0; round < 5; round += 1) {
      await fail().catch(() => {});
      await fail().catch(() => {});
      await succeed();
    }
    expect(breaker.open).toBe(false);
    expect(changes).toEqual([]);
  });

  test('lets one try after a pause, and no other while that one is under way', async () => {
    const house = setUp();
    await open(house);
    house.advance(PAUSE - 1);
    await expect(house.succeed()).rejects.toBeInstanceOf(CircuitOpenError);
    house.advance(1);
    const { promise, resolve } = Promise.withResolvers<string>();
    const trial = house.count(() => promise);
    await expect(house.succeed()).rejects.toBeInstanceOf(CircuitOpenError);
    resolve('value');
    await trial;
    expect(house.breaker.open).toBe(false);
    expect(await house.succeed()).toBe('value');
    expect(house.changes).toEqual([
      [true, house.failure],
      [false, undefined],
    ]);
  });

  test('pauses anew when the try fails, and does not tell it twice', async () => {
    const house = setUp();
    await open(house);
    house.advance(PAUSE);
    await expect(house.fail()).rejects.toBe(house.failure);
    house.advance(PAUSE - 1);
    await expect(house.succeed()).rejects.toBeInstanceOf(CircuitOpenError);
    house.advance(1);
    expect(await house.succeed()).toBe('value');
    expect(house.changes.map(([state]) => state)).toEqual([true, false]);
  });

  test('tells once that it opened, however many fail at one time', async () => {
    const house = setUp();
    const { promise, reject } = Promise.withResolvers<never>();
    const all = Array.from({ length: 10 }, () => house.count(() => promise).catch(() => {}));
    reject(house.failure);
    await Promise.all(all);
    expect(house.changes).toEqual([[true, house.failure]]);
  });
});
