import type { IncomingMessage, ServerResponse } from 'node:http';
import { canonicalAuthorization } from '../auth/basic-credentials.ts';
import type { Permissions } from '../auth/permissions.ts';
import { GatewayError } from '../errors.ts';
import type { Emit } from '../events.ts';
import type { Purge } from '../query-cache/purge/purge.ts';
import { asGatewayError, sendError } from './error-answer.ts';
import { forgery } from './forgery.ts';
import type { Login } from './login.ts';
import { purgeFailure } from './purge-failure.ts';
import { unclearHead } from './unclear-head.ts';

/** Answers `clearCache` (interface document §4.3). Never rejects. */
export type ClearCacheHandler = (
  request: IncomingMessage,
  response: ServerResponse,
  project: string | undefined,
) => Promise<void>;

export function createClearCacheHandler(options: {
  login: Login;
  permissions: Permissions;
  purge: Purge;
  newId: () => string;
  emit: Emit;
}): ClearCacheHandler {
  const { emit } = options;

  async function clear(request: IncomingMessage, project: string | undefined) {
    const unclear = unclearHead(request);
    if (unclear !== undefined) throw unclear;
    if (request.method !== 'GET' && request.method !== 'POST') {
      throw new GatewayError('method-not-allowed', 'clearCache is called by GET or POST.', {
        headers: { allow: 'GET, POST' },
      });
    }
    const principal = await options.login(request);
    const refuse = (why: string) => {
      emit({ type: 'purge-refused', principal: principal.name, why });
      throw new GatewayError('forbidden', `Nothing was done: ${why}.`);
    };
    const forged = forgery(request.headers);
    if (forged !== undefined) refuse(forged);
    if (!options.permissions.mayPurge(principal)) {
      refuse(`${principal.name} is neither in auth.admins nor in auth.purgers`);
    }
    const stale = project === undefined ? 'everything' : { project };
    const outcome = await options.purge(stale, {
      principal: principal.name,
      cause: 'clear-cache',
      authorization: canonicalAuthorization(request.headers.authorization),
    });
    if (outcome.ok) return outcome.receipt;
    throw purgeFailure(stale, outcome);
  }

  return async function handle(request, response, project) {
    const shape = clearCacheShape(request);
    const asJson = shape === 'json';
    try {
      const receipt = await clear(request, project);
      send(
        response,
        asJson ? 'application/json' : 'text/plain; charset=utf-8',
        asJson ? JSON.stringify({ status: 'cleared', ...receipt }) : clearedText(project),
      );
    } catch (error) {
      const failure = asGatewayError(error);
      const id = options.newId();
      if (failure.reason === 'internal') emit({ type: 'internal-error', id, error: failure.cause });
      sendError(response, failure, shape, id);
    }
  };
}

/** The form in which whoever calls clearCache is told of errors. */
export function clearCacheShape({ headers }: IncomingMessage): 'json' | 'text' {
  return wantsJson(headers.accept) ? 'json' : 'text';
}

/** The exact texts of the interface document §4.3. */
function clearedText(project: string | undefined): string {
  return project === undefined ? 'Cache has been cleared.' : `${project} Cache has been cleared.`;
}

/** JSON is sent only to those who name it before plain text. */
function wantsJson(accept: string | undefined): boolean {
  const types = (accept ?? '').split(',').map((range) => range.split(';', 1)[0]?.trim());
  return (
    types.find((type) => type === 'application/json' || type === 'text/plain') ===
    'application/json'
  );
}

function send(response: ServerResponse, contentType: string, text: string): void {
  const body = Buffer.from(text);
  response.writeHead(200, {
    'content-type': contentType,
    'content-length': body.length,
    'cache-control': 'no-store',
  });
  response.end(body);
}
