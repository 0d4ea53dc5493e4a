import type { RequestHandler } from 'express';
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client';
import { BODY_USES, type BodyAccount } from '../common/body-account.ts';
import { systemClock, type Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';
import type { GatewayEvent } from '../common/events.ts';
import type { KnownNames } from '../cache/projects.ts';
import { createProjectLabels } from './project-labels.ts';

/** What is read when the metrics are. */
export interface Gauges {
  readonly memory: () => { readonly entries: number; readonly bytes: number };
  readonly flights: () => { readonly flights: number; readonly waiters: number };
  readonly engine: () => { readonly atEngine: number; readonly waiting: number };
  readonly bodies: BodyAccount['usage'];
  readonly connections: () => { readonly open: number; readonly limit: number };
  /** Milliseconds; undefined when no epoch is held. */
  readonly epochAge: () => number | undefined;
  readonly owedPurges: () => number;
}

export interface Metrics {
  readonly registry: Registry;
  /** Subscribes the metrics to the events. */
  readonly on: (event: GatewayEvent) => void;
  /** The text that Prometheus reads. Rejects when it cannot be had now. */
  readonly page: () => Promise<string>;
}

/**
 * Metrics for Prometheus. The label `reason` holds the closed words of src/common/reasons.ts; the label `project` holds names
 * of the configuration and those that the engine has answered without a Fault, `other` for all that are not known so.
 */
export function createMetrics(
  names: Pick<KnownNames, 'find'>,
  gauges: Gauges,
  clock: Pick<Clock, 'now'> = systemClock,
): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry, prefix: 'mdx_gateway_' });

  const counter = <L extends string>(name: string, help: string, ...labelNames: L[]) =>
    new Counter<L>({ name: `mdx_gateway_${name}`, help, labelNames, registers });
  const histogram = (name: string, help: string, buckets: number[]) =>
    new Histogram({ name: `mdx_gateway_${name}`, help, buckets, registers });
  /** @param aggregator what several workers have in common */
  const gauge = (
    name: string,
    help: string,
    read: () => number,
    aggregator: 'sum' | 'max' = 'sum',
  ) =>
    new Gauge({
      name: `mdx_gateway_${name}`,
      help,
      registers,
      aggregator,
      collect() {
        this.set(read());
      },
    });

  const requests = counter(
    'xmla_requests_total',
    'XMLA requests by outcome (hit, miss, bypass, gateway) and reason.',
    'outcome',
    'reason',
    'project',
  );
  const bytes = counter('xmla_answer_bytes_total', 'Bytes of XMLA answers by outcome.', 'outcome');
  const broken = counter('xmla_incomplete_total', 'XMLA answers that did not reach their end.');
  const seconds = histogram(
    'xmla_seconds',
    'From the head of an XMLA request to the end of its answer.',
    [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300],
  );
  const apiRequests = counter(
    'api_requests_total',
    'Requests of the role and dataset API by operation (empty for none) and status.',
    'operation',
    'status',
  );
  const apiSeconds = histogram(
    'api_seconds',
    'From the head of a request of the role and dataset API to the end of its answer.',
    [0.005, 0.02, 0.1, 0.5, 2, 10, 60],
  );
  const engineSeconds = counter('engine_seconds_total', 'Seconds the engine worked.', 'project');
  const saved = counter(
    'engine_seconds_saved_total',
    'Seconds the engine would have worked for answers that came from the cache.',
    'project',
  );
  const engineFailures = counter(
    'engine_failures_total',
    'Requests that the engine failed.',
    'reason',
  );
  const stored = counter('stored_total', 'Answers stored.', 'project');
  const storedBytes = counter('stored_bytes_total', 'Bytes of the answers stored.');
  const notStored = counter('not_stored_total', 'Answers not stored, by reason.', 'reason');
  const sharedFlights = counter(
    'shared_flights_total',
    'Slow queries for which gateways wait for one another, by end: led, joined, gave-up.',
    'end',
  );
  const purges = counter(
    'purges_total',
    'Purges by result (cleared, engine-failed, owed), scope and cause (clear-cache, repeat, change, statement).',
    'result',
    'scope',
    'cause',
  );
  const purgeSeconds = histogram(
    'purge_seconds',
    'From a purge to its end; of one that was owed also to when it was done.',
    [0.01, 0.1, 0.5, 1, 2, 5, 10],
  );
  const closings = counter(
    'connections_closed_total',
    'Connections closed before their clients did, by why: limit (unused, and limits.connections were open), stalled (all were busy, and its client neither sent its body nor read its answer), address (many unfinished heads from there), busy (new, and all others were busy).',
    'why',
  );
  const refusedLogins = counter('logins_refused_total', 'Refused logins by reason.', 'reason');
  const redisFailures = counter('redis_failures_total', 'Failed Redis operations.', 'operation');
  const rejected = counter(
    'entries_rejected_total',
    'Values in Redis that did not check out.',
    'why',
  );
  const swept = counter(
    'entries_swept_total',
    'Entries in Redis that were dropped because a purge had made them unreachable.',
  );
  const errors = counter('internal_errors_total', 'Failures of the gateway itself.');
  const projects = createProjectLabels(names, clock, [requests, engineSeconds, saved, stored]);

  gauge('memory_entries', 'Entries in the memory tier.', () => gauges.memory().entries);
  gauge('memory_bytes', 'Bytes in the memory tier.', () => gauges.memory().bytes);
  gauge('flights', 'Engine requests that others may join.', () => gauges.flights().flights);
  gauge('flight_waiters', 'Requests that wait for a flight.', () => gauges.flights().waiters);
  gauge('engine_requests', 'Requests at the engine.', () => gauges.engine().atEngine);
  gauge('engine_queue', 'Requests that wait for the engine.', () => gauges.engine().waiting);
  const inFlight = new Gauge({
    name: 'mdx_gateway_in_flight_bytes',
    help: 'Memory of bodies under way, beside the memory tier, by use (request, fill, value, sending).',
    labelNames: ['use'],
    registers: [],
    collect() {
      const usage = gauges.bodies();
      for (const use of BODY_USES) this.set({ use }, usage.bytes[use]);
    },
  });
  registry.registerMetric(inFlight);
  gauge('in_flight_limit_bytes', 'What limits.in_flight allows them.', () => gauges.bodies().limit);
  gauge('in_flight_queue', 'Requests that wait for memory.', () => gauges.bodies().waiting);
  gauge('connections', 'Open connections.', () => gauges.connections().open);
  gauge(
    'connections_limit',
    'What limits.connections allows of them.',
    () => gauges.connections().limit,
  );
  gauge(
    'epoch_age_seconds',
    'Age of the oldest epoch in use.',
    () => (gauges.epochAge() ?? 0) / 1000,
    'max',
  );
  gauge('purges_owed', 'Scopes whose purge is owed to Redis.', gauges.owedPurges);
  gauge('workers', 'Processes whose figures these are.', () => 1);

  function on(event: GatewayEvent): void {
    switch (event.type) {
      case 'xmla-answered': {
        const { kind, detail = '' } = event.outcome;
        const project = projects.labelOf(event.project);
        requests.inc({ outcome: kind, reason: detail, project });
        bytes.inc({ outcome: kind }, event.bytes);
        seconds.observe(event.milliseconds / 1000);
        if (!event.complete) broken.inc();
        if (kind === 'hit') saved.inc({ project }, event.saved / 1000);
        return;
      }
      case 'api-answered':
        apiSeconds.observe(event.milliseconds / 1000);
        return apiRequests.inc({ operation: event.operation, status: String(event.status) });
      case 'engine-answered': {
        const project = projects.labelOf(event.project);
        return engineSeconds.inc({ project }, event.milliseconds / 1000);
      }
      case 'engine-failed':
        return engineFailures.inc({ reason: event.reason });
      case 'stored':
        storedBytes.inc(event.bytes);
        return stored.inc({ project: projects.labelOf(event.project) });
      case 'not-stored':
        return notStored.inc({ reason: event.reason });
      case 'shared-flight':
        return sharedFlights.inc({ end: event.end });
      case 'purged': {
        const scope = typeof event.scope === 'string' ? event.scope : 'project';
        purgeSeconds.observe(event.milliseconds / 1000);
        return purges.inc({ result: event.result, scope, cause: event.cause });
      }
      case 'connection-closed':
        return closings.inc({ why: event.why });
      case 'login-refused':
        return refusedLogins.inc({ reason: event.reason });
      case 'redis-failed':
        return redisFailures.inc({ operation: event.operation });
      case 'entry-rejected':
        return rejected.inc({ why: event.why });
      case 'swept':
        return swept.inc(event.unlinked);
      case 'internal-error':
        return errors.inc();
      case 'redis-state':
      case 'purge-refused':
      case 'users-loaded':
      case 'warning':
    }
  }

  return { registry, on, page: () => registry.metrics() };
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
