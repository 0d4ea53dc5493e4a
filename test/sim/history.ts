import { createHash } from 'node:crypto';

/** So many lines are told before a violation; more by SIM_TOLD=3000. */
const TOLD = Number(process.env['SIM_TOLD'] ?? 60);

/** What happened in a run, each line with its moment. */
export function createHistory(now: () => number) {
  const hash = createHash('sha256');
  const lines: string[] = [];
  const lineOf = (what: string) => `${(now() / 1_000).toFixed(3)} ${what}`;

  return {
    note(what: string): void {
      const line = lineOf(what);
      hash.update(line);
      lines.push(line);
      if (lines.length > 40 * TOLD) lines.splice(0, 20 * TOLD);
    },
    /** Equal for runs in which the same happened at the same moments. */
    digest: () => hash.copy().digest('hex'),
    /** A broken promise, behind what happened last. @param isAbout chooses the lines that have to do with it */
    until: (violation: string, isAbout: (line: string) => boolean = () => true) =>
      [...lines.filter(isAbout).slice(-TOLD), lineOf(violation)].join('\n'),
  };
}
