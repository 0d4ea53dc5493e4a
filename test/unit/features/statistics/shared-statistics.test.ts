import type { ReportStore } from '../../../../src/freshness/fleet.ts';
import { describe, expect, test } from '@jest/globals';
import { type EntryFacts, largest } from '../../../../src/features/statistics/shared-statistics.ts';
import { type HourReport, rowsOf } from '../../../../src/features/hour-report.ts';
import { MAX_DIGESTS, MAX_REQUESTS } from '../../../../src/features/statistics/remembered.ts';
import { answered, asked } from '../../../support/answered.ts';
import { handClock, seeded, statisticsOf } from './answered.ts';

const PAGE = { limit: 10, offset: 0 } as const;

/** What gateways share. */
function memoryStore() {
  const reports = new Map<string, string>();
  const store: ReportStore = {
    async set(id, report) {
      reports.set(id, report);
    },
    all: async () => [...reports.values()],
  };
  return { reports, store };
}

function gateway(id: string, store?: ReportStore, errors: unknown[] = []) {
  const clock = handClock();
  const onError = (error: unknown) => void errors.push(error);
  const parts = { clock };
  return { clock, ...statisticsOf(parts, undefined, { id, store, onError }) };
}

describe('the digests of one gateway', () => {
  test('are told with averages, numbers to a tenth, and moments in ISO 8601', async () => {
    const { on, shared } = gateway('a');
    on(asked(300.04, { bytes: 50 }));
    on(answered({ saved: 300.04, bytes: 100 }));
    expect(await shared.statistics({ ...PAGE, sort: 'cost' })).toEqual({
      gateways: 1,
      complete: true,
      totals: { asks: 2, hits: 1, uncached_ms: 300, saved_ms: 300, bytes: 150 },
      total: 1,
      digests: [
        {
          digest: 'd',
          subject: 'Execute',
          project: 'Shop',
          catalogs: 'Sales',
          cubes: 'Orders',
          asks: 2,
          hits: 1,
          engine_ms: 300,
          engine_max_ms: 300,
          uncached_ms: 300,
          failed_asks: 0,
          failed_ms: 0,
          saved_ms: 300,
          bytes: 75,
          users: 1,
          last_asked: '2026-01-02T08:55:00.000Z',
          last_outcome: 'hit',
          last_reason: 'memory',
          since: '2026-01-02T08:55:00.000Z',
        },
      ],
    });
  });

  test('have a query that never ends first by cost, and what it cost the engine', async () => {
    const { on, shared } = gateway('a');
    for (let n = 0; n < 500; n += 1) on(answered({ digest: 'often', saved: 200 }));
    on(asked(60_000, { digest: 'slow' }));
    const timedOut = { kind: 'gateway', detail: 'engine-timeout' } as const;
    const never = { digest: 'never', outcome: timedOut };
    on(asked(5_000, never));
    const waited = { waited: 4_000, first: undefined, last: undefined };
    for (let n = 0; n < 23; n += 1) on(answered({ ...never, engine: waited }));
    const told = await shared.statistics({ ...PAGE, sort: 'cost' });
    expect(told.digests.map(({ digest }) => digest)).toEqual(['never', 'often', 'slow']);
    const spent = { engine_ms: 0, uncached_ms: 5_000, failed_asks: 1, failed_ms: 5_000 };
    expect(told.digests[0]).toMatchObject({ asks: 24, ...spent });
    expect(told.totals).toMatchObject({ uncached_ms: 65_000 });
  });

  test('are not heavier by a timeout than it took', async () => {
    const { on, shared } = gateway('a');
    const late = { outcome: { kind: 'gateway', detail: 'engine-timeout' } } as const;
    on(asked(10, { digest: 'once late' }));
    for (let n = 0; n < 99; n += 1) on(answered({ digest: 'once late', saved: 10 }));
    on(asked(5_000, { digest: 'once late', ...late }));
    on(asked(7_000, { digest: 'slow' }));
    const { digests } = await shared.statistics({ ...PAGE, sort: 'cost' });
    expect(digests.map(({ digest }) => digest)).toEqual(['slow', 'once late']);
  });

  test.each([
    ['cost', ['often', 'slow', 'refused']],
    ['saved', ['often', 'slow', 'refused']],
    ['uncached', ['slow', 'often', 'refused']],
    ['asks', ['often', 'refused', 'slow']],
    ['engine', ['slow', 'often', 'refused']],
    ['last', ['refused', 'slow', 'often']],
  ] as const)('are sorted by %s, and paged', async (sort, order) => {
    const { on, shared, clock } = gateway('a');
    on(asked(100, { digest: 'often' }));
    for (let i = 0; i < 20; i += 1) on(answered({ digest: 'often', saved: 100 }));
    clock.moved.wall += 1_000;
    on(asked(1_000, { digest: 'slow' }));
    clock.moved.wall += 1_000;
    for (let i = 0; i < 2; i += 1) {
      on(answered({ digest: 'refused', outcome: { kind: 'gateway', detail: 'overloaded' } }));
    }
    const digestsOf = async (page: { limit: number; offset: number }) => {
      const { total, digests } = await shared.statistics({ ...page, sort });
      expect(total).toBe(3);
      return digests.map(({ digest }) => digest);
    };
    expect(await digestsOf(PAGE)).toEqual(order);
    expect(await digestsOf({ limit: 1, offset: 1 })).toEqual(order.slice(1, 2));
    expect(await digestsOf({ limit: 1, offset: 3 })).toEqual([]);
  });
});

