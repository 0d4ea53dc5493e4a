import type { ValidateFunction } from 'ajv/dist/2020.js';
import type { IncomingHttpHeaders } from 'node:http';
import { describedInterface } from './openapi-types.ts';

import type { Answer, Answers, Header, PathItem, Reference, Schema } from './openapi-types.ts';

/** What of an answer is compared with the document. */
export interface AnswerToCheck {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** False when the body broke off; then it is not looked at. */
  readonly whole?: boolean;
}

/** By host and port; whether what is below /api is answered by a server that is no gateway of ours. */
const gateways = new Map<string, { readonly foreignApi: boolean }>();

/**
 * From now on every answer of this gateway is compared with its OpenAPI document.
 * @param remoteApi where it gets roles and datasets from, if it forwards
 */
export function describedGateway(base: string, remoteApi?: string): void {
  const foreignApi = remoteApi !== undefined && !gateways.has(new URL(remoteApi).host);
  gateways.set(new URL(base).host, { foreignApi });
}

/** Somebody else may get the port. */
export function forgetGateway(base: string): void {
  gateways.delete(new URL(base).host);
}

/**
 * Compares an answer with the OpenAPI document when a gateway gave it.
 * @param target as it was sent
 * @throws when the document does not describe it
 */
export async function checkGatewayAnswer(
  base: string,
  method: string,
  target: string,
  answer: AnswerToCheck,
): Promise<void> {
  const gateway = gateways.get(new URL(base).host);
  if (gateway === undefined || (gateway.foreignApi && /^\/api(?:\/|$)/.test(target))) return;
  await checkAgainstOpenApi(method, target, answer);
}

const document = describedInterface();

/** The operations that were answered so far by a described status, as `GET /api/roles 200`. */
export const answeredOperations = new Set<string>();

/**
 * @throws when the document does not describe this answer: path, method, status, headers, media type, and the
 *   body where it is JSON. Objects may hold nothing but what is described, unless the document leaves that open.
 */
export async function checkAgainstOpenApi(
  method: string,
  target: string,
  answer: AnswerToCheck,
): Promise<void> {
  const path = pathOf(target);
  const fail = (why: string) => {
    throw new Error(`The OpenAPI document does not describe ${method} ${target}: ${why}`);
  };
  const place = placeOf(path);
  const found = answersTo(place, method)
    .map(({ name, answers }) => {
      const status = answers[answer.status] === undefined ? 'default' : String(answer.status);
      return { name, status, described: answers[status] };
    })
    .find(({ described }) => described !== undefined);
  if (found?.described === undefined) return fail(`status ${answer.status}`);
  const described: Answer = dereferenced(found.described);

  for (const [name, header] of Object.entries(described.headers ?? {})) {
    const wrong = headerProblem(dereferenced(header), answer.headers[name.toLowerCase()]);
    if (wrong !== undefined) fail(`header ${name} ${wrong}`);
  }
  const type = mediaTypeOf(answer.headers);
  const word = ownWord(answer.headers);
  const words = Object.keys(described.content?.[type]?.examples ?? {});
  if (word !== undefined && word !== 'preflight' && !words.includes(word)) {
    fail(`an answer of the gateway by itself with status ${answer.status} for ${word}`);
  }
  if (described.content === undefined) {
    if (answer.body.length > 0) fail(`a body of ${type} with status ${answer.status}`);
  } else {
    const range = [type, '*/*'].find((one) => Object.hasOwn(described.content ?? {}, one));
    if (range === undefined) return fail(`media type ${type} with status ${answer.status}`);
    const { schema } = described.content[range] ?? {};
    if (schema !== undefined && isReadableJson(type, method, answer)) {
      const validate = await validatorOf(schema);
      const value: unknown = JSON.parse(answer.body.toString('utf8').replace(/^\uFEFF/, ''));
      if (!validate(value)) fail(`${JSON.stringify(validate.errors)} in ${answer.body.toString()}`);
    }
  }
  answeredOperations.add(`${found.name} ${found.status}`);
}

/** What a reference within the document stands for. */
export function dereferenced<T extends object>(part: T | Reference): T {
  if (!('$ref' in part)) return part;
  const [, ...names] = part.$ref.split('/');
  let found: unknown = document;
  for (const name of names) found = (found as Record<string, unknown>)[name];
  return found as T;
}

/** Why the gateway answered XMLA by itself; undefined when engine or cache gave the answer. */
function ownWord(headers: IncomingHttpHeaders): string | undefined {
  return /^mdx-gateway; detail=([\w-]+)$/.exec(String(headers['cache-status']))?.[1];
}

/** A longer body would cost the suite more than it tells. */
const LONGEST_BODY = 256 * 1024;

