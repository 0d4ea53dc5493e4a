import { GatewayError } from '../../common/errors.ts';
import type { Link } from '../../workers/link.ts';
import { STATISTICS } from '../../workers/shared.ts';
import type { Core, Feature, HourCounts } from '../feature.ts';
import { rowsOf } from '../hour-report.ts';
import { createStatistics } from './remembered.ts';
import {
  createOwnFigures,
  createSharedStatistics,
  onlyProcess,
  type OwnFigures,
  type Processes,
} from './shared-statistics.ts';

const SHARED_EVERY_MS = 30_000;

/** Remembers queries, what they cost, and the latest requests. */
export function statistics(core: Core) {
  const { clock, id, primary, emit } = core;
  const remembered = createStatistics({ ...core, rows: core.events });
  const started = clock.wall();
  const own = createOwnFigures(remembered, { ...core, entries: core.memory.list, started });
  const shared = createSharedStatistics({
    id,
    own,
    processes: primary ? processesOfAll(primary, own) : onlyProcess(own, id),
    store: core.reports,
    onError: (error) => emit({ type: 'redis-failed', operation: 'reports', error }),
  });
  const stop = clock.every(SHARED_EVERY_MS, () => void shared.share());
  const feature: Feature = {
    on: () => remembered.on,
    async pages({ permissions }) {
      const { statisticsPages } = await import('./pages.ts');
      return statisticsPages(shared, permissions);
    },
    configure: (config) => remembered.configure(config.statistics),
    close: async () => stop(),
  };
  return {
    feature,
    shared,
    async lastHour(): Promise<HourCounts> {
      const { hour } = await shared.hour();
      return (kind) => rowsOf(hour, kind);
    },
  };
}

const ALL_WITHIN_MS = 2_000;

/** Reaches all workers by the primary process. Asking @throws GatewayError `overloaded` */
export function processesOfAll(link: Pick<Link, 'call' | 'serve'>, own: OwnFigures): Processes {
  link.serve(STATISTICS, own);
  const call = async (method: string, ...args: readonly unknown[]) => {
    try {
      return await link.call(STATISTICS, method, args, ALL_WITHIN_MS);
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
