import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { purgedScopes } from '../../../../src/cache/projects.ts';
import type { Purges } from '../../../../src/cache/purge/purge.ts';
import type { Stale } from '../../../../src/common/events.ts';
import { createPurging } from '../../../../src/compose/purges.ts';
import { systemClock } from '../../../../src/common/clock.ts';

const SALES = { project: 'Sales' };

function setUp(given: { ok?: boolean } = {}) {
  const { ok = true } = given;
  const told: unknown[] = [];
  const purges: Purges = {
    async purge(stale: Stale, order) {
      told.push(['purge', stale, order]);
      const scopes = purgedScopes(stale);
      const receipt = {
        id: 'id',
        scope: stale,
        epochs_renewed: scopes,
        replicas: 1,
        waited: 0,
        known: true,
        engine_calls: 0,
      };
      return ok ? { ok, receipt } : { ok, failed: 'redis' as const, engines: [] };
    },
    async renew(stale) {
      told.push(['renew', stale]);
      return ok;
    },
  };
  const { invalidate, close } = createPurging(
    purges,
    () => 0,
    systemClock,
    () => {},
  );
  return { invalidate, close, told };
}

beforeEach(() => {
  jest.useFakeTimers();
});
afterEach(() => {
  jest.useRealTimers();
});

const PURGED = ['purge', SALES, { principal: 'ADMIN', cause: 'change' }];

describe('a change', () => {
  test('that will be made renews the epochs without waiting', async () => {
    const { invalidate, told } = setUp();
    expect(await invalidate(SALES, 'ADMIN', 'before')).toBe(true);
    expect(told).toEqual([['renew', SALES]]);
  });

  test('that was made purges once', async () => {
    const { invalidate, told } = setUp();
    expect(await invalidate(SALES, 'ADMIN', 'after')).toBe(true);
    await jest.advanceTimersByTimeAsync(600_000);
    expect(told).toEqual([PURGED]);
  });

  test('of which nobody knows whether it was made purges again and again for an hour', async () => {
    const { invalidate, told } = setUp();
    await invalidate(SALES, 'ADMIN', 'unknown');
    const counts: number[] = [];
    for (const pause of [4_999, 1, 55_000, 240_000, 600_000, 2_700_000, 7_200_000]) {
      await jest.advanceTimersByTimeAsync(pause);
      counts.push(told.length);
    }
    expect(counts).toEqual([1, 2, 3, 4, 5, 6, 6]);
    expect(new Set(told.map((call) => JSON.stringify(call)))).toEqual(
      new Set([JSON.stringify(PURGED)]),
    );
  });

  test('is told to the log with its cause, request and reason, also when it is dropped again', async () => {
    const { invalidate, told } = setUp();
    const by = { cause: 'statement', call: 'r-1', why: 'statement commit' } as const;
    await invalidate('everything', 'ADMIN', 'unknown', by);
    await jest.advanceTimersByTimeAsync(5_000);
    const purged = ['purge', 'everything', { principal: 'ADMIN', ...by }];
    expect(told).toEqual([purged, purged]);
  });

  test('that comes again begins its hour anew: one series of drops, whatever the spelling', async () => {
    const { invalidate, told } = setUp();
    await invalidate(SALES, 'ADMIN', 'unknown');
    await jest.advanceTimersByTimeAsync(3_599_999);
    expect(told).toHaveLength(5);
    await invalidate({ project: ' sales' }, 'OTHER', 'unknown');
    const counts: number[] = [];
    for (const pause of [4_999, 1, 55_000, 240_000, 600_000, 2_699_999, 1, 7_200_000]) {
      await jest.advanceTimersByTimeAsync(pause);
      counts.push(told.length);
    }
    expect(counts).toEqual([6, 7, 8, 9, 10, 10, 11, 11]);
    expect(told.at(-1)).toMatchObject(['purge', { project: ' sales' }, { principal: 'OTHER' }]);
    expect(jest.getTimerCount()).toBe(0);
  });

  test('that comes 10,000 times leaves one timer', async () => {
    const { invalidate, told } = setUp();
    for (let i = 0; i < 10_000; i += 1) await invalidate(SALES, 'ADMIN', 'unknown');
    expect(jest.getTimerCount()).toBe(1);
    await jest.advanceTimersByTimeAsync(7_200_000);
    expect(told).toHaveLength(10_005);
  });

  test('of one scope leaves the drops of another as they are', async () => {
    const { invalidate, told } = setUp();
    await invalidate(SALES, 'ADMIN', 'unknown');
    await jest.advanceTimersByTimeAsync(4_000);
    await invalidate({ project: 'Stock' }, 'ADMIN', 'unknown');
    await jest.advanceTimersByTimeAsync(1_000);
    expect(told.slice(2)).toEqual([PURGED]);
  });

  test('of everything takes the place of those of projects', async () => {
    const { invalidate, told } = setUp();
    for (const project of ['Sales', 'Stock']) await invalidate({ project }, 'ADMIN', 'unknown');
    await invalidate('everything', 'ADMIN', 'unknown');
    expect(jest.getTimerCount()).toBe(1);
    await jest.advanceTimersByTimeAsync(7_200_000);
    const again = told.slice(3);
    expect(again).toHaveLength(5);
    for (const call of again) expect(call).toMatchObject(['purge', 'everything', {}]);
  });

  test('of ever more scopes leaves no more than 2,000 timers, and each is dropped an hour later or more', async () => {
    const { invalidate, told } = setUp();
    /** What was dropped → when last. */
    const dropped = new Map<string, number>();
    const note = () => {
      for (const [, stale] of told.splice(0) as [string, Stale][]) {
        dropped.set(purgedScopes(stale).join(), Date.now());
      }
    };
    const changes: { readonly stale: Stale; readonly at: number }[] = [];
    let most = 0;
    for (let i = 0; i < 10_000; i += 1) {
      const stale = { project: `project ${i}` };
      await invalidate(stale, 'ADMIN', 'unknown');
      changes.push({ stale, at: Date.now() });
      most = Math.max(most, jest.getTimerCount());
      await jest.advanceTimersByTimeAsync(10);
      note();
    }
    expect(most).toBe(2_000);
    const last = Date.now();
    while (Date.now() < last + 7_200_000) {
      await jest.advanceTimersByTimeAsync(10_000);
      note();
    }
    const everything = dropped.get(purgedScopes('everything').join()) ?? 0;
    const missed = changes.filter(
      ({ stale, at }) =>
        Math.max(everything, dropped.get(purgedScopes(stale).join()) ?? 0) < at + 3_600_000,
    );
    expect(missed).toEqual([]);
    expect(jest.getTimerCount()).toBe(0);
  });

  test('whose purge ends after the end leaves nothing to be dropped again', async () => {
    const { invalidate, close } = setUp();
    const invalidated = invalidate(SALES, 'ADMIN', 'unknown');
    close();
    await invalidated;
    expect(jest.getTimerCount()).toBe(0);
  });

  test('purges nothing after the end', async () => {
    const { invalidate, close, told } = setUp();
    await invalidate(SALES, 'ADMIN', 'unknown');
    close();
    await jest.advanceTimersByTimeAsync(600_000);
    expect(told).toHaveLength(1);
  });

  test.each(['before', 'after', 'unknown'] as const)(
    'that cannot be cleared says so (%s)',
    async (state) => {
      expect(await setUp({ ok: false }).invalidate(SALES, 'ADMIN', state)).toBe(false);
    },
  );
});
