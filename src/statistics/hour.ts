import type { GatewayEvent, Outcome } from '../common/events.ts';

/** The hour is counted by minutes of the wall clock (ms). */
export const MINUTE = 60_000;
const MINUTES = 60;
/** Projects that are told apart; all others are one. */
const MAX_PROJECTS = 200;
const OTHERS = 'other';
/** More than there are words for. */
const MAX_REASONS = 200;
/** Of a minute, so many names are found without a search. */
const MAX_NAMES = 1_000;
/** Stale answers that are remembered, and for how long (ms). */
const MAX_STALE = 10;
const DAY = 24 * 60 * MINUTE;

/** XMLA answers by outcome; what the engine needed for those that it answered to the end, and for hits when it was asked (ms). */
export type Counts = ReturnType<typeof noCounts>;
export const noCounts = () => ({
  hits: 0,
  misses: 0,
  bypasses: 0,
  by_gateway: 0,
  engine_ms: 0,
  saved_ms: 0,
});
export const FIELDS = {
  hit: 'hits',
  miss: 'misses',
  bypass: 'bypasses',
  gateway: 'by_gateway',
} as const;

/** Moments are ms of the wall clock. */
export type MinuteCounts = Counts & { at: number };
export type ProjectCounts = Counts & { project: string; last_asked: number };
export interface ReasonCount {
  readonly outcome: Outcome['kind'];
  /** '' for none. */
  readonly reason: string;
  count: number;
}
interface StaleAnswer {
  readonly at: number;
  readonly project: string;
  readonly digest: string;
}

/** What else is counted, by its event. */
const TROUBLES = {
  'internal-error': 'internal_errors',
  'login-refused': 'refused_logins',
  'entry-rejected': 'rejected_entries',
} as const;
const noTroubles = () => ({ internal_errors: 0, refused_logins: 0, rejected_entries: 0 });
type HourEvent = Extract<GatewayEvent, { readonly type: keyof typeof TROUBLES | 'compared' }>;

/** Of one minute. */
export interface Minute {
  readonly counts: MinuteCounts;
  readonly troubles: ReturnType<typeof noTroubles>;
  /** By reason. */
  readonly reasons: Map<string, ReasonCount[]>;
  /** By the names that requests use, of which several may be one project. */
  readonly byName: Map<string, ProjectCounts>;
  readonly projects: Map<string, ProjectCounts>;
}

export type HourReport = ReturnType<typeof noHour>;
/** As long as nothing was asked. Durations: how many there are in each bucket. */
export const noHour = () => ({
  minutes: [] as readonly MinuteCounts[],
  projects: [] as readonly ProjectCounts[],
  reasons: [] as readonly ReasonCount[],
  troubles: noTroubles(),
  hit_ms: noDurations(),
  miss_ms: noDurations(),
  stale: [] as readonly StaleAnswer[],
});

/**
 * What was answered in the last hour, minute by minute. A minute is plain data: who counts an answer adds to it, and asks here for
 * what is not there yet.
 * @param names the projects that are told by their names
 */
