import {
  CONNECTION_CLOSINGS,
  type ConnectionClosing,
  ENTRY_FLAWS,
  type EventOf,
  FLIGHT_ENDS,
  LOGIN_REFUSALS,
  CAUSES,
  PURGE_CAUSES,
  PURGE_RESULTS,
  REDIS_OPERATIONS,
} from '../common/events.ts';
import { GATEWAY_REASONS, REFUSAL_REASONS } from '../common/reasons.ts';
import {
  always,
  asItIs,
  bySeconds,
  byWord,
  type Count,
  type EventRows,
  fieldsOf,
  move,
  REASON,
} from './event-rows.ts';
import { fieldsOfAnswer, levelOfAnswer } from './log.ts';

/** Counts of answers: the metrics move them by themselves, for speed. */
export const SUMMED = {
  requests: {
    name: 'xmla_requests_total',
    help: 'XMLA requests by outcome (hit, miss, bypass, gateway) and reason.',
    labels: ['outcome', 'reason', 'project'],
  },
  bytes: {
    name: 'xmla_answer_bytes_total',
    help: 'Bytes of XMLA answers by outcome.',
    labels: ['outcome'],
  },
  incomplete: {
    name: 'xmla_incomplete_total',
    help: 'XMLA answers that did not reach their end.',
  },
  /** A hit takes less than a thousandth of a second, a query of an engine up to minutes. */
  seconds: {
    name: 'xmla_seconds',
    help: 'Seconds from the head of an XMLA request to the end of its answer, by outcome.',
    labels: ['outcome'],
    buckets: [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300],
  },
  engineSeconds: {
    name: 'engine_seconds_total',
    help: 'Seconds of engine work, including the time until a failure.',
    labels: ['project'],
  },
  saved: {
    name: 'engine_seconds_saved_total',
    help: 'Seconds of engine work that answers from the cache saved.',
    labels: ['project'],
  },
  stored: { name: 'stored_total', help: 'Answers stored.', labels: ['project'] },
  storedBytes: { name: 'stored_bytes_total', help: 'Bytes of the answers stored.' },
} as const satisfies Readonly<Record<string, Count>>;

function levelOfPurge({ result, cause, known }: EventOf<'purged'>) {
  if (result !== 'cleared') return 'error';
  // Most likely a misspelt name. What a change or a statement names may be new.
  return CAUSES[cause].isCall && !known ? 'warn' : 'info';
}

function levelOfApi({ status, changes }: EventOf<'api-answered'>) {
  if (status >= 500) return 'warn';
  return changes || status >= 400 ? 'info' : 'debug';
}

const levelOfState = ({ state }: { readonly state: 'up' | 'down' }) =>
  state === 'up' ? 'info' : 'warn';

/** Closings because as many connections are open as may be. */
const AT_LIMIT: ReadonlySet<ConnectionClosing> = new Set(['limit', 'stalled', 'busy']);

const API_REQUESTS = {
  name: 'api_requests_total',
  help: 'Requests of the role and dataset API by operation (empty for none) and status.',
  labels: ['operation', 'status'],
};
const PURGES = {
  name: 'purges_total',
  help: `Purges by result (cleared, engine-failed, owed), scope and cause (${PURGE_CAUSES.join(', ')}).`,
  labels: ['result', 'scope', 'cause'],
  zeros: PURGE_RESULTS.flatMap((result) =>
    PURGE_CAUSES.flatMap((cause) =>
      ['everything', 'project'].map((scope) => ({ result, scope, cause })),
    ),
  ),
};
const SWEPT = {
  name: 'entries_swept_total',
  help: 'Entries in Redis that were dropped because a purge had made them unreachable.',
};
const ENGINE_REASONS = Object.keys(GATEWAY_REASONS).filter((one) => one.startsWith('engine-'));
const REFUSALS = Object.keys(REFUSAL_REASONS);

