import type { Permissions, Principal } from '../auth/authenticator.ts';
import type { PurgeLog, PurgeRecord } from '../cache/purge/purge-log.ts';
import { type Clock, shareFor } from '../common/clock.ts';
import type { ReplicaState } from '../common/events.ts';
import { foldObjectName } from '../common/fold-case.ts';
import type { Config } from '../config/config.ts';
import { asksOf, type Counts, minutesOf, OTHERS, percentiles, sumOf } from '../statistics/hour.ts';
import type { SharedStatistics, Usage } from '../statistics/shared-statistics.ts';
import { tenths } from '../statistics/statistics.ts';
import { findingsOf, type RedisFacts, type State } from './findings.ts';

/** Several consoles may ask again and again: what one was told is told to all for so long (ms). */
const SHARED = 1_000;
const HOUR = 3_600_000;
/** So many are told. */
const MOST = { purges: 100, reasons: 20, projects: 200 } as const;
/** As many as the log remembers. */
const ALL_PURGES = 1_000;

/** What this gateway says of itself. */
export interface About {
  readonly version: string;
  /** Of Node.js. */
  readonly node: string;
  /** Of this process. */
  readonly pid: number;
  /** Of its own certificate (Unix time, ms). */
  readonly certificateEnd: () => number | undefined;
}

/** What the console shows first: how the gateway is, and what it was worth in the last hour. */
export function createConsole(parts: {
  config: Pick<Config, 'cache' | 'projects'>;
  clock: Clock;
  about: About;
  permissions: Permissions;
  statistics: Pick<SharedStatistics, 'usage' | 'overview'>;
  purgeLog: Pick<PurgeLog, 'latest'>;
  engines: () => Promise<{ readonly replicas: readonly ReplicaState[] }>;
  redis: () => RedisFacts;
  storage: () => Promise<State['storage']>;
}) {
  const { config, clock, about, permissions, statistics, purgeLog } = parts;

  async function readStatus() {
    const [{ replicas }, told] = await Promise.all([parts.engines(), statistics.usage()]);
    const { owed, ...load } = loadOf(told.processes);
    const own = {
      gateway: told.gateway.id,
      process: about.pid,
      processes: told.processes.length,
      complete: told.complete && told.processes.length >= told.gateway.processes,
    };
    const state = {
      engines: { up: replicas.filter(({ state }) => state === 'up').length, of: replicas.length },
      redis: parts.redis().state,
      purges_pending: owed.length,
      ...load,
    };
    return { own, state };
  }

  async function readOverview() {
    const now = clock.wall();
    const [told, log, { replicas }, storage] = await Promise.all([
      statistics.overview(),
      purgeLog.latest(ALL_PURGES),
      parts.engines(),
      parts.storage(),
    ]);
    const { hour, gateway, processes } = told;
    const { owed, queue, lease_age_ms } = loadOf(processes);
    const minutes = minutesOf(hour, now);
    const sum = sumOf(minutes);
    const othersAreRead = told.othersAreRead && log.complete;
    const unused = processes.map(({ evictions }) => evictions);
    const findings = findingsOf({
      now,
      redis: parts.redis(),
      engines: replicas,
      storage,
      owed,
      purges: log.purges,
      unpurged: log.complete ? unpurgedOf(told, log.purges, now) : [],
      hour: sum,
      reasons: hour.reasons,
      staleFound: hour.stale,
      evictions: {
        all: total(unused, (one) => one.all),
        unused: total(unused, (one) => one.unused),
      },
      queue,
      leaseAge: lease_age_ms ?? 0,
      lease: config.cache.lease,
      certificateLeft: (about.certificateEnd() ?? Infinity) - now,
      reloaded: gateway.reloaded,
      processes: { told: processes.length, wanted: gateway.processes },
      othersAreRead,
    });
    return {
      at: new Date(now),
      gateways: told.gateways,
      complete: told.complete && processes.length >= gateway.processes && othersAreRead,
      findings,
      hour: {
        ...rounded(sum),
        hit_ratio: ratio(sum.hits, sum.misses),
        saved_ratio: ratio(sum.saved_ms, sum.engine_ms),
        hit_ms: percentiles(hour.hit_ms),
        miss_ms: percentiles(hour.miss_ms),
      },
      minutes: minutes.map((one) => Object.assign(rounded(one), { at: new Date(one.at) })),
      purges: log.purges
        .filter(({ at }) => at > now - HOUR)
        .slice(0, MOST.purges)
        .map(({ at, scope }) => ({ at: new Date(at), scope })),
      reasons: hour.reasons.filter(({ reason }) => reason !== '').slice(0, MOST.reasons),
      totals: told.totals,
      projects: hour.projects.slice(0, MOST.projects).map((row) => {
        const { hits, misses, engine_ms, saved_ms } = rounded(row);
        const entries = told.entries.filter(([project]) => project === row.project);
        return {
          project: row.project,
          asks: asksOf(row),
          hits,
          misses,
          hit_ratio: ratio(hits, misses),
          engine_ms,
          saved_ms,
          entries: total(entries, ([, count]) => count),
          last_asked: new Date(row.last_asked),
          last_purge: purgeRow(lastPurgeOf(row.project, log.purges)),
        };
      }),
    };
  }

  /** Projects that were asked, and not purged for longer than their ttl, as far back as is known. @param purges the latest first */
  function unpurgedOf(
    {
      hour,
      processes,
    }: Pick<Awaited<ReturnType<SharedStatistics['overview']>>, 'hour' | 'processes'>,
    purges: readonly PurgeRecord[],
    now: number,
  ): readonly string[] {
    const oldest = purges.at(-1)?.at ?? Infinity;
    const started = Math.min(...processes.map(({ started_at }) => Date.parse(started_at)));
    const since = purges.length < ALL_PURGES ? Math.min(oldest, started) : oldest;
    const named = hour.projects.map(({ project }) => project);
    return named.filter((project) => {
      const { cache, ttl } = config.projects.get(project) ?? { cache: 'on', ttl: config.cache.ttl };
      const purged = lastPurgeOf(project, purges)?.at ?? since;
      return project !== '' && project !== OTHERS && cache === 'on' && now - purged > ttl;
    });
  }

  const status = shareFor(SHARED, clock, readStatus);
  return {
    async status(principal: Principal) {
      const { own, state } = await status();
      const rights = {
        administer: permissions.mayAdminister(principal),
        view: permissions.mayView(principal),
        purge: permissions.mayPurge(principal),
      };
      const at = new Date(clock.wall());
      return { at, version: about.version, ...own, user: principal.name, rights, ...state };
    },
    overview: shareFor(SHARED, clock, readOverview),
  };
}

