/** What a report of the last hour holds, and how it is read. */

/** The hour is counted by minutes of the wall clock (ms). */
export const MINUTE = 60_000;
export const MINUTES = 60;
/** Name of the row of those that have none of their own. */
export const OTHERS = 'other';

/** Sums of XMLA answers, by outcome; times in ms. */
export type Sums = ReturnType<typeof noSums>;
export const noSums = () => ({
  /** Of all outcomes, or of what else happened. */
  asks: 0,
  hits: 0,
  misses: 0,
  bypasses: 0,
  by_gateway: 0,
  /** Asks that the engine answered to the end. */
  engine_asks: 0,
  /** Those that it was asked in vain: it failed, or the client gave up. */
  failed_asks: 0,
  /** What both took at the engine. */
  engine_ms: 0,
  /** What those in vain took of it. */
  failed_ms: 0,
  /** What the engine would have needed for the hits. */
  saved_ms: 0,
  bytes: 0,
});
export const SUMS = Object.keys(noSums()) as (keyof Sums)[];

export function addSums(to: Sums, sums: Sums): void {
  for (const name of SUMS) to[name] += sums[name];
}

/**
 * `kind`: by what is counted: `minute`, `project`, `reason`, `hit`, `miss`, or what the row of an event says. `name`: of a minute
 * its beginning; of a reason its outcome and its word, or what the row of an event says; of a hit or a miss the bucket of its
 * duration. `last`: when it was counted last (wall clock, ms).
 */
export const NO_ROW = { kind: '', name: '', last: 0, ...noSums() };
export type Row = typeof NO_ROW;
/** Of an hour, or of several processes: of each kind and name one row. */
export type HourReport = readonly Row[];

/** Durations lie in buckets, each of which reaches a tenth further than the one below it (ms). */
export const BUCKETS = 192;
export const LEAST = 0.05;
export const GROWTH = Math.log(1.1);

/** The beginning of the first of sixty minutes. */
export const firstMinute = (wall: number) => wall - (wall % MINUTE) - (MINUTES - 1) * MINUTE;

/** What there is most of comes first. */
export const rowsOf = (hour: HourReport, wanted: string): readonly Row[] =>
  hour
    .filter(({ kind }) => kind === wanted)
    .sort((a, b) => b.asks - a.asks || (a.name < b.name ? -1 : 1));

/** The sixty minutes up to this moment, the oldest first. */
export function minutesOf(hour: HourReport, wall: number): readonly (Sums & { at: number })[] {
  const known = new Map(rowsOf(hour, 'minute').map((row) => [row.name, row]));
  return Array.from({ length: MINUTES }, (_, i) => {
    const at = firstMinute(wall) + i * MINUTE;
    return { ...noSums(), ...known.get(String(at)), at };
  });
}

export function sumOf(all: readonly Sums[]): Sums {
  const sum = noSums();
  for (const sums of all) addSums(sum, sums);
  return sum;
}

export type ReasonCount = ReturnType<typeof reasonsOf>[number];
/** How often answers ended so; the outcome of what has no reason is the type of an event. */
export const reasonsOf = (hour: HourReport) =>
  rowsOf(hour, 'reason').map(({ name, asks }) => {
    const [outcome = '', reason = ''] = name.split(' ');
    return { outcome, reason, count: asks };
  });

/** Half of the hits or misses did not take longer than p50, right to a twentieth (ms). Null of none. */
export function percentiles(hour: HourReport, kind: 'hit' | 'miss') {
  const buckets = rowsOf(hour, kind).toSorted((a, b) => Number(a.name) - Number(b.name));
  const total = sumOf(buckets).asks;
  if (total === 0) return null;
  const reaching = (part: number) => {
    let sum = 0;
    const bucket = buckets.find(({ asks }) => (sum += asks) >= part * total);
    return Math.round(100 * LEAST * Math.exp(GROWTH * (Number(bucket?.name) - 0.5))) / 100;
  };
  return { p50: reaching(0.5), p95: reaching(0.95) };
}
