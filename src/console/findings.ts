import type { PurgeRecord } from '../cache/purge/purge-log.ts';
import type { ReplicaState } from '../common/events.ts';
import { listOf } from '../common/list-of.ts';
import { BYPASS_REASONS, REFUSAL_REASONS } from '../common/reasons.ts';
import { REMEDIES } from '../common/remedies.ts';
import type { Counts, HourReport } from '../statistics/hour.ts';

/** As GET /health/ready tells it. */
export interface RedisFacts {
  readonly state: 'up' | 'down' | 'off';
  readonly why: string | undefined;
  readonly conditions: readonly string[];
}

/** What the rules look at. Times are ms. */
export interface State {
  readonly now: number;
  readonly redis: RedisFacts;
  readonly engines: readonly ReplicaState[];
  readonly storage: Readonly<Record<'driver' | 'state', string>>;
  /** Scopes whose purge Redis has not confirmed. */
  readonly owed: readonly string[];
  /** The latest first. */
  readonly purges: readonly PurgeRecord[];
  /** Projects that were asked in the last hour, and not purged for longer than their ttl. */
  readonly unpurged: readonly string[];
  readonly hour: Counts;
  readonly reasons: HourReport['reasons'];
  readonly staleFound: HourReport['stale'];
  readonly evictions: Readonly<Record<'all' | 'unused', number>>;
  readonly queue: Readonly<Record<'waiting' | 'limit', number>>;
  /** Of the oldest epoch in use, and what `cache.lease` allows. */
  readonly leaseAge: number;
  readonly lease: number;
  /** Until the certificate of the gateway ends; Infinity without one. */
  readonly certificateLeft: number;
  readonly reloaded: boolean;
  readonly processes: Readonly<Record<'told' | 'wanted', number>>;
  readonly othersAreRead: boolean;
}

const SEVERITIES = ['problem', 'warning', 'note'] as const;
type Severity = (typeof SEVERITIES)[number];
type Facts = Readonly<Record<string, string | number>>;
/** Facts of one finding or of several, if there is one. @param earlier the kinds that were found before */
type When = (state: State, earlier: ReadonlySet<string>) => Facts | readonly Facts[] | false;

/** A rule: when it finds something, and three lines with what is so, why, and what to do; `{name}` stands for a fact. */
const rule = (severity: Severity, kind: string, when: When) => (lines: TemplateStringsArray) => {
  const [text = '', cause = '', remedy = ''] = lines.join('').trim().split(/\n\s*/);
  return { kind, severity, when, text, cause, remedy };
};

const DAY = 24 * 3_600_000;
const percent = (part: number, of: number) => Math.round((100 * part) / of);
const isDown = ({ state }: ReplicaState) => state === 'down';
const described = ({ url, why }: ReplicaState) => `${url} (${why})`;

/** Of the hour, when there are so many at least. */
const counted =
  (outcome: string, reason = '', least = 1): When =>
  ({ reasons }) => {
    const row = reasons.find((one) => one.outcome === outcome && one.reason === reason);
    return row !== undefined && row.count >= least && { count: row.count };
  };

/** Each reason that more than a fifth of so many have, if these are fifty at least. */
const frequent = (
  state: State,
  outcome: string,
  total: number,
  meanings: Readonly<Record<string, string>>,
) =>
  state.reasons
    .filter((one) => one.outcome === outcome && Object.hasOwn(meanings, one.reason))
    .filter(({ count }) => total >= 50 && count > total / 5)
    .map(({ reason, count }) => ({
      reason,
      percent: percent(count, total),
      meaning: meanings[reason] ?? '',
      remedy: REMEDIES[reason as keyof typeof REMEDIES],
    }));