test('statements are told where they may be, and not to other gateways', async () => {
  const { store, reports } = memoryStore();
  const { on, shared, configure } = gateway('a', store);
  configure({ text: 'on' });
  on(asked(3));
  const textOf = async (withText: boolean) =>
    (await shared.statistics({ ...PAGE, sort: 'cost' }, withText)).digests[0]?.text;
  expect([await textOf(false), await textOf(true)]).toEqual([undefined, 'SELECT']);
  await shared.share();
  expect(reports.get('a')).not.toContain('SELECT');
  expect(await textOf(true)).toBe('SELECT');
});

describe('several gateways', () => {
  test('have sums of sums, the largest maximum, and each user once', async () => {
    const { store } = memoryStore();
    const [one, other] = [gateway('a', store), gateway('b', store)];
    one.on(asked(100));
    one.on(asked(200, { principal: 'bob' }));
    other.clock.moved.wall += 5_000;
    other.on(asked(600));
    other.on(answered({ saved: 600, digest: 'theirs' }));
    await other.shared.share();
    await other.shared.share();
    const { gateways, totals, digests } = await one.shared.statistics({ ...PAGE, sort: 'asks' });
    expect([gateways, totals.asks, totals.hits]).toEqual([2, 4, 1]);
    expect(digests).toMatchObject([
      {
        digest: 'd',
        asks: 3,
        engine_ms: 300,
        engine_max_ms: 600,
        uncached_ms: 900,
        users: 2,
        last_asked: '2026-01-02T08:55:05.000Z',
        since: '2026-01-02T08:55:00.000Z',
      },
      { digest: 'theirs', asks: 1, engine_ms: 600 },
    ]);
  });

  test('tell their five hundred heaviest digests, and count their own once', async () => {
    const { store, reports } = memoryStore();
    const { on, shared } = gateway('a', store);
    for (let i = 0; i < 600; i += 1) on(asked(1_000 + i, { digest: String(i) }));
    await shared.share();
    const told = JSON.parse(reports.get('a') ?? '') as { digests: { digest: string }[] };
    expect(told.digests).toHaveLength(500);
    expect([told.digests[0]?.digest, told.digests.at(-1)?.digest]).toEqual(['599', '100']);
    const { gateways, totals } = await shared.statistics({ ...PAGE, sort: 'cost' });
    expect([gateways, totals.asks]).toEqual([1, 600]);
  });

  test('say when those of others cannot be read or told', async () => {
    const errors: unknown[] = [];
    const broken = () => Promise.reject(new Error('away'));
    const { on, shared } = gateway('a', { set: broken, all: broken }, errors);
    on(asked(100));
    await shared.share();
    const told = await shared.statistics({ ...PAGE, sort: 'cost' });
    expect(told).toMatchObject({ gateways: 1, complete: false, total: 1 });
    expect(errors).toEqual([new Error('away'), new Error('away')]);
  });

  test('leave out what is no report', async () => {
    const { store, reports } = memoryStore();
    const [one, other] = [gateway('a', store), gateway('b', store)];
    other.on(asked(600));
    await other.shared.share();
    const sound = reports.get('b') ?? '';
    for (const wrong of [
      '',
      'null',
      '{}',
      sound.replace('"asks":1', '"asks":"1"'),
      sound.replace('"asks":1', '"asks":-1'),
      sound.replace('"users":["alice"]', '"users":{}'),
      sound.replace('"subject":"Execute"', '"subject":1'),
      sound.replace('"gateway":"b"', '"gateway":2'),
      sound.replace(/"since":\d+/u, '"since":9e99'),
    ]) {
      reports.set('b', wrong);
      const told = await one.shared.statistics({ ...PAGE, sort: 'cost' });
      expect([wrong, told.gateways, told.total]).toEqual([wrong, 1, 0]);
    }
  });
});

