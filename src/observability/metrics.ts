import type { RequestHandler } from 'express';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { type KnownNames, projectScope, type Scope } from '../cache/projects.ts';
import type { BodyAccount } from '../common/body-account.ts';
import type { Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';
import {
  CONNECTION_CLOSINGS,
  ENTRY_FLAWS,
  FLIGHT_ENDS,
  type GatewayEvent,
  LOGIN_REFUSALS,
  PURGE_CAUSES,
  PURGE_RESULTS,
  REDIS_OPERATIONS,
  type ReplicaState,
  WARM_CUTS,
  WARM_RESULTS,
} from '../common/events.ts';
import { GATEWAY_REASONS, REFUSAL_REASONS } from '../common/reasons.ts';

/** What is read when the metrics are. */
export interface Gauges {
  readonly memory: () => { readonly entries: number; readonly bytes: number };
  /** Of entries of the memory tier, since the start; `unused`: those that had no second hit. */
  readonly evictions: () => Readonly<Record<'all' | 'unused', number>>;
  /** Of entries that the warm-up filled: those that a user hit, and those that went before. */
  readonly warmed: () => Readonly<Record<'hits' | 'wasted', number>>;
  readonly flights: () => { readonly flights: number; readonly waiters: number };
  readonly engine: () => { readonly atEngine: number; readonly waiting: number };
  /** Those that wait to be checked. */
  readonly logins: () => number;
  /** Of the configuration: bytes of the memory tier, requests at the engine and waiting for it. */
  readonly limits: () => Readonly<Record<'memory' | 'concurrency' | 'queue', number>>;
  readonly bodies: BodyAccount['usage'];
  readonly connections: () => { readonly open: number; readonly limit: number };
  /** Milliseconds; undefined when no epoch is held. */
  readonly epochAge: () => number | undefined;
  readonly owedPurges: () => number;
  /** What is not set at Redis as a purge needs it. */
  readonly redisConditions: () => readonly string[];
  /** The names of the hooks of the configuration. */
  readonly hooks: () => Iterable<string>;
  readonly ofFeatures: readonly GaugeRow[];
  readonly states: States;
  /** When the gateway's own certificate ends (Unix time, ms). */
  readonly certificateEnd: () => number | undefined;
  /** Of the program; undefined where it is not known. */
  readonly version?: string | undefined;
}

/** What is left out is not told. */
export interface States {
  /** The engines of the configuration in force, as they answered last. They are asked for the next reading. */
  readonly engines: () => readonly ReplicaState[];
  readonly redisUp?: () => boolean | undefined;
  readonly storageUp?: () => Promise<boolean | undefined>;
  /** Whether the last reload of the configuration did what it should. */
  readonly reloaded?: () => boolean;
  /** How many processes there should be; 1 where it is left out. */
  readonly workers?: number;
}

export type Metrics = ReturnType<typeof createMetrics>;

type Names = Pick<KnownNames, 'find'>;
type Now = Pick<Clock, 'now'>;

/** What each counter and histogram tells; `mdx_gateway_` stands before all names. */
const HELP = {
  xmla_requests_total: 'XMLA requests by outcome (hit, miss, bypass, gateway) and reason.',
  xmla_answer_bytes_total: 'Bytes of XMLA answers by outcome.',
  xmla_incomplete_total: 'XMLA answers that did not reach their end.',
  xmla_seconds: 'From the head of an XMLA request to the end of its answer, by outcome.',
  api_requests_total:
    'Requests of the role and dataset API by operation (empty for none) and status.',
  api_seconds: 'From the head of a request of the role and dataset API to the end of its answer.',
  engine_seconds_total: 'Seconds the engine worked, also until a request failed.',
  engine_seconds_saved_total:
    'Seconds the engine would have worked for answers that came from the cache.',
  engine_failures_total: 'Requests that the engine failed.',
  stored_total: 'Answers stored.',
  stored_bytes_total: 'Bytes of the answers stored.',
  not_stored_total: 'Answers not stored, by reason.',
  shared_flights_total:
    'Slow queries for which gateways wait for one another, by end: led, joined, gave-up.',
  purges_total:
    'Purges by result (cleared, engine-failed, owed), scope and cause (clear-cache, repeat, change, statement, hook, watch).',
  purge_seconds: 'From a purge to its end; of one that was owed also to when it was done.',
  connections_closed_total:
    'Connections closed before their clients did, by why: limit (unused, and limits.connections were open), stalled (all were busy, and its client neither sent its body nor read its answer), address (many unfinished heads from there), busy (new, and all others were busy), pipelined (more than 32 requests on it were not answered yet).',
  hook_calls_total: 'Calls of hooks by result: cleared, accepted, ignored, refused, failed.',
  logins_refused_total: 'Refused logins by reason.',
  redis_failures_total: 'Failed Redis operations.',
  entries_rejected_total: 'Values in Redis that did not check out.',
  entries_swept_total:
    'Entries in Redis that were dropped because a purge had made them unreachable.',
  internal_errors_total: 'Failures of the gateway itself.',
  warm_queries_total:
    'Queries of the warm-up, by result (stored, there, not-stored, failed, skipped, overtaken).',
  warm_runs_total:
    'Runs of the warm-up that ended, by end: whole, or what cut them (purge, budget, failures, off, shutdown, gateway-gone, other-gateway).',
  warm_engine_seconds_total: 'Seconds the engine worked for the warm-up.',
  warmed_hits_total: 'Entries of the warm-up that a user hit, at the gateway that filled them.',
  warmed_wasted_total: 'Entries of the warm-up that were dropped before a user hit them.',
  memory_evictions_total: 'Entries of the memory tier that gave way to others.',
} as const;
type Name = keyof typeof HELP;

/** Seconds: a hit takes less than one of a thousand, a query of an engine up to minutes. */
const XMLA_BUCKETS = [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300];

/** What is done at each event; nothing at those that are left out. */
type Handlers = {
  readonly [T in GatewayEvent['type']]?: (event: Extract<GatewayEvent, { type: T }>) => void;
};

/** So many series are counted before they are told: clients choose the names. */
const MOST_ANSWERED = 1_000;

/** Answers of one series; `saved` in milliseconds. */
interface Answered {
  readonly outcome: string;
  readonly reason: string;
  readonly project: string;
  count: number;
  bytes: number;
  saved: number;
}

const nothingAtEngine = () => ({ milliseconds: 0, stored: 0, storedBytes: 0 });

/**
 * Metrics for Prometheus. The label `reason` holds the closed words of src/common/reasons.ts; the label `project` holds names
 * of the configuration and those that the engine has answered without a Fault, `other` for all that are not known so.
 */
export function createMetrics(names: Names, gauges: Gauges, clock: Now = performance) {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: 'mdx_gateway_' });
  // Gauges that are named like counters. Those beside them tell the same by type.
  for (const what of ['handles', 'requests', 'resources'])
    registry.removeSingleMetric(`mdx_gateway_nodejs_active_${what}_total`);

  const about = aboutIn(registry);
  const counter = <L extends string>(name: Name, ...labelNames: L[]) =>
    new Counter<L>({ ...about(name, HELP[name]), labelNames, collect: countAnswered });
  const histogram = (name: Name, buckets: number[], ...labelNames: string[]) =>
    new Histogram({ ...about(name, HELP[name]), buckets, labelNames });
  /** Begins at 0 for each of the words: of a count that begins with 1 Prometheus sees no increase. */
  const closed = (name: Name, label: string, words: readonly string[]) => {
    const made = counter(name, label);
    for (const word of words) made.inc({ [label]: word }, 0);
    return made;
  };
  const gauge = gaugesIn(registry);

  /** A count that is kept elsewhere. */
  const total = (name: Name, read: () => number) =>
    new Counter({
      ...about(name, HELP[name]),
      collect() {
        this.reset();
        this.inc(read());
      },
    });

  const requests = counter('xmla_requests_total', 'outcome', 'reason', 'project');
  const bytes = counter('xmla_answer_bytes_total', 'outcome');
  const broken = counter('xmla_incomplete_total');
  const seconds = histogram('xmla_seconds', XMLA_BUCKETS, 'outcome');
  const apiRequests = counter('api_requests_total', 'operation', 'status');
  const apiSeconds = histogram('api_seconds', [0.005, 0.02, 0.1, 0.5, 2, 10, 60]);
  const engineSeconds = counter('engine_seconds_total', 'project');
  const saved = counter('engine_seconds_saved_total', 'project');
  const engineReasons = Object.keys(GATEWAY_REASONS).filter((one) => one.startsWith('engine-'));
  const engineFailures = closed('engine_failures_total', 'reason', engineReasons);
  const stored = counter('stored_total', 'project');
  const storedBytes = counter('stored_bytes_total');
  const notStored = closed('not_stored_total', 'reason', Object.keys(REFUSAL_REASONS));
  const sharedFlights = closed('shared_flights_total', 'end', FLIGHT_ENDS);
  const purges = counter('purges_total', 'result', 'scope', 'cause');
  const purgeSeconds = histogram('purge_seconds', [0.01, 0.1, 0.5, 1, 2, 5, 10]);
  const closings = closed('connections_closed_total', 'why', CONNECTION_CLOSINGS);
  const hookCalls = new Counter({
    ...about('hook_calls_total', HELP.hook_calls_total),
    labelNames: ['hook', 'result'],
    collect() {
      for (const hook of gauges.hooks()) {
        for (const result of ['refused', 'failed']) this.inc({ hook, result }, 0);
      }
    },
  });
  const refusedLogins = closed('logins_refused_total', 'reason', LOGIN_REFUSALS);
  const redisFailures = closed('redis_failures_total', 'operation', REDIS_OPERATIONS);
  const rejected = closed('entries_rejected_total', 'why', ENTRY_FLAWS);
  const swept = counter('entries_swept_total');
  const errors = counter('internal_errors_total');
  const warmQueries = closed('warm_queries_total', 'result', WARM_RESULTS);
  const warmRuns = closed('warm_runs_total', 'end', ['whole', ...WARM_CUTS]);
  const warmSeconds = counter('warm_engine_seconds_total');
  for (const result of PURGE_RESULTS) {
    for (const cause of PURGE_CAUSES) {
      for (const scope of ['everything', 'project']) purges.inc({ result, scope, cause }, 0);
    }
  }
  const { memory, evictions, warmed, flights, engine, limits } = gauges;
  const { bodies, logins, connections, epochAge, owedPurges } = gauges;
  gauge('memory_entries', 'Entries in the memory tier.', () => memory().entries);
  gauge('memory_bytes', 'Bytes in the memory tier.', () => memory().bytes);
  gauge('memory_limit_bytes', 'What cache.memory allows.', () => limits().memory);
  total('memory_evictions_total', () => evictions().all);
  total('warmed_hits_total', () => warmed().hits);
  total('warmed_wasted_total', () => warmed().wasted);
  gauge('flights', 'Engine requests that others may join.', () => flights().flights);
  gauge('flight_waiters', 'Requests that wait for a flight.', () => flights().waiters);
  gauge('engine_requests', 'Requests at the engine.', () => engine().atEngine);
  gauge(
    'engine_requests_limit',
    'What limits.concurrency allows of them.',
    () => limits().concurrency,
  );
  gauge('engine_queue', 'Requests that wait for the engine.', () => engine().waiting);
  gauge('engine_queue_limit', 'What limits.queue allows of them.', () => limits().queue);
  gauge(
    'in_flight_bytes',
    'Memory of bodies under way, beside the memory tier, by use (request, fill, value, sending).',
    () => Object.entries(bodies().bytes).map(([use, bytes]) => [{ use }, bytes]),
    { labelNames: ['use'] },
  );
  gauge('in_flight_limit_bytes', 'What limits.in_flight allows them.', () => bodies().limit);
  gauge('in_flight_queue', 'Requests that wait for memory.', () => bodies().waiting);
  gauge('logins_waiting', 'Logins that wait to be checked.', logins);
  gauge('connections', 'Open connections.', () => connections().open);
  gauge('connections_limit', 'What limits.connections allows of them.', () => connections().limit);
  gauge(
    'epoch_age_seconds',
    'Seconds since the oldest epoch in use was read; 0 where the gateway makes them by itself.',
    () => (epochAge() ?? 0) / 1000,
    { aggregator: 'max' },
  );
  gauge('purges_owed', 'Scopes whose purge is owed to Redis.', owedPurges);
  gauge(
    'redis_conditions',
    'What is not set at Redis as a purge needs it; GET /health/ready says what.',
    () => gauges.redisConditions().length,
    { aggregator: 'max' },
  );
  registerStates(registry, gauges.states);
  gauge(
    'certificate_end_seconds',
    'When a certificate of the gateway ends (Unix time), by key.',
    () => {
      const end = gauges.certificateEnd();
      return end === undefined ? [] : [[{ key: 'listen.certificate' }, end / 1000]];
    },
    { labelNames: ['key'], aggregator: 'min' },
  );
  for (const row of gauges.ofFeatures) gauge(...row);
  gauge('workers', 'Processes whose figures these are.', () => 1);
  gauge(
    'build_info',
    'Always 1; the label says which version it is.',
    () => [[{ version: gauges.version ?? '' }, 1]],
    { labelNames: ['version'], aggregator: 'min' },
  );

  /** What was answered since the counters were read, by the name of the project: to find counters by labels takes 5 % of a hit. */
  const answered = new Map<string, Answered[]>();
  let numberOfSeries = 0;
  function countAnswered(): void {
    for (const { outcome, reason, project, ...sum } of [...answered.values()].flat()) {
      requests.inc({ outcome, reason, project }, sum.count);
      bytes.inc({ outcome }, sum.bytes);
      if (outcome === 'hit') saved.inc({ project }, sum.saved / 1000);
    }
    answered.clear();
    numberOfSeries = 0;
    for (const [project, sum] of atEngine) {
      if (sum.milliseconds > 0) engineSeconds.inc({ project }, sum.milliseconds / 1000);
      if (sum.stored > 0) stored.inc({ project }, sum.stored);
      if (sum.stored > 0) storedBytes.inc(sum.storedBytes);
    }
    atEngine.clear();
  }

  function seriesOf(name: string, outcome: string, reason: string): Answered {
    for (const one of answered.get(name) ?? []) {
      if (one.outcome === outcome && one.reason === reason) return one;
    }
    if (numberOfSeries === MOST_ANSWERED) countAnswered();
    numberOfSeries += 1;
    const labels = { outcome, reason, project: labelOf(name) };
    const added = { ...labels, count: 0, bytes: 0, saved: 0 };
    answered.set(name, [...(answered.get(name) ?? []), added]);
    return added;
  }

  /** The same of what the engine was asked, by the label of the project. */
  const atEngine = new Map<string, ReturnType<typeof nothingAtEngine>>();
  function sumAtEngine(project: string) {
    const label = labelOf(project);
    const sum = atEngine.get(label) ?? nothingAtEngine();
    atEngine.set(label, sum);
    return sum;
  }

  const labelOf = createProjectLabels(names, clock, [requests, engineSeconds, saved, stored]);
  const handlers: Handlers = {
    'xmla-answered'(event) {
      const { kind, detail = '' } = event.outcome;
      const name = event.project || (event.catalogs[0] ?? '');
      const sum = seriesOf(name, kind, detail);
      sum.count += 1;
      sum.bytes += event.bytes;
      // A clock that was set back must not spoil the page.
      sum.saved += Math.max(0, event.saved);
      seconds.observe({ outcome: kind }, event.milliseconds / 1000);
      if (!event.complete) broken.inc();
    },
    'api-answered'({ operation, status, milliseconds }) {
      apiSeconds.observe(milliseconds / 1000);
      apiRequests.inc({ operation, status: String(status) });
    },
    'engine-answered'({ project, milliseconds }) {
      // No counter takes it, and it would spoil what was summed before.
      if (milliseconds < 0) throw new RangeError(`the engine needed ${milliseconds} ms`);
      sumAtEngine(project).milliseconds += milliseconds;
    },
    'engine-failed': ({ reason }) => engineFailures.inc({ reason }),
    stored({ project, bytes: more }) {
      const sum = sumAtEngine(project);
      sum.stored += 1;
      sum.storedBytes += more;
    },
    'not-stored': ({ reason }) => notStored.inc({ reason }),
    'shared-flight': ({ end }) => sharedFlights.inc({ end }),
    purged({ result, scope, cause, milliseconds }) {
      purgeSeconds.observe(milliseconds / 1000);
      purges.inc({ result, scope: typeof scope === 'string' ? scope : 'project', cause });
    },
    'connection-closed': ({ why }) => closings.inc({ why }),
    'hook-called': ({ hook, result }) => hookCalls.inc({ hook, result }),
    'login-refused': ({ reason }) => refusedLogins.inc({ reason }),
    'redis-failed': ({ operation }) => redisFailures.inc({ operation }),
    'entry-rejected': ({ why }) => rejected.inc({ why }),
    swept: ({ unlinked }) => swept.inc(unlinked),
    warmed({ result, milliseconds }) {
      warmQueries.inc({ result });
      warmSeconds.inc(milliseconds / 1000);
    },
    'warm-run'({ state, cut }) {
      if (state === 'ended') warmRuns.inc({ end: cut ?? 'whole' });
    },
    'internal-error': () => errors.inc(),
  };
  return {
    registry,
    /** Subscribes the metrics to the events. */
    on: (event: GatewayEvent): void => handlers[event.type]?.(event as never),
    /** The text that Prometheus reads. Rejects when it cannot be had now. */
    page: (): Promise<string> => registry.metrics(),
  };
}

