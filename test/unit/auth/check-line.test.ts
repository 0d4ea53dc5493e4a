import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { createCheckLine } from '../../../src/auth/check-line.ts';
import { GatewayError } from '../../../src/common/errors.ts';
import { createTestClock, settle } from './support.ts';

const throttled = (retryAfter: number) => new GatewayError('throttled', 'no', { retryAfter });

/** A line whose checks stay open until the test ends them by name. */
function setUp(atOnce: number) {
  const clock = createTestClock();
  const line = createCheckLine(atOnce, clock);
  const open = new Map<string, PromiseWithResolvers<string>>();
  const begun: string[] = [];
  /** @returns what became of it */
  async function enter(
    name: string,
    { from = 'here', known = false, bytes = 1_000, leaving = new AbortController() } = {},
  ): Promise<string> {
    const place = { network: known ? undefined : from, bytes, leaving, throttled };
    const check = () => {
      begun.push(name);
      const ending = Promise.withResolvers<string>();
      open.set(name, ending);
      return ending.promise;
    };
    return line.check(place, check).catch((error: unknown) => {
      if (!(error instanceof GatewayError)) return 'failed';
      return [error.reason, error.headers['retry-after']].join(' ').trim();
    });
  }
  /** As something that took so long (ms). */
  async function end(name: string, took = 0): Promise<void> {
    clock.advance(took);
    open.get(name)?.resolve(`${name} was checked`);
    await settle();
  }
  /** Ends one after the other, until none is under way. */
  async function endAll(took = 0): Promise<void> {
    for (let at = 0; at < begun.length; at += 1) {
      const name = begun[at] ?? '';
      if (open.has(name)) await end(name, took);
      open.delete(name);
    }
  }
  const fail = (name: string) => open.get(name)?.reject(new Error('broken'));
  const many = (count: number, name: string, given?: Parameters<typeof enter>[1]) =>
    Array.from({ length: count }, (_, at) => enter(`${name} ${at}`, given));
  return { line, begun, enter, many, end, endAll, fail };
}

describe('the line before the checks', () => {
  test('no more than so many run at once, the others in the order in which they came', async () => {
    const { begun, enter, end } = setUp(2);
    for (const name of ['a', 'b', 'c', 'd']) void enter(name);
    await settle();
    expect(begun).toEqual(['a', 'b']);
    await end('b');
    expect(begun).toEqual(['a', 'b', 'c']);
    await end('a');
    expect(begun).toEqual(['a', 'b', 'c', 'd']);
  });

  test('who was right before goes first', async () => {
    const { begun, enter, end, endAll } = setUp(1);
    for (const name of ['running', 'guess']) void enter(name);
    void enter('known', { known: true });
    await end('running');
    await endAll();
    expect(begun).toEqual(['running', 'known', 'guess']);
  });

  test('networks have their turns, so that a flood of one makes others wait for one each', async () => {
    const { begun, enter, many, endAll } = setUp(1);
    void many(100, 'flood', { from: 'there' });
    void many(2, 'here');
    void enter('elsewhere', { from: 'elsewhere' });
    await settle();
    await endAll();
    expect(begun).toHaveLength(103);
    expect(begun.slice(0, 6)).toEqual([
      ...['flood 0', 'flood 1', 'here 0', 'elsewhere', 'flood 2', 'here 1'],
    ]);
  });

  test('a check that fails rejects and makes room', async () => {
    const { begun, enter, fail } = setUp(1);
    const failing = enter('fails');
    void enter('next');
    await settle();
    fail('fails');
    expect(await failing).toBe('failed');
    await settle();
    expect(begun).toEqual(['fails', 'next']);
  });

  test('a place that is free again is used by those who come later', async () => {
    const { begun, enter, end } = setUp(1);
    for (const name of ['a', 'b', 'c']) {
      const result = enter(name);
      await end(name);
      expect(await result).toBe(`${name} was checked`);
    }
    expect(begun).toEqual(['a', 'b', 'c']);
  });
});

describe('networks whose latest login was wrong', () => {
  test('have their turns behind all others', async () => {
    const { line, begun, many, endAll } = setUp(1);
    line.ended('there', false);
    void many(3, 'flood', { from: 'there' });
    void many(2, 'fresh', { from: 'fresh' });
    line.ended('here', true);
    void many(2, 'here');
    await settle();
    await endAll();
    expect(begun).toEqual([
      ...['flood 0', 'fresh 0', 'here 0', 'fresh 1', 'here 1', 'flood 1', 'flood 2'],
    ]);
  });

  test('are no others as soon as one was right', async () => {
    const { line, begun, many, endAll } = setUp(1);
    line.ended('there', false);
    void many(2, 'there', { from: 'there' });
    void many(2, 'here');
    line.ended('there', true);
    await settle();
    await endAll();
    expect(begun).toEqual(['there 0', 'there 1', 'here 0', 'here 1']);
  });
});

