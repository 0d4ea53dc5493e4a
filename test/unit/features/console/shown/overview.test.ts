import { describe, expect, test } from '@jest/globals';
import { createPermissions } from '../../../../../src/auth/authenticator.ts';
import type { PurgeRecord } from '../../../../../src/cache/purge/purge-log.ts';
import { createConsole } from '../../../../../src/features/console/shown.ts';
import type { Config } from '../../../../../src/config/config.ts';
import { refusedFinding } from '../../../../../src/features/hooks/hooks.ts';
import { EVENTS } from '../../../../../src/features/events.ts';
import { createMetrics } from '../../../../../src/observability/metrics.ts';
import { gauges } from '../../../../support/gauges.ts';
import { anyName } from '../../../cache/fakes.ts';
import { answered, asked } from '../../../../support/answered.ts';
import { handClock, statisticsOf } from '../../statistics/answered.ts';
import { ABOUT } from '../../../../support/gauges.ts';
import { principalOf } from '../../../../../src/common/principal.ts';

const HOUR = 3_600_000;
const TTL = 2 * HOUR;
type Parts = Parameters<typeof createConsole>[0];

/** Started nearly two hours ago. @param purges the latest first */
function create(purges: PurgeRecord[] = [], changes: Partial<Parts> = {}) {
  const clock = handClock();
  const started = clock.wall() - TTL;
  const names = {
    find: (name: string) => (name === 'invented' ? undefined : { spelling: name }),
  };
  const { on, shared } = statisticsOf({ clock, names }, { started });
  const asks = { statistics: 0 };
  const projects = new Map([
    ['Off', { cache: 'off', ttl: TTL }],
    ['Short', { cache: 'on', ttl: HOUR }],
  ]) as unknown as Config['projects'];
  const overviewed = createConsole({
    config: { cache: { ttl: TTL, lease: 1_000 } as Config['cache'], projects },
    clock,
    about: ABOUT,
    permissions: createPermissions({ admins: ['ADMIN'], viewers: [], purgers: ['bob'] }, 'nobody'),
    statistics: {
      usage: shared.usage,
      hour() {
        asks.statistics += 1;
        return shared.hour();
      },
    },
    purgeLog: { latest: async () => ({ complete: true, purges }) },
    engines: async () => ({ replicas: [] }),
    redis: () => ({ state: 'off', why: undefined, conditions: [] }),
    storageState: async () => ({ driver: 'sqlite', state: 'up' }),
    findings: async () => [],
    metrics: createMetrics(EVENTS, anyName, gauges()),
    ...changes,
  });
  return { ...overviewed, on, clock, asks };
}

const purgeAt = (at: number, facts: Partial<PurgeRecord> = {}): PurgeRecord => ({
  id: 'id',
  at,
  principal: 'loader',
  cause: 'clear-cache',
  scope: 'everything',
  known: true,
  result: 'cleared',
  replicas: 1,
  waited: 0,
  engine_calls: 0,
  ...facts,
});

test('nothing asked is told as nulls and zeros, not as a ratio', async () => {
  const { overview } = create();
  const told = await overview();
  expect(told.hour).toEqual({
    hits: 0,
    misses: 0,
    bypasses: 0,
    by_gateway: 0,
    engine_ms: 0,
    saved_ms: 0,
    hit_ratio: null,
    saved_ratio: null,
    refreshed: 0,
    hit_ms: null,
    miss_ms: null,
  });
  expect([told.minutes.length, told.findings, told.projects, told.complete]).toEqual([
    60,
    [],
    [],
    true,
  ]);
});

test('ratios are of hits and misses, and of time saved and spent', async () => {
  const { overview, on } = create();
  on(asked(100.06));
  on(answered({ saved: 300 }));
  on(answered({ saved: 0, outcome: { kind: 'bypass', detail: 'volatile' } }));
  const { hour, reasons, projects } = await overview();
  expect(hour).toMatchObject({ hit_ratio: 0.5, saved_ratio: 0.75, engine_ms: 100.1, bypasses: 1 });
  expect(reasons.map(({ reason }) => reason)).toEqual(['volatile', 'memory']);
  expect(projects).toMatchObject([{ project: 'Shop', asks: 3, hit_ratio: 0.5, last_purge: null }]);
});

