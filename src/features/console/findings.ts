import type { PurgeRecord } from '../../cache/purge/purge-log.ts';
import type { EngineAway, RedisFacts, ReplicaState, TimedOutQuery } from '../../common/events.ts';
import { type Finding, finding, SEVERITIES } from '../../common/finding.ts';
import { listOf } from '../../common/list-of.ts';
import { meaningOf } from '../../common/reasons.ts';
import { REMEDIES } from '../../common/remedies.ts';
import type { ReasonCount, Sums } from '../hour-report.ts';

/** Facts that the rules look at. Times are ms. */
export interface State {
  readonly now: number;
  readonly redis: RedisFacts;
  readonly engines: readonly ReplicaState[];
  readonly storage: Readonly<Record<'driver' | 'state', string>>;
  readonly owed: readonly string[];
  /** Latest first. */
  readonly purges: readonly PurgeRecord[];
  /** Projects asked in the last hour, and not purged for longer than their ttl. */
  readonly unpurged: readonly string[];
  readonly hour: Sums;
  readonly reasons: readonly ReasonCount[];
  readonly evictions: readonly Readonly<Record<'all' | 'unused', number>>[];
  /** Time to the end of the gateway's certificate; Infinity without one. */
  readonly certificateLeft: number;
  readonly reloaded: boolean;
  readonly processes: Readonly<Record<'told' | 'wanted', number>>;
  /** Headers of clients that an engine might answer by. */
  readonly droppedHeaders: readonly string[];
  readonly timedOut: readonly TimedOutQuery[];
  readonly enginesAway: readonly EngineAway[];
  readonly ofFeatures: readonly Finding[];
}

type Rule = (state: State) => readonly Finding[];

const DAY = 24 * 3_600_000;
const percent = (part: number, of: number) => Math.round((100 * part) / of);

const toldTimeout = ({ digest, project, since, refused }: TimedOutQuery) =>
  `${digest} (${project || 'no project'}) since ${since}, ${refused} refused without asking`;

/** Workers of one gateway may each have found it at another time. */
const awayOf = ({ enginesAway }: State) =>
  [...Map.groupBy(enginesAway, ({ url }) => url)].map(
    ([url, all]) => `${url} since ${all.map(({ since }) => since).sort()[0]}`,
  );

const counted = ({ reasons }: State, outcome: string, reason = '') =>
  reasons.find((one) => one.outcome === outcome && one.reason === reason)?.count ?? 0;

/** Finds reasons of more than a fifth of all that ended so, from fifty on. @param what ends so */
function frequent(state: State, wanted: 'bypass' | 'miss', what: string) {
  const { hits, misses, bypasses } = state.hour;
  const total = wanted === 'miss' ? misses : hits + misses + bypasses;
  return state.reasons.flatMap(({ outcome, reason, count }) => {
    const isFrequent = outcome === wanted && total >= 50 && count > total / 5;
    const remedy = Object.hasOwn(REMEDIES, reason) && REMEDIES[reason as keyof typeof REMEDIES];
    if (!remedy || remedy.startsWith('As it should be')) return [];
    return finding('warning', wanted === 'miss' ? 'refusal-reason' : 'bypass-reason', isFrequent)`
      ${percent(count, total)} % of the ${what}: ${reason}.
      ${meaningOf(outcome, reason)}
      ${remedy}`;
  });
}

const notStored: Rule = (state) =>
  frequent(state, 'miss', 'misses of the last hour were not stored');

const failedOf = ({ reasons }: State) =>
  reasons.filter(
    ({ outcome, reason }) => outcome === 'gateway' && /^engine-(?!not-cleared)/.test(reason),
  );

const unknownOf = ({ purges, now }: State) =>
  purges.flatMap(({ at, known, scope }) =>
    known || at <= now - DAY || scope === 'everything' ? [] : scope.project,
  );

function evictionsOf({ evictions }: State) {
  const all = evictions.reduce((sum, one) => sum + one.all, 0);
  const unused = evictions.reduce((sum, one) => sum + one.unused, 0);
  return { all, unused, isMany: all >= 100 && unused > all / 2 };
}

