import { clearCacheFailures, faults, LOGIN_FAILURES } from './failures.ts';
import type { Answer, Answers, Operation, Paths, Schema } from './openapi-types.ts';
import { shared } from './shared-answers.ts';
import { project } from './xmla-paths.ts';

export const CLEAR_CACHE_SCHEMAS: Readonly<Record<string, Schema>> = {
  PurgeReceipt: {
    description: 'What a purge did.',
    type: 'object',
    required: ['status', 'id', 'scope', 'epochs_renewed', 'waited', 'engine_calls'],
    properties: {
      status: { const: 'cleared' },
      id: { type: 'string', description: 'Ties the receipt to the log.' },
      scope: {
        description: 'What was cleared: everything, or what belongs to one project.',
        oneOf: [
          { const: 'everything' },
          { type: 'object', required: ['project'], properties: { project: { type: 'string' } } },
        ],
      },
      epochs_renewed: {
        description:
          'The scopes of the cache under which no entry of before can be reached any more.',
        type: 'array',
        items: { type: 'string' },
      },
      waited: {
        description: 'Milliseconds that were waited until no gateway could answer from before.',
        type: 'number',
        minimum: 0,
      },
      engine_calls: {
        description: "Calls of the engine's own clear operation.",
        type: 'integer',
        minimum: 0,
      },
    },
  },
};

const FAILURES = [...LOGIN_FAILURES, 'forbidden', 'purge-failed', 'internal'] as const;
const TEXTS = {
  forbidden: 'Nothing was done: alice is neither in auth.admins nor in auth.purgers.',
};

function cleared(text: string, scope: unknown, epochs: readonly string[]): Answer {
  return {
    description:
      'Cleared, on every gateway: no request that arrives after this answer is answered from before.',
    content: {
      'text/plain': { schema: { type: 'string' }, example: text },
      'application/json': {
        schema: { $ref: '#/components/schemas/PurgeReceipt' },
        example: {
          status: 'cleared',
          id: 'oUq0MShjHbDl5nUI2bYzwQ',
          scope,
          epochs_renewed: epochs,
          waited: 1100,
          engine_calls: 0,
        },
      },
    },
  };
}

const ALL = cleared('Cache has been cleared.', 'everything', ['everything']);
const ONE = cleared('learn Cache has been cleared.', { project: 'learn' }, [
  'project:learn',
  'unassigned',
]);

const about = (what: string) =>
  `Drops ${what} from the query cache, for those in \`auth.admins\` and \`auth.purgers\`. Answers when no gateway ` +
  'that shares the cache can use the old entries any more. The answer is the plain text; programs that send ' +
  '`Accept: application/json` get a receipt instead. A request that a browser sends for another site, or ahead of a ' +
  'click, is refused.';

function clearing(
  operationId: string,
  summary: string,
  what: string,
  responses: Answers,
): Operation {
  return { operationId, tags: ['Cache'], summary, description: about(what), responses };
}

const failures = shared('ClearCache', clearCacheFailures(FAILURES, TEXTS));
const badProject = shared('ClearCacheProject', faults(['bad-request'], false));
const otherMethods = shared('ClearCacheOtherMethod', clearCacheFailures(['method-not-allowed']));

export const CLEAR_CACHE_SHARED_ANSWERS: Readonly<Record<string, Answer>> = {
  ...failures.responses,
  ...badProject.responses,
  ...otherMethods.responses,
};

const allAnswers: Answers = { 200: ALL, ...failures.refs };
const oneAnswers: Answers = { 200: ONE, ...badProject.refs, ...failures.refs };

/** The operations of the interface document §4.3; POST does the same as GET. */
export const CLEAR_CACHE_PATHS: Paths = {
  '/mdx/xmla/clearCache': {
    get: clearing('clearCache', 'Clear the query cache', 'everything', allAnswers),
    post: clearing('clearCacheByPost', 'The same by POST', 'everything', allAnswers),
    'x-other-methods': otherMethods.refs,
  },
  '/mdx/xmla/{project}/clearCache': {
    parameters: [project],
    get: clearing(
      'clearProjectCache',
      'Clear the query cache of a project',
      'what belongs to a project',
      oneAnswers,
    ),
    post: clearing(
      'clearProjectCacheByPost',
      'The same by POST',
      'what belongs to a project',
      oneAnswers,
    ),
    'x-other-methods': { ...badProject.refs, ...otherMethods.refs },
  },
};