test('callers within a second share what was found', async () => {
  const { overview, asks, clock } = create();
  await Promise.all([overview(), overview()]);
  clock.moved.now += 999;
  await overview();
  expect(asks.statistics).toBe(1);
  clock.moved.now += 1;
  await overview();
  expect(asks.statistics).toBe(2);
});

test('each user is told of his own rights', async () => {
  const { status } = create();
  const both = await Promise.all([status(principalOf('ADMIN')), status(principalOf('bob'))]);
  expect(both.map(({ user, rights }) => [user, rights])).toEqual([
    ['ADMIN', { administer: true, view: true, purge: true }],
    ['bob', { administer: false, view: false, purge: true }],
  ]);
});

describe('the latest purge of a project', () => {
  test('is that of its name, however it is spelt, or of everything', async () => {
    const { clock } = create();
    const purges = [
      purgeAt(clock.wall() - 1, { scope: { project: 'Sales' } }),
      purgeAt(clock.wall() - 2, { scope: { project: 'SHOP' }, principal: 'bob' }),
      purgeAt(clock.wall() - 2 * HOUR),
    ];
    const { overview, on } = create(purges);
    on(answered());
    const told = await overview();
    expect(told.projects[0]?.last_purge).toMatchObject({
      principal: 'bob',
      scope: { project: 'SHOP' },
    });
    expect(told.purges).toHaveLength(2);
  });
});

describe('a project that is not purged for longer than its ttl', () => {
  async function notPurged(purges: PurgeRecord[], project: string, later: number) {
    const { overview, on, clock } = create(purges);
    clock.moved.wall += later;
    on(answered({ project, catalogs: [] }));
    const { findings } = await overview();
    return findings.filter(({ kind }) => kind === 'not-purged').length;
  }
  const now = handClock().wall();

  test.each([
    ['is found when the gateway has been up for so long', [], 1, 1],
    ['is not found while that is not known', [], 0, 0],
    ['is found by its latest purge', [purgeAt(now - TTL)], 1, 1],
    ['is not found when it was purged since', [purgeAt(now - TTL)], 0, 0],
    [
      'is found when the log reaches back so far',
      [purgeAt(now - TTL - 1, { scope: { project: 'Sales' } })],
      0,
      1,
    ],
    [
      'is not found when the log is full and reaches less far',
      Array.from({ length: 1_000 }, () => purgeAt(now - 1, { scope: { project: 'Sales' } })),
      1,
      0,
    ],
  ])('%s', async (_when, purges, later, found) => {
    expect(await notPurged(purges, 'Shop', later)).toBe(found);
  });

  test.each([
    ['Short', 1],
    ['Off', 0],
    ['invented', 0],
    ['', 0],
  ])('is one whose name and ttl are known, and whose cache is on: %j', async (project, found) => {
    expect(await notPurged([purgeAt(now - HOUR)], project, 1)).toBe(found);
    expect(await notPurged([], project, HOUR)).toBe(found);
  });

  test('is not looked for while the log cannot be read', async () => {
    const latest = async () => ({ complete: false, purges: [] });
    const { overview, on, clock } = create([], { purgeLog: { latest } });
    clock.moved.wall += HOUR;
    on(answered());
    const { findings, complete } = await overview();
    expect([findings, complete]).toEqual([[], false]);
  });
});

test('a feature finds something in the counts of the last hour', async () => {
  const findings: Parts['findings'] = async (hour) => refusedFinding(hour);
  const { on, overview, clock } = create([], { findings });
  on({ type: 'hook-called', id: 'i', hook: 'kylin', result: 'refused', projects: [], why: 'w' });
  expect((await overview()).findings.map(({ kind }) => kind)).toContain('hook-refused');
  clock.moved.wall += 2 * HOUR;
  clock.moved.now += 2 * HOUR;
  expect((await overview()).findings.map(({ kind }) => kind)).not.toContain('hook-refused');
});
