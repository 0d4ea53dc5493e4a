import type { ApiReason } from '../reasons.ts';
import { apiFailures, LOGIN_FAILURES } from './failures.ts';
import { ALLOW } from './headers.ts';
import type { Answer, Answers, MediaType, Schema } from './openapi-types.ts';
import { shared } from './shared-answers.ts';

/** What can end any request below /api. */
const EVERYWHERE = [...LOGIN_FAILURES, 'identity-refused', 'internal'] as const;

const everywhere = shared('Api', apiFailures(EVERYWHERE));
const forChanges = shared('ApiChange', apiFailures(['forbidden', 'identity-refused']));
const forBodies = shared('ApiBody', apiFailures(['media-type', 'content-coding', 'too-big']));
const otherMethods = shared('ApiOtherMethod', {
  204: { description: 'To OPTIONS: the methods of the path.', headers: { Allow: ALLOW } },
  ...apiFailures(['bad-request', ...EVERYWHERE, 'method-not-allowed']),
});

export const API_SHARED_ANSWERS: Readonly<Record<string, Answer>> = {
  ...everywhere.responses,
  ...forChanges.responses,
  ...forBodies.responses,
  ...otherMethods.responses,
};

/** OPTIONS, and methods that a path of the API does not have. */
export const API_OTHER_METHODS: Answers = otherMethods.refs;

/** Paths below /api that are none of an operation. */
export const API_OTHER_PATHS: Answers = {
  ...everywhere.refs,
  ...apiFailures(['bad-request', 'not-found']),
};

/** What is told with these codes, where the code's meaning would not show the field that it is about. */
const TEXTS = {
  'no-such-role': 'roleId: there is no role with this id.',
  'name-taken': 'name: another role has this name; letter case does not count.',
  'already-member': 'contains[0].name: this user is in the role already.',
  'not-a-member': 'contains[0].name: this user is not in the role.',
  'built-in-role': 'roleId: the built-in role cannot be deleted.',
  'dataset-exists': 'dataset_name: the project has a dataset of this name already; PUT updates it.',
  'storage-unavailable': 'The storage cannot be reached; nothing was changed.',
  'not-cleared': 'saved; cache of learn not yet cleared',
};

/** What an operation of the role and dataset API answers. */
interface ApiAnswers {
  readonly success: Answer;
  /** What it is refused for, beside what can end any operation of its kind. */
  readonly refusals?: readonly (ApiReason | 'overloaded')[];
  readonly hasBody?: boolean;
  /** Whether it purges the project that it changes. */
  readonly purges?: boolean;
  /** An example of a text about wrong input. */
  readonly wrongInput: string;
}

export function reading({ success, refusals = [], wrongInput }: ApiAnswers): Answers {
  return {
    200: success,
    ...everywhere.refs,
    ...apiFailures(['bad-request', ...refusals, 'storage-unavailable'], {
      ...TEXTS,
      'bad-request': wrongInput,
      'no-such-dataset': 'The project has no dataset of this name and type.',
    }),
  };
}

export function changing(answers: ApiAnswers): Answers {
  const { success, refusals = [], hasBody = false, purges = false, wrongInput } = answers;
  const failures = ['bad-request', ...refusals, 'storage-unavailable'] as const;
  return {
    200: success,
    ...everywhere.refs,
    ...forChanges.refs,
    ...(hasBody && forBodies.refs),
    ...apiFailures([...failures, ...(purges ? (['not-cleared'] as const) : [])], {
      ...TEXTS,
      'bad-request': wrongInput,
      'no-such-dataset': 'dataset_name: the project has no dataset of this name; POST imports it.',
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
