import type { RequestHandler } from 'express';
import type { ServerResponse } from 'node:http';
import { ApiError, GatewayError } from '../common/errors.ts';
import type { Emit } from '../common/events.ts';
import { endWith } from '../proxy/forwarded.ts';
import { soapFault, SOAP_FAULT_CONTENT_TYPE } from '../xmla/soap-fault.ts';
import { REQUEST_ID } from './request-head.ts';

export type ErrorShape = 'soap-fault' | 'api-envelope' | 'json' | 'text';
export const PLAIN_TEXT = 'text/plain; charset=utf-8';
type Headers = Readonly<Record<string, string>>;
export type AnsweredError = GatewayError | ApiError;

export const asAnsweredError = (error: unknown, id: string, emit: Emit): AnsweredError =>
  error instanceof ApiError ? error : asGatewayError(error, id, emit);

export function asGatewayError(cause: unknown, id: string, emit: Emit): GatewayError {
  const text = 'The gateway failed; its log tells more.';
  const failure =
    cause instanceof GatewayError ? cause : new GatewayError('internal', text, { cause });
  if (failure.reason === 'internal') emit({ type: 'internal-error', id, error: failure.cause });
  return failure;
}

/** Sends an error, the id in its text. @param headers win over those of the error */
export function sendError(
  response: ServerResponse,
  error: AnsweredError,
  shape: ErrorShape,
  id: string,
  headers: Headers = {},
): void {
  const [contentType, body] = RENDERERS[shape](error, `${error.message} (request ${id})`);
  const all = { ...error.headers, ...headers, [REQUEST_ID]: id };
  sendWhole(response, contentType, body, error.status, all);
}

/** Sends an answer that must not be stored; only its head for HEAD (RFC 9110 §9.3.2). */
export function sendWhole(
  response: ServerResponse,
  contentType: string,
  body: Buffer | string,
  status = 200,
  headers: Headers = {},
): void {
  sendHead(response, contentType, Buffer.byteLength(body), status, headers);
  if (response.req.method === 'HEAD') response.end();
  else if (typeof body === 'string') response.end(body);
  else endWith(response, body);
}

export function sendJson(response: ServerResponse, value: unknown): void {
  sendWhole(response, 'application/json', JSON.stringify(value));
}

export function sendHead(
  response: ServerResponse,
  contentType: string,
  length: number,
  status = 200,
  headers: Headers = {},
): void {
  response.writeHead(status, {
    ...headers,
    'content-type': contentType,
    'content-length': length,
    'cache-control': 'no-store',
  });
}

type Render = (error: AnsweredError, message: string) => [string, Buffer | string];

const RENDERERS: Readonly<Record<ErrorShape, Render>> = {
  'soap-fault': ({ status, faultCode: code }, message) => [
    SOAP_FAULT_CONTENT_TYPE,
    soapFault({ side: status < 500 ? 'Client' : 'Server', message, code }),
  ],
  // Envelope of the interface document §2.2; clients look for the text in `errorMesg`.
  'api-envelope': ({ reason: code }, message) =>
    json({ status: 1, data: 'failure', errorMesg: `[${code.toUpperCase()}] ${message}`, code }),
  json: ({ reason, details }, message) => json({ error: reason, message, ...details }),
  text: (_error, message) => [PLAIN_TEXT, `${message}\n`],
};

const json = (value: unknown): [string, string] => ['application/json', JSON.stringify(value)];

/** Also answers OPTIONS. GET includes HEAD. */
export function onlyMethods(...methods: string[]): RequestHandler {
  const allow = [...methods, 'OPTIONS'].join(', ');
  return (request, response, next) => {
    if (methods.includes(request.method)) return next();
    if (request.method === 'OPTIONS') return void response.writeHead(204, { allow }).end();
    throw new GatewayError('method-not-allowed', `Allowed here: ${allow}.`, { headers: { allow } });
  };
}
