import type { GatewayEvent, Outcome } from '../common/events.ts';

/** The hour is counted by minutes of the wall clock (ms). */
export const MINUTE = 60_000;
const MINUTES = 60;
const DAY = 24 * 60 * MINUTE;
/** Projects that are told apart in a minute; all others are one. */
const MAX_PROJECTS = 200;
export const OTHERS = 'other';
/** More than there are words for. */
const MAX_REASONS = 200;
/** Stale answers that are remembered, for a day. */
const MAX_STALE = 10;

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
type MinuteCounts = Counts & { at: number };
export type ProjectCounts = Counts & { project: string; last_asked: number };
type Noted = Extract<
  GatewayEvent,
  { readonly type: 'internal-error' | 'login-refused' | 'entry-rejected' | 'compared' }
>;
/** How often answers ended so; or how often something else happened, which has no reason. */
export interface ReasonCount {
  readonly outcome: Outcome['kind'] | Noted['type'];
  readonly reason: string;
  count: number;
}

export type HourReport = ReturnType<typeof noHour>;
/** As long as nothing was asked. */
export const noHour = () => ({
  minutes: [] as readonly MinuteCounts[],
  projects: [] as readonly ProjectCounts[],
  reasons: [] as readonly ReasonCount[],
  /** How many hits and misses took how long: as {@link bucketOf} sorts them. */
  hit_ms: noDurations(),
  miss_ms: noDurations(),
  /** Answers of the last day that a comparison with the engine found to be stale. */
  stale: [] as readonly {
    readonly at: number;
    readonly project: string;
    readonly digest: string;
  }[],
});

type Minute = ReturnType<typeof newMinute>;
const newMinute = (at: number) => ({
  counts: { at, ...noCounts() } as MinuteCounts,
  /** By outcome and reason. */
  reasons: new Map<string, Map<string, ReasonCount>>(),
  projects: new Map<string, ProjectCounts>(),
});

/**
 * What was answered in the last hour, minute by minute. Who counts an answer adds to the minute, which is plain data, and asks here
 * for what is not there yet.
 * @param names the projects that are told by their names
 */
export function createHour(names: {
  find(name: string): { readonly spelling: string } | undefined;
}) {
  const minutes: Minute[] = [];
  let stale: HourReport['stale'] = [];

  /** How the project of a name is told; '' for none. */
  const labelOf = (name: string) => (name === '' ? '' : (names.find(name)?.spelling ?? OTHERS));

  /** That of this moment. One that a clock comes back to goes on. */
  function minuteOf(wall: number): Minute {
    const place = Math.floor(wall / MINUTE) % MINUTES;
    const at = wall - (wall % MINUTE);
    const known = minutes[place];
    return known?.counts.at === at ? known : (minutes[place] = newMinute(at));
  }

  function reasonOf({ reasons }: Minute, outcome: ReasonCount['outcome'], reason: string) {
    const ofOutcome = reasons.get(outcome) ?? new Map<string, ReasonCount>();
    const row = ofOutcome.get(reason) ?? { outcome, reason, count: 0 };
    reasons.set(outcome, ofOutcome.set(reason, row));
    return row;
  }

  return {
    labelOf,
    minuteOf,
    reasonOf,
    /** @param name as a request names it; '' for none */
    projectOf({ projects }: Minute, name: string): ProjectCounts {
      const label = labelOf(name);
      const project = projects.has(label) || projects.size < MAX_PROJECTS ? label : OTHERS;
      const row = projects.get(project) ?? { project, ...noCounts(), last_asked: 0 };
      projects.set(project, row);
      return row;
    },
    note(event: Noted, wall: number): void {
      if (event.type !== 'compared') reasonOf(minuteOf(wall), event.type, '').count += 1;
      else if (event.verdict === 'stale') {
        const { project, digest } = event;
        stale = [{ at: wall, project, digest }, ...stale].slice(0, MAX_STALE);
      }
    },
    /** Of the sixty minutes up to this moment. */
    report(wall: number, durations: Pick<HourReport, 'hit_ms' | 'miss_ms'>): HourReport {
      const first = firstMinute(wall);
      const isTold = ({ counts: { at } }: Minute) => at >= first && at <= wall;
      // Places that no minute has had yet are skipped.
      const told = minutes.filter(isTold);
      const all = mergeHours([
        {
          ...durations,
          minutes: told.map(({ counts }) => counts),
          projects: told.flatMap(({ projects }) => projects.values().toArray()),
          reasons: told.flatMap(({ reasons }) => reasons.values().flatMap(valuesOf).toArray()),
          stale: stale.filter(({ at }) => at > wall - DAY && at <= wall),
        },
      ]);
      return { ...all, projects: all.projects.slice(0, MAX_PROJECTS) };
    },
  };
}

