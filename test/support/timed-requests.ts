/** One request, and what became of it. */
export interface Timed {
  readonly status: string;
  readonly milliseconds: number;
}

/** Requests by their kind. */
type TimedRequests = ReadonlyMap<string, readonly Timed[]>;

/** The part of the answers that took no longer, by its size in percent. */
export function percentile(list: readonly Timed[], percent: number): number {
  const sorted = list.map(({ milliseconds }) => milliseconds).sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * percent) / 100))] ?? NaN;
}

/** The requests of a phase by what became of them. */
export function byOutcome(seen: TimedRequests): Map<string, Timed[]> {
  const outcomes = new Map<string, Timed[]>();
  for (const [kind, list] of seen) {
    for (const one of list) {
      const name = `${kind}: ${one.status}`;
      const same = outcomes.get(name);
      if (same === undefined) outcomes.set(name, [one]);
      else same.push(one);
    }
  }
  return outcomes;
}

/** Percentiles by kind and outcome, one line for each. */
export function table(name: string, seen: TimedRequests): string {
  const rows = [...byOutcome(seen)].sort().map(([outcome, list]) => {
    const [p50, p99, most] = [50, 99, 100].map((one) => percentile(list, one).toFixed(2));
    return `  ${outcome} × ${list.length}: p50 ${p50}, p99 ${p99}, longest ${most} ms`;
  });
  return [name, ...rows].join('\n');
}
