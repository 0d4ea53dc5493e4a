import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import type { GatewayEvent } from '../../../src/common/events.ts';
import {
  bucketOf,
  type createHour,
  type HourReport,
  isHour,
  mergeHours,
  minutesOf,
  noDurations,
  noHour,
  percentiles,
  sumOf,
} from '../../../src/statistics/hour.ts';
import { createStatistics } from '../../../src/statistics/statistics.ts';
import { answered, asked, handClock, NAMES, seeded } from './answered.ts';

const MINUTE = 60_000;

function create(names: Parameters<typeof createHour>[0] = NAMES) {
  const clock = handClock();
  const statistics = createStatistics({ clock, random: seeded(1), names });
  const { on } = statistics;
  const report = () => statistics.hour();
  const counts = () => sumOf(minutesOf(report(), clock.wall()));
  return { on, clock, report, counts };
}

describe('the last hour', () => {
  test('is counted by outcome, with the time of the engine and the time saved', () => {
    const { on, counts, report } = create();
    on(answered({ saved: 200 }));
    on(asked(300));
    on(asked(100, { outcome: { kind: 'miss', detail: 'too-large', stored: false } }));
    on(asked(50, { outcome: { kind: 'bypass', detail: 'volatile' } }));
    on(asked(30_000, { outcome: { kind: 'gateway', detail: 'engine-timeout' } }));
    on(asked(70, { complete: false }));
    // A clock that was set back takes nothing away.
    on(answered({ saved: -5 }));
    expect(counts()).toEqual({
      hits: 2,
      misses: 3,
      bypasses: 1,
      by_gateway: 1,
      engine_ms: 450,
      saved_ms: 200,
    });
    expect(report().reasons).toEqual([
      { outcome: 'hit', reason: 'memory', count: 2 },
      { outcome: 'miss', reason: '', count: 2 },
      { outcome: 'bypass', reason: 'volatile', count: 1 },
      { outcome: 'gateway', reason: 'engine-timeout', count: 1 },
      { outcome: 'miss', reason: 'too-large', count: 1 },
    ]);
  });

  test('is told in sixty minutes of the wall clock, of which the oldest goes', () => {
    const { on, clock, report, counts } = create();
    const begin = clock.wall();
    on(answered());
    clock.moved.wall = begin + MINUTE - 1;
    on(answered());
    clock.moved.wall = begin + MINUTE;
    on(answered());
    clock.moved.wall = begin + 59 * MINUTE;
    const minutes = minutesOf(report(), clock.wall());
    expect(minutes.map(({ at }) => at)).toEqual(
      Array.from({ length: 60 }, (_, i) => begin + i * MINUTE),
    );
    expect(minutes.map(({ hits }) => hits).filter((hits) => hits > 0)).toEqual([2, 1]);
    clock.moved.wall = begin + 60 * MINUTE;
    expect(counts().hits).toBe(1);
    on(answered());
    expect(counts().hits).toBe(2);
    clock.moved.wall = begin + 1_000 * MINUTE;
    expect([counts().hits, report()]).toEqual([0, noHour()]);
  });

  test('goes on in the minutes that a clock comes back to, and tells none that are to come', () => {
    const { on, clock, counts } = create();
    on(answered());
    clock.moved.wall += 10 * MINUTE;
    on(answered());
    clock.moved.wall -= 10 * MINUTE;
    on(answered());
    expect(counts().hits).toBe(2);
    clock.moved.wall += 10 * MINUTE;
    on(answered());
    expect(counts().hits).toBe(4);
    clock.moved.wall -= 24 * 60 * MINUTE;
    on(answered());
    expect(counts().hits).toBe(1);
  });

  test('names projects that are known, in one spelling; the catalog stands where the path names none', () => {
    const { on, report, clock } = create();
    on(answered({ project: 'SHOP' }));
    clock.moved.wall += 1_000;
    on(answered({ project: 'shop' }));
    on(answered({ project: '', catalogs: ['Sales', 'Stock'] }));
    on(answered({ project: '', catalogs: [] }));
    on(answered({ project: 'invented' }));
    expect(
      report().projects.map(({ project, hits, last_asked }) => [project, hits, last_asked]),
    ).toEqual([
      ['Shop', 2, clock.wall()],
      ['', 1, clock.wall()],
      ['Sales', 1, clock.wall()],
      ['other', 1, clock.wall()],
    ]);
  });

  test('has requests without a login under no name', () => {
    const { on, report, counts } = create();
    const outcome = { kind: 'gateway', detail: 'unauthenticated' } as const;
    on(answered({ principal: '', outcome }));
    expect([report().projects, counts().by_gateway]).toEqual([[], 1]);
    expect(report().reasons).toEqual([{ outcome: 'gateway', reason: 'unauthenticated', count: 1 }]);
  });

  test('tells at most two hundred projects apart, however many are known', () => {
    const { on, report, counts, clock } = create({ find: (name) => ({ spelling: name }) });
    for (let i = 0; i < 5_000; i += 1) on(answered({ project: `project ${i}` }));
    const { projects } = report();
    expect([projects.length, projects[0]?.project, projects[0]?.hits]).toEqual([
      200,
      'other',
      4_800,
    ]);
    clock.moved.wall += MINUTE;
    for (let i = 0; i < 5_000; i += 1) on(answered({ project: `later ${i}` }));
    expect([report().projects.length, counts().hits]).toEqual([200, 10_000]);
    expect(isHour(report())).toBe(true);
  });

  test('counts what else went wrong, and remembers ten stale answers for a day', () => {
    const { on, report, clock } = create();
    const login = { reason: 'rejected', user: undefined, address: '10.0.0.7' };
    const events: GatewayEvent[] = [
      { type: 'internal-error', id: 'id', error: new Error('broken') },
      { type: 'login-refused', ...login },
      { type: 'login-refused', ...login },
      { type: 'entry-rejected', why: 'sealed' },
    ];
    for (const event of events) on(event);
    expect(report().reasons).toEqual([
      { outcome: 'login-refused', reason: '', count: 2 },
      { outcome: 'entry-rejected', reason: '', count: 1 },
      { outcome: 'internal-error', reason: '', count: 1 },
    ]);
    const compared = { type: 'compared', id: 'id', principal: 'ADMIN', project: 'Shop' } as const;
    on({ ...compared, digest: 'same', verdict: 'same' });
    for (let i = 0; i < 12; i += 1) {
      clock.moved.wall += 1;
      on({ ...compared, digest: `d ${i}`, verdict: 'stale' });
    }
    const digests = report().stale.map(({ digest }) => digest);
    expect([digests.length, digests[0], digests[9]]).toEqual([10, 'd 11', 'd 2']);
    clock.moved.wall += 24 * 60 * MINUTE;
    expect(report().stale).toEqual([]);
  });

  test('has the durations of hits and misses that the ring still holds, and of this hour', () => {
    const { on, report, clock } = create();
    on(answered({ milliseconds: 1_000 }));
    clock.moved.wall += 61 * MINUTE;
    for (let i = 1; i <= 100; i += 1) on(answered({ milliseconds: i }));
    on(asked(194));
    on(answered({ outcome: { kind: 'bypass', detail: 'volatile' }, milliseconds: 9_999 }));
    const { hit_ms, miss_ms } = report();
    const { p50 = 0, p95 = 0 } = percentiles(hit_ms) ?? {};
    expect([Math.abs(p50 / 50 - 1) < 0.06, Math.abs(p95 / 95 - 1) < 0.06]).toEqual([true, true]);
    expect(Math.abs((percentiles(miss_ms)?.p50 ?? 0) / 200 - 1)).toBeLessThan(0.06);
  });
});

