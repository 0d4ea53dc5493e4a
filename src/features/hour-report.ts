/** The hour is counted by minutes of the wall clock (ms). */
export const MINUTE = 60_000;
export const MINUTES = 60;
/** Name of the row for what has no row of its own. */
export const OTHERS = 'other';

/** Sums of XMLA answers, by outcome; times in ms. */
export type Sums = ReturnType<typeof noSums>;
export const noSums = () => ({
  /** Answers of all outcomes, or other events. */
  asks: 0,
  hits: 0,
  misses: 0,
  bypasses: 0,
  by_gateway: 0,
  /** Complete answers of the engine. */
  engine_asks: 0,
  /** Asks of the engine in vain: it failed, or the client gave up. */
  failed_asks: 0,
  /** Engine time of both. */
  engine_ms: 0,
  /** Engine time of asks in vain. */
  failed_ms: 0,
  /** Engine time that hits saved. */
  saved_ms: 0,
  bytes: 0,
});
export const SUMS = Object.keys(noSums()) as (keyof Sums)[];

export function addSums(to: Sums, sums: Sums): void {
  for (const name of SUMS) to[name] += sums[name];
}

/**
 * `kind`: `minute`, `project`, `reason`, `hit`, `miss`, or what the row of an event says.
 * `name`: beginning of a minute, outcome and word of a reason, bucket of a duration.
 * `last`: when it was counted last (wall clock, ms).
 */
export const NO_ROW = { kind: '', name: '', last: 0, ...noSums() };
export type Row = typeof NO_ROW;
/** Rows of an hour, or of several processes: one for each kind and name. */
export type HourReport = readonly Row[];

/** Buckets of durations, each a tenth longer than the one below (ms). */
export const BUCKETS = 192;
export const LEAST = 0.05;
export const GROWTH = Math.log(1.1);

export const firstMinute = (wall: number) => wall - (wall % MINUTE) - (MINUTES - 1) * MINUTE;

/** Rows of a kind, the largest count first. */
export const rowsOf = (hour: HourReport, wanted: string): readonly Row[] =>
  hour
    .filter(({ kind }) => kind === wanted)
    .sort((a, b) => b.asks - a.asks || (a.name < b.name ? -1 : 1));

/** Sixty minutes up to this moment, the oldest first. */
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

export const tenths = (figure: number): number => Math.round(figure * 10) / 10;

export type ReasonCount = ReturnType<typeof reasonsOf>[number];
/** Counts of outcomes with their reasons; an event without a reason is told by its type. */
export const reasonsOf = (hour: HourReport) =>
  rowsOf(hour, 'reason').map(({ name, asks }) => {
    const [outcome = '', reason = ''] = name.split(' ');
    return { outcome, reason, count: asks };
  });

/** Percentiles of hits or misses, right to a twentieth (ms). Null without any. */
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
