import { API_STATUS, GATEWAY_STATUS } from '../errors.ts';
import { API_REASONS, GATEWAY_REASONS, type ApiReason, type GatewayReason } from '../reasons.ts';
import { soapFault } from '../xmla/soap-fault.ts';
import { ALLOW, RETRY_AFTER, WWW_AUTHENTICATE, XMLA_HEADERS } from './headers.ts';
import type { Answer, Headers, MediaType, Schema } from './openapi-types.ts';

type Reason = GatewayReason | ApiReason;

const STATUS: Readonly<Record<Reason, number>> = { ...GATEWAY_STATUS, ...API_STATUS };
const MEANING: Readonly<Record<Reason, string>> = { ...GATEWAY_REASONS, ...API_REASONS };

/** Example texts by the word, where the meaning of the word would not show what the text is like. */
type Texts = Partial<Readonly<Record<Reason, string>>>;

type FailureAnswers = Readonly<Record<string, Answer>>;

/** Headers that every answer of a status has. */
const HEADERS: Readonly<Record<number, Headers>> = {
  401: { 'WWW-Authenticate': WWW_AUTHENTICATE },
  405: { Allow: ALLOW },
  429: { 'Retry-After': RETRY_AFTER },
  503: { 'Retry-After': RETRY_AFTER },
};

/** What can end any request that needs a login; the last where the engine checks logins (`auth.provider`). */
export const LOGIN_FAILURES = ['unauthenticated', 'throttled', 'engine-unreachable'] as const;

export const FAILURE_SCHEMAS: Readonly<Record<string, Schema>> = {
  Failure: {
    description: 'A failure of the role and dataset API.',
    type: 'object',
    required: ['status', 'data', 'errorMesg'],
    properties: {
      status: { const: 1, description: '1: failure.' },
      data: { const: 'failure' },
      errorMesg: {
        type: 'string',
        description:
          '`[code] text`: a word of a closed list for programs, and a text for people. A text about wrong input ' +
          'names every field that is wrong.',
      },
    },
  },
  Problem: {
    description: 'A failure outside the role and dataset API.',
    type: 'object',
    required: ['error', 'message'],
    properties: {
      error: { type: 'string', description: 'A word of a closed list, for programs.' },
      message: { type: 'string', description: 'A text for people.' },
    },
  },
  SoapFault: {
    description:
      'A SOAP 1.1 envelope with a `Fault`: `faultcode` is `Client` or `Server`, `faultstring` tells what ' +
      'happened, and `detail` holds the `Error` in which XMLA clients look for it.',
    type: 'string',
  },
};

/** Failures of the role and dataset API. */
export function apiFailures(reasons: readonly Reason[], texts: Texts = {}): FailureAnswers {
  return byStatus(reasons, (group) => ({
    'application/json': {
      schema: {
        $ref: '#/components/schemas/Failure',
        type: 'object',
        properties: { errorMesg: { type: 'string', pattern: `^\\[(?:${group.join('|')})\\] ` } },
      },
      examples: examplesOf(group, (reason) => ({
        status: 1,
        data: 'failure',
        errorMesg: `[${reason}] ${texts[reason] ?? MEANING[reason]}`,
      })),
    },
  }));
}

/** Failures of the pages for operators. */
export function pageFailures(reasons: readonly Reason[]): FailureAnswers {
  return byStatus(reasons, (group) => ({ 'application/json': problem(group) }));
}

/**
 * Failures of clearCache, in the form that the client prefers.
 * @param shapes those that tell programs more than word and text
 */
export function clearCacheFailures(
  reasons: readonly Reason[],
  texts: Texts = {},
  shapes: Shapes = {},
): FailureAnswers {
  const answers = byStatus(reasons, (group) => ({
    'text/plain': {
      schema: { type: 'string' },
      examples: examplesOf(group, (reason) => `${texts[reason] ?? MEANING[reason]}\n`),
    },
    'application/json': shapedProblem(group, texts, shapes),
  }));
  const { 502: bad } = answers;
  if (bad === undefined || !reasons.includes('engine-not-cleared')) return answers;
  return { ...answers, 502: { ...bad, headers: optional({ 'Retry-After': RETRY_AFTER }) } };
}

