import type { Act, Asked } from './plan.ts';
import { programNames } from './programs.ts';
import type { Stage } from './scene.ts';

/** Who uses what: every other person Excel, the others all programs in turn. */
export const programOfNumber = (at: number): string =>
  at % 2 === 0 ? 'Excel' : (programNames[((at - 1) / 2) % programNames.length] ?? 'Excel');

/** Excel asks for metadata first, and for pivots with the questions behind these. */
const FIRST_PIVOT = 30;
const PIVOTS = 8;

/** A workbook that is opened, clicked in and closed. */
export function workbook(
  { below }: Stage,
  options: {
    readonly from: number;
    readonly until: number;
    /** Milliseconds between two clicks, more or less. */
    readonly every: number;
    /** When something is made in its session. */
    readonly changes?: number;
    /** How many questions it asks when it is opened. */
    readonly metadata?: number;
    readonly closes?: boolean;
  },
): readonly Act[] {
  const { from, until, every, changes, metadata = 6, closes = true } = options;
  const questions = Array.from({ length: metadata }, (_, at) => at);
  return [
    { do: 'open', at: from, questions, catalogLater: below(2) === 0 },
    ...clicks(from + every, until, every, below, () => FIRST_PIVOT + below(PIVOTS)),
    ...(changes === undefined ? [] : [{ do: 'change', at: changes } as const]),
    ...(closes ? [{ do: 'close', at: until } as const] : []),
  ];
}

/** Clicks with pauses between them as people make them: half of the usual pause to one and a half. */
export function clicks(
  from: number,
  until: number,
  every: number,
  below: Stage['below'],
  asked: (at: number) => Asked,
): readonly Act[] {
  const acts: Act[] = [];
  for (let at = from; at < until; at += every / 2 + below(every)) {
    acts.push({ do: 'ask', at, questions: [asked(at)] });
  }
  return acts;
}

/** A statement that was asked by no one yet. */
export function newStatement(below: Stage['below']): string {
  return `SELECT {[Measures].[Unit Sales]} ON COLUMNS FROM [Sales] WHERE ([Customer].[${below(2 ** 30)}])`;
}
