import type { Act, Asked } from './plan.ts';
import { programNames } from './programs.ts';
import type { Stage } from './scene.ts';

/** Who uses what: every other person Excel, the others all programs in turn. */
export const programOfNumber = (at: number): string =>
  at % 2 === 0 ? 'Excel' : (programNames[((at - 1) / 2) % programNames.length] ?? 'Excel');

/** Excel asks for metadata first, and for pivots with the questions behind these. */
const FIRST_PIVOT = 30;
const PIVOTS = 8;

/** The first so many of the pivots. */
export const pivotsUpTo = (count: number): readonly number[] =>
  Array.from({ length: count }, (_, at) => FIRST_PIVOT + at);

/** A workbook that is opened, clicked in and closed. */
export function workbook(
  stage: Stage,
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
    /** How many different pivots its clicks ask for. */
    readonly pivots?: number;
  },
): readonly Act[] {
  const { below } = stage;
  const { from, until, every, changes, metadata = 6, closes = true, pivots = PIVOTS } = options;
  const questions = Array.from({ length: metadata }, (_, at) => at);
  return [
    { do: 'open', at: from, questions, catalogLater: below(2) === 0 },
    ...clicks(stage, { from: from + every, until, every }, () => FIRST_PIVOT + below(pivots)),
    ...(changes === undefined ? [] : [{ do: 'change', at: changes } as const]),
    ...(closes ? [{ do: 'close', at: until } as const] : []),
  ];
}

/** Clicks with pauses between them as people make them: half of the usual pause to one and a half. */
export function clicks(
  { below, slowness }: Stage,
  { from, until, every }: { readonly from: number; readonly until: number; readonly every: number },
  asked: () => Asked,
): readonly Act[] {
  const usual = Math.round(every * slowness);
  const acts: Act[] = [];
  for (let at = from; at < until; at += usual / 2 + below(usual)) {
    acts.push({ do: 'ask', at, questions: [asked()] });
  }
  return acts;
}

/** A statement that was asked by no one yet. */
export function newStatement(below: Stage['below']): string {
  return `SELECT {[Measures].[Unit Sales]} ON COLUMNS FROM [Sales] WHERE ([Customer].[${below(2 ** 30)}])`;
}
