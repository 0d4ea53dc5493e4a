import type { Metrics } from '../observability/metrics.ts';
import { reportOf } from '../observability/worker-metrics.ts';
import type { Link } from './link.ts';
import { METRICS } from './primary-metrics.ts';

/** What the primary process may take to ask all workers (ms). */
const PAGE_WITHIN = 2_000;

/**
 * Tells the primary process the metrics of this worker whenever it asks.
 * @returns the metrics with the page of all workers, whichever of them is asked for it
 */
export function metricsOfAll(link: Pick<Link, 'call' | 'serve'>, own: Metrics): Metrics {
  link.serve(METRICS, { report: () => reportOf(own.registry) });
  return {
    ...own,
    async page() {
      const page = await link.call(METRICS, 'page', [], PAGE_WITHIN);
      if (typeof page !== 'string') throw new Error('the primary process told no metrics');
      return page;
    },
  };
}
