/** How the engine is at the moment. */
export interface Weather {
  /** How long an answer takes (ms). */
  readonly least: number;
  readonly most: number;
  /** Of so many requests one is refused, by a status 503 and by a Fault in turn; 0 for none. */
  readonly refusesOneIn: number;
}

export const FINE: Weather = { least: 5, most: 60, refusesOneIn: 0 };

/** Stands in what the engine says when it is overloaded. */
export const OVERLOADED = 'The engine is overloaded, it says';

/** A statement whose answer takes so many milliseconds at least, whatever the weather. */
export const slowStatement = (milliseconds: number, question: string): string =>
  `SELECT {[Measures].[Unit Sales]} ON COLUMNS FROM [Takes ${milliseconds} ms] WHERE ([Time].[${question}])`;

/** One that is never answered. */
export const ENDLESS = 'SELECT {[Measures].[Unit Sales]} ON COLUMNS FROM [Takes for ever]';

/** How long a statement takes by itself (ms); Infinity for one that never ends. */
export function ownTime(statement: string): number {
  if (statement.includes('[Takes for ever]')) return Infinity;
  return Number(/\[Takes (\d+) ms\]/.exec(statement)?.[1] ?? 0);
}
