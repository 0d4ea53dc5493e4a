import type { PurgeLog, PurgeRecord } from '../../cache/purge/purge-log.ts';
import { foldObjectName } from '../../common/fold-case.ts';
import type { Config } from '../../settings/setting.ts';
import {
  type HourReport,
  minutesOf,
  OTHERS,
  percentiles,
  reasonsOf,
  rowsOf,
  type Sums,
  sumOf,
  tenths,
} from '../hour-report.ts';
import type { SharedStatistics, Usage } from '../statistics/shared-statistics.ts';
import { findingsOf, type State } from './findings.ts';

const HOUR_MS = 3_600_000;
const MOST = { purges: 100, reasons: 20 } as const;
export const ALL_PURGES = 1_000;

type Known = 'now' | 'redis' | 'engines' | 'storage' | 'ofFeatures' | 'certificateLeft';
interface Facts extends Pick<State, Known> {
  readonly hour: HourReport;
  readonly entries: Awaited<ReturnType<SharedStatistics['hour']>>['entries'];
  readonly log: Awaited<ReturnType<PurgeLog['latest']>>;
  readonly processes: readonly Usage[];
  readonly inForce: Readonly<{ reloaded: boolean; workers: number }>;
}

/** Tells what the gateway was worth in the last hour, and what an operator should look at. */
export function overviewOf(config: Pick<Config, 'cache' | 'projects'>, facts: Facts) {
  const { now, hour, log, processes, inForce } = facts;
  const minutes = minutesOf(hour, now);
  const sum = sumOf(minutes);
  const reasons = reasonsOf(hour);
  const projects = projectsOf(facts);
  const findings = findingsOf({
    ...facts,
    owed: loadOf(processes).owed,
    droppedHeaders: [...new Set(processes.flatMap((one) => one.dropped_headers))].sort(),
    timedOut: processes.flatMap((one) => one.timed_out),
    enginesAway: processes.flatMap((one) => one.engines_away),
    purges: log.purges,
    unpurged: log.complete ? unpurgedOf(projects, config, facts) : [],
    hour: sum,
    reasons,
    evictions: processes.map(({ evictions }) => evictions),
    reloaded: inForce.reloaded,
    processes: { told: processes.length, wanted: inForce.workers },
  });
  return {
    at: new Date(now),
    findings,
    hour: {
      ...rounded(sum),
      hit_ratio: ratio(sum.hits, sum.misses),
      saved_ratio: ratio(sum.saved_ms, sum.engine_ms),
      refreshed: reasons.find(({ outcome }) => outcome === 'refreshed')?.count ?? 0,
      hit_ms: percentiles(hour, 'hit'),
      miss_ms: percentiles(hour, 'miss'),
    },
    minutes: minutes.map((one) => Object.assign(rounded(one), { at: new Date(one.at) })),
    purges: log.purges
      .filter(({ at }) => at > now - HOUR_MS)
      .slice(0, MOST.purges)
      .map(({ at, scope }) => ({ at: new Date(at), scope })),
    reasons: reasons.filter(({ reason }) => reason !== '').slice(0, MOST.reasons),
    projects,
  };
}

const projectsOf = ({ hour, entries, log }: Pick<Facts, 'hour' | 'entries' | 'log'>) =>
  rowsOf(hour, 'project').map((row) => {
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

function unpurgedOf(
  projects: ReturnType<typeof projectsOf>,
  config: Pick<Config, 'cache' | 'projects'>,
  { now, log, processes }: Pick<Facts, 'now' | 'log' | 'processes'>,
): readonly string[] {
  /** Time from which purges are known. */
  const since = Math.min(
    log.purges.at(-1)?.at ?? Infinity,
    ...(log.purges.length < ALL_PURGES ? processes : []).map((one) => Date.parse(one.started_at)),
  );
  const isOld = ({ project, last_purge: last }: (typeof projects)[number]) => {
    const { cache, ttl } = config.projects.get(project) ?? { cache: 'on', ttl: config.cache.ttl };
    const isNamed = project !== '' && project !== OTHERS;
    return isNamed && cache === 'on' && now - (last?.at.getTime() ?? since) > ttl;
  };
  return projects.filter(isOld).map(({ project }) => project);
}

export function loadOf(all: readonly Usage[]) {
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

/** Rounds to a thousandth; null where nothing was asked. */
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

/** Finds the latest purge that dropped a project. @param purges the latest first */
function lastPurgeOf(project: string, purges: readonly PurgeRecord[]) {
  const name = foldObjectName(project);
  const found = purges.find(
    ({ scope }) => scope === 'everything' || foldObjectName(scope.project) === name,
  );
  if (found === undefined) return null;
  const { at, principal, scope, result, cause } = found;
  return { at: new Date(at), principal, scope, result, cause };
}