describe('the last hour', () => {
  const projectsOf = ({ hour }: { hour: HourReport }) => rowsOf(hour, 'project');

  test('is that of all gateways', async () => {
    const { store, reports } = memoryStore();
    const [one, other] = [gateway('a', store), gateway('b', store)];
    one.on(answered());
    other.on(asked(600, { project: 'shop' }));
    await one.shared.share();
    await other.shared.share();
    const told = await one.shared.hour();
    expect(told).toMatchObject({ gateways: 2, complete: true, totals: { asks: 2, hits: 1 } });
    expect(projectsOf(told)).toMatchObject([{ name: 'Shop', hits: 1, misses: 1 }]);
    const { hour: _hour, ...earlier } = JSON.parse(reports.get('b') ?? '') as { hour: unknown };
    for (const wrong of [undefined, null, 1, {}, [{}]]) {
      reports.set('b', JSON.stringify({ ...earlier, hour: wrong }));
      expect([wrong, (await one.shared.hour()).gateways]).toEqual([wrong, 1]);
    }
  });

  test('is told of this gateway alone while others cannot be read', async () => {
    const broken = () => Promise.reject(new Error('away'));
    const { on, shared } = gateway('a', { set: broken, all: broken });
    on(answered());
    expect(await shared.hour()).toMatchObject({ gateways: 1, complete: false });
  });

  test('is not asked of a process with its digests', async () => {
    const { on, own } = gateway('a');
    on(answered());
    expect(await own.report(0)).toMatchObject({ digests: [], totals: { asks: 1 } });
  });

  test('counts the entries of each project whose queries are known', async () => {
    const entry = { digest: 'd', bytes: 10, hits: 2, age: 5, rest: 7 };
    const digests = ['d', 'd', 'of a catalog', 'invented', 'unknown'];
    const each = digests.map((digest) => Object.assign({}, entry, { digest }));
    const parts = { clock: handClock() };
    const { on, shared } = statisticsOf(parts, { entries: () => ({ total: each.length, each }) });
    on(answered({ project: 'SHOP' }));
    on(answered({ project: '', catalogs: ['sales', 'Shop'], digest: 'of a catalog' }));
    on(answered({ project: 'guess', digest: 'invented' }));
    expect((await shared.hour()).entries).toEqual([
      ['Shop', 2],
      ['Sales', 1],
      ['other', 1],
    ]);
  });
});

test('each process tells what it uses', async () => {
  expect(await gateway('a').shared.usage()).toMatchObject({
    gateway: 'a',
    complete: true,
    processes: [{ pid: 7, started_at: '2026-01-02T07:00:00.000Z', lease_age_ms: null }],
  });
});

describe('entries of the memory tier', () => {
  test('have the names of their queries where these are known, sorted and paged', async () => {
    const entry = { digest: 'd', bytes: 10, hits: 2, age: 5, rest: 7 };
    const each: readonly EntryFacts[] = [
      entry,
      { ...entry, digest: 'unknown', bytes: 30 },
      { ...entry, bytes: 20 },
    ];
    const parts = { clock: handClock() };
    const { on, shared } = statisticsOf(parts, { entries: () => ({ total: 3, each }) });
    on(asked(3));
    expect(await shared.entries({ sort: 'bytes', limit: 2, offset: 0 })).toEqual({
      total: 3,
      complete: true,
      entries: [
        { ...each[1], project: '', catalogs: '', cubes: '' },
        { ...each[2], project: 'Shop', catalogs: 'Sales', cubes: 'Orders' },
      ],
    });
    const { entries } = await shared.entries({ sort: 'bytes', limit: 2, offset: 2 });
    expect(entries.map(({ bytes }) => bytes)).toEqual([10]);
  });
});

