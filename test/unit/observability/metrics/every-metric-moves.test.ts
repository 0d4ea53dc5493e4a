import { expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import type { GatewayEvent } from '../../../../src/common/events.ts';
import type { WarmRun } from '../../../../src/features/warm/events.ts';
import { EVENTS } from '../../../../src/features/events.ts';
import { hookFigures } from '../../../../src/features/hooks/events.ts';
import { warmFigures } from '../../../../src/features/warm/events.ts';
import { watchFigures } from '../../../../src/features/watch/events.ts';
import type { Figure, Gauges } from '../../../../src/observability/figures.ts';
import { createMetrics } from '../../../../src/observability/metrics.ts';
import { gauges } from '../../../support/gauges.ts';
import { anyName } from '../../cache/fakes.ts';
import { answered } from '../../../support/answered.ts';

const purged: GatewayEvent = {
  type: 'purged',
  id: 'id',
  scope: 'everything',
  principal: 'ADMIN',
  cause: 'clear-cache',
  result: 'cleared',
  known: true,
  replicas: 1,
  waited: 0,
  engine_calls: 0,
  milliseconds: 20,
};
const api: GatewayEvent = {
  type: 'api-answered',
  id: 'id',
  principal: 'ADMIN',
  operation: 'listRoles',
  subject: '',
  changes: false,
  status: 200,
  reason: undefined,
  error: undefined,
  milliseconds: 3,
};

const warmRun: WarmRun = {
  id: 'run',
  gateway: 'one',
  purge: null,
  by: 'ADMIN',
  project: null,
  begun: '2026-01-02T07:00:00.000Z',
  ended: '2026-01-02T07:01:00.000Z',
  cut: 'failures',
  planned: 9,
  stored: 0,
  there: 0,
  not_stored: {},
  failed: { 'engine-timeout': 5 },
  skipped: {},
  engine_seconds: 5,
};

/** What happens, and the metrics that move then. */
const COUNTED: readonly (readonly [GatewayEvent, readonly string[]])[] = [
  [
    answered({ saved: 700, complete: false }),
    [
      'xmla_requests_total',
      'xmla_answer_bytes_total',
      'xmla_incomplete_total',
      'xmla_seconds',
      'engine_seconds_saved_total',
    ],
  ],
  [api, ['api_requests_total', 'api_seconds']],
  [{ type: 'engine-answered', project: 'Shop', milliseconds: 300 }, ['engine_seconds_total']],
  [
    { type: 'engine-failed', project: 'Shop', reason: 'engine-timeout', error: undefined },
    ['engine_failures_total'],
  ],
  [{ type: 'stored', project: 'Shop', bytes: 100 }, ['stored_total', 'stored_bytes_total']],
  [{ type: 'not-stored', project: 'Shop', reason: 'fault' }, ['not_stored_total']],
  [{ type: 'shared-flight', end: 'led' }, ['shared_flights_total']],
  [purged, ['purges_total', 'purge_seconds']],
  [{ type: 'connection-closed', why: 'limit' }, ['connections_closed_total']],
  [
    {
      type: 'login-refused',
      id: 'id',
      reason: 'rejected',
      why: undefined,
      user: undefined,
      address: '10.0.0.7',
    },
    ['logins_refused_total'],
  ],
  [
    { type: 'hook-called', id: 'id', hook: 'kylin', result: 'ignored', projects: [] },
    ['hook_calls_total'],
  ],
  [{ type: 'redis-failed', operation: 'get', error: undefined }, ['redis_failures_total']],
  [{ type: 'entry-rejected', why: 'sealed' }, ['entries_rejected_total']],
  [{ type: 'swept', scanned: 9, unlinked: 2 }, ['entries_swept_total']],
  [
    { type: 'warmed', run: 'r', digest: 'd', project: '', result: 'stored', milliseconds: 700 },
    ['warm_queries_total', 'warm_engine_seconds_total'],
  ],
  [
    { type: 'refreshed', digest: 'd', project: '', result: 'there', milliseconds: 0 },
    ['refreshes_total'],
  ],
  [{ type: 'warm-run', state: 'ended', ...warmRun }, ['warm_runs_total']],
  [{ type: 'internal-error', id: 'id', error: undefined }, ['internal_errors_total']],
];

/** Figures of features, some of which are other than those of a gateway that does nothing. */
const withFigures = (changed: readonly Figure[]) => {
  const names = new Set(changed.map(({ name }) => name));
  return {
    ofFeatures: [...changed, ...gauges().ofFeatures.filter(({ name }) => !names.has(name))],
  };
};

/** What is held otherwise, and the metrics that move then. */
const HELD: readonly (readonly [Partial<Gauges>, readonly string[]])[] = [
  [{ memory: () => ({ entries: 3, bytes: 30 }) }, ['memory_entries', 'memory_bytes']],
  [{ evictions: () => ({ all: 7, unused: 1 }) }, ['memory_evictions_total']],
  [
    withFigures(warmFigures(() => ({ hits: 5, wasted: 2 }))),
    ['warmed_hits_total', 'warmed_wasted_total'],
  ],
  [
    { limits: () => ({ memory: 9, concurrency: 8, queue: 7 }) },
    ['memory_limit_bytes', 'engine_requests_limit', 'engine_queue_limit'],
  ],
  [{ flights: () => ({ flights: 2, waiters: 5 }) }, ['flights', 'flight_waiters']],
  [{ engine: () => ({ atEngine: 2, waiting: 5 }) }, ['engine_requests', 'engine_queue']],
  [
    {
      bodies: () => ({
        bytes: { request: 1, fill: 2, value: 3, sending: 4 },
        limit: 90,
        waiting: 6,
      }),
    },
    ['in_flight_bytes', 'in_flight_limit_bytes', 'in_flight_queue'],
  ],
  [{ logins: () => 3 }, ['logins_waiting']],
  [{ connections: () => ({ open: 4, limit: 9 }) }, ['connections', 'connections_limit']],
  [{ epochAge: () => 700 }, ['epoch_age_seconds']],
  [{ owedPurges: () => 1 }, ['purges_owed']],
  [{ redisConditions: () => ['it has no maxmemory'] }, ['redis_conditions']],
  [withFigures(watchFigures(() => [['Shop', 1_500, true]])), ['watch_age_seconds', 'watch_blind']],
  [
    { states: { engines: () => [], redisUp: () => true, reloaded: () => false, workers: 3 } },
    ['up', 'config_last_reload_successful', 'workers_configured'],
  ],
  [{ certificateEnd: () => 1_800_000_000_000 }, ['certificate_end_seconds']],
  [{ version: '1.2.3' }, ['build_info']],
];
/** It says how many processes were asked, each of which says 1. */
const OF_ALL_WORKERS = 'workers';

/** The samples of each metric of the gateway, but for those of Node.js and its process. */
async function samples(page: () => Promise<string>): Promise<ReadonlyMap<string, string>> {
  const [, ...metrics] = (await page()).split('# HELP mdx_gateway_');
  return new Map(
    metrics.map((text) => [text.slice(0, text.indexOf(' ')), text.split('\n').slice(2).join('\n')]),
  );
}

function movedBetween(before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>) {
  return [...after]
    .filter(([name, text]) => !/^(?:nodejs|process)_/.test(name) && text !== before.get(name))
    .map(([name]) => name);
}

test.each(COUNTED)(
  'when this is told, what counts it moves and nothing else: %j',
  async (event, moved) => {
    const { on, page } = createMetrics(EVENTS, anyName, gauges());
    const before = await samples(page);
    on(event);
    expect(movedBetween(before, await samples(page)).toSorted()).toEqual(moved.toSorted());
  },
);

test.each(HELD)(
  'what is held otherwise is told otherwise, and nothing else is (%#)',
  async (changes, moved) => {
    const before = await samples(createMetrics(EVENTS, anyName, gauges()).page);
    const after = await samples(createMetrics(EVENTS, anyName, gauges(changes)).page);
    expect(movedBetween(before, after).toSorted()).toEqual(moved.toSorted());
  },
);

test('what has closed words is there before it happens: of a count that begins with 1 no increase is seen', async () => {
  const { on, page } = createMetrics(
    EVENTS,
    anyName,
    gauges({ ofFeatures: hookFigures(() => ['kylin']) }),
  );
  const told = async () => (await page()).split('\n');
  expect(await told()).toEqual(
    expect.arrayContaining([
      'mdx_gateway_purges_total{result="engine-failed",scope="project",cause="watch"} 0',
      'mdx_gateway_purges_total{result="owed",scope="everything",cause="clear-cache"} 0',
      'mdx_gateway_engine_failures_total{reason="engine-unreachable"} 0',
      'mdx_gateway_hook_calls_total{hook="kylin",result="refused"} 0',
      'mdx_gateway_hook_calls_total{hook="kylin",result="failed"} 0',
      'mdx_gateway_warm_runs_total{end="failures"} 0',
      'mdx_gateway_warm_queries_total{result="stored"} 0',
      'mdx_gateway_not_stored_total{reason="fault"} 0',
      'mdx_gateway_shared_flights_total{end="gave-up"} 0',
      'mdx_gateway_connections_closed_total{why="stalled"} 0',
      'mdx_gateway_logins_refused_total{reason="rejected"} 0',
      'mdx_gateway_redis_failures_total{operation="connect"} 0',
      'mdx_gateway_entries_rejected_total{why="wrong checksum"} 0',
    ]),
  );
  on({ type: 'hook-called', id: 'id', hook: 'kylin', result: 'refused', projects: [] });
  on({ type: 'warm-run', state: 'begun', ...warmRun, cut: null });
  expect(await told()).toEqual(
    expect.arrayContaining([
      'mdx_gateway_hook_calls_total{hook="kylin",result="refused"} 1',
      'mdx_gateway_warm_runs_total{end="failures"} 0',
    ]),
  );
});

test('every documented metric is among them', () => {
  const page = readFileSync(new URL('../../../../docs/OBSERVABILITY.md', import.meta.url), 'utf8');
  const [, table = ''] = /<!-- begin metrics -->(.*)<!-- end metrics -->/s.exec(page) ?? [];
  const documented = [...table.matchAll(/`mdx_gateway_(\w+)`/g)].map(([, name]) => name);
  const moved = [...COUNTED, ...HELD].flatMap(([, names]) => names);
  expect([...moved, OF_ALL_WORKERS].toSorted()).toEqual(documented.toSorted());
});