/** The beginning of the first of sixty minutes. */
const firstMinute = (wall: number) => wall - (wall % MINUTE) - (MINUTES - 1) * MINUTE;

/** The sixty minutes up to this moment, the oldest first. */
export function minutesOf({ minutes }: HourReport, wall: number): readonly MinuteCounts[] {
  const known = new Map(minutes.map((one) => [one.at, one]));
  return Array.from({ length: MINUTES }, (_, i) => {
    const at = firstMinute(wall) + i * MINUTE;
    return known.get(at) ?? { at, ...noCounts() };
  });
}

export const asksOf = ({ hits, misses, bypasses, by_gateway }: Counts): number =>
  hits + misses + bypasses + by_gateway;

export function sumOf(all: readonly Counts[]): Counts {
  const sum = noCounts();
  for (const counts of all) addCounts(sum, counts);
  return sum;
}

function addCounts(to: Counts, counts: Counts): void {
  for (const field of Object.keys(noCounts()) as (keyof Counts)[]) to[field] += counts[field];
}

function addProject(to: ProjectCounts, row: ProjectCounts): void {
  addCounts(to, row);
  to.last_asked = Math.max(to.last_asked, row.last_asked);
}

const valuesOf = (map: ReadonlyMap<string, ReasonCount>) => map.values();
const keyOfReason = ({ outcome, reason }: ReasonCount) => `${outcome} ${reason}`;

/** By addition, in any order: minutes of the wall clock are the same at all gateways. What there is most of comes first. */
export function mergeHours(reports: readonly HourReport[]): HourReport {
  const all = <K extends keyof HourReport>(part: K) => reports.map((one) => one[part]);
  return {
    minutes: sumByKey(
      all('minutes').flat(),
      (row) => row.at,
      (row) => -row.at,
      addCounts,
    ),
    projects: sumByKey(all('projects').flat(), (row) => row.project, asksOf, addProject),
    reasons: sumByKey(
      all('reasons').flat(),
      keyOfReason,
      ({ count }) => count,
      (to, row) => void (to.count += row.count),
    ),
    hit_ms: sumDurations(all('hit_ms')),
    miss_ms: sumDurations(all('miss_ms')),
    stale: sumByKey(
      all('stale').flat(),
      (one) => JSON.stringify(one),
      ({ at }) => at,
      () => {},
    ).slice(0, MAX_STALE),
  };
}

/** Of rows with the same key one, which is the sum of them; the largest first. */
function sumByKey<R extends object>(
  rows: readonly R[],
  keyOf: (row: R) => string | number,
  sizeOf: (row: R) => number,
  add: (to: R, row: R) => void,
): readonly R[] {
  const sums = new Map<string | number, R>();
  for (const row of rows) {
    const sum = sums.get(keyOf(row));
    if (sum === undefined) sums.set(keyOf(row), { ...row });
    else add(sum, row);
  }
  const inOrder = [...sums].sort(([a], [b]) => (a < b ? -1 : 1));
  return inOrder.map(([, sum]) => sum).sort((a, b) => sizeOf(b) - sizeOf(a));
}

const sumDurations = (all: readonly (readonly number[])[]) =>
  noDurations().map((none, i) => all.reduce((sum, counts) => sum + (counts[i] ?? 0), none));

/** Durations lie in buckets, each of which reaches a tenth further than the one below it (ms). */
const BUCKETS = 192;
const LEAST = 0.05;
const GROWTH = Math.log(1.1);
export const noDurations = (): number[] => Array.from({ length: BUCKETS }, () => 0);
/** @param duration ms */
export const bucketOf = (duration: number): number =>
  Math.min(BUCKETS - 1, Math.ceil(Math.log(Math.max(LEAST, duration) / LEAST) / GROWTH));

/** Half of the durations are not longer than p50, right to a twentieth (ms). Null of none. */
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

const are = (rows: readonly object[], most: number, pattern: object) =>
  rows.length <= most && rows.every((row) => fits(row, pattern));

/** Whether it is a report, and no longer than one can be: others may write to Redis. */
export function isHour({
  minutes,
  projects,
  reasons,
  stale,
  hit_ms,
  miss_ms,
}: HourReport): boolean {
  const counts = noCounts();
  return (
    are(minutes, MINUTES, { ...counts, at: 0 }) &&
    are(projects, MAX_PROJECTS, { ...counts, project: '', last_asked: 0 }) &&
    are(reasons, MAX_REASONS, { outcome: '', reason: '', count: 0 }) &&
    are(stale, MAX_STALE, { at: 0, project: '', digest: '' }) &&
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
