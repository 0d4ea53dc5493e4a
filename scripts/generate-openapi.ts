/**
 * Makes src/http/docs/openapi.json, which the gateway serves, from docs/openapi.yaml: writes its short forms out. Run it
 * after every change of that file, or of src/common/reasons.ts; a test fails while they differ.
 */

import { readFileSync, writeFileSync } from 'node:fs';
import { parse } from 'yaml';
import {
  API_REASONS,
  BYPASS_REASONS,
  GATEWAY_REASONS,
  HIT_SOURCES,
  REFUSAL_REASONS,
  type ApiReason,
  type GatewayReason,
} from '../src/common/reasons.ts';
import { soapFault } from '../src/xmla/soap-fault.ts';

type Reason = GatewayReason | ApiReason;
type Json = Readonly<Record<string, unknown>>;

/** Failures of the gateway as docs/openapi.yaml writes them; {@link failureAnswers} makes answers of them. */
interface Failures {
  readonly as: Shape | `${Shape}-or-engine`;
  readonly words: readonly Reason[];
  /** Example texts, where neither the meaning of the word nor `x-failure-texts` shows what the text is like. */
  readonly texts?: Partial<Record<Reason, string>>;
  /** Names of schemas of failures that tell programs more than word and text, and examples of what more. */
  readonly schemas?: Partial<Record<Reason, string>>;
  readonly details?: Partial<Record<Reason, Json>>;
}

/** How a failure is told: the envelope of /api, HTML of the console, JSON of other pages, text or JSON of clearCache, SOAP Fault. */
type Shape = 'api' | 'html' | 'page' | 'clear-cache' | 'fault' | 'fault-or-text';

/** Answers by status, and the two short forms of them. */
interface WrittenAnswers extends Json {
  /** Names of `x-shared-answers`; of two answers with one status the later counts. */
  readonly 'x-shared'?: readonly string[];
  readonly 'x-failures'?: Failures;
}

interface WrittenDocument extends Json {
  readonly info: Json;
  readonly components: Json;
  readonly 'x-failure-headers': Readonly<Record<string, Json>>;
  readonly 'x-failure-texts': Partial<Record<Reason, string>>;
  readonly 'x-shared-answers': Readonly<Record<string, WrittenAnswers>>;
}

const SOURCE = new URL('../docs/openapi.yaml', import.meta.url);
const SERVED = new URL('../src/http/docs/openapi.json', import.meta.url);

/** Status and meaning of each. */
const REASONS = { ...GATEWAY_REASONS, ...API_REASONS };

/** What `${NAME}` in a pattern stands for: the closed words of one table, as alternatives. */
const WORDS = new Map(
  Object.entries({
    hits: HIT_SOURCES,
    refusals: REFUSAL_REASONS,
    bypasses: BYPASS_REASONS,
    gateway: GATEWAY_REASONS,
  }).map(([name, table]) => [`\${${name}}`, Object.keys(table).join('|')]),
);

/**
 * The text of the whole HTTP surface in OpenAPI 3.1. Words, statuses and meanings of failures come from
 * src/common/reasons.ts; every answer in the tests is compared with the document. The version is
 * that of the program which serves it.
 */
export function renderOpenApi(): string {
  const written = parse(readFileSync(SOURCE, 'utf8')) as WrittenDocument;
  const {
    'x-failure-headers': headers,
    'x-failure-texts': texts,
    'x-shared-answers': shared,
    ...document
  } = written;
  const answersOf = (answers: WrittenAnswers): Json => {
    const { 'x-shared': names = [], 'x-failures': failures, ...own } = answers;
    const references = names.flatMap((name) =>
      Object.keys(answersOf(shared[name] ?? {})).map((status) => [
        status,
        { $ref: `#/${placeOf(name)}/${name}-${status}` },
      ]),
    );
    return {
      ...Object.fromEntries(references),
      ...(failures && failureAnswers(failures, headers, texts)),
      ...own,
    };
  };
  const responsesAt = (place: string) =>
    Object.fromEntries(
      Object.entries(shared)
        .filter(([name]) => placeOf(name) === place)
        .flatMap(([name, answers]) =>
          Object.entries(answersOf(answers)).map(([status, one]) => [`${name}-${status}`, one]),
        ),
    );
  const expanded = expand(document, answersOf) as WrittenDocument;
  const whole = {
    ...expanded,
    info: { ...expanded.info, version: '' },
    components: { ...expanded.components, responses: responsesAt(COMPONENTS) },
    [OF_OTHER_METHODS]: responsesAt(OF_OTHER_METHODS),
  };
  return `${JSON.stringify(whole, undefined, 2)}\n`;
}

const COMPONENTS = 'components/responses';
/** A tool that knows nothing of `x-other-methods` would find that nobody refers to these. */
const OF_OTHER_METHODS = 'x-responses';
const placeOf = (name: string) => (name.endsWith('OtherMethod') ? OF_OTHER_METHODS : COMPONENTS);

