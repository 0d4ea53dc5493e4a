import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { CONNECTION_CLOSINGS, type GatewayEvent } from '../../../../src/common/events.ts';
import {
  type HourReport,
  minutesOf,
  noSums,
  percentiles,
  reasonsOf,
  rowsOf,
  sumOf,
} from '../../../../src/features/hour-report.ts';
import {
  bucketOf,
  type createHour,
  isHour,
  mergeHours,
} from '../../../../src/features/statistics/hour.ts';
import { EVENTS } from '../../../../src/features/events.ts';
import { createStatistics } from '../../../../src/features/statistics/remembered.ts';
import { answered, asked } from '../../../support/answered.ts';
import { handClock, NAMES } from './answered.ts';

const MINUTE = 60_000;
const RUN = {
  type: 'warm-run',
  id: 'a run',
  gateway: 'a gateway',
  purge: null,
  by: null,
  project: null,
  begun: '',
  ended: '',
  planned: 5,
  stored: 0,
  there: 0,
  not_stored: {},
  failed: { 'engine-timeout': 5 },
  skipped: {},
  engine_seconds: 1,
} as const;

function create(names: Parameters<typeof createHour>[2] = NAMES) {
  const clock = handClock();
  const statistics = createStatistics({ rows: EVENTS, clock, names });
  const { on } = statistics;
  const report = () => statistics.hour();
  const projects = async () => rowsOf(await report(), 'project');
  const reasons = async () => reasonsOf(await report());
  const counts = async () => sumOf(minutesOf(await report(), clock.wall()));
  return { on, clock, report, projects, reasons, counts };
}

