import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { createInvalidation } from '../../../src/composition/invalidation.ts';
import type { Stale } from '../../../src/invalidation.ts';
import { purgedScopes } from '../../../src/query-cache/scopes.ts';

const SALES = { project: 'Sales' };

function setUp(given: { ok?: boolean } = {}) {
  const { ok = true } = given;
  const told: unknown[] = [];
  const invalidation = createInvalidation({
    async purge(stale: Stale, order) {
      told.push(['purge', stale, order]);
      const scopes = purgedScopes(stale);
      const receipt = {
        id: 'id',
        scope: stale,
        epochs_renewed: scopes,
        replicas: 1,
        waited: 0,
        engine_calls: 0,
      };
      return ok ? { ok, receipt } : { ok, failed: 'redis' as const, engines: [] };
    },
    async renew(stale) {
      told.push(['renew', stale]);
      return ok;
    },
  });
  return { ...invalidation, told };
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

  test('is told to the log with its cause, also when it is dropped again', async () => {
    const { invalidate, told } = setUp();
    await invalidate('everything', 'ADMIN', 'unknown', 'statement');
    await jest.advanceTimersByTimeAsync(5_000);
    const purged = ['purge', 'everything', { principal: 'ADMIN', cause: 'statement' }];
    expect(told).toEqual([purged, purged]);
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
