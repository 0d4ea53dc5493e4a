import { randomBytes } from 'node:crypto';
import { largeMddatasetAnswer, mddatasetAnswer } from '../answers.ts';

/** A question with a long answer that is kept compressed, and two whose answers hardly get shorter. */
export const LONG = 'Long';
export const INCOMPRESSIBLE = ['Incompressible', 'Also incompressible'] as const;

const MADE: Readonly<Record<string, () => string>> = {
  [LONG]: () => largeMddatasetAnswer(5_000_000),
  ...Object.fromEntries(INCOMPRESSIBLE.map((question) => [question, incompressible])),
};
const answers = new Map<string, string>();

/** What an engine answers to these; undefined for others. */
export function longAnswerTo(question: string): string | undefined {
  const answer = answers.get(question) ?? MADE[question]?.();
  if (answer !== undefined) answers.set(question, answer);
  return answer;
}

/** As a value of Redis it takes 14 MB. */
function incompressible(): string {
  const text = mddatasetAnswer({ cells: 14_000 });
  return text.replaceAll(/(?<=<FmtValue>)[^<]*/g, () => randomBytes(1_000).toString('base64'));
}