/** Schema and further fields of failures as JSON. */
type Shapes = Partial<
  Readonly<Record<Reason, { readonly schema: Schema; readonly details: object }>>
>;

function shapedProblem(group: readonly Reason[], texts: Texts, shapes: Shapes): MediaType {
  const plain = group.filter((reason) => shapes[reason] === undefined);
  const schemas = group.flatMap((reason) => shapes[reason]?.schema ?? []);
  if (schemas.length === 0) return problem(group, texts);
  const { schema } = problem(plain, texts);
  return {
    schema: { oneOf: [...(plain.length > 0 && schema !== undefined ? [schema] : []), ...schemas] },
    examples: examplesOf(group, (reason) => ({
      error: reason,
      message: texts[reason] ?? MEANING[reason],
      ...shapes[reason]?.details,
    })),
  };
}

/**
 * Failures that the gateway tells as a SOAP Fault.
 * @param passing whether an answer of the engine may come with the same status
 */
export function faults(reasons: readonly GatewayReason[], passing: boolean): FailureAnswers {
  const answers = byStatus(reasons, (group) => ({
    'text/xml': {
      schema: { $ref: '#/components/schemas/SoapFault' },
      examples: examplesOf(group, (reason) =>
        soapFault({
          side: STATUS[reason] < 500 ? 'Client' : 'Server',
          message: MEANING[reason],
        }).toString(),
      ),
    },
    ...(passing && { '*/*': {} }),
  }));
  return Object.fromEntries(
    Object.entries(answers).map(([status, answer]) => [
      status,
      {
        ...answer,
        description: passing ? `${answer.description}${OR_PASSED}` : answer.description,
        // Engines need not send the headers that belong to a status.
        headers: { ...(passing ? optional(answer.headers) : answer.headers), ...XMLA_HEADERS },
      },
    ]),
  );
}

const OR_PASSED = '\n\nOr an answer of the engine with this status, as it came.';

function byStatus(
  reasons: readonly Reason[],
  contentOf: (group: readonly Reason[]) => Readonly<Record<string, MediaType>>,
): FailureAnswers {
  const groups = Map.groupBy(reasons, (reason) => STATUS[reason]);
  return Object.fromEntries(
    [...groups].map(([status, group]) => [
      String(status),
      {
        description: describe(group),
        ...(HEADERS[status] !== undefined && { headers: HEADERS[status] }),
        content: contentOf(group),
      },
    ]),
  );
}

function describe(group: readonly Reason[]): string {
  const meanings = group.map((reason) => `\`${reason}\`: ${MEANING[reason]}`);
  return meanings.length === 1 ? meanings.join('') : meanings.map((text) => `- ${text}`).join('\n');
}

function problem(group: readonly Reason[], texts: Texts = {}): MediaType {
  return {
    schema: {
      $ref: '#/components/schemas/Problem',
      type: 'object',
      properties: { error: { enum: group } },
    },
    examples: examplesOf(group, (reason) => ({
      error: reason,
      message: texts[reason] ?? MEANING[reason],
    })),
  };
}

function examplesOf(group: readonly Reason[], valueOf: (reason: Reason) => unknown) {
  return Object.fromEntries(group.map((reason) => [reason, { value: valueOf(reason) }]));
}

function optional(headers: Headers = {}): Headers {
  return Object.fromEntries(
    Object.entries(headers).map(([name, header]) => [name, { ...header, required: false }]),
  );
}

/** Failures below /mdx/xmla of what may be XMLA or a misspelt clearCache: as {@link faults}, or in the form of clearCache. */
export function faultsOrTexts(reasons: readonly GatewayReason[], passing: boolean): FailureAnswers {
  const texts = clearCacheFailures(reasons);
  return Object.fromEntries(
    Object.entries(faults(reasons, passing)).map(([status, answer]) => [
      status,
      { ...answer, content: { ...texts[Number(status)]?.content, ...answer.content } },
    ]),
  );
}
