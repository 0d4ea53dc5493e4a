import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { scanJson } from '../datasets/document.ts';
import { ApiError, GatewayError } from '../common/errors.ts';
import { receiveBody, type ReceivedBody } from '../http/read-body.ts';
import { carriesBody } from '../http/request-head.ts';

/** JSON in UTF-8 (RFC 8259 §8.1). Clients of the interface document write the charset `utf8`. */
const UTF8_JSON =
  /^[ \t]*application\/json[ \t]*(?:;[ \t]*charset=(?:utf-?8|"utf-?8")[ \t]*)?;?[ \t]*$/i;

const NEEDS_JSON =
  'The Content-Type of the body must be application/json, without a charset or with utf-8.';

/** More than any body of the interface document needs; building what is deeper would keep others waiting. */
const DEEPEST = 32;
/** How many bytes of a dataset a client must send in each ten seconds: until all have come it keeps others waiting. */
const DATASET_PACE = 64 * 1024;
/** The largest body, where that comes from, and how many bytes must come in each ten seconds. */
type BodyLimit = Readonly<{ bytes: number; limitName: string; pace?: number }>;

/**
 * Waits until the bytes of a JSON body have come whole. What is returned throws `bad-request` for no body, which must
 * hold what is `needed`.
 * @throws ApiError `media-type`: a page of another site can send all but JSON without asking (Fetch, CORS-safelisted
 *   request headers)
 * @throws GatewayError as {@link receiveBody}
 */
export async function receiveJson(
  request: IncomingMessage,
  needed: string,
  { bytes, ...options }: BodyLimit,
): Promise<ReceivedBody> {
  if (carriesBody(request) && !UTF8_JSON.test(request.headers['content-type'] ?? '')) {
    throw new ApiError('media-type', NEEDS_JSON, { headers: { accept: 'application/json' } });
  }
  const received = await receiveBody(request, bytes, options);
  return async () => {
    const body = await received();
    if (body.length > 0) return body;
    throw new GatewayError('bad-request', `The request has no body; it must hold ${needed}.`);
  };
}

/** Receives a dataset document, which must not come slowly. @param bytes `limits.dataset` */
export const receiveDataset = (request: IncomingMessage, bytes: number) =>
  receiveJson(request, 'a dataset', { bytes, limitName: 'limits.dataset', pace: DATASET_PACE });

/**
 * A JSON body as the schema gives it back. Each of these fields may be given once: readers differ in which they take.
 * @throws GatewayError `bad-request` that says where it is not JSON, and as {@link receiveJson} and {@link checked}
 */
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

/** More would be of no help, and a body can hold millions. */
const MOST_PROBLEMS = 20;

/**
 * The value as the schema gives it back.
 * @throws GatewayError `bad-request` that tells all problems, each with its field, unless they are too many
 */
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
