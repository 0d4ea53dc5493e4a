import { arch, platform } from 'node:os';
import type { Clock } from '../common/clock.ts';
import type { ReplicaState } from '../common/events.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { SharedStatistics } from '../statistics/shared-statistics.ts';
import type { About } from './overview.ts';

/** What the configuration in force says. */
export interface InForce {
  /** As YAML, with every key; secrets are masked. */
  readonly configuration: string;
  /** Keys that differ in the file as it was read last, and that only a restart changes. */
  readonly waiting: readonly string[];
}

/** What the console shows of the system: the processes, what they stand on, and what they were told. */
export function createSystem(parts: {
  clock: Pick<Clock, 'wall'>;
  about: About;
  statistics: Pick<SharedStatistics, 'usage'>;
  engines: () => Promise<{ readonly replicas: readonly ReplicaState[] }>;
  /** As GET /health/ready tells them. */
  redis: () => object;
  storage: () => Promise<object>;
  inForce: () => Promise<InForce>;
  metrics: Pick<Metrics, 'registry'>;
}) {
  const { clock, about, statistics, engines, redis, storage, inForce, metrics } = parts;

  return async function system() {
    const [usage, { replicas }, ofStorage, { configuration, waiting }] = await Promise.all([
      statistics.usage(),
      engines(),
      storage(),
      inForce(),
    ]);
    const { gateway, processes, complete } = usage;
    return {
      at: new Date(clock.wall()),
      version: about.version,
      node: about.node,
      platform: `${platform()} ${arch()}`,
      started_at: processes.map(({ started_at }) => started_at).sort()[0],
      gateway: gateway.id,
      processes,
      complete: complete && processes.length >= gateway.processes,
      engines: replicas,
      redis: redis(),
      storage: ofStorage,
      configuration,
      waiting_for_restart: waiting,
      metrics: metrics.registry
        .getMetricsAsArray()
        .map(({ name, type, help }) => ({ name, type: String(type), help })),
    };
  };
}
