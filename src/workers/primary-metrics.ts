import { createMetricsSum, isMetricsReport } from '../observability/worker-metrics.ts';
import type { Link, Service } from './link.ts';

/** The name of the service at both ends: a worker tells its report, the primary process the page of all. */
export const METRICS = 'metrics';
/** What a worker may take to tell its metrics (ms). One that stands still must not keep Prometheus waiting. */
const REPORT_WITHIN = 500;

/** The metrics of all workers, in the primary process. */
export interface PrimaryMetrics {
  /** What every worker may call. */
  readonly service: Service;
  /** One more worker. @returns to be called when it is gone */
  join(link: Pick<Link, 'call'>): () => void;
}

export function createPrimaryMetrics(): PrimaryMetrics {
  const sum = createMetricsSum();
  const links = new Map<number, Pick<Link, 'call'>>();
  let joined = 0;
  let running: Promise<string> | undefined;

  async function collect(): Promise<string> {
    const answered = new Set<number>();
    const asked = [...links].map(async ([worker, link]) => {
      try {
        const report = await link.call(METRICS, 'report', [], REPORT_WITHIN);
        // Of one that is gone, what it told before is counted already.
        if (!isMetricsReport(report) || !links.has(worker)) return;
        sum.report(worker, report);
        answered.add(worker);
      } catch {
        // One that does not answer is not among those that did: the page says how many there are.
      }
    });
    await Promise.all(asked);
    return sum.page(answered);
  }

  return {
    service: {
      // Those who ask at one time get one page: it is made at the cost of all workers.
      page: () => (running ??= collect().finally(() => (running = undefined))),
    },
    join(link) {
      const worker = (joined += 1);
      links.set(worker, link);
      return () => {
        links.delete(worker);
        sum.gone(worker);
      };
    },
  };
}
