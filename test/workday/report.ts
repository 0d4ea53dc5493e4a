import type { Outcome, Verdict } from './outcome.ts';

/** What became of the people of one scene. */
export interface SceneReport {
  readonly name: string;
  readonly title: string;
  readonly notBarred: string | undefined;
  readonly people: number;
  readonly outcomes: readonly Outcome[];
  /** Those of them that were refused and may be. */
  readonly allowed: ReadonlySet<Outcome>;
  readonly engineRequests: number;
  /** CPU time of both gateways (ms). */
  readonly cpu: number;
  /** What it had to show and did not. */
  readonly missing: readonly string[];
  /** Why it could not be played to its end. */
  readonly failed?: string;
  /** What a reader must know beside the figures. */
  readonly notes: readonly string[];
}

const BAD: readonly Verdict[] = ['refused', 'cut', 'wrong', 'old'];

const countOf = (report: SceneReport, verdict: Verdict): number =>
  failuresOf(report).filter((one) => one.verdict === verdict).length;

const failuresOf = ({ outcomes, allowed }: SceneReport): readonly Outcome[] =>
  outcomes.filter((one) => one.verdict !== 'right' && !allowed.has(one));

const HEADS = [
  ...['scene', 'people', 'requests', ...BAD, 'allowed'],
  ...['p50 ms', 'p95 ms', 'worst ms', 'engine', 'CPU ms/request'],
];

/** A row of the table for each scene, and below it what those who were turned away were told. */
export function tableOf(reports: readonly SceneReport[]): string {
  const rows = [HEADS, ...reports.map(cellsOf)];
  const widths = HEADS.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  const line = (row: readonly string[]) =>
    row
      .map((cell, at) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0)))
      .join('  ');
  const below = reports.map((report) => [line(cellsOf(report)), ...notesOf(report)].join('\n'));
  return `${line(HEADS)}\n${below.join('\n')}\n`;
}

function cellsOf(report: SceneReport): readonly string[] {
  const { name, people, outcomes, allowed, engineRequests, cpu } = report;
  const waits = outcomes.map(({ due, answered }) => answered - due).toSorted((a, b) => a - b);
  const wait = (share: number) => (waits[Math.ceil(waits.length * share) - 1] ?? 0).toFixed(0);
  return [
    name,
    ...[people, outcomes.length, ...BAD.map((verdict) => countOf(report, verdict))].map(String),
    ...[String(allowed.size), wait(0.5), wait(0.95), wait(1), String(engineRequests)],
    outcomes.length === 0 ? '' : (cpu / outcomes.length).toFixed(1),
  ];
}

/** Most kinds of words that are told. */
const MOST_WORDS = 8;

function notesOf(report: SceneReport): readonly string[] {
  const counts = new Map<string, number>();
  for (const { verdict, deed, words } of failuresOf(report)) {
    const text = `${verdict} (${deed}): ${words}`;
    counts.set(text, (counts.get(text) ?? 0) + 1);
  }
  const told = [...counts]
    .toSorted(([, a], [, b]) => b - a)
    .map(([text, count]) => `${String(count).padStart(6)} × ${text}`);
  const more = told.length - MOST_WORDS;
  const { notBarred, notes } = report;
  return [
    ...told.slice(0, MOST_WORDS),
    ...(more > 0 ? [`         and ${more} more`] : []),
    ...[...notes, ...(notBarred === undefined ? [] : [`not barred: ${notBarred}`])].map(
      (note) => `         ${note}`,
    ),
  ];
}

/** A line for each bar that is broken: only people are counted, never times. */
export function brokenBars(reports: readonly SceneReport[]): readonly string[] {
  return reports.flatMap((report) => {
    const { name, notBarred, outcomes, failed } = report;
    if (failed !== undefined) return [`${name}: ${failed}`];
    if (notBarred !== undefined) return [];
    if (!outcomes.some(({ verdict }) => verdict === 'right')) return [`${name}: no right answer`];
    const bad = BAD.flatMap((verdict) => {
      const count = countOf(report, verdict);
      return count === 0 ? [] : [`${name}: ${count} ${verdict}, and 0 are allowed`];
    });
    return [...bad, ...report.missing.map((what) => `${name}: ${what}`)];
  });
}