/** Events of the core, in the order of the metrics. */
export const CORE_EVENTS = {
  'xmla-answered': {
    level: levelOfAnswer,
    fields: fieldsOfAnswer,
    summed: [SUMMED.requests, SUMMED.bytes, SUMMED.incomplete, SUMMED.seconds],
  },
  'api-answered': {
    level: levelOfApi,
    isAudit: ({ changes }) => changes,
    moves: [
      move(API_REQUESTS, ({ operation, status }) => ({ operation, status: String(status) })),
      bySeconds(
        'api_seconds',
        'Seconds from the head of a request of the role and dataset API to the end of its answer.',
        [0.005, 0.02, 0.1, 0.5, 2, 10, 60],
      ),
    ],
  },
  'engine-answered': {
    level: 'debug',
    fields: asItIs,
    summed: [SUMMED.engineSeconds, SUMMED.saved],
  },
  'engine-failed': {
    level: 'warn',
    withoutStack: true,
    moves: [
      byWord(
        'engine_failures_total',
        'Requests that failed at the engine.',
        'reason',
        ENGINE_REASONS,
      ),
    ],
  },
  stored: { level: 'debug', fields: asItIs, summed: [SUMMED.stored, SUMMED.storedBytes] },
  'not-stored': {
    level: 'debug',
    fields: asItIs,
    moves: [byWord('not_stored_total', 'Answers not stored, by reason.', 'reason', REFUSALS)],
  },
  'shared-flight': {
    level: 'debug',
    fields: asItIs,
    moves: [
      byWord(
        'shared_flights_total',
        'Slow queries for which gateways wait for one another, by end: led, joined, gave-up.',
        'end',
        FLIGHT_ENDS,
      ),
    ],
  },
  purged: {
    level: levelOfPurge,
    isAudit: always,
    moves: [
      move(PURGES, ({ result, scope, cause }) => ({
        result,
        scope: typeof scope === 'string' ? scope : 'project',
        cause,
      })),
      bySeconds(
        'purge_seconds',
        'Seconds that a purge took; one that was owed counts again when it is done.',
        [0.01, 0.1, 0.5, 1, 2, 5, 10],
      ),
    ],
  },
  'connection-closed': {
    level: 'debug',
    fields: asItIs,
    noted: ({ why }) => (AT_LIMIT.has(why) ? [REASON, 'connection-closed'] : undefined),
    moves: [
      byWord(
        'connections_closed_total',
        'Connections that the gateway closed, by why: limit (idle, while limits.connections were open), stalled (all were busy, and its client neither sent its body nor read its answer), address (many unfinished heads from that address), busy (new, while all others were busy), pipelined (more than 32 requests on it had no answer yet).',
        'why',
        CONNECTION_CLOSINGS,
      ),
    ],
  },
  'login-refused': {
    level: 'info',
    fields: ({ user, ...event }) => ({ ...fieldsOf(event), principal: user }),
    noted: () => [REASON, 'login-refused'],
    moves: [byWord('logins_refused_total', 'Refused logins by reason.', 'reason', LOGIN_REFUSALS)],
  },
  'redis-failed': {
    level: 'debug',
    moves: [
      byWord('redis_failures_total', 'Failed Redis operations.', 'operation', REDIS_OPERATIONS),
    ],
  },
  'entry-rejected': {
    level: 'warn',
    noted: () => [REASON, 'entry-rejected'],
    moves: [
      byWord('entries_rejected_total', 'Values in Redis that failed a check.', 'why', ENTRY_FLAWS),
    ],
  },
  swept: { level: 'info', moves: [move(SWEPT, undefined, ({ unlinked }) => unlinked)] },
  'internal-error': {
    level: 'error',
    noted: () => [REASON, 'internal-error'],
    moves: [move({ name: 'internal_errors_total', help: 'Failures of the gateway itself.' })],
  },
  warning: {
    level: 'warn',
    message: ({ message }) => message,
    fields: ({ error }) => ({ err: error }),
  },
  'engine-state': { level: levelOfState },
  'engine-away': { level: levelOfState },
  'redis-state': { level: levelOfState },
  'users-loaded': { level: 'info' },
  'purge-refused': { level: 'warn', isAudit: always },
  explained: { level: 'info', isAudit: always },
  'diagnosis-saved': { level: 'info', isAudit: always },
} as const satisfies Partial<EventRows>;
