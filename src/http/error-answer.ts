import type { ServerResponse } from 'node:http';
import {
  BASIC_CHALLENGE,
  LOGIN_REFUSED_TEXT,
  LOGIN_THROTTLED_TEXT,
  LOGIN_UNCHECKED_TEXT,
} from '../auth/challenge.ts';
import type { Authentication } from '../auth/authenticator.ts';
import { ApiError, GatewayError } from '../errors.ts';
import { soapFault, SOAP_FAULT_CONTENT_TYPE } from '../xmla/soap-fault.ts';

/** The shapes in which an error can be told, one for each protocol that the gateway speaks. */
export type ErrorShape = 'soap-fault' | 'api-envelope' | 'json' | 'text';

/**
 * A refused login as an error: the same text for every reason but throttling. One that could not be checked is no
 * refusal, and asks nobody for another password.
 */
export function loginError(refused: Extract<Authentication, { ok: false }>): GatewayError {
  if (refused.reason === 'throttled') {
    return new GatewayError('throttled', LOGIN_THROTTLED_TEXT, { retryAfter: refused.retryAfter });
  }
  if (refused.reason === 'unavailable') {
    return new GatewayError('engine-unreachable', LOGIN_UNCHECKED_TEXT);
  }
  return new GatewayError('unauthenticated', LOGIN_REFUSED_TEXT, {
    headers: { 'www-authenticate': BASIC_CHALLENGE },
  });
}

/** What a client may be told. */
export type AnsweredError = GatewayError | ApiError;

/** Whatever was thrown, as something that a client may be told. */
export function asAnsweredError(error: unknown): AnsweredError {
  return error instanceof ApiError ? error : asGatewayError(error);
}

/** The same where no operation of the API runs. */
export function asGatewayError(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error;
  return new GatewayError('internal', 'The gateway failed; its log tells more.', { cause: error });
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
  response.writeHead(error.status, {
    ...headers,
    ...error.headers,
    'content-type': contentType,
    'content-length': body.length,
    'cache-control': 'no-store',
  });
  response.end(response.req.method === 'HEAD' ? undefined : body);
}

type Render = (error: AnsweredError, id: string) => { contentType: string; body: Buffer };

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
  text: (error) => ({
    contentType: 'text/plain; charset=utf-8',
    body: Buffer.from(`${error.message}\n`),
  }),
};

function json(value: unknown): { contentType: string; body: Buffer } {
  return { contentType: 'application/json', body: Buffer.from(JSON.stringify(value)) };
}