const RULES = [
  rule('problem', 'stale-answer', ({ staleFound: found }) => {
    const answers = found.map(({ project, digest }) => `${digest} (${project || 'no project'})`);
    return found.length > 0 && { answers: listOf(answers) };
  })`
    In the last day the cache held answers that the engine no longer gave: {answers}.
    The data changed, and no purge followed.
    Run mdx-gateway purge PROJECT, and have the load job call clearCache at its end.`,

  rule('problem', 'purge-pending', ({ owed }) => owed.length > 0 && { scopes: listOf(owed) })`
    Purges are pending: {scopes}.
    Redis has not confirmed them. Other gateways may still answer what they should drop.
    Bring Redis back; the gateway tries again twice a second. GET /health/ready says why it is down.`,

  rule(
    'problem',
    'redis-down',
    ({ redis }) => redis.state === 'down' && { why: redis.why ?? 'not known yet' },
  )`
    Redis cannot be used: {why}.
    Without it nothing says which entries are true, so that all queries go to the engine.
    See that the server of cache.redis.url runs, and takes the login of cache.redis.`,

  rule('warning', 'redis-condition', ({ redis }) => redis.conditions.map((one) => ({ one })))`
    Redis is not set as a purge needs it: {one}.
    A purge holds only as well as Redis keeps what it confirmed.
    Change that at Redis, as docs/PURGE.md says.`,

  rule('problem', 'engines-down', ({ engines }) => {
    return (
      engines.length > 0 && engines.every(isDown) && { engines: listOf(engines.map(described)) }
    );
  })`
    No engine answers: {engines}.
    Only what is in the cache is answered.
    Start the engine or correct engine.url; mdx-gateway check --connect tries it.`,

  rule('problem', 'engine-down', ({ engines }) => {
    const down = engines.filter(isDown);
    return down.length < engines.length && down.map((engine) => ({ engine: described(engine) }));
  })`
    An engine does not answer: {engine}.
    Other replicas take its requests; where there is none, they fail.
    Start the engine or correct its url; mdx-gateway check --connect tries it.`,

  rule('problem', 'storage-down', ({ storage }) => storage.state === 'down' && storage)`
    The storage ({driver}) cannot be reached.
    Roles and datasets are neither read nor changed.
    See the log for why, and that storage.url or storage.path is right.`,

  rule('problem', 'workers-missing', ({ processes: all }) => all.told < all.wanted && all)`
    {told} of {wanted} processes told their figures.
    A worker hangs, or was ended and is started anew.
    See the log for what ended it; if it hangs, restart the gateway.`,

  rule('problem', 'internal-errors', counted('internal-error'))`
    The gateway itself failed in the last hour, so many times: {count}.
    That is a mistake of this program.
    Report the lines internal-error of the log.`,

  rule('problem', 'lease-overdue', ({ leaseAge: age, lease }) => age > lease && { age, lease })`
    Epochs that were read {age} ms ago are in use; cache.lease allows {lease} ms.
    The lease was shortened just now, or a clock of this machine does not run.
    If it lasts, restart the gateway: a purge may not hold here.`,

  rule('problem', 'certificate-ended', ({ certificateLeft: left }) => left <= 0 && {})`
    The certificate of the gateway has ended.
    Clients refuse to connect.
    Renew the file of listen.certificate, and send SIGHUP.`,

  rule('warning', 'certificate-ends', ({ certificateLeft: left }) => {
    return left > 0 && left < 14 * DAY && { days: Math.floor(left / DAY) };
  })`
    The certificate of the gateway ends; whole days until then: {days}.
    Then clients refuse to connect.
    Renew the file of listen.certificate, and send SIGHUP.`,

  rule('warning', 'reload-failed', ({ reloaded }) => !reloaded && {})`
    The last reload of the configuration failed.
    The file holds a mistake; the earlier configuration is in force.
    Run mdx-gateway check --config FILE, correct the file, and send SIGHUP.`,

  rule('warning', 'engine-failures', ({ reasons }) => {
    const failed = reasons.filter(({ outcome }) => outcome === 'gateway');
    const ofEngine = failed.filter(({ reason }) => /^engine-(?!not-cleared)/.test(reason));
    const list = ofEngine.map(({ reason, count }) => `${reason} (${count})`).join(', ');
    return list !== '' && { list };
  })`
    Requests failed at the engine in the last hour: {list}.
    It was late, could not be reached, broke an answer off, or refused the login of engine.service.
    See the lines engine-failed of the log; raise engine.timeout for long queries.`,

  rule('warning', 'overloaded', counted('gateway', 'overloaded'))`
    Requests were refused as overloaded in the last hour: {count}.
    The queue for the engine (limits.queue) or for memory (limits.in_flight) was full.
    Raise limits.concurrency if the engine can take more, or limits.in_flight.`,

  rule('warning', 'queue-full', ({ queue }) => queue.waiting > 0.8 * queue.limit && queue)`
    {waiting} requests wait for the engine; beyond {limit}, they are refused.
    More is asked than the engine answers.
    Raise limits.concurrency if it can take more; GET /admin/statistics says what it works at.`,

  rule('warning', 'entries-rejected', counted('entry-rejected'))`
    Values in Redis did not check out in the last hour: {count}.
    Gateways have different keys, or something else writes under the same names.
    Give all the same cache.redis.encryption_key, and each deployment a cache.redis.namespace.`,

  rule('warning', 'refused-logins', counted('login-refused', '', 100))`
    Logins were refused in the last hour: {count}.
    A client has an old password, or passwords are guessed.
    The lines login-refused of the log name the addresses.`,

  rule('warning', 'unknown-purge', ({ purges, now }) => {
    const wrong = purges.filter(({ at, known }) => !known && at > now - DAY);
    const names = wrong.flatMap(({ scope }) => (scope === 'everything' ? [] : scope.project));
    return names.length > 0 && { names: listOf([...new Set(names)]) };
  })`
    Projects were purged in the last day that no gateway knew: {names}.
    A load job misspells the name and drops nothing; or it was not asked for yet.
    Correct the name in the job: it is that of the request path, or of the catalog.`,

  rule('warning', 'statistics-incomplete', ({ othersAreRead }) => !othersAreRead && {})`
    Figures or purges of other gateways could not be read.
    Redis did not answer, so that this is told of this gateway alone.
    GET /health/ready says why Redis cannot be used.`,

  rule('warning', 'bypass-reason', (state) => {
    const { hits, misses, bypasses } = state.hour;
    return frequent(state, 'bypass', hits + misses + bypasses, BYPASS_REASONS);
  })`
    {percent} % of the requests of the last hour passed the cache: {reason}.
    {meaning}
    {remedy}`,

  rule('warning', 'refusal-reason', (state) => {
    return frequent(state, 'miss', state.hour.misses, REFUSAL_REASONS);
  })`
    {percent} % of the misses of the last hour were not stored: {reason}.
    {meaning}
    {remedy}`,

  rule('warning', 'evicted-unused', ({ evictions: { all, unused } }) => {
    return all >= 100 && unused > all / 2 && { all, percent: percent(unused, all) };
  })`
    {percent} % of the {all} entries that made room for others had no second hit.
    What is asked does not fit into cache.memory.
    Raise cache.memory, and restart the gateway.`,

  rule('note', 'low-hit-ratio', ({ hour: { hits, misses } }, earlier) => {
    const isExplained = earlier.has('refusal-reason') || earlier.has('evicted-unused');
    const queries = hits + misses;
    const isLow = queries >= 200 && hits < queries / 5;
    return isLow && !isExplained && { percent: percent(hits, queries), queries };
  })`
    {percent} % of the {queries} queries of the last hour were hits.
    Few are asked twice by users who share answers, or purges come often.
    Set cache.share where answers do not depend on the user; POST /admin/explain says what differs.`,

  rule(
    'note',
    'not-purged',
    ({ unpurged }) => unpurged.length > 0 && { projects: listOf(unpurged) },
  )`
    Asked in the last hour, and not purged for longer than the ttl of the project: {projects}.
    Nothing tells the gateway when their data is loaded.
    Call clearCache at the end of each load, or set a shorter projects.NAME.ttl.`,
];

/** What an operator should look at, the worst first. */
export function findingsOf(state: State) {
  const earlier = new Set<string>();
  const found = RULES.flatMap(({ kind, severity, when, ...sentences }) => {
    const all = [when(state, earlier) || []].flat();
    if (all.length > 0) earlier.add(kind);
    return all.map((facts) => {
      const fill = (sentence: string) =>
        sentence.replaceAll(/\{(\w+)\}/g, (_, name: string) => String(facts[name]));
      const { text, cause, remedy } = sentences;
      return { kind, severity, text: fill(text), cause: fill(cause), remedy: fill(remedy) };
    });
  });
  return SEVERITIES.flatMap((severity) => found.filter((one) => one.severity === severity));
}