/** Hits are few, and no other finding explains it. */
function isLow(state: State): boolean {
  const { hits, misses } = state.hour;
  const queries = hits + misses;
  const isFew = queries >= 200 && hits < queries / 5;
  return isFew && notStored(state).length === 0 && !evictionsOf(state).isMany;
}

const RULES: readonly Rule[] = [
  ({ owed }) => finding('problem', 'purge-pending', owed.length > 0)`
      Purges are pending: ${listOf(owed)}.
      Redis has not confirmed them, so other gateways may still answer from entries that they should drop.
      Bring Redis back; the gateway tries again twice a second. GET /health/ready says why it is down.`,

  ({ redis }) => finding('problem', 'redis-down', redis.state === 'down')`
      Redis cannot be used: ${redis.why ?? 'not known yet'}.
      Without it the gateway cannot know which entries are valid, so no query is a hit. Changes of sessions that began before are refused.
      Check that the server of cache.redis.url runs and accepts the login of cache.redis.`,

  ({ redis }) =>
    redis.conditions.flatMap(
      (condition) => finding('warning', 'redis-condition', true)`
      A setting of Redis is not as a purge needs it: ${condition}.
      A purge is only as durable as what Redis has confirmed.
      Change it in Redis, as docs/PURGE.md says.`,
    ),

  ({ engines }) =>
    engines.flatMap(
      (engine) => finding('problem', 'engine-down', engine.state === 'down')`
      An engine does not answer: ${engine.url} (${engine.why}).
      Other replicas take its requests. If there is none, only cached answers are left.
      Start the engine, or correct its url. mdx-gateway check --connect tries it.`,
    ),

  (state, old = counted(state, 'hit', 'engine-away')) => finding('warning', 'engine-away', old > 0)`
      Answers past their ttl in the last hour, because an engine could not be reached or did not answer: ${old}. Away now: ${listOf(awayOf(state)) || 'none'}.
      With cache.stale_if_error entries answer meanwhile, marked with engine-away, and never across a purge.
      Bring the engine back. Its first answer ends this, and the next request of each query makes its entry fresh.`,

  ({ ofFeatures }) => ofFeatures,

  ({ storage }) => finding('problem', 'storage-down', storage.state === 'down')`
      The storage (${storage.driver}) cannot be reached.
      Roles and datasets cannot be read or changed.
      The log says why. Check storage.url or storage.path.`,

  ({ processes }) => finding('problem', 'workers-missing', processes.told < processes.wanted)`
      ${processes.told} of ${processes.wanted} processes reported their figures.
      A worker hangs, or it ended and is being restarted.
      The log says what ended it. If it hangs, restart the gateway.`,

  (state) => finding('problem', 'internal-errors', counted(state, 'internal-error') > 0)`
      Failures of the gateway itself in the last hour: ${counted(state, 'internal-error')}.
      This is a fault of the program.
      Report the lines internal-error from the log.`,

  ({ certificateLeft: left }) => finding(
    left <= 0 ? 'problem' : 'warning',
    'certificate-ends',
    left < 14 * DAY,
  )`
      The certificate of the gateway is about to expire, or has expired. Whole days left: ${Math.max(0, Math.floor(left / DAY))}.
      Clients refuse to connect with an expired certificate.
      Renew the file of listen.certificate and send SIGHUP.`,

  ({ reloaded }) => finding('warning', 'reload-failed', !reloaded)`
      The last reload of the configuration failed.
      The file holds a mistake, so the earlier configuration is still in force.
      Run mdx-gateway check --config FILE, correct the file, and send SIGHUP.`,

  (state, failed = failedOf(state)) => finding('warning', 'engine-failures', failed.length > 0)`
      Requests failed at the engine in the last hour: ${listOf(failed.map((one) => `${one.reason} (${one.count})`))}.
      The engine was too slow, could not be reached, broke an answer off, or refused the login of engine.service.
      See the lines engine-failed in the log. If queries may take that long, raise engine.timeout.`,

  ({ timedOut }) => finding('warning', 'query-times-out', timedOut.length > 0)`
      The engine does not answer in time: ${listOf(timedOut.map(toldTimeout))}.
      The engine gets such a query once in 20 s, and requests in between get 504 at once. This ends with an answer, a purge, or a minute without a try.
      End the query at the engine; GET /admin/statistics?digest=… shows which one it is. Then have the report ask for less, or raise engine.timeout.`,

  (state) => finding('warning', 'overloaded', counted(state, 'gateway', 'overloaded') > 0)`
      Requests were refused as overloaded in the last hour: ${counted(state, 'gateway', 'overloaded')}.
      The queue for the engine (limits.queue) or for memory (limits.in_flight) was full, or they waited in it for limits.wait.
      Raise limits.concurrency if the engine can take more, or limits.in_flight.`,

  (state) => finding('warning', 'connections-closed', counted(state, 'connection-closed') > 0)`
      Connections that were closed in the last hour because limits.connections were open: ${counted(state, 'connection-closed')}.
      Idle connections make room first, then those of clients that stall, then new ones. A client that asks at that moment loses its request.
      Set limits.connections higher than the number that your clients keep open (docs/DEPLOY.md), or correct a client that keeps too many.`,

  (state) => finding('problem', 'login-queue', counted(state, 'gateway', 'login-queue') > 0)`
      Requests were refused in the last hour because too many logins waited: ${counted(state, 'gateway', 'login-queue')}.
      Each new login keeps a core busy for one bcrypt comparison, and no login may wait for more than 30 s.
      Give the gateway more cores, or start another one. docs/DEPLOY.md says how many logins a core can check.`,

  (state) => finding('warning', 'entries-rejected', counted(state, 'entry-rejected') > 0)`
      Values in Redis that failed a check in the last hour: ${counted(state, 'entry-rejected')}.
      Gateways have different encryption keys, or something else writes under the same names.
      Give all gateways the same cache.redis.encryption_key, and each deployment its own cache.redis.namespace.`,

  (state) => finding('warning', 'refused-logins', counted(state, 'login-refused') >= 100)`
      Logins were refused in the last hour: ${counted(state, 'login-refused')}.
      A client has an old password, or an attacker guesses passwords.
      The lines login-refused in the log name the addresses.`,

  (state, unknown = unknownOf(state)) => finding('warning', 'unknown-purge', unknown.length > 0)`
      Projects were purged in the last day that no gateway knew: ${listOf([...new Set(unknown)])}.
      A load job misspells the name, so that it drops nothing; or no client has asked this project yet.
      Correct the name in the job: it must be that of the request path, or of the catalog.`,

  (state) => frequent(state, 'bypass', 'requests of the last hour bypassed the cache'),

  notStored,

  (state, { all, unused, isMany } = evictionsOf(state)) => finding(
    'warning',
    'evicted-unused',
    isMany,
  )`
      ${percent(unused, all)} % of the ${all} entries that made room for others had no second hit.
      The answers do not fit into cache.memory.
      Raise cache.memory and restart the gateway.`,

  ({ droppedHeaders }) => finding('note', 'header-dropped', droppedHeaders.length > 0)`
      Clients send headers that are not forwarded: ${listOf(droppedHeaders, 10)}.
      They are not in the key, so the engine must not answer by them.
      If the engine answers by one of them, or may, name it in engine.headers. Otherwise you need not do anything.`,

  (state, { hits, misses } = state.hour) => finding('note', 'low-hit-ratio', isLow(state))`
      ${percent(hits, hits + misses)} % of the ${hits + misses} queries of the last hour were hits.
      Few queries are repeated by users who share answers, or purges come often.
      If answers do not depend on the user, set cache.share. POST /admin/explain shows what differs.`,

  ({ unpurged }) => finding('note', 'not-purged', unpurged.length > 0)`
      Projects that were asked in the last hour, and not purged for longer than their ttl: ${listOf(unpurged)}.
      The gateway does not learn when their data is loaded.
      Call clearCache at the end of each load, have the project watched (projects.NAME.watch), or set a shorter projects.NAME.ttl.`,
];

/** Lists what an operator should look at, the worst first. */
export function findingsOf(state: State): readonly Finding[] {
  const found = RULES.flatMap((rule) => rule(state));
  return SEVERITIES.flatMap((severity) => found.filter((one) => one.severity === severity));
}
