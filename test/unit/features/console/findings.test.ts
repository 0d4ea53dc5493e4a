import { describe, expect, test } from '@jest/globals';
import type { PurgeRecord } from '../../../../src/cache/purge/purge-log.ts';
import { findingsOf, type State } from '../../../../src/features/console/findings.ts';
import { staleFinding } from '../../../../src/features/compare/compare.ts';
import { failedFinding } from '../../../../src/features/warm/warm.ts';
import { refusedFinding } from '../../../../src/features/hooks/hooks.ts';
import { blindFinding } from '../../../../src/features/watch/watch.ts';
import { noSums, type ReasonCount } from '../../../../src/features/hour-report.ts';

const DAY = 24 * 3_600_000;
const NOW = Date.UTC(2026, 0, 2, 8, 55);
const UP = { url: 'http://a/xmla', state: 'up', why: 'it answers as XMLA' } as const;
const DOWN = { url: 'http://b/xmla', state: 'down', why: 'it did not answer in time' } as const;

/** Of a gateway at which there is nothing to find. */
const WELL: State = {
  now: NOW,
  redis: { state: 'up', why: undefined, conditions: [] },
  engines: [UP],
  storage: { driver: 'sqlite', state: 'up' },
  owed: [],
  purges: [],
  unpurged: [],
  hour: noSums(),
  reasons: [],
  evictions: [],
  certificateLeft: Infinity,
  reloaded: true,
  processes: { told: 2, wanted: 2 },
  droppedHeaders: [],
  timedOut: [],
  enginesAway: [],
  ofFeatures: [],
};

const find = (changes: Partial<State>) => findingsOf({ ...WELL, ...changes });
const kindsOf = (changes: Partial<State>) => find(changes).map(({ kind }) => kind);
const hour = (hits: number, misses: number, bypasses = 0) =>
  ({ hour: { ...noSums(), hits, misses, bypasses } }) as const;
const reason = (outcome: ReasonCount['outcome'], count: number, word = ''): Partial<State> => ({
  reasons: [{ outcome, reason: word, count }],
});
const purge = (facts: Partial<PurgeRecord>): Partial<State> => ({
  purges: [
    {
      id: 'id',
      at: NOW,
      principal: 'loader',
      cause: 'clear-cache',
      scope: { project: 'Shpo' },
      known: false,
      result: 'cleared',
      replicas: 1,
      waited: 0,
      engine_calls: 0,
      ...facts,
    },
  ],
});

