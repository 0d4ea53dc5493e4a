import { mddatasetAnswer } from '../answers.ts';
import { execute, type ExecuteSpec } from '../envelopes.ts';

/** What an engine under attack answers to a question. */
export const answerTo = (question: string) => mddatasetAnswer({ members: [question], cells: 40 });

/** The question of a body that {@link asking} made. */
export const questionOf = (body: string) => /FROM \[([^\]]+)\]/.exec(body)?.[1];

/** A query that may be cached, in a catalog of its own if one is named. */
export function asking(
  question: string,
  { catalog = 'FoodMart', ...spec }: Partial<ExecuteSpec> & { readonly catalog?: string } = {},
): Buffer {
  return execute({
    statement: `SELECT FROM [${question}]`,
    properties: { Catalog: catalog },
    ...spec,
  });
}

/** Whether an answer came from the cache. */
export const isHit = (cacheStatus: unknown) => /^mdx-gateway; hit(?:;|$)/.test(String(cacheStatus));

/** In every name that an attacker invents. */
export const INVENTED = 'invented';