describe('the last hour', () => {
  test('is counted by outcome, with the time of the engine and the time saved', async () => {
    const { on, counts, reasons } = create();
    on(answered({ saved: 200 }));
    on(asked(300));
    on(asked(100, { outcome: { kind: 'miss', detail: 'too-large', stored: false } }));
    on(asked(50, { outcome: { kind: 'bypass', detail: 'volatile' } }));
    on(asked(30_000, { outcome: { kind: 'gateway', detail: 'engine-timeout' } }));
    on(asked(70, { complete: false }));
    // A clock that was set back takes nothing away.
    on(answered({ saved: -5 }));
    expect(await counts()).toMatchObject({
      asks: 7,
      hits: 2,
      misses: 3,
      bypasses: 1,
      by_gateway: 1,
      engine_asks: 3,
      failed_asks: 2,
      engine_ms: 30_520,
      failed_ms: 30_070,
      saved_ms: 200,
    });
    expect(await reasons()).toEqual([
      { outcome: 'hit', reason: 'memory', count: 2 },
      { outcome: 'miss', reason: '', count: 2 },
      { outcome: 'bypass', reason: 'volatile', count: 1 },
      { outcome: 'gateway', reason: 'engine-timeout', count: 1 },
      { outcome: 'miss', reason: 'too-large', count: 1 },
    ]);
  });

  test('is told in sixty minutes of the wall clock, of which the oldest goes', async () => {
    const { on, clock, report, counts } = create();
    const begin = clock.wall();
    on(answered());
    clock.moved.wall = begin + MINUTE - 1;
    on(answered());
    clock.moved.wall = begin + MINUTE;
    on(answered());
    clock.moved.wall = begin + 59 * MINUTE;
    const minutes = minutesOf(await report(), clock.wall());
    expect(minutes.map(({ at }) => at)).toEqual(
      Array.from({ length: 60 }, (_, i) => begin + i * MINUTE),
    );
    expect(minutes.map(({ hits }) => hits).filter((hits) => hits > 0)).toEqual([2, 1]);
    clock.moved.wall = begin + 60 * MINUTE;
    expect((await counts()).hits).toBe(1);
    on(answered());
    expect((await counts()).hits).toBe(2);
    clock.moved.wall = begin + 1_000 * MINUTE;
    expect([(await counts()).hits, await report()]).toEqual([0, []]);
  });

  test('goes on in the minutes that a clock comes back to, and tells none that are to come', async () => {
    const { on, clock, counts } = create();
    on(answered());
    clock.moved.wall += 10 * MINUTE;
    on(answered());
    clock.moved.wall -= 10 * MINUTE;
    on(answered());
    expect((await counts()).hits).toBe(2);
    clock.moved.wall += 10 * MINUTE;
    on(answered());
    expect((await counts()).hits).toBe(4);
    clock.moved.wall -= 24 * 60 * MINUTE;
    on(answered());
    expect((await counts()).hits).toBe(1);
  });

  test('names projects that are known, in one spelling; the catalog stands where the path names none', async () => {
    const { on, projects, clock } = create();
    on(answered({ project: 'SHOP' }));
    clock.moved.wall += 1_000;
    on(answered({ project: 'shop' }));
    on(answered({ project: '', catalogs: ['Sales', 'Stock'] }));
    on(answered({ project: '', catalogs: [] }));
    on(answered({ project: 'invented' }));
    expect((await projects()).map(({ name, hits, last }) => [name, hits, last])).toEqual([
      ['Shop', 2, clock.wall()],
      ['', 1, clock.wall()],
      ['Sales', 1, clock.wall()],
      ['other', 1, clock.wall()],
    ]);
  });

  test('has requests without a login under no name', async () => {
    const { on, projects, reasons, counts } = create();
    const outcome = { kind: 'gateway', detail: 'unauthenticated' } as const;
    on(answered({ principal: '', outcome }));
    expect([await projects(), (await counts()).by_gateway]).toEqual([[], 1]);
    expect(await reasons()).toEqual([{ outcome: 'gateway', reason: 'unauthenticated', count: 1 }]);
  });

  test('tells at most two hundred projects apart, however many are known', async () => {
    const { on, report, projects, counts, clock } = create({
      find: (name) => ({ spelling: name }),
    });
    for (let i = 0; i < 5_000; i += 1) on(answered({ project: `project ${i}` }));
    expect([
      (await projects()).length,
      (await projects())[0]?.name,
      (await projects())[0]?.hits,
    ]).toEqual([200, 'other', 4_801]);
    clock.moved.wall += MINUTE;
    for (let i = 0; i < 5_000; i += 1) on(answered({ project: `later ${i}` }));
    expect([(await projects()).length, (await counts()).hits]).toEqual([200, 10_000]);
    expect(sumOf(await projects()).hits).toBe(10_000);
    expect(isHour(await report())).toBe(true);
  });

  test('counts what else went wrong, and names the stale answers that were found', async () => {
    const { on, report, reasons, clock } = create();
    const login = {
      id: 'id',
      reason: 'rejected',
      why: undefined,
      user: undefined,
      address: '10.0.0.7',
    } as const;
    const events: GatewayEvent[] = [
      { type: 'internal-error', id: 'id', error: new Error('broken') },
      { type: 'login-refused', ...login },
      { type: 'login-refused', ...login },
      { type: 'entry-rejected', why: 'sealed' },
      ...CONNECTION_CLOSINGS.map((why) => ({ type: 'connection-closed', why }) as const),
      { ...RUN, state: 'ended', cut: 'purge' },
      { ...RUN, state: 'ended', cut: 'failures' },
    ];
    for (const event of events) on(event);
    expect(await reasons()).toEqual([
      // At limits.connections; not what one client did wrong.
      { outcome: 'connection-closed', reason: '', count: 3 },
      { outcome: 'login-refused', reason: '', count: 2 },
      { outcome: 'entry-rejected', reason: '', count: 1 },
      { outcome: 'internal-error', reason: '', count: 1 },
      { outcome: 'warm-up-failed', reason: '', count: 1 },
    ]);
    const compared = { type: 'compared', id: 'id', principal: 'ADMIN', project: 'Shop' } as const;
    on({ ...compared, digest: 'same', verdict: 'same' });
    on({ ...compared, digest: 'twice', verdict: 'stale' });
    on({ ...compared, digest: 'twice', verdict: 'stale' });
    on({ ...compared, project: '', digest: 'once', verdict: 'stale' });
    expect(rowsOf(await report(), 'stale').map(({ name }) => name)).toEqual([
      'twice (Shop)',
      'once (no project)',
    ]);
    clock.moved.wall += 60 * MINUTE;
    expect(await report()).toEqual([]);
  });

  test('has the durations of hits and misses', async () => {
    const { on, report, clock } = create();
    on(answered({ milliseconds: 1_000 }));
    clock.moved.wall += 61 * MINUTE;
    for (let i = 1; i <= 100; i += 1) on(answered({ milliseconds: i }));
    on(asked(194));
    on(answered({ outcome: { kind: 'bypass', detail: 'volatile' }, milliseconds: 9_999 }));
    const { p50 = 0, p95 = 0 } = percentiles(await report(), 'hit') ?? {};
    expect([Math.abs(p50 / 50 - 1) < 0.06, Math.abs(p95 / 95 - 1) < 0.06]).toEqual([true, true]);
    expect(Math.abs((percentiles(await report(), 'miss')?.p50 ?? 0) / 200 - 1)).toBeLessThan(0.06);
  });
});

