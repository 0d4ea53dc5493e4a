import { arch, platform } from 'node:os';
import type { Permissions } from '../auth/authenticator.ts';
import type { PurgeLog, PurgeRecord } from '../cache/purge/purge-log.ts';
import { type Clock, shareFor } from '../common/clock.ts';
import type { ReplicaState } from '../common/events.ts';
import type { Finding } from '../common/finding.ts';
import { foldObjectName } from '../common/fold-case.ts';
import type { Principal } from '../common/principal.ts';
import type { Config } from '../config/config.ts';
import type { Metrics } from '../observability/metrics.ts';
import {
  minutesOf,
  OTHERS,
  percentiles,
  reasonsOf,
  rowsOf,
  type Sums,
  sumOf,
} from '../statistics/hour.ts';
import type { NodeFacts, SharedStatistics, Usage } from '../statistics/shared-statistics.ts';
import { tenths } from '../statistics/statistics.ts';
import { findingsOf, type RedisFacts, type State } from './findings.ts';

/** Several consoles may ask again and again: what one was told is told to all for so long (ms). */
const SHARED = 1_000;
const HOUR = 3_600_000;
/** So many are told. */
const MOST = { purges: 100, reasons: 20 } as const;
/** As many as the log remembers. */
const ALL_PURGES = 1_000;

/** What the gateway says of itself. */
export interface About {
  readonly version: string;
  readonly node: NodeFacts;
  /** Of its own certificate (Unix time, ms). */
  readonly certificateEnd: () => number | undefined;
  /** The configuration in force as YAML, with every key and without secrets. It takes milliseconds to write. */
  readonly configuration: () => Promise<string>;
  readonly inForce: () => Promise<{
    /** Keys that wait for a restart. */
    readonly waiting: readonly string[];
    /** Whether the last reload did what it should. */
    readonly reloaded: boolean;
    /** How many processes there should be. */
    readonly workers: number;
  }>;
}

