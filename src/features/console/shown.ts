import { arch, platform } from 'node:os';
import type { Permissions } from '../../auth/authenticator.ts';
import { type Clock, shareFor } from '../../common/clock.ts';
import type { Finding } from '../../common/finding.ts';
import type { Principal } from '../../common/principal.ts';
import type { Config } from '../../settings/setting.ts';
import type { Metrics } from '../../observability/metrics.ts';
import type { About, HourCounts, RuntimeCore } from '../feature.ts';
import { rowsOf } from '../hour-report.ts';
import type { SharedStatistics } from '../statistics/shared-statistics.ts';
import { ALL_PURGES, loadOf, overviewOf } from './overview.ts';

/** Time for which all consoles share one answer (ms). */
const SHARED = 1_000;

export function createConsole(
  parts: Pick<RuntimeCore, 'purgeLog' | 'engines' | 'redis' | 'storageState'> & {
    config: Pick<Config, 'cache' | 'projects'>;
    clock: Pick<Clock, 'now' | 'wall'>;
    about: About;
    permissions: Pick<Permissions, 'rightsOf'>;
    statistics: Pick<SharedStatistics, 'usage' | 'hour'>;
    findings: (hour: HourCounts) => Promise<readonly Finding[]>;
    metrics: Pick<Metrics, 'registry'>;
  },
) {
  const { config, clock, about, permissions, statistics, purgeLog, storageState, metrics } = parts;

  const here = shareFor(SHARED, clock, async () => {
    const [{ replicas: engines }, usage, inForce] = await Promise.all([
      parts.engines(),
      statistics.usage(),
      about.inForce(),
    ]);
    const complete = usage.complete && usage.processes.length >= inForce.workers;
    return { ...usage, complete, engines, redis: parts.redis(), inForce };
  });

  return {
    async status(principal: Principal) {
      const { engines, redis, gateway, processes, complete } = await here();
      const { owed, ...load } = loadOf(processes);
      return {
        at: new Date(clock.wall()),
        version: about.version,
        gateway,
        process: about.node.pid,
        processes: processes.length,
        complete,
        user: principal.name,
        rights: permissions.rightsOf(principal),
        engines: { up: engines.filter(({ state }) => state === 'up').length, of: engines.length },
        redis: redis.state,
        purges_pending: owed.length,
        ...load,
      };
    },
    overview: shareFor(SHARED, clock, async () => {
      const now = clock.wall();
      const [local, { hour, entries, ...told }, log, storage] = await Promise.all([
        here(),
        statistics.hour(),
        purgeLog.latest(ALL_PURGES),
        storageState(),
      ]);
      const ofFeatures = await parts.findings((kind) => rowsOf(hour, kind));
      const certificateLeft = (about.certificateEnd() ?? Infinity) - now;
      const given = { ...local, now, hour, entries, log, storage, ofFeatures, certificateLeft };
      return {
        ...told,
        complete: told.complete && local.complete && log.complete,
        ...overviewOf(config, given),
      };
    }),
    async system() {
      const [{ inForce, ...own }, ofStorage, configuration] = await Promise.all([
        here(),
        storageState(),
        about.configuration(),
      ]);
      return {
        at: new Date(clock.wall()),
        version: about.version,
        node: about.node.version,
        platform: `${platform()} ${arch()}`,
        started_at: own.processes.map(({ started_at }) => started_at).sort()[0],
        ...own,
        storage: ofStorage,
        configuration,
        waiting_for_restart: inForce.waiting,
        metrics: metrics.registry
          .getMetricsAsArray()
          .map(({ name, type, help }) => ({ name, type: String(type), help })),
      };
    },
  };
}