const row = { ...noSums(), kind: 'project', name: 'Shop', last: 0 } as const;

test('a duration is told right to a twentieth, from a tenth of a millisecond to an hour; none is null', () => {
  expect(percentiles([], 'hit')).toBe(null);
  fc.assert(
    fc.property(fc.double({ min: 0.2, max: 3_600_000, noNaN: true }), (duration) => {
      const bucket = String(bucketOf(duration));
      const { p50 = 0 } =
        percentiles([{ ...row, kind: 'hit', name: bucket, asks: 1 }], 'hit') ?? {};
      return Math.abs(p50 - duration) <= duration / 20 + 0.005;
    }),
  );
  expect([bucketOf(0), bucketOf(-1), bucketOf(1e12)]).toEqual([0, 0, 191]);
});

describe('reports', () => {
  const amount = fc.integer({ min: 0, max: 1_000_000 });
  const hour: fc.Arbitrary<HourReport> = fc.array(
    fc.record({
      kind: fc.constantFrom('minute', 'project', 'reason'),
      name: fc.constantFrom('', 'Shop', 'Sales', 'other'),
      last: amount,
      asks: amount,
      hits: amount,
      misses: amount,
      bypasses: amount,
      by_gateway: amount,
      engine_ms: amount,
      engine_asks: amount,
      failed_asks: amount,
      failed_ms: amount,
      saved_ms: amount,
      bytes: amount,
    }),
    { maxLength: 12 },
  );
  const inOrder = (merged: HourReport) =>
    (['minute', 'project', 'reason'] as const).map((kind) => rowsOf(merged, kind));

  test('are merged in any order, and in any grouping', () => {
    fc.assert(
      fc.property(hour, hour, hour, (a, b, c) => {
        const all = mergeHours([a, b, c]);
        expect(inOrder(mergeHours([c, a, b]))).toEqual(inOrder(all));
        expect(inOrder(mergeHours([mergeHours([a, b]), c]))).toEqual(inOrder(all));
        expect(isHour(all)).toBe(true);
        expect(sumOf(all)).toEqual(sumOf([a, b, c].flat()));
      }),
    );
  });

  test('are no reports when they are longer than one can be, or hold anything else', () => {
    expect([[], [row]].map((one) => isHour(one))).toEqual([true, true]);
    const { asks, ...without } = row;
    for (const wrong of [
      Array.from({ length: 1_601 }, () => row),
      [{ ...row, hits: -1 }],
      [{ ...row, hits: '1' }],
      [{ ...row, last: NaN }],
      [{ ...row, name: 1 }],
      [without],
    ]) {
      expect([wrong, isHour(wrong as HourReport)]).toEqual([wrong, false]);
    }
    expect(asks).toBe(0);
  });
});
