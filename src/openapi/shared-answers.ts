import type { Answer, Answers, Reference } from './openapi-types.ts';

/** Answers that several operations have, as the components hold them and as the operations name them. */
export interface SharedAnswers {
  readonly responses: Readonly<Record<string, Answer>>;
  readonly refs: Answers;
}

/** @param prefix of the names that the answers get, before their status */
export function shared(prefix: string, answers: Readonly<Record<string, Answer>>): SharedAnswers {
  const responses: Record<string, Answer> = {};
  const refs: Record<string, Reference> = {};
  for (const [status, answer] of Object.entries(answers)) {
    responses[`${prefix}-${status}`] = answer;
    refs[status] = { $ref: `#/components/responses/${prefix}-${status}` };
  }
  return { responses, refs };
}
