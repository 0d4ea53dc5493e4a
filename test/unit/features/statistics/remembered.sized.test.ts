import { EVENTS } from '../../../../src/features/events.ts';
import { describe, expect, test } from '@jest/globals';
import {
  createStatistics,
  type DigestFigures,
  MAX_DIGESTS,
  MAX_REQUESTS,
} from '../../../../src/features/statistics/remembered.ts';
import { answered, asked } from '../../../support/answered.ts';
import { handClock, NAMES, seeded } from './answered.ts';
import { sampled, sizes } from '../../../support/sizes.ts';

const DAY = 24 * 3_600_000;

function create() {
  const clock = handClock();
  const statistics = createStatistics({ rows: EVENTS, clock, names: NAMES });
  const figuresOf = (digest: string) =>
    statistics.figures().digests.find((row) => row.digest === digest) as DigestFigures;
  return { ...statistics, clock, figuresOf };
}

describe('the figures of a digest', () => {
  test('count asks, hits, engine time, bytes and users', () => {
    const { on, figuresOf, figures } = create();
    on(asked(300, { principal: 'bob' }));
    on(asked(100, { principal: 'bob', outcome: { kind: 'miss', detail: 'too-large' } }));
    on(answered({ saved: 200, bytes: 400 }));
    const row = {
      digest: 'd',
      subject: 'Execute',
      project: 'Shop',
      catalogs: 'Sales',
      cubes: 'Orders',
      asks: 3,
      hits: 1,
      engine_asks: 2,
      engine_ms: 400,
      engine_max_ms: 300,
      saved_ms: 200,
      bytes: 600,
      users: ['bob', 'alice'],
      last_outcome: 'hit',
      last_reason: 'memory',
    };
    expect(figuresOf('d')).toMatchObject(row);
    const { asks, hits, engine_asks, engine_ms, saved_ms, bytes } = row;
    const totals = { asks, hits, engine_asks, engine_ms, saved_ms, bytes };
    expect(figures().totals).toMatchObject(totals);
  });

  test('fade by half in three days, all sums alike, and the maximum does not', () => {
    const { on, figuresOf, clock } = create();
    on(asked(300));
    on(answered({ saved: 300 }));
    clock.moved.now += 3 * DAY;
    expect(figuresOf('d')).toMatchObject({ asks: 1, hits: 0.5, engine_ms: 150, saved_ms: 150 });
    on(answered({ saved: 300 }));
    expect(figuresOf('d')).toMatchObject({ asks: 2, hits: 1.5, engine_asks: 0.5 });
    expect(figuresOf('d').engine_max_ms).toBe(300);
    clock.moved.now += 1_000 * DAY;
    expect(figuresOf('d').asks).toBeCloseTo(0);
    on(answered());
    expect(figuresOf('d').asks).toBeCloseTo(1);
  });

  test('stay sound when the wall clock is set back', () => {
    const { on, figuresOf, clock, requests } = create();
    on(asked(300, { id: 'first' }));
    clock.moved.wall -= 10 * DAY;
    on(answered({ id: 'second', saved: -5 }));
    expect(figuresOf('d')).toMatchObject({ asks: 2, engine_ms: 300, saved_ms: 0 });
    expect(figuresOf('d').last_asked).toBe(clock.wall());
    expect(requests({}, 10).requests.map(({ id }) => id)).toEqual(['second', 'first']);
  });

  test('count at most twenty users', () => {
    const { on, figuresOf } = create();
    for (let user = 0; user < 100; user += 1) on(answered({ principal: `user ${user}` }));
    expect(figuresOf('d').users).toHaveLength(20);
  });

  test('hold the statement only while that is kept, and of a long one the beginning', () => {
    const { on, figuresOf, configure } = create();
    on(asked(3));
    expect(figuresOf('d').text).toBe('');
    configure({ text: 'on' });
    on(answered({ statement: 'SELECT 1' }));
    on(answered({ digest: 'long', statement: 'x'.repeat(10_000) }));
    expect([figuresOf('d').text, figuresOf('long').text.length]).toEqual(['SELECT 1', 2_000]);
    configure({ text: 'off' });
    on(answered());
    expect(figuresOf('d').text).toBe('');
  });

  test('count what failed or was given up as time of the engine, apart from what it answered to the end', () => {
    const { on, figuresOf } = create();
    on(asked(500));
    on(asked(30_000, { outcome: { kind: 'gateway', detail: 'engine-timeout' } }));
    on(asked(1, { outcome: { kind: 'gateway', detail: 'engine-unreachable' } }));
    on(asked(200, { complete: false }));
    expect(figuresOf('d')).toMatchObject({
      asks: 4,
      engine_asks: 1,
      failed_asks: 3,
      engine_ms: 30_701,
      failed_ms: 30_201,
      engine_max_ms: 500,
    });
  });

  test('are not kept of a body that was not understood, which is among the requests and in the totals', () => {
    const { on, figures, requests } = create();
    on(answered({ digest: '', catalogs: [], cubes: '?' }));
    // Without a login it could wash out all others.
    on(answered({ principal: '' }));
    expect(figures()).toMatchObject({ totals: { asks: 1 }, digests: [] });
    expect(requests({}, 10)).toMatchObject({ total: 1, requests: [{ digest: '', cubes: '?' }] });
  });

  test('keep names short, however many and long they are', () => {
    const { on, figuresOf, requests } = create();
    const names = Array.from({ length: 100 }, (_, i) => `${'x'.repeat(200)}${i}`);
    on(answered({ project: 'p'.repeat(4_000), catalogs: names, cubes: names }));
    for (const row of [figuresOf('d'), ...requests({}, 1).requests]) {
      expect([row.project.length, row.catalogs.length, row.cubes.length]).toEqual([255, 255, 255]);
    }
  });
});

