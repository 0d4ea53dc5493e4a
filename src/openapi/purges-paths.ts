import { PURGE_SCOPE } from './clear-cache-paths.ts';
import { LOGIN_FAILURES, pageFailures } from './failures.ts';
import type { Answer, Paths, Schema } from './openapi-types.ts';
import { shared } from './shared-answers.ts';

export const PURGES_SCHEMAS: Readonly<Record<string, Schema>> = {
  PurgeRecord: {
    description:
      'What is remembered of a purge: one for each who asked, and a second one when a purge that was owed was done at last.',
    type: 'object',
    required: [
      'id',
      'at',
      'principal',
      'cause',
      'scope',
      'result',
      'replicas',
      'waited',
      'engine_calls',
    ],
    properties: {
      id: {
        type: 'string',
        description: 'As in the receipt and in the log. Purges that were made together have one.',
      },
      at: {
        type: 'string',
        pattern: '^[+-]?\\d{4,6}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$',
        description:
          'When it was asked for, or, of one that was owed, done at last; by the clock of the gateway that made it.',
      },
      principal: { type: 'string', description: 'Who asked for it.' },
      cause: {
        description:
          'clear-cache: a call of clearCache; repeat: the same once more, after `cache.purge.repeat_after`; change: of a dataset; statement: that went to the engine.',
        enum: ['clear-cache', 'repeat', 'change', 'statement'],
      },
      scope: PURGE_SCOPE,
      result: {
        description:
          'cleared: done as a whole; engine-failed: an engine did not clear its own cache; owed: Redis did not confirm it.',
        enum: ['cleared', 'engine-failed', 'owed'],
      },
      replicas: {
        type: 'integer',
        minimum: 0,
        description:
          'Gateways that told that they have forgotten it, the one that made it included.',
      },
      waited: {
        type: 'number',
        minimum: 0,
        description: 'Milliseconds that were waited until no gateway could answer from before.',
      },
      engine_calls: {
        type: 'integer',
        minimum: 0,
        description: "Calls of the engine's own clear operation.",
      },
    },
  },
  Purges: {
    description: 'The latest purges of all gateways that share the cache.',
    type: 'object',
    required: ['complete', 'purges'],
    properties: {
      complete: {
        type: 'boolean',
        description: 'False while Redis cannot be read: then only those of this gateway are told.',
      },
      purges: {
        type: 'array',
        items: { $ref: '#/components/schemas/PurgeRecord' },
        description: 'The newest first.',
      },
    },
  },
};

const failures = shared(
  'Purges',
  pageFailures([...LOGIN_FAILURES, 'bad-request', 'forbidden', 'identity-refused', 'internal']),
);
const otherMethods = shared('PurgesOtherMethod', pageFailures(['method-not-allowed']));

export const PURGES_SHARED_ANSWERS: Readonly<Record<string, Answer>> = {
  ...failures.responses,
  ...otherMethods.responses,
};

export const PURGES_PATHS: Paths = {
  '/admin/purges': {
    get: {
      operationId: 'listPurges',
      tags: ['Cache'],
      summary: 'The latest purges',
      description:
        'Who dropped what, when, and with which result, for those in `auth.admins`. As many are remembered as there is ' +
        'room for; the oldest are forgotten.',
      parameters: [
        {
          name: 'limit',
          in: 'query',
          description: 'The most that are told.',
          required: false,
          schema: { type: 'integer', minimum: 1, maximum: 1000, default: 100 },
          example: 20,
        },
      ],
      responses: {
        200: {
          description: 'The latest purges.',
          content: {
            'application/json': {
              schema: { $ref: '#/components/schemas/Purges' },
              example: {
                complete: true,
                purges: [
                  {
                    id: 'oUq0MShjHbDl5nUI2bYzwQ',
                    at: '2026-01-01T04:30:00.000Z',
                    principal: 'loader',
                    cause: 'clear-cache',
                    scope: { project: 'learn' },
                    result: 'cleared',
                    replicas: 3,
                    waited: 1100,
                    engine_calls: 2,
                  },
                ],
              },
            },
          },
        },
        ...failures.refs,
      },
    },
    'x-other-methods': otherMethods.refs,
  },
};