const total = <T>(rows: readonly T[], figure: (row: T) => number): number =>
  rows.reduce((sum, row) => sum + figure(row), 0);

/** What all processes use together. */
function loadOf(processes: readonly Usage[]) {
  const sum = (
    name: 'waiting' | 'queue_limit' | 'entries' | 'memory_bytes' | 'memory_limit_bytes',
  ) => total(processes, (one) => one[name]);
  const ages = processes.map((one) => one.lease_age_ms).filter((age) => age !== null);
  return {
    owed: [...new Set(processes.flatMap((one) => one.owed))],
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

const rounded = ({ hits, misses, bypasses, by_gateway, engine_ms, saved_ms }: Counts) => ({
  hits,
  misses,
  bypasses,
  by_gateway,
  engine_ms: tenths(engine_ms),
  saved_ms: tenths(saved_ms),
});

/** The latest that dropped what belongs to it. @param purges the latest first */
const lastPurgeOf = (project: string, purges: readonly PurgeRecord[]) =>
  purges.find(
    ({ scope }) =>
      scope === 'everything' || foldObjectName(scope.project) === foldObjectName(project),
  );

function purgeRow(purge: PurgeRecord | undefined) {
  if (purge === undefined) return null;
  const { at, principal, scope, result, cause } = purge;
  return { at: new Date(at), principal, scope, result, cause };
}