const aboutIn = (registry: Registry) => (name: string, help: string) => ({
  name: `mdx_gateway_${name}`,
  help,
  registers: [registry],
});

type Figures = number | readonly (readonly [labels: Record<string, string>, figure: number])[];

/** A gauge of one figure, or of one for each set of labels, of which there may be none. */
export type GaugeRow = readonly [
  name: string,
  help: string,
  read: () => Figures | Promise<Figures>,
  /** `aggregator`: how the figures of several workers become one; their sum where it is missing. */
  options?: { labelNames?: string[]; aggregator?: 'min' | 'max' },
];

const gaugesIn =
  (registry: Registry) =>
  (...[name, help, read, options = {}]: GaugeRow) =>
    new Gauge({
      ...aboutIn(registry)(name, help),
      ...options,
      async collect() {
        const figures = await read();
        if (typeof figures === 'number') return this.set(figures);
        this.reset();
        for (const [labels, figure] of figures) this.set(labels, figure);
      },
    });

const upOf = (part: string, name: string, up: boolean | undefined) =>
  up === undefined ? [] : [[{ part, name }, Number(up)] as const];

/** Of several workers the primary process knows the engines and the reloads, and each worker the rest. */
export function registerStates(registry: Registry, states: States): void {
  const { engines, redisUp, storageUp, reloaded, workers = 1 } = states;
  const gauge = gaugesIn(registry);
  gauge(
    'up',
    'Whether a part answers (1) or not (0), as far as it is known: engine (its URL), redis, storage.',
    async () => [
      ...engines().flatMap(({ url, state }) => upOf('engine', url, state === 'up')),
      ...upOf('redis', '', redisUp?.()),
      ...upOf('storage', '', await storageUp?.()),
    ],
    { labelNames: ['part', 'name'], aggregator: 'min' },
  );
  if (reloaded === undefined) return;
  gauge(
    'config_last_reload_successful',
    'Whether the last reload of the configuration did what it should (1) or kept the old one (0); 1 after the start.',
    () => Number(reloaded()),
  );
  gauge(
    'workers_configured',
    'Processes that there should be: workers, as at the start.',
    () => workers,
  );
}

