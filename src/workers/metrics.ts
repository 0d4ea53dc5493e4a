import { AggregatorRegistry, Registry } from 'prom-client';
import { figuresOfStates, registerFigure, type States } from '../observability/figures.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Link } from './link.ts';

/** The service at both ends: a worker tells its report, the primary process the page of all. */
const METRICS = 'metrics';
/** For the metrics of a worker: one that stalls must not keep Prometheus waiting. */
const REPORT_WITHIN_MS = 500;
const PAGE_WITHIN = 2_000;
/** In a form that outlives JSON. */
type Report = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

/**
 * The metrics of all workers. Counters and histograms are sums over all that ever told theirs, so that they never go
 * back; gauges are of those that answered.
 * @param states what the primary process knows by itself
 * @returns serves one more worker; what it returns is to be called when that is gone
 */
export function createPrimaryMetrics(states: States) {
  const own = new Registry();
  for (const figure of figuresOfStates(states)) registerFigure(own, figure);
  const latest = new Map<Pick<Link, 'call'>, Report>();
  /** Counts of workers that are gone; summed up one after the other. */
  let gone: Promise<Report> = Promise.resolve([]);
  let running: Promise<string> | undefined;

  async function collect(): Promise<string> {
    const answered = new Set<unknown>();
    const asked = [...latest.keys()].map(async (link) => {
      const report = (await link.call(METRICS, 'report', [], REPORT_WITHIN_MS)) as Report;
      // It throws for what is no report: a worker may be of another version.
      sumOf([report]);
      // Of one that is gone, what it told before is counted already.
      if (!latest.has(link)) return;
      latest.set(link, report);
      answered.add(link);
    });
    // The page says how many answered.
    await Promise.allSettled(asked);
    const reports = [...latest].map(([link, report]) =>
      answered.has(link) ? report : counted(report),
    );
    return sumOf([...reports, await reportOf(own), await gone]).metrics();
  }

  // Concurrent callers share a page: it costs all workers.
  const page = () => (running ??= collect().finally(() => (running = undefined)));

  return (link: Pick<Link, 'call' | 'serve'>) => {
    latest.set(link, []);
    link.serve(METRICS, { page });
    return () => {
      const last = counted(latest.get(link) ?? []);
      latest.delete(link);
      gone = gone.then((before) => reportOf(sumOf([before, last])));
    };
  };
}

/** Tells the primary process the metrics of this worker. @returns these, with the page of all workers */
export function metricsOfAll(link: Pick<Link, 'call' | 'serve'>, own: Metrics): Metrics {
  link.serve(METRICS, { report: () => reportOf(own.registry) });
  return {
    ...own,
    page: async () => (await link.call(METRICS, 'page', [], PAGE_WITHIN)) as string,
  };
}

async function reportOf(registry: Pick<Registry, 'getMetricsAsJSON'>): Promise<Report> {
  const metrics = await registry.getMetricsAsJSON();
  // Node.js tells delays that it has not measured yet as NaN, which JSON does not know.
  return metrics.map((metric) =>
    Object.assign(metric, { values: metric.values.filter(({ value }) => Number.isFinite(value)) }),
  );
}

const sumOf = (reports: readonly Report[]): Registry =>
  AggregatorRegistry.aggregate(reports.map((report) => [...report]));

/** Metrics that only grow. */
const counted = (report: Report): Report =>
  report.filter(({ type }) => String(type) === 'counter' || String(type) === 'histogram');
