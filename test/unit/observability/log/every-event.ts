import type { GatewayEvent } from '../../../../src/common/events.ts';
import { answered } from '../../../support/answered.ts';

const engineDown = Object.assign(new Error('connect ECONNREFUSED', { cause: 'a text' }), {
  code: 'ECONNREFUSED',
  stack: 'Error: connect ECONNREFUSED\n    at here',
});
const mistake = Object.assign(new TypeError('x is not a function'), {
  stack: 'TypeError: at here',
});
const api = {
  type: 'api-answered',
  ...{ id: 'R-2', principal: 'ADMIN', operation: 'createRole', subject: 'role Sales' },
  ...{ reason: undefined, error: undefined, milliseconds: 3.7 },
} as const;
const purged = {
  type: 'purged',
  ...{ id: 'R-3', scope: { project: 'Shop' }, principal: 'loader', replicas: 2, waited: 12.5 },
  ...{ engine_calls: 1, milliseconds: 20.6 },
} as const;
const run = {
  ...{ id: 'run', gateway: 'one', purge: 'R-3', by: null, project: 'Shop' },
  begun: '2026-01-02T07:00:00.000Z',
  ...{ planned: 9, stored: 1, there: 2, not_stored: { fault: 1 }, failed: {}, skipped: {} },
  engine_seconds: 5,
} as const;

/** Events of each type, in each of the forms that the log tells otherwise. */
export const EVERY_EVENT: readonly GatewayEvent[] = [
  answered({ saved: 700.4, complete: false, why: 'element Hint', trace: '00-ab-cd-01' }),
  answered({ outcome: { kind: 'hit', detail: 'memory' }, milliseconds: 0.4 }),
  answered({ outcome: { kind: 'miss', stored: true }, milliseconds: 6_000.2 }),
  answered({ outcome: { kind: 'bypass', detail: 'session' }, engine: undefined }),
  { type: 'engine-answered', project: 'Shop', milliseconds: 300.4 },
  { type: 'engine-failed', project: 'Shop', reason: 'engine-timeout', error: engineDown },
  {
    ...{
      type: 'engine-failed',
      project: '',
      replica: 'http://olap-1/',
      reason: 'engine-unreachable',
    },
    error: mistake,
  },
  { type: 'engine-state', url: 'http://olap-1/', state: 'up', why: '' },
  { type: 'engine-state', url: 'http://olap-1/', state: 'down', why: 'it is late' },
  { type: 'stored', project: 'Shop', bytes: 100 },
  { type: 'shared-flight', end: 'led' },
  { type: 'not-stored', project: 'Shop', reason: 'fault' },
  { ...purged, cause: 'clear-cache', result: 'cleared', known: true },
  { ...purged, cause: 'hook', result: 'cleared', known: false, call: 'R-9' },
  { ...purged, cause: 'change', result: 'cleared', known: false, scope: 'everything' },
  { ...purged, cause: 'statement', result: 'owed', known: true, call: 'R-9', why: 'DROP' },
  { ...api, changes: true, status: 201 },
  { ...api, changes: false, status: 200 },
  { ...api, changes: false, status: 404, reason: 'no-such-role' },
  { ...api, changes: true, status: 503, reason: 'storage-unavailable', error: engineDown },
  { type: 'purge-refused', principal: 'alice', why: 'she may not' },
  { type: 'hook-called', id: 'R-4', hook: 'kylin', result: 'cleared', projects: ['Shop'] },
  { type: 'hook-called', id: 'R-4', hook: 'kylin', result: 'refused', projects: [], why: 'no' },
  { type: 'hook-called', id: 'R-4', hook: 'kylin', result: 'failed', projects: [], why: 'no' },
  { type: 'explained', id: 'R-5', principal: 'ADMIN', user: 'alice', project: 'Shop' },
  {
    ...{ type: 'compared', id: 'R-5', principal: 'ADMIN', project: '', digest: 'D' },
    verdict: 'stale',
  },
  { type: 'warm-run', state: 'begun', ...run, ended: null, cut: null },
  { type: 'warm-run', state: 'ended', ...run, ended: '2026-01-02T07:01:00.000Z', cut: 'failures' },
  {
    ...{ type: 'warmed', run: 'run', digest: 'D', project: 'Shop', result: 'failed' },
    ...{ reason: 'engine-timeout', milliseconds: 700.6 },
  },
  { type: 'diagnosis-saved', principal: 'eve' },
  { type: 'redis-failed', operation: 'get', error: engineDown },
  { type: 'watch-state', project: 'Shop', state: 'seeing', why: '' },
  { type: 'watch-state', project: 'Shop', state: 'blind', why: 'it is late' },
  { type: 'redis-state', state: 'up' },
  { type: 'redis-state', state: 'down', why: 'connect ECONNREFUSED', code: 'ECONNREFUSED' },
  { type: 'swept', scanned: 9, unlinked: 2 },
  { type: 'entry-rejected', why: 'sealed' },
  {
    ...{ type: 'login-refused', id: 'R-6', reason: 'rejected', why: undefined, user: 'alice' },
    address: '10.0.0.7',
  },
  { type: 'connection-closed', why: 'limit' },
  { type: 'users-loaded', count: 3 },
  { type: 'warning', message: 'it is late', error: engineDown },
  { type: 'warning', message: 'it is late' },
  { type: 'internal-error', id: 'R-7', error: mistake },
];
