import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { scanJson } from '../datasets/document.ts';
import { ApiError, GatewayError } from '../common/errors.ts';
import { receiveBody, type ReceivedBody } from '../http/read-body.ts';
import { carriesBody } from '../http/request-head.ts';

/** JSON in UTF-8 (RFC 8259 §8.1). Clients of the interface document write `utf8`. */
const UTF8_JSON =
  /^[ \t]*application\/json[ \t]*(?:;[ \t]*charset=(?:utf-?8|"utf-?8")[ \t]*)?;?[ \t]*$/i;

/** More than the interface document needs; building deeper values would block the event loop. */
const DEEPEST = 32;
/** Bytes of a dataset that a client must send in ten seconds: it holds a slot meanwhile. */
const DATASET_PACE = 64 * 1024;
/** `limitName`: the setting behind `bytes`; `pace`: bytes that must come in ten seconds. */
type BodyLimit = Readonly<{ bytes: number; limitName: string; pace?: number }>;

/**
 * Waits until a JSON body has come whole. The result throws `bad-request` for an empty body.
 * @throws ApiError `media-type`: a page of another site can send everything but JSON without asking
 *   (Fetch, CORS-safelisted request headers)
 */
export async function receiveJson(
  request: IncomingMessage,
  needed: string,
  { bytes, ...options }: BodyLimit,
): Promise<ReceivedBody> {
  if (carriesBody(request) && !UTF8_JSON.test(request.headers['content-type'] ?? '')) {
    const problem =
      'The Content-Type of the body must be application/json, without a charset or with utf-8.';
    throw new ApiError('media-type', problem, { headers: { accept: 'application/json' } });
  }
  const received = await receiveBody(request, bytes, options);
  return async () => {
    const body = await received();
    if (body.length > 0) return body;
    throw new GatewayError('bad-request', `The request has no body; it must hold ${needed}.`);
  };
}

export const receiveDataset = (request: IncomingMessage, bytes: number) =>
  receiveJson(request, 'a dataset', { bytes, limitName: 'limits.dataset', pace: DATASET_PACE });

/** @param fields that may stand only once: readers differ in which one they take */
export async function readJson<T>(
  request: IncomingMessage,
  schema: z.ZodType<T>,
  needed: string,
  fields: readonly string[],
  limit: BodyLimit,
): Promise<T> {
  const bytes = await (await receiveJson(request, needed, limit))();
  const seen = new Set<string>();
  const repeated = new Set<string>();
  const scan = scanJson(bytes, DEEPEST, fields, (name) => {
    (seen.has(name) ? repeated : seen).add(name);
  });
  if (!scan.ok) {
    throw new GatewayError('bad-request', `The body cannot be read as JSON: ${scan.mistake}.`);
  }
  return checked(schema, JSON.parse(new TextDecoder().decode(bytes)), [...repeated]);
}

/** A body can hold millions. */
const MOST_PROBLEMS = 20;

/** @throws GatewayError `bad-request` with the problems, each with its field */
export function checked<T>(schema: z.ZodType<T>, value: unknown, repeated: string[] = []): T {
  const result = schema.safeParse(value);
  if (result.success && repeated.length === 0) return result.data;
  const issues = result.error?.issues ?? [];
  const told = repeated.map((field) => `${field}: is given more than once`);
  for (const { path, message } of issues.slice(0, MOST_PROBLEMS)) {
    told.push(`${z.core.toDotPath(path) || 'the body'}: ${message}`);
  }
  if (issues.length > MOST_PROBLEMS) told.push('and more');
  throw new GatewayError('bad-request', `${told.join('; ')}.`);
}