/** What the console shows: how the gateway is, what it was worth in the last hour, and what it is made of. */
export function createConsole(parts: {
  config: Pick<Config, 'cache' | 'projects'>;
  clock: Pick<Clock, 'now' | 'wall'>;
  about: About;
  permissions: Pick<Permissions, 'rightsOf'>;
  statistics: Pick<SharedStatistics, 'usage' | 'hour'>;
  purgeLog: Pick<PurgeLog, 'latest'>;
  engines: () => Promise<{ readonly replicas: readonly ReplicaState[] }>;
  redis: () => RedisFacts;
  storage: () => Promise<State['storage']>;
  /** Findings of features. */
  findings: (hour: (kind: string) => ReturnType<typeof rowsOf>) => Promise<readonly Finding[]>;
  metrics: Pick<Metrics, 'registry'>;
}) {
  const { config, clock, about, permissions, statistics, purgeLog, storage, metrics } = parts;

  /** This gateway alone. */
  const here = shareFor(SHARED, clock, async () => {
    const [{ replicas: engines }, usage, inForce] = await Promise.all([
      parts.engines(),
      statistics.usage(),
      about.inForce(),
    ]);
    const complete = usage.complete && usage.processes.length >= inForce.workers;
    return { ...usage, complete, engines, redis: parts.redis(), inForce };
  });

  async function readOverview() {
    const now = clock.wall();
    const [{ processes, ...own }, { hour, entries, ...told }, log, ofStorage] = await Promise.all([
      here(),
      statistics.hour(),
      purgeLog.latest(ALL_PURGES),
      storage(),
    ]);
    const minutes = minutesOf(hour, now);
    const sum = sumOf(minutes);
    /** How far back purges are known. */
    const since = Math.min(
      log.purges.at(-1)?.at ?? Infinity,
      ...(log.purges.length < ALL_PURGES ? processes : []).map((one) => Date.parse(one.started_at)),
    );
    /** Not purged for longer than its ttl. */
    const isOld = ({ project, last_purge: last }: (typeof projects)[number]) => {
      const { cache, ttl } = config.projects.get(project) ?? { cache: 'on', ttl: config.cache.ttl };
      const isNamed = project !== '' && project !== OTHERS;
      return isNamed && cache === 'on' && now - (last?.at.getTime() ?? since) > ttl;
    };
    const projects = rowsOf(hour, 'project').map((row) => {
      const { hits, misses, engine_ms, saved_ms } = rounded(row);
      const ofProject = entries.filter(([project]) => project === row.name);
      return {
        project: row.name,
        asks: row.asks,
        hits,
        misses,
        hit_ratio: ratio(hits, misses),
        engine_ms,
        saved_ms,
        entries: ofProject.reduce((sum, [, count]) => sum + count, 0),
        last_asked: new Date(row.last),
        last_purge: lastPurgeOf(row.name, log.purges),
      };
    });
    const findings = findingsOf({
      ...own,
      now,
      storage: ofStorage,
      ofFeatures: await parts.findings((kind) => rowsOf(hour, kind)),
      owed: loadOf(processes).owed,
      droppedHeaders: [...new Set(processes.flatMap((one) => one.dropped_headers))].sort(),
      timedOut: processes.flatMap((one) => one.timed_out),
      purges: log.purges,
      unpurged: log.complete ? projects.filter(isOld).map(({ project }) => project) : [],
      hour: sum,
      reasons: reasonsOf(hour),
      stale: rowsOf(hour, 'stale').map(({ name }) => name),
      evictions: processes.map(({ evictions }) => evictions),
      certificateLeft: (about.certificateEnd() ?? Infinity) - now,
      reloaded: own.inForce.reloaded,
      processes: { told: processes.length, wanted: own.inForce.workers },
    });
    return {
      ...told,
      at: new Date(now),
      complete: told.complete && own.complete && log.complete,
      findings,
      hour: {
        ...rounded(sum),
        hit_ratio: ratio(sum.hits, sum.misses),
        saved_ratio: ratio(sum.saved_ms, sum.engine_ms),
        hit_ms: percentiles(hour, 'hit'),
        miss_ms: percentiles(hour, 'miss'),
      },
      minutes: minutes.map((one) => Object.assign(rounded(one), { at: new Date(one.at) })),
      purges: log.purges
        .filter(({ at }) => at > now - HOUR)
        .slice(0, MOST.purges)
        .map(({ at, scope }) => ({ at: new Date(at), scope })),
      reasons: reasonsOf(hour)
        .filter(({ reason }) => reason !== '')
        .slice(0, MOST.reasons),
      projects,
    };
  }

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
    overview: shareFor(SHARED, clock, readOverview),
    async system() {
      const [{ inForce, ...own }, ofStorage, configuration] = await Promise.all([
        here(),
        storage(),
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

/** What all processes use together. */
function loadOf(all: readonly Usage[]) {
  const ages = all.map((one) => one.lease_age_ms).filter((age) => age !== null);
  type Amount = 'waiting' | 'queue_limit' | 'entries' | 'memory_bytes' | 'memory_limit_bytes';
  const sum = (name: Amount) => all.reduce((total, one) => total + one[name], 0);
  return {
    owed: [...new Set(all.flatMap((one) => one.owed))],
    lease_age_ms: ages.length === 0 ? null : Math.round(Math.max(...ages)),
    queue: { waiting: sum('waiting'), limit: sum('queue_limit') },
    memory: {
      entries: sum('entries'),
      bytes: sum('memory_bytes'),
      limit_bytes: sum('memory_limit_bytes'),
    },
  };
}

/** To a thousandth; null where nothing was asked. */
const ratio = (part: number, rest: number) =>
  part + rest === 0 ? null : Math.round((1_000 * part) / (part + rest)) / 1_000;

const rounded = ({ hits, misses, bypasses, by_gateway, engine_ms, saved_ms }: Sums) => ({
  hits,
  misses,
  bypasses,
  by_gateway,
  engine_ms: tenths(engine_ms),
  saved_ms: tenths(saved_ms),
});

/** The latest that dropped what belongs to it; null of none. @param purges the latest first */
function lastPurgeOf(project: string, purges: readonly PurgeRecord[]) {
  const name = foldObjectName(project);
  const found = purges.find(
    ({ scope }) => scope === 'everything' || foldObjectName(scope.project) === name,
  );
  if (found === undefined) return null;
  const { at, principal, scope, result, cause } = found;
  return { at: new Date(at), principal, scope, result, cause };
}