test('where a digest needs room, those go that are worth least, of equals the newest', () => {
  const { on, figures } = create();
  const COSTS = [10_000, 1, 100, 10_000, 100];
  const ranked = Array.from({ length: MAX_DIGESTS }, (_, i) => ({
    digest: `d ${i}`,
    cost: COSTS[i % COSTS.length] ?? 0,
  }));
  for (const { digest, cost } of ranked) on(asked(cost, { digest }));
  on(asked(1, { digest: 'new' }));
  const middle = ranked.filter(({ cost }) => cost === 100);
  const gone = new Set([
    ...ranked.filter(({ cost }) => cost === 1),
    ...middle.slice(-(MAX_DIGESTS / 4 - MAX_DIGESTS / 5)),
  ]);
  const left = ranked.filter((one) => !gone.has(one)).map(({ digest }) => digest);
  expect(figures().digests.map(({ digest }) => digest)).toEqual([...left, 'new']);
});

describe('of many requests for 50,000 digests (Zipf 1.0)', () => {
  const REQUESTS = sizes.countedRequests;
  const DIGESTS = 50_000;

  /** Of each digest by its rank: what it costs the engine (ms). */
  const COSTS: readonly [name: string, cost: (rank: number, random: () => number) => number][] = [
    ['10 ms to 10 s by chance', (_rank, random) => 10 ** (1 + 3 * random())],
    ['mostly small, of few very high', (_rank, random) => 10 / (random() + 0.00003)],
    ['the higher the rarer they are', (rank) => 10 * Math.sqrt(rank)],
  ];

  test.each(sampled(COSTS))(
    'whose costs are %s, the heaviest stand in the table, counted right',
    (_name, cost) => {
      const random = seeded(7);
      const { on, figures, requests } = create();
      const harmonic: number[] = [];
      for (let rank = 1; rank <= DIGESTS; rank += 1) {
        harmonic.push((harmonic.at(-1) ?? 0) + 1 / rank);
      }
      const most = harmonic.at(-1) ?? 0;
      const costs = harmonic.map((_, i) => cost(i + 1, random));
      const names = harmonic.map((_, i) => `digest ${i}`);
      const exact = new Uint32Array(DIGESTS);
      const engine = { waited: 0, first: 0, last: 0 };
      const [hit, miss] = [{ ...answered() }, { ...asked(1), engine }];
      for (let request = 0; request < REQUESTS; request += 1) {
        const drawn = random() * most;
        let [low, high] = [0, DIGESTS - 1];
        while (low < high) {
          const middle = (low + high) >> 1;
          if ((harmonic[middle] as number) > drawn) high = middle;
          else low = middle + 1;
        }
        const [digest, ms] = [names[low] as string, costs[low] as number];
        exact[low] = (exact[low] as number) + 1;
        // Every other ask finds the answer in the cache.
        const isHit = (exact[low] as number) % 2 === 0;
        engine.last = ms;
        on(Object.assign(isHit ? hit : miss, { digest, saved: isHit ? ms : 0 }));
      }

      const { digests, totals } = figures();
      expect(digests.length).toBeGreaterThan(MAX_DIGESTS / 2);
      expect(digests.length).toBeLessThanOrEqual(MAX_DIGESTS);
      expect(requests({}, 1).total).toBe(MAX_REQUESTS);
      expect(totals.asks).toBe(REQUESTS);
      // One that made room and came again may have been a hit ever since.
      const scoreOf = ({ asks, engine_ms, engine_asks }: DigestFigures) =>
        engine_asks === 0 ? 0 : (asks * engine_ms) / engine_asks;
      const told = digests.toSorted((a, b) => scoreOf(b) - scoreOf(a)).slice(0, 20);
      const heaviest = names
        .map((digest, i) => {
          const [asks, ms] = [exact[i] as number, costs[i] as number];
          return { digest, score: asks * ms, figures: [asks, Math.floor(asks / 2), ms] };
        })
        .toSorted((a, b) => b.score - a.score)
        .slice(0, 20);
      const right = heaviest.filter(({ digest, figures: expected }) => {
        const row = told.find((one) => one.digest === digest);
        if (row === undefined) return false;
        const counted = [row.asks, row.hits, row.engine_ms / row.engine_asks];
        return counted.every((figure, i) => Math.abs(figure / (expected[i] as number) - 1) <= 0.05);
      });
      expect(right.length).toBeGreaterThanOrEqual(19);
    },
  );
});

