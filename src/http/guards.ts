import type { ErrorRequestHandler, RequestHandler } from 'express';
import { GatewayError } from '../errors.ts';
import type { Emit } from '../events.ts';
import { asAnsweredError, sendError, type ErrorShape } from './error-answer.ts';
import type { Login } from './login.ts';
import { unclearHead } from './unclear-head.ts';

/** Lets only known users through, unless the page is open. */
export function loginRequired(login: Login, open = false): RequestHandler {
  return async (request, _response, next) => {
    if (!open) await login(request);
    next();
  };
}

/** Lets only requests through whose head can be read in one way only. */
export function clearHeadRequired(): RequestHandler {
  return (request, _response, next) => {
    next(unclearHead(request));
  };
}

/** Answers what nothing before it has answered. */
export function nothingHere(): RequestHandler {
  return (request) => {
    throw new GatewayError('not-found', `Nothing is served under ${request.path}.`);
  };
}

/** Allows only some methods on a path (HEAD goes with GET). */
export function onlyMethods(...methods: string[]): RequestHandler {
  return (request, _response, next) => {
    if (methods.includes(request.method)) return next();
    throw new GatewayError('method-not-allowed', `Allowed here: ${methods.join(', ')}.`, {
      headers: { allow: methods.join(', ') },
    });
  };
}

/** The one place where errors of Express routes become answers. */
export function errorMapper(
  shape: ErrorShape,
  newId: () => string,
  emit: Emit,
): ErrorRequestHandler {
  return (error, _request, response, next) => {
    if (response.headersSent) return next(error);
    const failure = asAnsweredError(error);
    const id = newId();
    if (failure.reason === 'internal') emit({ type: 'internal-error', id, error: failure.cause });
    sendError(response, failure, shape, id);
  };
}