describe('hundreds of thousands of entries', () => {
  const COUNT = 60_000;
  /** And the one that is there when the turn ends. */
  const MOST_IN_A_TURN = 5_000 + 1;

  /** What is looked at in each turn of the event loop while a page is made. */
  async function visited(
    page: (shared: ReturnType<typeof statisticsOf>['shared']) => Promise<unknown>,
  ) {
    const turns: number[] = [0];
    let over = false;
    function* each(): Generator<EntryFacts> {
      for (let i = 0; i < COUNT; i += 1) {
        turns[turns.length - 1]! += 1;
        yield { digest: 'd', bytes: i, hits: COUNT - i, age: i % 7, rest: 1 };
      }
    }
    const entries = () => ({ total: COUNT, each: each() });
    const { on, shared } = statisticsOf({ clock: handClock() }, { entries });
    on(answered());
    const nextTurn = () => {
      turns.push(0);
      if (!over) setImmediate(nextTurn);
    };
    setImmediate(nextTurn);
    const told = await page(shared);
    over = true;
    return { told, most: Math.max(...turns), all: turns.reduce((sum, one) => sum + one) };
  }

  test.each(['hits', 'bytes', 'age'] as const)(
    'are sorted by %s a part in each turn, so that nobody else waits for all of them',
    async (sort) => {
      const { told, most, all } = await visited((shared) =>
        shared.entries({ sort, limit: 1_000, offset: 10_000 }),
      );
      expect([most, all]).toEqual([MOST_IN_A_TURN, COUNT]);
      expect(told).toMatchObject({ total: COUNT, entries: { length: 1_000 } });
    },
  );

  test('are counted a part in each turn, and once for all who ask meanwhile', async () => {
    const { told, most, all } = await visited((shared) =>
      Promise.all([shared.hour(), shared.hour()]),
    );
    expect([most, all]).toEqual([MOST_IN_A_TURN, COUNT]);
    expect(told).toMatchObject([{ entries: [['Shop', COUNT]] }, { entries: [['Shop', COUNT]] }]);
  });

  test('are walked through by one page at a time', async () => {
    const page = { sort: 'hits', limit: 1, offset: 0 } as const;
    const { most, all } = await visited((shared) =>
      Promise.all([shared.entries(page), shared.entries(page), shared.hour()]),
    );
    expect(all).toBe(3 * COUNT);
    // The last part of one and the first of the next may meet.
    expect(most).toBeLessThanOrEqual(2 * MOST_IN_A_TURN);
  });
});

test('the largest of many are found without all being sorted', async () => {
  const random = seeded(5);
  const numbers = Array.from({ length: 20_000 }, random);
  const expected = numbers.toSorted((a, b) => b - a).slice(0, 7);
  expect(await largest(numbers, (one) => one, 7)).toEqual(expected);
});

test('full tables are filtered, sorted and paged within the time of a click', async () => {
  const { on, shared } = gateway('a');
  for (let i = 0; i < MAX_REQUESTS; i += 1) {
    on(asked(i % 997, { id: String(i), digest: `d ${i % MAX_DIGESTS}`, project: `p ${i % 7}` }));
  }
  const pages = {
    digests: () => shared.statistics({ sort: 'cost', limit: 100, offset: 100 }),
    filtered: () =>
      shared.statistics({ sort: 'cost', limit: 100, offset: 0, project: 'p 3' }, true),
    requests: () => shared.requests({}, { limit: 1_000, offset: 9_000 }),
    slow: () => shared.requests({ slower: 500, project: 'p 3' }, { limit: 100, offset: 0 }),
  };
  const took: Record<string, number> = {};
  for (const [name, page] of Object.entries(pages)) {
    // The best of three: others may have the processor for a while.
    const times: number[] = [];
    for (let i = 0; i < 3; i += 1) {
      const since = performance.now();
      const { total } = JSON.parse(JSON.stringify(await page())) as { total: number };
      times.push(performance.now() - since);
      expect(total).toBeGreaterThan(200);
    }
    took[name] = Math.round(Math.min(...times) * 10) / 10;
  }
  console.log(`full tables, ms for a page: ${JSON.stringify(took)}`);
  expect(Math.max(...Object.values(took))).toBeLessThan(200);
});