describe('the latest requests', () => {
  test('are told flat, with numbers as numbers and names as texts', () => {
    const { on, requests } = create();
    on(
      asked(1_234.56, {
        id: 'one',
        program: 'MSOLAP',
        catalogs: ['Sales', 'Stock'],
        cubes: '?',
        engine: { waited: 0.123, first: 2, last: 3 },
      }),
    );
    expect(requests({}, 10)).toEqual({
      total: 1,
      requests: [
        {
          id: 'one',
          at: '2026-01-02T08:55:00.000Z',
          user: 'alice',
          client: '10.0.0.7 MSOLAP',
          project: 'Shop',
          catalogs: 'Sales, Stock',
          cubes: '?',
          digest: 'd',
          outcome: 'miss',
          reason: '',
          status: 200,
          bytes: 100,
          ms: 1_240.6,
          waited_ms: 0.1,
          engine_ms: 3,
          stored: true,
        },
      ],
    });
  });

  test('are the last ten thousand, the newest first', () => {
    const { on, requests } = create();
    for (let i = 0; i < MAX_REQUESTS + 3; i += 1) on(answered({ id: String(i) }));
    const { total, requests: told } = requests({}, 2 * MAX_REQUESTS);
    expect([total, told.length]).toEqual([MAX_REQUESTS, MAX_REQUESTS]);
    expect([told[0]?.id, told.at(-1)?.id]).toEqual([String(MAX_REQUESTS + 2), '3']);
  });

  test.each([
    [{ user: 'bob' }, ['c', 'b']],
    [{ user: 'bob', outcome: 'miss' }, ['b']],
    // The first catalog stands for a path that names no project; case does not count.
    [{ project: 'SALES' }, ['c']],
    [{ project: '' }, []],
    [{ digest: 'other' }, ['b']],
    [{ id: 'a' }, ['a']],
    [{ user: undefined, outcome: 'bypass' }, []],
  ])('let through by %j are %j', (filter, ids) => {
    const { on, requests } = create();
    on(answered({ id: 'a' }));
    on(asked(3, { id: 'b', principal: 'bob', digest: 'other' }));
    on(answered({ id: 'c', principal: 'bob', project: '', digest: 'third' }));
    const told = requests(filter, 1);
    expect(told.total).toBe(ids.length);
    expect(told.requests.map(({ id }) => id)).toEqual(ids.slice(0, 1));
  });
});
