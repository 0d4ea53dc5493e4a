import type { IncomingMessage } from 'node:http';
import { scanJson } from '../../datasets/json-text.ts';
import { ApiError, GatewayError } from '../../errors.ts';
import { isUtf8Json } from '../content-type.ts';
import { receiveBody, type ReceivedBody } from '../read-body.ts';

/**
 * How many bytes of a dataset a client must send in each ten seconds: as many as it must take of one. Until all have come
 * it keeps others from sending theirs.
 */
const DATASET_PACE = 64 * 1024;
/** More than any body of the interface document needs; building what is deeper would hold everybody up. */
const DEEPEST = 32;
/** A character of a name can be spelt as `\u006e`. */
const LONGEST_ESCAPE = 6;

/**
 * Waits until the bytes of a JSON body have come whole; they are not yet looked at.
 * @param needed what the body must hold, for the message when there is none
 * @param limit largest body in bytes
 * @param options as for {@link receiveBody}
 * @returns throws `bad-request` for no body, beside what it says of itself
 * @throws ApiError `media-type`: only what says that it is JSON is read, because a page of another site can
 *   send everything else without asking (Fetch, CORS-safelisted request headers)
 * @throws GatewayError as {@link receiveBody}
 */
async function receiveJson(
  request: IncomingMessage,
  needed: string,
  limit: number,
  options: { readonly limitName: string; readonly pace?: number },
): Promise<ReceivedBody> {
  const { headers } = request;
  const empty =
    headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0;
  if (!empty && !isUtf8Json(headers['content-type'])) {
    throw new ApiError(
      'media-type',
      'The Content-Type of the body must be application/json, without a charset or with utf-8.',
      {
        headers: { accept: 'application/json' },
      },
    );
  }
  const received = await receiveBody(request, limit, options);
  return async () => {
    const body = await received();
    if (body.length > 0) return body;
    throw new GatewayError('bad-request', `The request has no body; it must hold ${needed}.`);
  };
}

/** The same for a dataset document, which must not come slowly. @param limit `limits.dataset` */
export function receiveDataset(request: IncomingMessage, limit: number): Promise<ReceivedBody> {
  const options = { limitName: 'limits.dataset', pace: DATASET_PACE };
  return receiveJson(request, 'a dataset', limit, options);
}

/** The bytes of a JSON body, not yet looked at. @throws as {@link receiveJson} and what it returns */
export async function readJsonBytes(
  request: IncomingMessage,
  needed: string,
  limit: number,
  limitName: string,
): Promise<Buffer> {
  return (await receiveJson(request, needed, limit, { limitName }))();
}

export interface JsonBody {
  readonly value: unknown;
  /** Which of the named members the body holds more than once; readers differ in which of them they take. */
  readonly repeated: readonly string[];
}

/**
 * A JSON body as a value.
 * @param needed what the body must hold, for the message when there is none
 * @param fields names of members of the outermost object that are looked for
 * @param limit largest body in bytes
 * @param limitName the key of the configuration that sets the limit
 * @throws GatewayError `bad-request` that says where it is not JSON, and as {@link readJsonBytes}
 */
export async function readJson(
  request: IncomingMessage,
  needed: string,
  fields: readonly string[],
  limit: number,
  limitName: string,
): Promise<JsonBody> {
  const bytes = await readJsonBytes(request, needed, limit, limitName);
  const seen = new Set<string>();
  const repeated = new Set<string>();
  const longest = Math.max(...fields.map((field) => field.length)) * LONGEST_ESCAPE + 2;
  const scan = scanJson(bytes, {
    maxDepth: DEEPEST,
    onMember({ from, to }) {
      if (to - from > longest) return;
      const name = JSON.parse(bytes.toString('utf8', from, to)) as string;
      if (!fields.includes(name)) return;
      if (seen.has(name)) repeated.add(name);
      seen.add(name);
    },
  });
  if (!scan.ok)
    throw new GatewayError('bad-request', `The body cannot be read as JSON: ${scan.mistake}.`);
  return { value: JSON.parse(new TextDecoder().decode(bytes)), repeated: [...repeated] };
}
