import { describe, expect, test } from '@jest/globals';
import {
  CircuitOpenError,
  createRedisHealth,
  type Trouble,
} from '../../../../src/redis/redis-health.ts';
import { checkpoint, quiet } from '../../cache/fakes.ts';

const PAUSE = 1_000;

function setUp() {
  let asked = 0;
  let probe = async () => {};
  let probes = 0;
  let paused = checkpoint();
  const slept: number[] = [];
  const changes: (Trouble | undefined)[] = [];
  const silence = new Error('Command timed out');
  const breaker = createRedisHealth({
    isConnected: () => true,
    probe: () => {
      probes += 1;
      return probe();
    },
    async sleep(milliseconds) {
      slept.push(milliseconds);
      await paused.arrive();
    },
    onChange: (trouble) => changes.push(trouble),
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
    silence,
    slept,
    succeed: () => count(async () => 'value'),
    fail: () => count(() => Promise.reject(failure)),
    beSilent: () => count(() => Promise.reject(silence)),
    count,
    asked: () => asked,
    probes: () => probes,
    probeBy(next: () => Promise<void>) {
      probe = next;
    },
    async endPause() {
      const { release } = paused;
      paused = checkpoint();
      release();
      await quiet();
    },
  };
}

type House = ReturnType<typeof setUp>;

async function failOften(house: House): Promise<void> {
  for (let failures = 0; failures < 5; failures += 1) {
    await expect(house.fail()).rejects.toBe(house.failure);
  }
}

describe('the circuit breaker', () => {
  test('passes results and failures through as they are', async () => {
    const { succeed, fail, failure } = setUp();
    expect(await succeed()).toBe('value');
    await expect(fail()).rejects.toBe(failure);
  });

  test('asks nothing after so many failures in a row, until a probe succeeds', async () => {
    const house = setUp();
    const probing = checkpoint();
    house.probeBy(probing.arrive);
    await failOften(house);
    await expect(house.succeed()).rejects.toBeInstanceOf(CircuitOpenError);
    expect(house.asked()).toBe(5);
    probing.release();
    await quiet();
    expect(await house.succeed()).toBe('value');
    // Redis was there: nobody needs to know.
    expect(house.changes).toEqual([]);
  });

  test('asks nothing after one silence, so that no request waits twice', async () => {
    const house = setUp();
    const probing = checkpoint();
    house.probeBy(probing.arrive);
    await expect(house.beSilent()).rejects.toBe(house.silence);
    await expect(house.succeed()).rejects.toBeInstanceOf(CircuitOpenError);
    expect([house.asked(), house.probes()]).toEqual([1, 1]);
  });

  test('goes on when a success comes between failures', async () => {
    const { fail, succeed, breaker, changes, probes } = setUp();
    for (let round = 0; round < 5; round += 1) {
      for (let failures = 0; failures < 4; failures += 1) await fail().catch(() => {});
      await succeed();
    }
    expect([breaker.state(), probes()]).toEqual(['up', 0]);
    expect(changes).toEqual([]);
  });

  test('probes in pauses, on the account of no request, and tells once how it stands', async () => {
    const house = setUp();
    const away = Object.assign(new Error('away'), { code: 'AWAY' });
    house.probeBy(() => Promise.reject(away));
    await expect(house.beSilent()).rejects.toBe(house.silence);
    await quiet();
    for (let probes = 1; probes < 4; probes += 1) {
      expect(house.probes()).toBe(probes);
      expect(house.breaker.state()).toBe('down');
      await expect(house.succeed()).rejects.toBeInstanceOf(CircuitOpenError);
      await house.endPause();
    }
    expect(house.asked()).toBe(1);
    house.probeBy(async () => {});
    await house.endPause();
    expect(await house.succeed()).toBe('value');
    expect(house.changes).toEqual([{ why: 'away', code: 'AWAY' }, undefined]);
    expect(house.slept).toContain(PAUSE);
  });

  test('probes once, however many fail at one time', async () => {
    const house = setUp();
    const away = Object.assign(new Error('away'), { code: 'AWAY' });
    house.probeBy(() => Promise.reject(away));
    const { promise, reject } = Promise.withResolvers<never>();
    const all = Array.from({ length: 10 }, () => house.count(() => promise).catch(() => {}));
    reject(house.silence);
    await Promise.all(all);
    await quiet();
    expect(house.probes()).toBe(1);
    expect(house.changes).toEqual([{ why: 'away', code: 'AWAY' }]);
  });

  test('probes no more when it is closed', async () => {
    const house = setUp();
    house.probeBy(() => Promise.reject(house.failure));
    await expect(house.beSilent()).rejects.toBe(house.silence);
    await quiet();
    house.breaker.close();
    await house.endPause();
    expect(house.probes()).toBe(1);
  });
});