/** Of each rule: what fires it, what it says, and what is just not enough. */
const RULES: readonly (readonly [
  kind: string,
  severity: string,
  fires: Partial<State>,
  text: string,
  ...border: Partial<State>[],
])[] = [
  [
    'stale-answer',
    'problem',
    { ofFeatures: staleFinding(() => [{ name: 'dig (Shop)', asks: 1 }]) },

    'In the last hour the cache held answers that differ from those of the engine: dig (Shop).',
  ],
  [
    'purge-pending',
    'problem',
    { owed: ['everything', 'project:shop'] },
    'Purges are pending: everything, project:shop.',
  ],
  [
    'redis-down',
    'problem',
    { redis: { state: 'down', why: 'connect ECONNREFUSED', conditions: [] } },
    'Redis cannot be used: connect ECONNREFUSED.',
    { redis: { state: 'off', why: undefined, conditions: [] } },
  ],
  [
    'redis-condition',
    'warning',
    { redis: { state: 'up', why: undefined, conditions: ['maxmemory-policy evicts tokens'] } },
    'A setting of Redis is not as a purge needs it: maxmemory-policy evicts tokens.',
  ],
  [
    'engine-down',
    'problem',
    { engines: [UP, DOWN] },
    'An engine does not answer: http://b/xmla (it did not answer in time).',
    { engines: [] },
  ],
  [
    'watch-blind',
    'problem',
    { ofFeatures: blindFinding({ project: 'Shop', state: 'blind', why: 'the file is not there' }) },
    'The gateway cannot see whether the data of Shop changes: the file is not there.',
    {
      ofFeatures: blindFinding({ project: 'Shop', state: 'waiting', why: 'the file is not there' }),
    },
  ],
  [
    'engine-away',
    'warning',
    {
      ...reason('hit', 7, 'engine-away'),
      enginesAway: [
        { url: 'http://a/xmla', since: '2026-01-02T08:54:00.000Z' },
        { url: 'http://a/xmla', since: '2026-01-02T08:53:00.000Z' },
      ],
    },
    'Answers past their ttl in the last hour, because an engine could not be reached or did not answer: 7. Away now: http://a/xmla since 2026-01-02T08:53:00.000Z.',
  ],
  [
    'query-times-out',
    'warning',
    {
      timedOut: [
        { digest: 'dig', project: 'Shop', since: '2026-01-02T08:54:00.000Z', refused: 23 },
      ],
    },
    'The engine does not answer in time: dig (Shop) since 2026-01-02T08:54:00.000Z, 23 refused without asking.',
  ],
  [
    'hook-refused',
    'warning',
    { ofFeatures: refusedFinding(() => [{ name: 'kylin', asks: 12 }]) },
    'Calls of hooks were refused in the last hour: kylin (12).',
  ],
  [
    'storage-down',
    'problem',
    { storage: { driver: 'postgres', state: 'down' } },
    'The storage (postgres) cannot be reached.',
  ],
  [
    'workers-missing',
    'problem',
    { processes: { told: 1, wanted: 2 } },
    '1 of 2 processes reported their figures.',
  ],
  [
    'internal-errors',
    'problem',
    reason('internal-error', 1),
    'Failures of the gateway itself in the last hour: 1.',
  ],
  [
    'certificate-ends',
    'problem',
    { certificateLeft: 0 },
    'The certificate of the gateway is about to expire, or has expired. Whole days left: 0.',
  ],
  [
    'certificate-ends',
    'warning',
    { certificateLeft: 14 * DAY - 1 },
    'The certificate of the gateway is about to expire, or has expired. Whole days left: 13.',
    { certificateLeft: 14 * DAY },
  ],
  ['reload-failed', 'warning', { reloaded: false }, 'The last reload of the configuration failed.'],
  [
    'engine-failures',
    'warning',
    reason('gateway', 3, 'engine-timeout'),
    'Requests failed at the engine in the last hour: engine-timeout (3).',
    reason('gateway', 3, 'engine-not-cleared'),
    reason('bypass', 3, 'engine-timeout'),
  ],
  [
    'overloaded',
    'warning',
    reason('gateway', 1, 'overloaded'),
    'Requests were refused as overloaded in the last hour: 1.',
    reason('gateway', 1, 'bad-request'),
  ],
  [
    'connections-closed',
    'warning',
    reason('connection-closed', 3),
    'Connections that were closed in the last hour because limits.connections were open: 3.',
  ],
  [
    'entries-rejected',
    'warning',
    reason('entry-rejected', 1),
    'Values in Redis that failed a check in the last hour: 1.',
  ],
  [
    'warm-up-failed',
    'warning',
    { ofFeatures: failedFinding(() => [{ name: 'warm-up-failed', asks: 1 }]) },
    'Runs of the warm-up that gave up after five failures in a row, in the last hour: 1.',
  ],
  [
    'refused-logins',
    'warning',
    reason('login-refused', 100),
    'Logins were refused in the last hour: 100.',
    reason('login-refused', 99),
  ],
  [
    'login-queue',
    'problem',
    reason('gateway', 3, 'login-queue'),
    'Requests were refused in the last hour because too many logins waited: 3.',
  ],
  [
    'unknown-purge',
    'warning',
    purge({}),
    'Projects were purged in the last day that no gateway knew: Shpo.',
    purge({ at: NOW - DAY }),
    purge({ known: true }),
    purge({ scope: 'everything' }),
  ],
  [
    'bypass-reason',
    'warning',
    { ...hour(19, 20, 11), ...reason('bypass', 11, 'volatile') },
    '22 % of the requests of the last hour bypassed the cache: volatile.',
    { ...hour(20, 20, 10), ...reason('bypass', 10, 'volatile') },
    { ...hour(19, 19, 11), ...reason('bypass', 11, 'volatile') },
    { ...hour(19, 20, 11), ...reason('gateway', 11, 'bad-request') },
    { ...hour(19, 20, 11), ...reason('bypass', 11, 'toString') },
  ],
  [
    'refusal-reason',
    'warning',
    { ...hour(50, 50), ...reason('miss', 11, 'too-large') },
    '22 % of the misses of the last hour were not stored: too-large.',
    { ...hour(50, 50), ...reason('miss', 10, 'too-large') },
    { ...hour(50, 49), ...reason('miss', 11, 'too-large') },
    { ...hour(50, 50), ...reason('miss', 50) },
  ],
  [
    'evicted-unused',
    'warning',
    { evictions: [{ all: 100, unused: 51 }] },
    '51 % of the 100 entries that made room for others had no second hit.',
    { evictions: [{ all: 100, unused: 50 }] },
    { evictions: [{ all: 99, unused: 99 }] },
  ],
  [
    'header-dropped',
    'note',
    { droppedHeaders: ['accept-language', 'x-tenant'] },
    'Clients send headers that are not forwarded: accept-language, x-tenant.',
  ],
  [
    'low-hit-ratio',
    'note',
    hour(39, 161),
    '20 % of the 200 queries of the last hour were hits.',
    hour(40, 160),
    hour(0, 199),
  ],
  [
    'not-purged',
    'note',
    { unpurged: ['Shop', 'Sales'] },
    'Projects that were asked in the last hour, and not purged for longer than their ttl: Shop, Sales.',
  ],
];

