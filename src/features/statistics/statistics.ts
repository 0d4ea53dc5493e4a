import type { Core, Feature, HourCounts } from '../feature.ts';
import { rowsOf } from '../hour-report.ts';
import { processesOfAll } from './processes.ts';
import { createStatistics } from './remembered.ts';
import { createOwnFigures, createSharedStatistics, onlyProcess } from './shared-statistics.ts';

/** How often other gateways are told what this one remembers. */
const SHARED_EVERY_MS = 30_000;

/** Statistics: queries, what they cost, the latest requests and the entries in memory. */
export function statistics(core: Core) {
  const { clock, id, primary, emit } = core;
  const remembered = createStatistics({ ...core, rows: core.events });
  const started = clock.wall();
  const entries = core.memory.list;
  const own = createOwnFigures(remembered, { ...core, entries, started });
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