export function createHour(names: {
  find(name: string): { readonly spelling: string } | undefined;
}) {
  const minutes: (Minute | undefined)[] = Array.from({ length: MINUTES });
  const stale: StaleAnswer[] = [];

  /** That of this moment. One that a clock comes back to goes on. */
  function minuteOf(wall: number): Minute {
    const number = Math.floor(wall / MINUTE);
    const at = number * MINUTE;
    const known = minutes[number % MINUTES];
    if (known?.counts.at === at) return known;
    const maps = { reasons: new Map(), byName: new Map(), projects: new Map() };
    const counts = { at, ...noCounts() };
    return (minutes[number % MINUTES] = { counts, troubles: noTroubles(), ...maps });
  }

  /** How the project of a name is told. */
  const labelOf = (name: string) => (name === '' ? '' : (names.find(name)?.spelling ?? OTHERS));

  return {
    minuteOf,
    labelOf,
    reasonOf(minute: Minute, outcome: Outcome['kind'], reason: string): ReasonCount {
      const added = { outcome, reason, count: 0 };
      minute.reasons.set(reason, [...(minute.reasons.get(reason) ?? []), added]);
      return added;
    },
    /** @param name as a request names it; '' for none */
    projectOf({ byName, projects }: Minute, name: string): ProjectCounts {
      const label = labelOf(name);
      const project = projects.has(label) || projects.size < MAX_PROJECTS ? label : OTHERS;
      const row = projects.get(project) ?? { project, ...noCounts(), last_asked: 0 };
      projects.set(project, row);
      if (byName.size < MAX_NAMES) byName.set(name, row);
      return row;
    },
    note(event: HourEvent, wall: number): void {
      if (event.type !== 'compared') minuteOf(wall).troubles[TROUBLES[event.type]] += 1;
      else if (event.verdict === 'stale') {
        stale.unshift({ at: wall, project: event.project, digest: event.digest });
        stale.splice(MAX_STALE);
      }
    },
    /** Of the sixty minutes up to this moment. @param durations by outcome, as {@link bucketOf} sorts them */
    report(wall: number, durations: Pick<HourReport, 'hit_ms' | 'miss_ms'>): HourReport {
      const first = firstMinute(wall);
      const isTold = (at: number) => at >= first && at <= wall;
      const told = minutes
        .filter((one) => one !== undefined)
        .filter(({ counts }) => isTold(counts.at));
      const reports = told.map(({ counts, projects, reasons, troubles }) =>
        Object.assign(noHour(), {
          minutes: [counts],
          projects: [...projects.values()],
          reasons: [...reasons.values()].flat(),
          troubles,
        }),
      );
      const fresh = stale.filter(({ at }) => at >= wall - DAY && at <= wall);
      const all = mergeHours([...reports, { ...noHour(), ...durations, stale: fresh }]);
      return { ...all, projects: bounded(all.projects) };
    },
  };
}

/** The beginning of the first of sixty minutes. */
const firstMinute = (wall: number) => (Math.floor(wall / MINUTE) - MINUTES + 1) * MINUTE;

/** The sixty minutes up to this moment, the oldest first. */
export function minutesOf({ minutes }: HourReport, wall: number): readonly MinuteCounts[] {
  const known = new Map(minutes.map((one) => [one.at, one]));
  const first = firstMinute(wall);
  return Array.from({ length: MINUTES }, (_, i) => {
    const at = first + i * MINUTE;
    return known.get(at) ?? { at, ...noCounts() };
  });
}

function addCounts(to: Counts, counts: Counts): void {
  for (const field of Object.values(FIELDS)) to[field] += counts[field];
  to.engine_ms += counts.engine_ms;
  to.saved_ms += counts.saved_ms;
}

export function sumOf(all: readonly Counts[]): Counts {
  const sum = noCounts();
  for (const counts of all) addCounts(sum, counts);
  return sum;
}

export const asksOf = ({ hits, misses, bypasses, by_gateway }: Counts): number =>
  hits + misses + bypasses + by_gateway;

/** Of rows with the same key one, which is the sum of them. */
function sumByKey<R extends object>(
  rows: readonly R[],
  keyOf: (row: R) => unknown,
  add: (to: R, row: R) => void,
): R[] {
  const sums = new Map<unknown, R>();
  for (const row of rows) {
    const sum = sums.get(keyOf(row));
    if (sum === undefined) sums.set(keyOf(row), { ...row });
    else add(sum, row);
  }
  return [...sums.values()];
}

/** Those that were asked most first. */
function sumProjects(rows: readonly ProjectCounts[]): ProjectCounts[] {
  const sums = sumByKey(
    rows,
    ({ project }) => project,
    (to, row) => {
      addCounts(to, row);
      to.last_asked = Math.max(to.last_asked, row.last_asked);
    },
  );
  return sums.sort((a, b) => asksOf(b) - asksOf(a) || byText(a.project, b.project));
}

/** Of many the first are told; the others are one. */
function bounded(projects: readonly ProjectCounts[]): readonly ProjectCounts[] {
  if (projects.length <= MAX_PROJECTS) return projects;
  const others = projects
    .slice(MAX_PROJECTS)
    .map((row) => Object.assign({}, row, { project: OTHERS }));
  return sumProjects([...projects.slice(0, MAX_PROJECTS), ...others]);
}

