import express, { type Request, type RequestHandler, type Response, type Router } from 'express';
import type { Login, Permissions, Principal } from '../auth/authenticator.ts';
import type { Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';
import type { Emit } from '../common/events.ts';
import { asAnsweredError, sendError, type AnsweredError } from '../http/answers.ts';
import { forgery, refuseDelegation, unclearHead } from '../http/request-head.ts';
import {
  API_OPERATIONS,
  type ApiExchange,
  type ApiHandlers,
  type ApiOperation,
} from './operations.ts';

export interface ApiFront {
  readonly login: Login;
  /** Told of each request, until all that it set going has come to its end. */
  readonly during: (request: Promise<void>) => Promise<void>;
  readonly permissions: Permissions;
  readonly clock: Clock;
  readonly newId: () => string;
  readonly emit: Emit;
}

/** One request below /api, whether or not it asks for an operation. */
type Call = Omit<ApiExchange, 'operation' | 'parameters'>;

/**
 * The front of the role and dataset API, whatever stands behind it. In this order: whether the head can be read in one
 * way only; login; whether the request speaks for its own login and has a target that can be read; path and method
 * (404, 405, OPTIONS); for changes, whether the request can be believed and its sender may change things. HEAD is
 * answered by the handler of GET. Every answer is told as an event.
 */
export function createApiRouter(handlers: ApiHandlers, front: ApiFront): Router {
  const router = express.Router({ caseSensitive: true });
  for (const [path, operations] of Map.groupBy(API_OPERATIONS, ({ path }) => path)) {
    const route = router.route(path);
    const allow = operations
      .flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
      .concat('OPTIONS')
      .join(', ');
    for (const operation of operations) {
      const verb = operation.method.toLowerCase() as Lowercase<typeof operation.method>;
      route[verb](
        answering(front, operation, (call) => {
          const { request, principal } = call;
          if (operation.changes !== undefined) refuseChange(request, principal, front.permissions);
          const parameters = request.params as Record<string, string>;
          return handlers[operation.name]({ ...call, operation, parameters });
        }),
      );
    }
    const headers = { allow, 'cache-control': 'no-store' };
    route.options(
      answering(
        front,
        undefined,
        async ({ response }) => void response.writeHead(204, headers).end(),
      ),
    );
    route.all(
      refusing(front, () => {
        const options = { headers: { allow } };
        return new GatewayError('method-not-allowed', `Allowed here: ${allow}.`, options);
      }),
    );
  }
  router.use(
    refusing(front, () => new GatewayError('not-found', 'No operation of the API has this path.')),
  );
  router.use(((error, request, response, next) =>
    refusing(front, () => asPathError(error))(
      request,
      response,
      next,
    )) satisfies express.ErrorRequestHandler);
  return router;
}

/** Answers a request of a known user by an error. */
function refusing(front: ApiFront, error: () => unknown): RequestHandler {
  return answering(front, undefined, async () => {
    throw error();
  });
}

/** Answers a request of a known user by `answer`, and tells of it when both are done. */
function answering(
  { login, during, clock, newId, emit }: ApiFront,
  operation: ApiOperation | undefined,
  answer: (call: Call) => Promise<void>,
): RequestHandler {
  return (request, response) => during(handle(request, response));

  async function handle(request: Request, response: Response): Promise<void> {
    const began = clock.now();
    const id = newId();
    const closed = new Promise((resolve) => response.once('close', resolve));
    let principal: Principal | undefined;
    let failure: AnsweredError | undefined;
    try {
      const unclear = unclearHead(request);
      if (unclear !== undefined) throw unclear;
      principal = await login(request);
      refuseTarget(request);
      await answer({ id, request, response, principal });
    } catch (error) {
      failure = asAnsweredError(error, id, emit);
      if (response.headersSent) response.destroy();
      else sendError(response, failure, 'api-envelope', id);
    }
    await closed;
    emit({
      type: 'api-answered',
      id,
      principal: principal?.name ?? '',
      operation: operation?.name ?? '',
      changes: operation?.changes !== undefined,
      status: response.headersSent ? response.statusCode : 499,
      reason: failure?.reason,
      error: failure?.reason === 'internal' ? undefined : failure?.cause,
      milliseconds: clock.now() - began,
    });
  }
}

/**
 * Some servers read a fragment, which has no place in a request target (RFC 9112 §3.2), as a part of the last
 * parameter, others not at all.
 * @throws GatewayError `identity-refused`, `bad-request`
 */
function refuseTarget({ originalUrl, headers }: Request): void {
  const begin = originalUrl.indexOf('?');
  refuseDelegation(headers, begin < 0 ? '' : originalUrl.slice(begin + 1));
  if (!originalUrl.includes('#')) return;
  throw new GatewayError('bad-request', 'The request target must not hold a fragment (#…).');
}

/** @throws GatewayError `forbidden` */
function refuseChange(request: Request, principal: Principal, permissions: Permissions): void {
  const forged = forgery(request.headers);
  if (forged !== undefined) throw new GatewayError('forbidden', `Nothing was done: ${forged}.`);
  if (permissions.mayAdminister(principal)) return;
  throw new GatewayError('forbidden', `Nothing was done: ${principal.name} is not in auth.admins.`);
}

/** Express gives up on a path that it cannot decode; all else that reaches here is a failure of the gateway. */
function asPathError(error: unknown): unknown {
  if (!(error instanceof URIError)) return error;
  return new GatewayError(
    'bad-request',
    'The path is not well-formed: %XX must be bytes of UTF-8.',
  );
}
