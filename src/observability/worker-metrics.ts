import { AggregatorRegistry, type Registry } from 'prom-client';

/** What one value counts, as prom-client tells it. */
interface ReportedValue {
  readonly value: number;
  readonly labels: Readonly<Partial<Record<string, string | number>>>;
  /** Of histograms: the name with its ending. */
  readonly metricName?: string;
}

interface ReportedMetric {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly aggregator: string;
  readonly values: readonly ReportedValue[];
}

/** The metrics of one worker, in a form that outlives JSON. */
export type MetricsReport = readonly ReportedMetric[];

/** What a worker tells of its metrics. */
export async function reportOf(
  registry: Pick<Registry, 'getMetricsAsJSON'>,
): Promise<MetricsReport> {
  const metrics = await registry.getMetricsAsJSON();
  return metrics.map(({ name, help, type, aggregator, values }) => ({
    name,
    help,
    type: String(type),
    aggregator,
    // Node tells delays that it has not measured yet as NaN, which JSON does not know.
    values: values.filter(({ value }) => Number.isFinite(value)),
  }));
}

/** Whether somebody tells metrics; what a worker of another version may tell is not. */
export function isMetricsReport(value: unknown): value is MetricsReport {
  return Array.isArray(value) && value.every(isReportedMetric);
}

const AGGREGATORS: ReadonlySet<unknown> = new Set([
  'sum',
  'first',
  'min',
  'max',
  'average',
  'omit',
]);

function isReportedMetric(value: unknown): boolean {
  return (
    isObject(value) &&
    [value['name'], value['help'], value['type']].every((text) => typeof text === 'string') &&
    AGGREGATORS.has(value['aggregator']) &&
    Array.isArray(value['values']) &&
    value['values'].every(
      (one) => isObject(one) && typeof one['value'] === 'number' && isObject(one['labels']),
    )
  );
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

/** The metrics of all workers as one page. */
export interface MetricsSum {
  /** Notes what a worker tells, under a number that no other ever has; what it told before is replaced. */
  report(worker: number, metrics: MetricsReport): void;
  /** The worker is gone: what it counted stays counted. */
  gone(worker: number): void;
  /**
   * The text that Prometheus reads. Counters and histograms are sums over all workers that ever told something, so
   * that they never go back; of a worker that is silent now, what it told last. Gauges are of those that answered.
   * @param answered the workers that told theirs for this page
   */
  page(answered: ReadonlySet<number>): Promise<string>;
}

export function createMetricsSum(): MetricsSum {
  const latest = new Map<number, MetricsReport>();
  /** What those counted that are gone; summed up one after the other. */
  let gone: Promise<MetricsReport> = Promise.resolve([]);
  const sumOf = (reports: readonly MetricsReport[]) =>
    AggregatorRegistry.aggregate(reports.map((report) => [...report]));

  return {
    report: (worker, metrics) => void latest.set(worker, metrics),
    gone(worker) {
      const last = latest.get(worker);
      latest.delete(worker);
      if (last !== undefined) {
        gone = gone.then((before) => reportOf(sumOf([before, counted(last)])));
      }
    },
    async page(answered) {
      const reports = [...latest].map(([worker, report]) =>
        answered.has(worker) ? report : counted(report),
      );
      const before = gone;
      return sumOf([...reports, await before]).metrics();
    },
  };
}

/** What only grows. */
function counted(report: MetricsReport): MetricsReport {
  return report.filter(({ type }) => type === 'counter' || type === 'histogram');
}