/** By addition, in any order: minutes of the wall clock are the same at all gateways. */
export function mergeHours(reports: readonly HourReport[]): HourReport {
  const all = <K extends keyof HourReport>(part: K) => reports.map((one) => one[part]);
  const reasons = sumByKey(
    all('reasons').flat(),
    ({ outcome, reason }) => `${outcome} ${reason}`,
    (to, { count }) => void (to.count += count),
  );
  const troubles = noTroubles();
  for (const field of Object.values(TROUBLES)) {
    for (const one of all('troubles')) troubles[field] += one[field];
  }
  return {
    minutes: sumByKey(all('minutes').flat(), ({ at }) => at, addCounts).sort((a, b) => a.at - b.at),
    projects: sumProjects(all('projects').flat()),
    reasons: reasons.sort(
      (a, b) => b.count - a.count || byText(a.outcome, b.outcome) || byText(a.reason, b.reason),
    ),
    troubles,
    hit_ms: sumDurations(all('hit_ms')),
    miss_ms: sumDurations(all('miss_ms')),
    stale: all('stale')
      .flat()
      .sort((a, b) => b.at - a.at || byText(a.digest, b.digest) || byText(a.project, b.project))
      .slice(0, MAX_STALE),
  };
}

const sumDurations = (all: readonly (readonly number[])[]) =>
  noDurations().map((none, i) => all.reduce((sum, counts) => sum + (counts[i] ?? 0), none));

const byText = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

/** Whether it is a report, and not longer than one can be: others may write to Redis. */
export function isHour(hour: HourReport): boolean {
  const { minutes, projects, reasons, troubles, hit_ms, miss_ms, stale } = hour;
  const are = (rows: readonly object[], most: number, pattern: object) =>
    rows.length <= most && rows.every((row) => fits(row, pattern));
  const counts = noCounts();
  return (
    are(minutes, MINUTES, { ...counts, at: 0 }) &&
    are(projects, MAX_PROJECTS + 1, { ...counts, project: '', last_asked: 0 }) &&
    are(reasons, MAX_REASONS, { outcome: '', reason: '', count: 0 }) &&
    are(stale, MAX_STALE, { at: 0, project: '', digest: '' }) &&
    fits(troubles, noTroubles()) &&
    [hit_ms, miss_ms].every((one) => one.length === BUCKETS && fits(one, noDurations()))
  );
}

/** What a date can hold (ms). */
const LATEST = 8.64e15;
const isAmount = (value: unknown) => typeof value === 'number' && value >= 0 && value <= LATEST;

/** Whether it has all that is in the pattern, of the same kinds. */
export const fits = (row: object, pattern: object): boolean =>
  Object.entries(pattern).every(([name, like]) => {
    const value: unknown = row[name as keyof typeof row];
    if (typeof like === 'number') return isAmount(value);
    return typeof value === typeof like && Array.isArray(value) === Array.isArray(like);
  });

/** Durations are kept as numbers of those that are nearly alike: each bucket reaches a tenth further than the one below it. */
const BUCKETS = 192;
const LEAST = 0.05;
const GROWTH = Math.log(1.1);
export const noDurations = (): number[] => Array.from({ length: BUCKETS }, () => 0);
/** @param duration ms */
export const bucketOf = (duration: number): number =>
  Math.min(BUCKETS - 1, Math.max(0, Math.ceil(Math.log(duration / LEAST) / GROWTH)));

/** Half of the durations are not longer, and 95 %; right to a twentieth (ms). Null of none. */
export function percentiles(durations: readonly number[]) {
  const total = durations.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  const reaching = (part: number) => {
    let sum = 0;
    const bucket = durations.findIndex((count) => (sum += count) >= part * total);
    return Math.round(100 * LEAST * Math.exp(GROWTH * (bucket - 0.5))) / 100;
  };
  return { p50: reaching(0.5), p95: reaching(0.95) };
}
