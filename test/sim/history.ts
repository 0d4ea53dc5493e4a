import { createHash } from 'node:crypto';

/** Lines that are told before a violation; more by SIM_TOLD=3000. */
const TOLD = Number(process.env['SIM_TOLD'] ?? 60);

/** A line about nothing in particular is about all. */
interface Line {
  readonly text: string;
  readonly about: readonly string[] | undefined;
}

/** What happened in a run, each line with its moment, and what was promised and not kept. */
export function createHistory(now: () => number) {
  const hash = createHash('sha256');
  const violations: string[] = [];
  let lines: Line[] = [];
  const lineOf = (what: string) => `${(now() / 1_000).toFixed(3)} ${what}`;

  return {
    violations,
    /** @param about names of what it has to do with: of all unless given */
    note(what: string, about?: readonly string[]): void {
      const text = lineOf(what);
      hash.update(text);
      lines.push({ text, about });
      if (lines.length > 40 * TOLD) lines = lines.slice(-20 * TOLD);
    },
    /** Mixes something into the digest that is told in no line. */
    mix: (what: string) => void hash.update(what),
    /** A promise is broken. @param about chooses the lines that are told before it: all unless given */
    accuse(what: string, about?: readonly string[]): void {
      const isAbout = (line: Line) =>
        about === undefined ||
        line.about === undefined ||
        line.about.some((one) => about.includes(one));
      const before = lines.filter(isAbout).slice(-TOLD);
      violations.push([...before.map(({ text }) => text), lineOf(what)].join('\n'));
      // A debugger that is attached stops here; what broke the promise is behind the closures of the stack.
      // oxlint-disable-next-line no-debugger
      debugger;
    },
    /** Equal for runs in which the same happened at the same moments. */
    digest: () => hash.copy().digest('hex'),
  };
}