function expand(value: unknown, answersOf: (answers: WrittenAnswers) => Json): unknown {
  if (typeof value === 'string')
    return value.replace(/\$\{\w+\}/g, (name) => WORDS.get(name) ?? name);
  if (Array.isArray(value)) return value.map((item) => expand(item, answersOf));
  if (typeof value !== 'object' || value === null) return value;
  const isAnswers = 'x-shared' in value || 'x-failures' in value;
  const whole = isAnswers ? answersOf(value as WrittenAnswers) : value;
  return Object.fromEntries(
    Object.entries(whole).map(([name, inner]) => [name, expand(inner, answersOf)]),
  );
}

/** One answer for each status. */
function failureAnswers(
  { as, words, texts = {}, schemas = {}, details = {} }: Failures,
  headersOf: WrittenDocument['x-failure-headers'],
  usualTexts: WrittenDocument['x-failure-texts'],
): Json {
  const orEngine = as.endsWith('-or-engine');
  const shape = as.replace('-or-engine', '') as Shape;
  const usual = shape === 'api' ? usualTexts : {};
  const textOf = (word: Reason) => texts[word] ?? usual[word] ?? REASONS[word][1];

  function problem(group: readonly Reason[]): Json {
    const plain = group.filter((word) => schemas[word] === undefined);
    const problems = {
      $ref: '#/components/schemas/Problem',
      type: 'object',
      properties: { error: { enum: plain } },
    };
    const named = group.flatMap((word) => schemas[word] ?? []);
    const all = [
      ...(plain.length > 0 ? [problems] : []),
      ...named.map((name) => ({ $ref: `#/components/schemas/${name}` })),
    ];
    return {
      schema: all.length === 1 ? all[0] : { anyOf: all },
      examples: examples(group, (word) => ({
        error: word,
        message: textOf(word),
        ...details[word],
      })),
    };
  }

  const text = (group: readonly Reason[]) => ({
    schema: { type: 'string' },
    examples: examples(group, (word) => `${textOf(word)}\n`),
  });
  const envelope = (group: readonly Reason[]) => ({
    schema: {
      $ref: '#/components/schemas/Failure',
      type: 'object',
      properties: { code: { enum: group } },
    },
    examples: examples(group, (word) => ({
      status: 1,
      data: 'failure',
      errorMesg: `[${word.toUpperCase()}] ${textOf(word)}`,
      code: word,
    })),
  });
  const contentOf: Readonly<Record<Shape, (group: readonly Reason[]) => Json>> = {
    api: (group) => ({ 'application/json': envelope(group) }),
    html: (group) => ({ 'text/html': text(group) }),
    page: (group) => ({ 'application/json': problem(group) }),
    'clear-cache': (group) => ({ 'text/plain': text(group), 'application/json': problem(group) }),
    fault: (group) => ({ 'text/xml': fault(group) }),
    'fault-or-text': (group) => ({ ...contentOf['clear-cache'](group), ...contentOf.fault(group) }),
  };

  function headers(status: number, group: readonly Reason[]): Json | undefined {
    // An engine need not send the headers that belong to a status, and not every 502 of clearCache can be repeated.
    const cleared = group.includes('engine-not-cleared') ? headersOf[503] : undefined;
    const ofStatus = cleared ?? headersOf[status];
    const optional = orEngine || cleared !== undefined;
    const all = {
      ...Object.fromEntries(
        Object.entries(ofStatus ?? {}).map(([name, header]) => [
          name,
          optional ? { ...(header as Json), required: false } : header,
        ]),
      ),
      ...headersOf[as],
    };
    return Object.keys(all).length === 0 ? undefined : all;
  }

  const groups = Map.groupBy(words, (word) => REASONS[word][0]);
  return Object.fromEntries(
    [...groups].map(([status, group]) => {
      const meanings = group.map((word) => `\`${word}\`: ${REASONS[word][1]}`);
      const meaning =
        meanings.length === 1 ? meanings.join('') : meanings.map((one) => `- ${one}`).join('\n');
      const ofEngine = orEngine
        ? '\n\nOr an answer of the engine with this status, as it came.'
        : '';
      const shown = headers(status, group);
      return [
        String(status),
        {
          description: `${meaning}${ofEngine}`,
          ...(shown !== undefined && { headers: shown }),
          content: { ...contentOf[shape](group), ...(orEngine && { '*/*': {} }) },
        },
      ];
    }),
  );
}

function examples(group: readonly Reason[], valueOf: (word: Reason) => unknown): Json {
  return Object.fromEntries(group.map((word) => [word, { value: valueOf(word) }]));
}

function fault(group: readonly Reason[]): Json {
  return {
    schema: { $ref: '#/components/schemas/SoapFault' },
    examples: examples(group, (word) => {
      const side = REASONS[word][0] < 500 ? 'Client' : 'Server';
      return soapFault({ side, message: REASONS[word][1] }).toString();
    }),
  };
}

if (import.meta.main) writeFileSync(SERVED, renderOpenApi());
