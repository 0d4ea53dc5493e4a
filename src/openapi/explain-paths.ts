import { BYPASS_REASONS, GATEWAY_REASONS } from '../reasons.ts';
import { LOGIN_FAILURES, pageFailures } from './failures.ts';
import type { Answer, Parameter, Paths, Schema } from './openapi-types.ts';
import { shared } from './shared-answers.ts';
import { requestBody, soapAction } from './xmla-paths.ts';

const milliseconds = (description: string): Schema => ({ type: 'integer', description });
const text = (description: string): Schema => ({ type: 'string', description });
const list = (items: Schema, description: string): Schema => ({
  type: 'array',
  items,
  description,
});
const ENTRY: Schema = { $ref: '#/components/schemas/ExplainedEntry' };

export const EXPLAIN_SCHEMAS: Readonly<Record<string, Schema>> = {
  ExplainedEntry: {
    description: 'An entry of the cache that would answer the request.',
    type: 'object',
    required: ['age_ms', 'ttl_ms', 'bytes', 'engine_ms'],
    properties: {
      age_ms: milliseconds('Since the engine was asked.'),
      ttl_ms: milliseconds('For which it may still be used.'),
      bytes: { type: 'integer', minimum: 0, description: 'The length of its body.' },
      engine_ms: milliseconds('That the engine needed for it.'),
    },
  },
  XmlaExplanation: {
    description: 'What would become of an XMLA request if it came now.',
    type: 'object',
    required: ['user', 'classification'],
    properties: {
      project: text('As asked.'),
      user: text('For whom it is explained.'),
      classification: {
        type: 'object',
        required: ['decision'],
        properties: {
          decision: {
            description:
              'cacheable: it is looked up. bypass: it goes to the engine. refused: the gateway answers it with a Fault.',
            enum: ['cacheable', 'bypass', 'refused'],
          },
          reason: {
            description: 'Why it is not looked up, in the words of `Cache-Status`.',
            enum: [...new Set([...Object.keys(BYPASS_REASONS), ...Object.keys(GATEWAY_REASONS)])],
          },
          why: text('What of it was not understood.'),
          method: { enum: ['Discover', 'Execute'] },
          subject: text('The Discover request type, or `Execute`.'),
          catalogs: list({ type: 'string' }, 'The catalogs that it names.'),
          share: { description: 'Who shares its answer.', enum: ['user', 'roles', 'everyone'] },
          ttl_ms: milliseconds('For which its answer would be kept.'),
        },
      },
      cache: {
        description: 'What the cache holds for a cacheable request.',
        type: 'object',
        required: ['key', 'parts', 'epochs', 'memory', 'redis', 'flight', 'nearest'],
        properties: {
          key: text('Of the entry. Requests with equal keys get one answer.'),
          parts: list(
            {
              type: 'object',
              required: ['name', 'digest'],
              properties: { name: { type: 'string' }, digest: { type: 'string' } },
            },
            'The parts of the key, each by a digest: where those of two requests differ, the part differs.',
          ),
          epochs: {
            description: 'What a purge renews; unknown while Redis cannot be reached.',
            oneOf: [
              { const: 'unknown' },
              {
                type: 'array',
                items: {
                  type: 'object',
                  required: ['scope', 'token'],
                  properties: { scope: { type: 'string' }, token: { type: 'string' } },
                },
              },
            ],
          },
          memory: {
            description: 'The entry in the memory of this gateway, or null.',
            oneOf: [{ type: 'null' }, ENTRY],
          },
          redis: {
            description: 'The entry in Redis, or null; off where there is no Redis.',
            oneOf: [{ enum: [null, 'off', 'unavailable'] }, ENTRY],
          },
          flight: {
            description: 'Whether the engine is being asked for the answer right now.',
            type: 'boolean',
          },
          nearest: {
            description:
              'When it would miss: the entry in memory that differs in the fewest parts of the key, among those that were used last.',
            oneOf: [
              { type: 'null' },
              {
                type: 'object',
                required: ['differs', 'age_ms'],
                properties: {
                  differs: list({ type: 'string' }, 'The parts; epochs alone: it was purged.'),
                  age_ms: milliseconds('Since the engine was asked for it.'),
                },
              },
            ],
          },
        },
      },
    },
  },
};

const part = (name: string, digest: string) => ({ name, digest });

const EXAMPLES: Answer['content'] = {
  'application/json': {
    schema: { $ref: '#/components/schemas/XmlaExplanation' },
    examples: {
      miss: {
        summary: 'It would miss, since another statement is in the cache',
        value: {
          project: 'learn',
          user: 'alice',
          classification: {
            decision: 'cacheable',
            method: 'Execute',
            subject: 'Execute',
            catalogs: ['learn'],
            share: 'user',
            ttl_ms: 43_200_000,
          },
          cache: {
            key: 'Yb0tAy2jvPRcsYgsQ5q0X4jIFgOwU0VH6Nn3gG9dZ5w',
            parts: [part('engine', 'b5bB0rU1xPo'), part('statement', 'f1L7m0Qw2aE')],
            epochs: [
              { scope: 'everything', token: '1Yh3kT0cWbM' },
              { scope: 'project:learn', token: 'q8sV2nE5uZA' },
            ],
            memory: null,
            redis: 'off',
            flight: false,
            nearest: { differs: ['statement'], age_ms: 61_000 },
          },
        },
      },
      bypass: {
        summary: 'It would not be looked up',
        value: {
          user: 'ADMIN',
          classification: {
            decision: 'bypass',
            reason: 'volatile',
            method: 'Execute',
            subject: 'Execute',
          },
        },
      },
    },
  },
};

const failures = shared(
  'Explain',
  pageFailures([
    ...LOGIN_FAILURES,
    'bad-request',
    'forbidden',
    'identity-refused',
    'too-big',
    'content-coding',
    'internal',
  ]),
);
const otherMethods = shared('ExplainOtherMethod', pageFailures(['method-not-allowed']));

export const EXPLAIN_SHARED_ANSWERS: Readonly<Record<string, Answer>> = {
  ...failures.responses,
  ...otherMethods.responses,
};

const project: Parameter = {
  name: 'project',
  in: 'query',
  description: 'The project of the path /mdx/xmla/{project}; without it, the path is /mdx/xmla.',
  required: false,
  schema: { type: 'string', minLength: 1 },
  example: 'learn',
};
const user: Parameter = {
  name: 'user',
  in: 'query',
  description: 'Who would send the request; without it, whoever asks for the explanation.',
  required: false,
  schema: { type: 'string', minLength: 1, maxLength: 255 },
  example: 'alice',
};

export const EXPLAIN_PATHS: Paths = {
  '/admin/explain': {
    post: {
      operationId: 'explainXmla',
      tags: ['Cache'],
      summary: 'Why would a query miss?',
      description:
        'Takes an XMLA request and tells what would become of it if it came now, for those in `auth.admins`. No engine ' +
        'is asked and nothing changes. The headers `Content-Type`, `SOAPAction`, `User-Agent`, `X-AS-SessionID` and ' +
        '`X-AS-GetSessionToken` count as those of the XMLA request, and so does `Accept`, unless it is ' +
        '`application/json` or `*/*`. A request that a browser sends for another site is refused.',
      parameters: [project, user, soapAction],
      requestBody: {
        ...requestBody,
        description: 'The XMLA request, as a client would send it, at most `limits.body` long.',
      },
      responses: {
        200: { description: 'The explanation.', content: EXAMPLES },
        ...failures.refs,
      },
    },
    'x-other-methods': otherMethods.refs,
  },
};
