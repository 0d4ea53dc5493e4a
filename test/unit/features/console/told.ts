import type {
  Entries,
  Overview,
  Purges,
  Reasons,
  Requests,
  Statistics,
  Status,
  System,
  WarmUp,
  Watches,
} from '../../../../src/features/console/browser/json.ts';

const AT = '2026-01-02T03:04:05.000Z';

/** What /admin would tell, by path. @param text makes each text that others choose: names, statements, what an engine said */
export function toldBy(text: (name: string) => string): Readonly<Record<string, object>> {
  const user = text('user');
  const names = { project: text('project'), catalogs: text('catalog'), cubes: text('cube') };
  const status: Status = {
    at: AT,
    version: '1.2.3',
    gateway: 'abcdefghij',
    process: 42,
    processes: 2,
    complete: true,
    user,
    rights: { administer: true, view: true, purge: true },
    engines: { up: 1, of: 2 },
    redis: 'up',
    purges_pending: 1,
    lease_age_ms: 250,
    queue: { waiting: 3, limit: 256 },
    memory: { entries: 5, bytes: 3_000_000, limit_bytes: 256 * 2 ** 20 },
  };
  const purge = {
    id: 'receipt',
    at: AT,
    principal: user,
    cause: 'clear-cache',
    scope: { project: text('purged project') },
    known: false,
    result: 'owed',
    replicas: 2,
    waited: 1_100,
    engine_calls: 0,
  } as const;
  const counts = { hits: 87, misses: 13, bypasses: 4, by_gateway: 1 };
  const overview: Overview = {
    at: AT,
    gateways: 2,
    complete: false,
    findings: [
      {
        kind: 'engine-down',
        severity: 'problem',
        text: text('finding'),
        cause: text('cause'),
        remedy: text('remedy'),
      },
    ],
    hour: {
      ...counts,
      hit_ratio: 0.87,
      saved_ratio: 0.5,
      refreshed: 0,
      engine_ms: 60_000,
      saved_ms: 60_000,
      hit_ms: { p50: 0.4, p95: 3 },
      miss_ms: null,
    },
    minutes: [{ at: AT, ...counts, engine_ms: 60_000, saved_ms: 60_000 }],
    purges: [
      { at: AT, scope: purge.scope },
      { at: '2026-01-02T02:04:05.000Z', scope: 'everything' },
    ],
    reasons: [{ outcome: 'bypass', reason: 'volatile', count: 4 }],
    totals: { asks: 100, hits: 87, uncached_ms: 60_000, saved_ms: 60_000, bytes: 1 },
    projects: [
      {
        project: names.project,
        asks: 100,
        hits: 87,
        misses: 13,
        hit_ratio: 0.87,
        engine_ms: 60_000,
        saved_ms: 60_000,
        entries: 5,
        last_asked: AT,
        last_purge: purge,
      },
    ],
  };
  const digest = 'digest1';
  const statistics: Statistics = {
    gateways: 1,
    complete: true,
    totals: overview.totals,
    total: 250,
    digests: [
      {
        digest,
        subject: text('subject'),
        ...names,
        asks: 10,
        hits: 8,
        engine_ms: 1_500,
        engine_max_ms: 3_000,
        uncached_ms: 5_000,
        failed_asks: 1,
        failed_ms: 2_000,
        saved_ms: 12_000,
        bytes: 4_096,
        users: 20,
        last_asked: AT,
        last_outcome: 'bypass',
        last_reason: 'volatile',
        since: AT,
        text: text('statement'),
      },
    ],
  };
  const requests: Requests = {
    total: 250,
    complete: true,
    requests: [
      {
        id: text('id'),
        at: AT,
        user,
        client: text('client'),
        ...names,
        digest,
        outcome: 'miss',
        reason: 'too-large',
        status: 200,
        bytes: 4_096,
        ms: 1_620.5,
        waited_ms: 100.2,
        engine_ms: 1_500,
        stored: false,
      },
    ],
  };
  const entry = { digest, ...names, bytes: 4_096, hits: 8, age: 60, rest: 3_600 };
  const entries: Entries = { total: 1, complete: true, entries: [entry] };
  const purges: Purges = { complete: false, purges: [purge] };
  const watches: Watches = {
    watches: [
      {
        project: text('watched project'),
        kind: 'url',
        every_ms: 60_000,
        state: 'blind',
        seen_at: AT,
        changed_at: null,
        purged_at: AT,
        why: text('failure'),
        signature: '0123456789ab',
      },
    ],
    hooks: [
      {
        name: text('hook'),
        format: 'dbt',
        projects: [text('project of a hook')],
        taken: 2,
        refused: 1,
        purged_at: AT,
      },
    ],
  };
  const run: WarmUp['runs'][number] = {
    id: 'a run',
    gateway: 'a gateway',
    purge: null,
    by: user,
    project: text('warmed project'),
    begun: AT,
    ended: AT,
    cut: 'failures',
    planned: 20,
    stored: 9,
    there: 3,
    not_stored: { [text('not stored')]: 1 },
    failed: { [text('failed')]: 5 },
    skipped: { [text('skipped')]: 2 },
    engine_seconds: 12.5,
  };
  const warm: WarmUp = {
    mode: 'auto',
    as: text('as whom'),
    complete: false,
    waiting: { purge: 'a receipt', begins_in_ms: 12_000 },
    run: { ...run, by: null, purge: 'a receipt', project: null, ended: null, cut: null },
    runs: [run],
    candidates: [
      {
        digest,
        subject: text('subject'),
        project: '',
        catalogs: text('catalog'),
        score: 442_000,
        asks: 812.1,
        engine_ms: 544.6,
      },
    ],
  };
  const process = {
    pid: 42,
    started_at: AT,
    rss_bytes: 1e8,
    entries: 5,
    memory_bytes: 3e6,
    memory_limit_bytes: 3e8,
    evictions: { all: 0, unused: 0 },
    queue_limit: 256,
    owed: [],
    dropped_headers: [],
    timed_out: [],
    engines_away: [],
    lease_age_ms: null,
    connections: 7,
    connections_limit: 1_000,
    at_engine: 1,
    waiting: 0,
  };
  const system: System = {
    at: AT,
    version: '1.2.3',
    node: 'v26.0.0',
    platform: 'linux x64',
    started_at: AT,
    gateway: 'abcdefghij',
    processes: [process],
    complete: true,
    engines: [{ url: 'http://engine/', state: 'down', why: text('why') }],
    redis: { state: 'up', why: undefined, mode: 'single', conditions: [text('condition')] },
    storage: { driver: 'sqlite', state: 'up' },
    configuration: `engine:\n  url: ${text('configured')}\n`,
    waiting_for_restart: ['cache.memory'],
    metrics: [{ name: 'mdx_gateway_up', type: 'gauge', help: 'Whether a part answers.' }],
  };
  const reasons: Reasons = {
    reasons: [
      { word: 'volatile', outcome: 'bypass', meaning: 'Its value changes.', remedy: 'Do this.' },
      { word: 'too-large', outcome: 'miss', meaning: 'It is large.', remedy: 'Do that.' },
      { word: 'overloaded', outcome: 'gateway', meaning: 'Too many.' },
    ],
  };
  return {
    '/admin/status': status,
    '/admin/overview': overview,
    '/admin/statistics': statistics,
    '/admin/requests': requests,
    '/admin/entries': entries,
    '/admin/purges': purges,
    '/admin/watches': watches,
    '/admin/warm': warm,
    '/admin/system': system,
    '/admin/reasons': reasons,
  };
}
