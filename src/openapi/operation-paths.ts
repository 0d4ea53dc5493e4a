import { LOGIN_FAILURES, pageFailures } from './failures.ts';
import { ETAG } from './headers.ts';
import type {
  Answer,
  Answers,
  Operation,
  PathItem,
  Paths,
  Schema,
  Security,
} from './openapi-types.ts';
import { shared } from './shared-answers.ts';

/** Of pages that `listen.open` can open. */
const LOGIN_OR_OPEN: Security = [{ basic: [] }, {}];
const failures = shared('Page', pageFailures([...LOGIN_FAILURES, 'internal']));
const otherMethods = shared('PageOtherMethod', pageFailures(['method-not-allowed']));

export const PAGE_SHARED_ANSWERS: Readonly<Record<string, Answer>> = {
  ...failures.responses,
  ...otherMethods.responses,
};

const state = (...words: string[]): Schema => ({ enum: words });

export const OPERATION_SCHEMAS: Readonly<Record<string, Schema>> = {
  Readiness: {
    type: 'object',
    required: ['status', 'engines', 'redis', 'storage'],
    properties: {
      status: state('ready', 'not ready'),
      engines: {
        type: 'array',
        items: {
          type: 'object',
          required: ['url', 'state'],
          properties: {
            url: { type: 'string', description: 'As the configuration has it.' },
            state: state('up', 'down'),
          },
        },
      },
      redis: {
        type: 'object',
        required: ['state', 'mode', 'purges_owed', 'conditions'],
        properties: {
          state: { ...state('off', 'up', 'down'), description: 'off: none is configured.' },
          why: {
            description: 'Why it cannot be used, while it is down and as far as that is known.',
            type: 'string',
          },
          mode: {
            ...state('none', 'standalone', 'sentinel', 'cluster'),
            description: 'As the configuration has it; none: none is configured.',
          },
          purges_owed: {
            description: 'Purges that Redis did not confirm; they are done when it answers.',
            type: 'integer',
            minimum: 0,
          },
          conditions: {
            description:
              'What is not set at Redis as the promises of a purge need it, or could not be checked; empty while it ' +
              'is down. No reason for not being ready.',
            type: 'array',
            items: { type: 'string' },
          },
        },
      },
      storage: {
        description: 'Where roles and datasets are.',
        type: 'object',
        required: ['driver', 'state'],
        properties: {
          driver: state('sqlite', 'postgres', 'http'),
          state: state('up', 'down'),
        },
      },
    },
  },
};

const readiness = (description: string, status: string, engine: string): Answer => ({
  description,
  content: {
    'application/json': {
      schema: {
        $ref: '#/components/schemas/Readiness',
        type: 'object',
        properties: { status: { const: status } },
      },
      example: {
        status,
        engines: [{ url: 'http://127.0.0.1:8080/xmla', state: engine }],
        redis: { state: 'up', mode: 'standalone', purges_owed: 0, conditions: [] },
        storage: { driver: 'sqlite', state: 'up' },
      },
    },
  },
});

/** A path that is read, and nothing else. */
function page(
  open: Security,
  get: Omit<Operation, 'tags' | 'security'> & { readonly responses: Answers },
): PathItem {
  return {
    get: { ...get, tags: ['Operation'], security: open },
    'x-other-methods': otherMethods.refs,
  };
}

/** What does not change while the gateway runs. */
function file(
  mediaType: string,
  schema: Schema,
  names: { operationId: string; summary: string; description: string },
): PathItem {
  return page(LOGIN_OR_OPEN, {
    ...names,
    responses: {
      200: {
        description: 'The content.',
        headers: { ETag: ETAG },
        content: { [mediaType]: { schema } },
      },
      304: {
        description: 'It has not changed since the answer whose `ETag` was sent.',
        headers: { ETag: ETAG },
      },
      ...failures.refs,
    },
  });
}

const text: Schema = { type: 'string' };

export const OPERATION_PATHS: Paths = {
  '/health/live': page([], {
    operationId: 'isLive',
    summary: 'Is the gateway running?',
    description: 'Open to all, and says nothing but that the process answers.',
    responses: {
      200: {
        description: 'It runs.',
        content: {
          'application/json': {
            schema: {
              type: 'object',
              required: ['status'],
              properties: { status: { const: 'up' } },
            },
            example: { status: 'up' },
          },
        },
      },
    },
  }),
  '/health/ready': page(LOGIN_OR_OPEN, {
    operationId: 'isReady',
    summary: 'Can the gateway answer queries?',
    description:
      'The state of everything that the gateway depends on. It is ready when all engines answer: without Redis it ' +
      'is only slower, and without its storage only the role and dataset API fails. Open with `listen.open: [health]`.',
    responses: {
      200: readiness('Queries can be answered.', 'ready', 'up'),
      503: readiness('An engine does not answer.', 'not ready', 'down'),
      ...failures.refs,
    },
  }),
  '/metrics': page(LOGIN_OR_OPEN, {
    operationId: 'readMetrics',
    summary: 'Metrics',
    description: 'In the text format of Prometheus. Open with `listen.open: [metrics]`.',
    responses: {
      200: {
        description: 'The metrics.',
        content: {
          'text/plain': { schema: text, example: 'mdx_gateway_stored_total{project="learn"} 12\n' },
        },
      },
      ...failures.refs,
      ...pageFailures(['overloaded']),
    },
  }),
  '/openapi.json': file(
    'application/json',
    { type: 'object', required: ['openapi', 'info', 'paths'], additionalProperties: true },
    {
      operationId: 'readOpenApi',
      summary: 'This document',
      description: 'The interface in OpenAPI 3.1. Open with `listen.open: [docs]`.',
    },
  ),
  '/docs': file('text/html', text, {
    operationId: 'readDocs',
    summary: 'This document as a page',
    description: 'Open with `listen.open: [docs]`. Nothing on the page comes from elsewhere.',
  }),
  '/docs/initialise.js': file('text/javascript', text, {
    operationId: 'readDocsInitialiser',
    summary: 'Part of the page',
    description: 'Starts Swagger UI on the page.',
  }),
  '/docs/swagger-ui-bundle.js': file('text/javascript', text, {
    operationId: 'readDocsProgram',
    summary: 'Part of the page',
    description: 'Swagger UI.',
  }),
  '/docs/swagger-ui.css': file('text/css', text, {
    operationId: 'readDocsStyle',
    summary: 'Part of the page',
    description: 'The style of Swagger UI.',
  }),
};

/** Everything else. */
export const OTHER_PATHS: Answers = { ...failures.refs, ...pageFailures(['not-found']) };