describe('who waits', () => {
  test('leaves with its last client, and is not checked', async () => {
    const { line, begun, enter, end } = setUp(1);
    const leaving = new AbortController();
    void enter('running');
    const waiting = enter('gone', { leaving });
    void enter('next');
    leaving.abort(new GatewayError('client-gone', 'gone'));
    expect(await waiting).toBe('client-gone');
    expect(line.waiting()).toBe(1);
    await end('running');
    expect(begun).toEqual(['running', 'next']);
    expect(await enter('gone before', { leaving })).toBe('client-gone');
  });

  test('of a network that failed too often is refused at once; others, and who goes first, are not', async () => {
    const { line, begun, enter, many, endAll } = setUp(1);
    const guesses = many(3, 'guess', { from: 'there' });
    void enter('here');
    void enter('known', { known: true });
    line.throttle('there', 7);
    expect(await Promise.all(guesses.slice(1))).toEqual(['throttled 7', 'throttled 7']);
    await endAll();
    expect(begun).toEqual(['guess 0', 'known', 'here']);
  });

  test.each([true, false])(
    'may all go in one turn without leaving the place empty (%s)',
    async (wasRight) => {
      const { line, begun, many, enter, end } = setUp(1);
      line.ended('here', wasRight);
      void many(2, 'guess', { from: 'there' });
      void enter('here');
      await settle();
      const ending = end('guess 0');
      line.throttle('there', 1);
      await ending;
      expect(begun).toEqual(['guess 0', 'here']);
    },
  );
});

describe('at its end', () => {
  beforeEach(() => void jest.useFakeTimers({ doNotFake: ['setImmediate'] }));
  afterEach(() => void jest.useRealTimers());

  test('who would wait for longer than 30 s is told so at once, in words of its own', async () => {
    const { enter, many, end } = setUp(2);
    void many(602, 'a');
    await end('a 0', 100);
    await end('a 1');
    // 598 wait; two of 100 ms in 100 ms.
    expect(await Promise.race([enter('within'), settle()])).toBeUndefined();
    void many(2, 'b');
    expect(await enter('beyond')).toBe('login-queue 31');
  });

  test('who waits behind a flood of others is not', async () => {
    const { enter, many, end, endAll } = setUp(1);
    void many(1_000, 'flood', { from: 'there' });
    await end('flood 0', 100);
    expect(await enter('of the flood', { from: 'there' })).toMatch(/^login-queue /);
    const right = enter('right');
    await endAll(100);
    expect(await right).toBe('right was checked');
  });

  test('a flood of wrong ones from many addresses is not expected to come first', async () => {
    const { line, enter, many, end } = setUp(1);
    void many(290, 'here');
    for (let at = 0; at < 40; at += 1) void many(60, `flood ${at}`, { from: `there ${at}` });
    await end('here 0', 100);
    // Of each of them one, before anything is known; then none.
    expect(await enter('here 290')).toBe('login-queue 33');
    for (let at = 0; at < 40; at += 1) line.ended(`there ${at}`, false);
    expect(await Promise.race([enter('here 291'), settle()])).toBeUndefined();
    expect(await enter('flood', { from: 'there 0' })).toMatch(/^login-queue /);
  });

  test('a flood from addresses that are always new does not keep out a network whose latest login was right', async () => {
    const { line, begun, enter, many, end, endAll } = setUp(1);
    line.ended('here', true);
    for (let at = 0; at < 400; at += 1) void enter(`flood ${at}`, { from: `there ${at}` });
    await end('flood 0', 100);
    const right = many(20, 'here');
    // Of others no more can come before than have their turns in between.
    expect(await Promise.race([...right, settle()])).toBeUndefined();
    expect(await enter('elsewhere', { from: 'elsewhere' })).toMatch(/^login-queue /);
    await endAll(100);
    expect(await right[19]).toBe('here 19 was checked');
    expect(begun.indexOf('here 19')).toBeLessThan(45);
    expect(begun).toHaveLength(420);
  });

  test('nothing is expected of checks that ended before the line was empty', async () => {
    const { begun, many, end } = setUp(1);
    void many(1, 'slow');
    await end('slow 0', 60_000);
    void many(3, 'quick');
    await settle();
    await end('quick 0', 100);
    await end('quick 1', 100);
    expect(begun).toHaveLength(4);
  });

  test('who has waited for 30 s is told so', async () => {
    const { begun, enter, end } = setUp(1);
    void enter('hangs');
    const waiting = enter('late');
    jest.advanceTimersByTime(29_999);
    expect(await Promise.race([waiting, settle()])).toBeUndefined();
    jest.advanceTimersByTime(1);
    expect(await waiting).toBe('login-queue 1');
    await end('hangs');
    expect(begun).toEqual(['hangs']);
  });

  test('a network that took all room gives some to one that has less, and to who was right before', async () => {
    const { begun, enter, many, endAll } = setUp(1);
    const flood = many(33, 'flood', { from: 'there', bytes: 1024 * 1024 });
    expect(await enter('of the flood', { from: 'there' })).toBe('login-queue 1');
    const right = [enter('right'), enter('known', { known: true })];
    expect(await Promise.all(flood.slice(-2))).toEqual(['login-queue 1', 'login-queue 1']);
    await endAll();
    expect(await Promise.all(right)).toEqual(['right was checked', 'known was checked']);
    expect(begun.slice(0, 4)).toEqual(['flood 0', 'known', 'flood 1', 'right']);
  });
});
