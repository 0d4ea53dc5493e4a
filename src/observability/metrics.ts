import type { RequestHandler } from 'express';
import { collectDefaultMetrics, Counter, Histogram, Registry } from 'prom-client';
import type { KnownNames } from '../cache/projects.ts';
import type { Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';
import type { EventOf, GatewayEvent } from '../common/events.ts';
import { SUMMED } from './core-events.ts';
import type { Count, EventRow, EventRows, Move } from './event-rows.ts';
import { aboutIn, type Figure, figuresOf, type Gauges, registerFigure } from './figures.ts';
import { createProjectLabels } from './project-labels.ts';

export type Metrics = ReturnType<typeof createMetrics>;

/**
 * Metrics for Prometheus. `reason` holds words of src/common/reasons.ts; `project` holds names of
 * the configuration and names that the engine answered without a Fault, `other` for the rest.
 */
export function createMetrics(
  rows: EventRows,
  names: Pick<KnownNames, 'find'>,
  gauges: Gauges,
  clock: Pick<Clock, 'now'> = performance,
) {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: 'mdx_gateway_' });
  // These gauges are named like counters. Others tell the same by type.
  for (const what of ['handles', 'requests', 'resources'])
    registry.removeSingleMetric(`mdx_gateway_nodejs_active_${what}_total`);

  const figures = figuresOf(gauges);
  const beginnings = new Map(figures.map((figure) => [figure.name, figure]));
  const counts = createCounts(registry, rows, beginnings, () => summed.count());
  const byProject = [SUMMED.requests, SUMMED.engineSeconds, SUMMED.saved, SUMMED.stored];
  const labelOf = createProjectLabels(names, clock, byProject.map(counts.counterOf));
  const summed = createSummedCounts(counts, labelOf);
  for (const figure of figures) if (!counts.has(figure.name)) registerFigure(registry, figure);
  return {
    registry,
    on(event: GatewayEvent): void {
      summed.on(event);
      counts.on(event);
    },
    page: (): Promise<string> => registry.metrics(),
  };
}

/**
 * Counters and histograms that events move, in the order of the rows.
 * @param beginnings figures at which counters of the same names begin
 */
function createCounts(
  registry: Registry,
  rows: EventRows,
  beginnings: ReadonlyMap<string, Figure>,
  beforeReading: () => void,
) {
  const counters = new Map<string, Counter>();
  const histograms = new Map<string, Histogram>();

  function addHistogram(count: Count, buckets: readonly number[]): Histogram {
    const histogram = new Histogram({ ...aboutIn(registry, count), buckets: [...buckets] });
    histograms.set(count.name, histogram);
    return histogram;
  }

  function addCounter(count: Count): Counter {
    const beginning = beginnings.get(count.name);
    const counter = new Counter({
      ...aboutIn(registry, count),
      async collect() {
        beforeReading();
        const figures = await beginning?.read();
        if (typeof figures === 'object') for (const [labels, by] of figures) this.inc(labels, by);
      },
    });
    for (const labels of count.zeros ?? []) counter.inc(labels, 0);
    counters.set(count.name, counter);
    return counter;
  }

  function addMove({ count, labels, by }: Move<never>): (event: GatewayEvent) => void {
    if (count.buckets !== undefined) {
      const histogram = addHistogram(count, count.buckets);
      return (event) => histogram.observe(labels(event as never), by(event as never));
    }
    const counter = addCounter(count);
    return (event) => {
      const amount = by(event as never);
      if (amount !== 0) counter.inc(labels(event as never), amount);
    };
  }

  const moves = new Map<string, ((event: GatewayEvent) => void)[]>();
  for (const [type, row] of Object.entries(rows) as [string, EventRow<never>][]) {
    for (const count of row.summed ?? []) {
      if (count.buckets) addHistogram(count, count.buckets);
      else addCounter(count);
    }
    if (row.moves) moves.set(type, row.moves.map(addMove));
  }
  return {
    on(event: GatewayEvent): void {
      for (const apply of moves.get(event.type) ?? []) apply(event);
    },
    has: (name: string) => counters.has(name),
    counterOf: (count: Count) => foundIn(counters, count),
    histogramOf: (count: Count) => foundIn(histograms, count),
  };
}

function foundIn<T>(made: ReadonlyMap<string, T>, { name }: Count): T {
  const found = made.get(name);
  if (found === undefined) throw new Error(`no event moves ${name}`);
  return found;
}

/** Series that are summed before they are counted: clients choose the names. */
const MOST_SERIES = 1_000;

type Series = Readonly<Record<'outcome' | 'reason' | 'project', string>> & typeof NO_ANSWERS;
/** `saved` in milliseconds. */
const NO_ANSWERS = { count: 0, bytes: 0, saved: 0 };
const nothingAtEngine = () => ({ milliseconds: 0, stored: 0, storedBytes: 0 });

/** Sums answers between two readings: finding counters by their labels takes 5 % of a hit. */
function createSummedCounts(
  { counterOf, histogramOf }: Pick<ReturnType<typeof createCounts>, 'counterOf' | 'histogramOf'>,
  labelOf: (project: string) => string,
) {
  const requests = counterOf(SUMMED.requests);
  const bytes = counterOf(SUMMED.bytes);
  const saved = counterOf(SUMMED.saved);
  const incomplete = counterOf(SUMMED.incomplete);
  const seconds = histogramOf(SUMMED.seconds);
  const engineSeconds = counterOf(SUMMED.engineSeconds);
  const stored = counterOf(SUMMED.stored);
  const storedBytes = counterOf(SUMMED.storedBytes);
  const answered = new Map<string, Series[]>();
  let numberOfSeries = 0;
  const atEngine = new Map<string, ReturnType<typeof nothingAtEngine>>();

  function count(): void {
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

  function seriesOf(name: string, outcome: string, reason: string): Series {
    for (const one of answered.get(name) ?? []) {
      if (one.outcome === outcome && one.reason === reason) return one;
    }
    if (numberOfSeries === MOST_SERIES) count();
    numberOfSeries += 1;
    const added = { outcome, reason, project: labelOf(name), ...NO_ANSWERS };
    answered.set(name, [...(answered.get(name) ?? []), added]);
    return added;
  }

  function sumAtEngine(project: string) {
    const label = labelOf(project);
    const sum = atEngine.get(label) ?? nothingAtEngine();
    atEngine.set(label, sum);
    return sum;
  }

  function sumAnswer(event: EventOf<'xmla-answered'>): void {
    const { kind, detail = '' } = event.outcome;
    const sum = seriesOf(event.project || (event.catalogs[0] ?? ''), kind, detail);
    sum.count += 1;
    sum.bytes += event.bytes;
    // A clock that was set back must not spoil the page.
    sum.saved += Math.max(0, event.saved);
    if (!event.complete) incomplete.inc();
    seconds.observe({ outcome: kind }, event.milliseconds / 1000);
  }

  return {
    count,
    on(event: GatewayEvent): void {
      if (event.type === 'xmla-answered') return sumAnswer(event);
      if (event.type === 'engine-answered') {
        const { project, milliseconds } = event;
        // No counter takes it, and it would spoil what was summed before.
        if (milliseconds < 0) throw new RangeError(`the engine needed ${milliseconds} ms`);
        sumAtEngine(project).milliseconds += milliseconds;
      } else if (event.type === 'stored') {
        const sum = sumAtEngine(event.project);
        sum.stored += 1;
        sum.storedBytes += event.bytes;
      }
    },
  };
}

/** Serves `GET /metrics`, in the text format of Prometheus. */
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
