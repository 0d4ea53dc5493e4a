import { AggregatorRegistry, Registry } from 'prom-client';
import { figuresOfStates, registerFigure, type States } from '../observability/figures.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Link } from './link.ts';

/** Served at both ends: a worker gives its report, the primary process the page of all. */
const METRICS = 'metrics';
/** A stalled worker must not keep Prometheus waiting. */
const REPORT_WITHIN_MS = 500;
const PAGE_WITHIN_MS = 2_000;
type Report = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

/**
 * Metrics of all workers. Counters and histograms also sum up workers that are gone, so that they
 * never go back; gauges are of those that answered. @returns serves a worker; its result ends that
 */
export function createPrimaryMetrics(states: States) {
  const own = new Registry();
  for (const figure of figuresOfStates(states)) registerFigure(own, figure);
  const latest = new Map<Pick<Link, 'call'>, Report>();
  let gone: Promise<Report> = Promise.resolve([]);
  let running: Promise<string> | undefined;

  async function collect(): Promise<string> {
    const answered = new Set<unknown>();
    const asked = [...latest.keys()].map(async (link) => {
      const report = (await link.call(METRICS, 'report', [], REPORT_WITHIN_MS)) as Report;
      // Throws for a foreign report: a worker may be of another version.
      sumOf([report]);
      // The last report of a gone worker is counted already.
      if (!latest.has(link)) return;
      latest.set(link, report);
      answered.add(link);
    });
    await Promise.allSettled(asked);
    const reports = [...latest].map(([link, report]) =>
      answered.has(link) ? report : counted(report),
    );
    return sumOf([...reports, await reportOf(own), await gone]).metrics();
  }

  // Concurrent callers share a page, which costs all workers.
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

export function metricsOfAll(link: Pick<Link, 'call' | 'serve'>, own: Metrics): Metrics {
  link.serve(METRICS, { report: () => reportOf(own.registry) });
  return {
    ...own,
    page: async () => (await link.call(METRICS, 'page', [], PAGE_WITHIN_MS)) as string,
  };
}

async function reportOf(registry: Pick<Registry, 'getMetricsAsJSON'>): Promise<Report> {
  const metrics = await registry.getMetricsAsJSON();
  // Node.js reports unmeasured delays as NaN, which JSON lacks.
  return metrics.map((metric) =>
    Object.assign(metric, { values: metric.values.filter(({ value }) => Number.isFinite(value)) }),
  );
}

const sumOf = (reports: readonly Report[]): Registry =>
  AggregatorRegistry.aggregate(reports.map((report) => [...report]));

const counted = (report: Report): Report =>
  report.filter(({ type }) => String(type) === 'counter' || String(type) === 'histogram');
