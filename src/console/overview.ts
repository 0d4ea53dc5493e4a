import type { Permissions, Principal } from '../auth/authenticator.ts';
import type { PurgeLog, PurgeRecord } from '../cache/purge/purge-log.ts';
import { type Clock, shareFor } from '../common/clock.ts';
import type { ReplicaState } from '../common/events.ts';
import { foldObjectName } from '../common/fold-case.ts';
import type { Config } from '../config/config.ts';
import { asksOf, type Counts, minutesOf, percentiles, sumOf } from '../statistics/hour.ts';
import type { SharedStatistics, Usage } from '../statistics/shared-statistics.ts';
import { tenths } from '../statistics/statistics.ts';

/** Several consoles may ask again and again: what one was told is told to all for so long (ms). */
const SHARED = 1_000;
const HOUR = 3_600_000;
/** So many are told. */
const MOST_PURGES = 100;
const MOST_REASONS = 20;
const MOST_PROJECTS = 200;
/** As many as the log remembers. */
const ALL_PURGES = 1_000;

/** What this gateway says of itself. */
export interface About {
  readonly version: string;
  /** Of this process. */
  readonly pid: number;
  /** Of its own certificate (Unix time, ms). */
  readonly certificateEnd: () => number | undefined;
}

/** As GET /health/ready tells it. */
export interface RedisFacts {
  readonly state: 'up' | 'down' | 'off';
  readonly why: string | undefined;
  readonly conditions: readonly string[];
}

/** What the console shows on its first page: how the gateway is, and what it was worth in the last hour. */
export function createConsole(parts: {
  config: Config;
  clock: Clock;
  about: About;
  permissions: Permissions;
  statistics: Pick<SharedStatistics, 'usage' | 'overview'>;
  purgeLog: Pick<PurgeLog, 'latest'>;
  engines: () => Promise<{ readonly replicas: readonly ReplicaState[] }>;
  redis: () => RedisFacts;
}) {
  const { clock, about, permissions, statistics, purgeLog } = parts;

  async function readStatus() {
    const [{ replicas }, { gateway, complete, processes }] = await Promise.all([
      parts.engines(),
      statistics.usage(),
    ]);
    return {
      gateway: gateway.id,
      process: about.pid,
      processes: processes.length,
      complete: complete && processes.length >= gateway.processes,
      engines: { up: replicas.filter(({ state }) => state === 'up').length, of: replicas.length },
      redis: parts.redis().state,
      ...load(processes),
    };
  }

  async function readOverview() {
    const now = clock.wall();
    const [told, log] = await Promise.all([statistics.overview(), purgeLog.latest(ALL_PURGES)]);
    const { hour } = told;
    const minutes = minutesOf(hour, now);
    const sum = rounded(sumOf(minutes));
    return {
      at: new Date(now),
      gateways: told.gateways,
      complete: told.complete && told.othersAreRead && log.complete,
      findings: [] as readonly object[],
      hour: {
        ...sum,
        hit_ratio: ratio(sum.hits, sum.misses),
        saved_ratio: ratio(sum.saved_ms, sum.engine_ms),
        hit_ms: percentiles(hour.hit_ms),
        miss_ms: percentiles(hour.miss_ms),
      },
      minutes: minutes.map((one) => Object.assign(rounded(one), { at: new Date(one.at) })),
      purges: log.purges
        .filter(({ at }) => at > now - HOUR)
        .slice(0, MOST_PURGES)
        .map(({ at, scope }) => ({ at: new Date(at), scope })),
      reasons: hour.reasons.filter(({ reason }) => reason !== '').slice(0, MOST_REASONS),
      totals: told.totals,
      projects: hour.projects.slice(0, MOST_PROJECTS).map((row) => {
        const { hits, misses, engine_ms, saved_ms } = rounded(row);
        return {
          project: row.project,
          asks: asksOf(row),
          hits,
          misses,
          hit_ratio: ratio(hits, misses),
          engine_ms,
          saved_ms,
          entries: told.entriesOf(row.project),
          last_asked: new Date(row.last_asked),
          last_purge: purgeRow(lastPurgeOf(row.project, log.purges)),
        };
      }),
    };
  }

  const status = shareFor(SHARED, clock, readStatus);
  return {
    async status(principal: Principal) {
      const { gateway, process, processes, complete, ...state } = await status();
      return {
        at: new Date(clock.wall()),
        version: about.version,
        gateway,
        process,
        processes,
        complete,
        user: principal.name,
        rights: {
          administer: permissions.mayAdminister(principal),
          view: permissions.mayView(principal),
          purge: permissions.mayPurge(principal),
        },
        ...state,
      };
    },
    overview: shareFor(SHARED, clock, readOverview),
  };
}

/** What all processes use together. */
function load(processes: readonly Usage[]) {
  const sum = (figure: (one: Usage) => number) =>
    processes.reduce((all, one) => all + figure(one), 0);
  const ages = processes.flatMap(({ lease_age_ms: age }) => (age === null ? [] : [age]));
  return {
    purges_pending: new Set(processes.flatMap(({ owed }) => owed)).size,
    lease_age_ms: ages.length === 0 ? null : Math.round(Math.max(...ages)),
    queue: { waiting: sum((one) => one.waiting), limit: sum((one) => one.queue_limit) },
    memory: {
      entries: sum((one) => one.entries),
      bytes: sum((one) => one.memory_bytes),
      limit_bytes: sum((one) => one.memory_limit_bytes),
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

const purgeRow = (purge: PurgeRecord | undefined) =>
  purge === undefined
    ? null
    : {
        at: new Date(purge.at),
        principal: purge.principal,
        scope: purge.scope,
        result: purge.result,
        cause: purge.cause,
      };