/**
 * `GET /metrics`, in the text format of Prometheus.
 * @throws GatewayError `overloaded` where they cannot be had now
 */
export function metricsPage({ registry, page }: Metrics): RequestHandler {
  return async (_request, response) => {
    const text = await page().catch((cause: unknown) => {
      // Figures of this process alone would look as if all counters had gone back.
      const message = 'The metrics of the other workers cannot be had now; try again.';
      throw new GatewayError('overloaded', message, { retryAfter: 5, cause });
    });
    response.set('content-type', registry.contentType).send(text);
  };
}

/** More project names than this that the configuration does not hold share the label `other`. */
const MAX_LABELS = 200;
/** A label that was not used for so long may be given to another project (ms). */
const UNUSED = 3_600_000;

/**
 * The values of the label `project`. Names of the configuration always have a label. Of the others those that the engine has answered have one, up to a
 * limit; then the one that was not used for longest gives way, if that is an hour, and its counts are dropped.
 * @param counters that have the label `project`
 * @returns the label of a project as a request names it; '' for none
 */
function createProjectLabels(names: Names, clock: Now, counters: readonly Counter<'project'>[]) {
  /** Of names that the configuration does not hold. */
  const labels = new Map<Scope, { readonly label: string; used: number }>();

  function makeRoom(now: number): boolean {
    if (labels.size < MAX_LABELS) return true;
    let [oldest] = labels;
    for (const one of labels) if (oldest && one[1].used < oldest[1].used) oldest = one;
    if (oldest === undefined || now - oldest[1].used < UNUSED) return false;
    labels.delete(oldest[0]);
    for (const counter of counters) void drop(counter, oldest[1].label);
    return true;
  }

  return (project: string) => {
    if (project === '') return '';
    const name = names.find(project);
    if (name?.configured === true) return name.spelling;
    const scope = projectScope(project);
    const now = clock.now();
    const known = labels.get(scope);
    if (known !== undefined) {
      known.used = now;
      return known.label;
    }
    if (name === undefined || !makeRoom(now)) return 'other';
    labels.set(scope, { label: name.spelling, used: now });
    return name.spelling;
  };
}

async function drop(counter: Counter<'project'>, project: string): Promise<void> {
  const { values } = await counter.get();
  for (const { labels } of values) if (labels['project'] === project) counter.remove(labels);
}
