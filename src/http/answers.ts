import type { ServerResponse } from 'node:http';
import { ApiError, GatewayError } from '../common/errors.ts';
import type { Emit } from '../common/events.ts';
import { soapFault, SOAP_FAULT_CONTENT_TYPE } from '../xmla/soap-fault.ts';

/** The shapes in which an error can be told, one for each protocol that the gateway speaks. */
export type ErrorShape = 'soap-fault' | 'api-envelope' | 'json' | 'text';

/** What a client may be told. */
export type AnsweredError = GatewayError | ApiError;

/**
 * Whatever was thrown, as something that a client may be told; a failure of the gateway itself goes to the log.
 * @param id ties the answer to the log
 */
export function asAnsweredError(error: unknown, id: string, emit: Emit): AnsweredError {
  return error instanceof ApiError ? error : asGatewayError(error, id, emit);
}

/** The same where no operation of the API runs. */
export function asGatewayError(error: unknown, id: string, emit: Emit): GatewayError {
  const failure =
    error instanceof GatewayError
      ? error
      : new GatewayError('internal', 'The gateway failed; its log tells more.', { cause: error });
  if (failure.reason === 'internal') emit({ type: 'internal-error', id, error: failure.cause });
  return failure;
}

/**
 * Sends an error whole.
 * @param id ties the answer to the log
 * @param headers further headers, set before those of the error
 */
export function sendError(
  response: ServerResponse,
  error: AnsweredError,
  shape: ErrorShape,
  id: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  const { contentType, body } = RENDERERS[shape](error, id);
  const all = { ...headers, ...error.headers };
  sendWhole(response, contentType, body, error.status, all);
}

/** Sends an answer that is not to be stored. That to HEAD has the head of that to GET (RFC 9110 §9.3.2). */
export function sendWhole(
  response: ServerResponse,
  contentType: string,
  body: Buffer | string,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): void {
  sendHead(response, contentType, Buffer.byteLength(body), status, headers);
  response.end(response.req.method === 'HEAD' ? undefined : body);
}

export function sendJson(response: ServerResponse, value: unknown): void {
  sendWhole(response, 'application/json', JSON.stringify(value));
}

/**
 * The head alone.
 * @param length bytes of the body that follows, or would follow if it were not HEAD
 */
export function sendHead(
  response: ServerResponse,
  contentType: string,
  length: number,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, {
    ...headers,
    'content-type': contentType,
    'content-length': length,
    'cache-control': 'no-store',
  });
}

type Render = (error: AnsweredError, id: string) => { contentType: string; body: Buffer | string };

const RENDERERS: Readonly<Record<ErrorShape, Render>> = {
  'soap-fault': (error, id) => ({
    contentType: SOAP_FAULT_CONTENT_TYPE,
    body: soapFault({
      side: error.status < 500 ? 'Client' : 'Server',
      message: error.status === 500 ? `${error.message} (${id})` : error.message,
      ...(error.faultCode !== undefined && { code: error.faultCode }),
    }),
  }),
  // The envelope of the interface document §2.2, with the error text where its reference server puts it.
  'api-envelope': (error) =>
    json({ status: 1, data: 'failure', errorMesg: `[${error.reason}] ${error.message}` }),
  json: (error) => json({ error: error.reason, message: error.message, ...error.details }),
  text: (error) => ({ contentType: 'text/plain; charset=utf-8', body: `${error.message}\n` }),
};

function json(value: unknown): { contentType: string; body: string } {
  return { contentType: 'application/json', body: JSON.stringify(value) };
}