test('a duration is told right to a twentieth, from a tenth of a millisecond to an hour; none is null', () => {
  expect(percentiles(noDurations())).toBe(null);
  fc.assert(
    fc.property(fc.double({ min: 0.2, max: 3_600_000, noNaN: true }), (duration) => {
      const durations = noDurations();
      durations[bucketOf(duration)] = 1;
      const { p50 = 0 } = percentiles(durations) ?? {};
      return Math.abs(p50 - duration) <= duration / 20 + 0.005;
    }),
  );
  expect([bucketOf(0), bucketOf(-1), bucketOf(1e12)]).toEqual([0, 0, 191]);
});

describe('reports', () => {
  const amount = fc.integer({ min: 0, max: 1_000_000 });
  const counts = {
    hits: amount,
    misses: amount,
    bypasses: amount,
    by_gateway: amount,
    engine_ms: amount,
    saved_ms: amount,
  };
  const name = fc.constantFrom('', 'Shop', 'Sales', 'other');
  const durations = fc.array(amount, { minLength: 192, maxLength: 192 });
  const unique = <T>(row: fc.Arbitrary<T>, selector: (row: T) => unknown) =>
    fc.uniqueArray(row, { selector, maxLength: 4 });
  const hour: fc.Arbitrary<HourReport> = fc.record({
    minutes: unique(fc.record({ ...counts, at: fc.integer({ min: 0, max: 5 }) }), ({ at }) => at),
    projects: unique(
      fc.record({ ...counts, project: name, last_asked: amount }),
      ({ project }) => project,
    ),
    reasons: unique(
      fc.record({
        outcome: fc.constantFrom('hit', 'bypass', 'login-refused'),
        reason: name,
        count: amount,
      }),
      ({ outcome, reason }) => `${outcome} ${reason}`,
    ),
    hit_ms: durations,
    miss_ms: durations,
    stale: fc.array(fc.record({ at: amount, project: name, digest: name }), { maxLength: 3 }),
  });

  test('are merged in any order, and in any grouping', () => {
    fc.assert(
      fc.property(hour, hour, hour, (a, b, c) => {
        const all = mergeHours([a, b, c]);
        expect(mergeHours([c, a, b])).toEqual(all);
        expect(mergeHours([mergeHours([a, b]), c])).toEqual(all);
        expect(isHour(all)).toBe(true);
        expect(sumOf(all.minutes)).toEqual(sumOf([a, b, c].flatMap(({ minutes }) => minutes)));
      }),
    );
  });

  test('are no reports when they are longer than one can be, or hold anything else', () => {
    const sound = noHour();
    const minute = { ...sumOf([]), at: 0 };
    expect(isHour({ ...sound, minutes: [minute] })).toBe(true);
    for (const wrong of [
      { minutes: Array.from({ length: 61 }, () => minute) },
      { minutes: [{ ...minute, hits: -1 }] },
      { minutes: [{ ...minute, hits: '1' }] },
      { projects: [{ ...minute, project: 1, last_asked: 0 }] },
      { projects: Array.from({ length: 201 }, () => ({ ...minute, project: '', last_asked: 0 })) },
      { reasons: [{ outcome: 'hit', reason: 'memory' }] },
      { reasons: Array.from({ length: 201 }, () => ({ outcome: '', reason: '', count: 1 })) },
      { hit_ms: [...noDurations(), 0] },
      { miss_ms: noDurations().map(() => NaN) },
      { stale: Array.from({ length: 11 }, () => ({ at: 0, project: '', digest: '' })) },
    ]) {
      expect([wrong, isHour({ ...sound, ...wrong } as HourReport)]).toEqual([wrong, false]);
    }
  });
});
