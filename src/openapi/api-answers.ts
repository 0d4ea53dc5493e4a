import type { ApiReason, GatewayReason } from '../reasons.ts';
import { apiFailures } from './failures.ts';
import { ALLOW } from './headers.ts';
import type { Answer, Answers, MediaType, Schema } from './openapi-types.ts';

/** What can end any request below /api. */
const EVERYWHERE = ['bad-request', 'unauthenticated', 'throttled', 'internal'] as const;
const READING = [...EVERYWHERE, 'storage-unavailable'] as const;
const CHANGING = [...READING, 'forbidden', 'not-cleared'] as const;
/** What can be wrong with a body, beside what it says. */
const BODY = ['media-type', 'content-coding', 'too-big'] as const;

/** What an operation of the role and dataset API answers. */
interface ApiAnswers {
  readonly success: Answer;
  /** What it is refused for, beside what can end any operation of its kind. */
  readonly refusals?: readonly ApiReason[];
  readonly hasBody?: boolean;
  /** An example of a text about wrong input. */
  readonly wrongInput: string;
}

export function reading(answers: ApiAnswers): Answers {
  return apiAnswers(READING, answers);
}

export function changing(answers: ApiAnswers): Answers {
  return apiAnswers(CHANGING, answers);
}

function apiAnswers(
  kind: readonly (ApiReason | GatewayReason)[],
  { success, refusals = [], hasBody = false, wrongInput }: ApiAnswers,
): Answers {
  const reasons = [...kind, ...refusals, ...(hasBody ? BODY : [])];
  return {
    200: success,
    ...apiFailures(reasons, {
      'bad-request': wrongInput,
      'storage-unavailable': 'The storage cannot be reached; nothing was changed.',
      'not-cleared': 'saved; cache of roles not yet cleared',
    }),
  };
}

/** A success in the envelope of the API. */
export function enveloped(description: string, data: Schema, example: unknown): Answer {
  return json(description, {
    schema: {
      type: 'object',
      required: ['status', 'data'],
      properties: { status: { const: 0, description: '0: success.' }, data },
    },
    example: { status: 0, data: example },
  });
}

export function json(description: string, media: MediaType): Answer {
  return { description, content: { 'application/json': media } };
}

/** The data of operations that have nothing to tell. */
export const SUCCESS: Schema = { const: 'success' };

/** OPTIONS, and methods that a path of the API does not have. */
export const API_OTHER_METHODS: Answers = {
  204: { description: 'To OPTIONS: the methods of the path.', headers: { Allow: ALLOW } },
  ...apiFailures([...EVERYWHERE, 'method-not-allowed']),
};

/** Paths below /api that are none of an operation. */
export const API_OTHER_PATHS: Answers = apiFailures([...EVERYWHERE, 'not-found']);