test('nothing is found where nothing is wrong', () => {
  expect(find({})).toEqual([]);
});

describe.each(RULES)('%s, a %s', (kind, severity, fires, text, ...border) => {
  test('is found, and says what to do', () => {
    const [finding, ...others] = find(fires);
    expect(others).toEqual([]);
    expect(finding).toMatchObject({ kind, severity, text });
    for (const sentence of Object.values(finding ?? {}).slice(2)) {
      expect(sentence).toMatch(/^[A-Z0-9][^{}]{15,}\.$/u);
    }
  });

  test('is not found where there is less', () => {
    expect([{}, ...border].flatMap(kindsOf)).toEqual([]);
  });
});

test('a reason is told with its meaning and its remedy', () => {
  const [finding] = find({ ...hour(0, 39, 11), ...reason('bypass', 11, 'no-cache-comment') });
  expect(finding).toMatchObject({
    cause: 'A comment #NoCache asks for a fresh answer.',
    remedy: 'Remove the comment #NoCache from the statement.',
  });
});

test('what is found for several is told of each, and the worst comes first', () => {
  const conditions = ['one', 'other'];
  expect(
    kindsOf({
      unpurged: ['Shop'],
      reloaded: false,
      redis: { state: 'up', why: undefined, conditions },
      engines: [UP, DOWN, DOWN],
      owed: ['everything'],
    }),
  ).toEqual([
    'purge-pending',
    'engine-down',
    'engine-down',
    'redis-condition',
    'redis-condition',
    'reload-failed',
    'not-purged',
  ]);
});

test.each([
  [{ ...hour(39, 161), ...reason('miss', 161, 'too-large') }, 'refusal-reason'],
  [{ ...hour(39, 161), evictions: [{ all: 100, unused: 51 }] }, 'evicted-unused'],
])('a low hit ratio is not told beside what explains it', (state, kind) => {
  expect(kindsOf(state)).toEqual([kind]);
});

test('a sentence tells names as they are, whatever they hold, in one line', () => {
  expect(find({ unpurged: ['{kind} $& a\n  b'] })[0]?.text).toContain(': {kind} $& a b.');
});
