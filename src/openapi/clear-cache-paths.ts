import { clearCacheFailures, faultsOrTexts, LOGIN_FAILURES } from './failures.ts';
import type { Answer, Answers, Operation, Paths, Schema } from './openapi-types.ts';
import { shared } from './shared-answers.ts';
import { project } from './xmla-paths.ts';

export const PURGE_SCOPE: Schema = {
  description: 'What was dropped: everything, or what belongs to one project.',
  oneOf: [
    { const: 'everything' },
    { type: 'object', required: ['project'], properties: { project: { type: 'string' } } },
  ],
};

const RECEIPT: Readonly<Record<string, Schema>> = {
  id: { type: 'string', description: 'Ties the receipt to the log.' },
  scope: PURGE_SCOPE,
  epochs_renewed: {
    description: 'The scopes of the cache under which no entry of before can be reached any more.',
    type: 'array',
    items: { type: 'string' },
  },
  replicas: {
    description:
      'Gateways that told within the wait that they have forgotten the old entries, this one included. The promise does not rest on them.',
    type: 'integer',
    minimum: 0,
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
};

const ENGINES: Schema = {
  description: "The calls of the engine's own clear operation.",
  type: 'array',
  items: { $ref: '#/components/schemas/EngineClear' },
};

const text = (description: string): Schema => ({ type: 'string', description });

export const CLEAR_CACHE_SCHEMAS: Readonly<Record<string, Schema>> = {
  PurgeReceipt: {
    description: 'What a purge did.',
    type: 'object',
    required: ['status', ...Object.keys(RECEIPT)],
    properties: {
      status: { const: 'cleared' },
      ...RECEIPT,
    },
  },
  EngineClear: {
    description: "What became of one call of the engine's own clear operation.",
    type: 'object',
    required: ['replica', 'ok'],
    properties: {
      replica: text('The URL of the replica, as configured.'),
      ok: { type: 'boolean', description: 'Whether it cleared its cache.' },
      called: { const: false, description: 'Set when it was not even called.' },
      why: text('Why not, as a sentence.'),
    },
  },
  EngineNotCleared: {
    description: 'What a purge did when an engine did not clear its own cache.',
    type: 'object',
    required: ['error', 'message', 'status', 'engines', ...Object.keys(RECEIPT)],
    properties: {
      error: { const: 'engine-not-cleared' },
      message: text('A text for people.'),
      status: { const: 'engine-not-cleared' },
      ...RECEIPT,
      engines: ENGINES,
    },
  },
  PurgeFailed: {
    description: 'What a purge did when Redis did not confirm it.',
    type: 'object',
    required: ['error', 'message', 'status', 'engines'],
    properties: {
      error: { const: 'purge-failed' },
      message: text('A text for people.'),
      status: { const: 'purge-failed' },
      engines: ENGINES,
    },
  },
};

const FAILURES = [
  ...LOGIN_FAILURES,
  'forbidden',
  'engine-not-cleared',
  'purge-failed',
  'internal',
] as const;
const TEXTS = {
  forbidden: 'Nothing was done: alice is neither in auth.admins nor in auth.purgers.',
  'engine-not-cleared':
    'The entries of the project are dropped, on every gateway. But an engine did not clear its own cache: it may still ' +
    'answer from that, and its answers are kept as new ones. Not emptied: the cache of ' +
    'http://olap-2:7080/mdx/xmla/{project}. It did not answer in time. Emptied: the cache of ' +
    'http://olap-1:7080/mdx/xmla/{project}. Call again when that is mended.',
};
const EMPTIED = { replica: 'http://olap-1:7080/mdx/xmla/{project}', ok: true };
const SHAPES = {
  'engine-not-cleared': {
    schema: { $ref: '#/components/schemas/EngineNotCleared' },
    details: {
      status: 'engine-not-cleared',
      ...receipt({ project: 'learn' }, ['project:learn', 'unassigned']),
      engine_calls: 2,
      engines: [
        EMPTIED,
        {
          replica: 'http://olap-2:7080/mdx/xmla/{project}',
          ok: false,
          why: 'It did not answer in time.',
        },
      ],
    },
  },
  'purge-failed': {
    schema: { $ref: '#/components/schemas/PurgeFailed' },
    details: { status: 'purge-failed', engines: [EMPTIED] },
  },
};

function receipt(scope: unknown, epochs: readonly string[]) {
  return {
    id: 'oUq0MShjHbDl5nUI2bYzwQ',
    scope,
    epochs_renewed: epochs,
    replicas: 1,
    waited: 1100,
    engine_calls: 0,
  };
}

function cleared(text: string, scope: unknown, epochs: readonly string[]): Answer {
  return {
    description:
      'Cleared, on every gateway: no request that arrives after this answer is answered from before.',
    content: {
      'text/plain': { schema: { type: 'string' }, example: text },
      'application/json': {
        schema: { $ref: '#/components/schemas/PurgeReceipt' },
        example: { status: 'cleared', ...receipt(scope, epochs) },
      },
    },
  };
}

const ALL = cleared('Cache has been cleared.', 'everything', ['everything', 'unassigned']);
const ONE = cleared('learn Cache has been cleared.', { project: 'learn' }, [
  'project:learn',
  'unassigned',
]);

const about = (what: string) =>
  `Drops ${what} from the query cache, for those in \`auth.admins\` and \`auth.purgers\`. Answers when no gateway ` +
  'that shares the cache can use the old entries any more; with `engine.clear`, the engine has cleared its own cache ' +
  'before. The answer is the plain text; programs that send ' +
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

const failures = shared('ClearCache', clearCacheFailures(FAILURES, TEXTS, SHAPES));
const badProject = shared('ClearCacheProject', faultsOrTexts(['bad-request'], false));
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
