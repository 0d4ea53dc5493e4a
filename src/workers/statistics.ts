import { GatewayError } from '../common/errors.ts';
import type { OwnFigures, Processes } from '../statistics/shared-statistics.ts';
import type { Link } from './link.ts';

/** The service at both ends: a worker tells its figures, the primary process those of all. */
export const STATISTICS = 'statistics';
/** For the figures of a worker (ms): one that stalls must not keep the others waiting. */
const TOLD_WITHIN = 500;
const ALL_WITHIN = 2_000;

/**
 * What the primary process serves.
 * @param links to the workers, as there are then
 * @param gateway names the gateway of these workers
 */
export const statisticsOfLinks = (links: ReadonlySet<Pick<Link, 'call'>>, gateway: string) => ({
  async ask(method: string, args: readonly unknown[]) {
    const asked = [...links].map((link) => link.call(STATISTICS, method, args, TOLD_WITHIN));
    const ended = await Promise.allSettled(asked);
    const told = ended.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    if (told.length === 0) throw new Error('no worker answered in time');
    return { told, complete: told.length === asked.length };
  },
  gateway: () => gateway,
});

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