function isReadableJson(type: string, method: string, answer: AnswerToCheck): boolean {
  return (
    type === 'application/json' &&
    method !== 'HEAD' &&
    answer.whole !== false &&
    answer.headers['content-encoding'] === undefined &&
    answer.body.length <= LONGEST_BODY
  );
}

/** The path of a request target in origin-form or absolute-form, without a slash at its end. */
function pathOf(target: string): string {
  const originForm = target.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, '');
  return originForm.replace(/[?].*$/s, '').replace(/(?<=.)\/$/, '');
}

type Place = { readonly template: string; readonly item: PathItem } | { readonly other: Answers };

const templates = Object.entries(document.paths)
  .map(([template, item]) => ({ template, item, segments: template.split('/') }))
  // Concrete paths come before those with parameters (OpenAPI 3.1 §4.8.8.2).
  .sort((a, b) => a.template.split('{').length - b.template.split('{').length);

function placeOf(path: string): Place {
  // Below /mdx/xmla also `clearCache` may be percent-encoded.
  const segments = path
    .split('/')
    .map(path.startsWith('/mdx/xmla/') ? decoded : (segment) => segment);
  const found = templates.find(
    (one) =>
      one.segments.length === segments.length &&
      one.segments.every((segment, index) =>
        segment.startsWith('{') ? segments[index] !== '' : segment === segments[index],
      ),
  );
  if (found !== undefined) return found;
  const other = document['x-other-paths'].find(
    ({ prefix }) => path === prefix || path.startsWith(`${prefix}/`) || prefix === '',
  );
  return { other: other?.responses ?? {} };
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** The answers that a method may get; the first that has the status counts. */
function answersTo(
  place: Place,
  method: string,
): readonly { readonly name: string; readonly answers: Answers }[] {
  if ('other' in place) return [{ name: 'other path', answers: place.other }];
  const { template, item } = place;
  const operation = item[method.toLowerCase() as 'get' | 'put' | 'post' | 'delete'];
  if (operation !== undefined) {
    return [{ name: `${method} ${template}`, answers: operation.responses }];
  }
  const others = { name: `other method ${template}`, answers: item['x-other-methods'] };
  if (method !== 'HEAD' || item.get === undefined) return [others];
  return [{ name: `HEAD ${template}`, answers: item.get.responses }, others];
}

function headerProblem(
  { required = false, schema }: Header,
  value: string | string[] | undefined,
): string | undefined {
  if (value === undefined) return required ? 'is missing' : undefined;
  const text = String(value);
  const { type, pattern } = schema as { type: string; pattern?: string };
  const fits =
    type === 'integer'
      ? /^\d+$/.test(text)
      : pattern === undefined || new RegExp(pattern, 'u').test(text);
  return fits ? undefined : `is ${text}`;
}

function mediaTypeOf(headers: IncomingHttpHeaders): string {
  return (headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
}

const validators = new Map<Schema, Promise<ValidateFunction>>();
let compiler: Promise<(schema: Schema) => ValidateFunction> | undefined;

/** Most test files never need one, so the library is loaded when the first is asked for. */
function validatorOf(schema: Schema): Promise<ValidateFunction> {
  const known = validators.get(schema);
  if (known !== undefined) return known;
  compiler ??= loadCompiler();
  const made = compiler.then((compile) => compile(schema));
  validators.set(schema, made);
  return made;
}

async function loadCompiler(): Promise<(schema: Schema) => ValidateFunction> {
  const { Ajv2020 } = await import('ajv/dist/2020.js');
  const ajv = new Ajv2020({ strict: false, meta: false, validateSchema: false });
  for (const [name, schema] of Object.entries(document.components.schemas)) {
    ajv.addSchema(closed(schema), `/components/schemas/${name}`);
  }
  return (schema) => ajv.compile(closed(schema));
}

/** The schema without the liberty that JSON Schema gives to objects, and with references by `$id`. */
function closed(schema: Schema): Schema {
  const { $ref, properties, items, oneOf, anyOf, ...rest } = schema as {
    $ref?: string;
    properties?: Record<string, Schema>;
    items?: Schema;
    oneOf?: Schema[];
    anyOf?: Schema[];
  };
  const open = properties === undefined || 'additionalProperties' in rest;
  return {
    ...rest,
    ...($ref !== undefined && { $ref: $ref.slice(1) }),
    ...(properties !== undefined && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, property]) => [name, closed(property)]),
      ),
    }),
    ...(items !== undefined && { items: closed(items) }),
    ...(oneOf !== undefined && { oneOf: oneOf.map(closed) }),
    ...(anyOf !== undefined && { anyOf: anyOf.map(closed) }),
    ...(!open && { unevaluatedProperties: false }),
  };
}
