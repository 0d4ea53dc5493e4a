import { GatewayError } from '../../common/errors.ts';
import type { Link } from '../../workers/link.ts';
import { STATISTICS } from '../../workers/statistics.ts';
import type { OwnFigures, Processes } from './shared-statistics.ts';

/** For the figures of all workers (ms). */
const ALL_WITHIN = 2_000;

/** Tells the primary process the figures of this worker. @returns those of all workers; `overloaded` when they cannot be had */
export function processesOfAll(link: Pick<Link, 'call' | 'serve'>, own: OwnFigures): Processes {
  link.serve(STATISTICS, own);
  const call = async (method: string, ...args: readonly unknown[]) => {
    try {
      return await link.call(STATISTICS, method, args, ALL_WITHIN);
    } catch (cause) {
      const message = 'The statistics of the other workers cannot be had now; try again.';
      throw new GatewayError('overloaded', message, { retryAfter: 5, cause });
    }
  };
  return {
    ask: (async (method, ...args) => call('ask', method, args)) as Processes['ask'],
    gateway: async () => (await call('gateway')) as string,
  };
}
