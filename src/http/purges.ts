import type { RequestHandler } from 'express';
import type { Permissions } from '../auth/permissions.ts';
import { GatewayError } from '../errors.ts';
import type { PurgeLog, PurgeRecord } from '../query-cache/purge/purge-log.ts';
import { queryParameters } from './api/query-parameters.ts';
import { refuseDelegation } from './delegation.ts';
import type { Login } from './login.ts';

/** How many are told when nobody says how many, and the most. */
const LIMITS = { usual: 100, most: 1000 } as const;

/**
 * `GET /admin/purges`, for administrators: the latest purges, the newest first.
 * @throws what the login throws; GatewayError `forbidden`, `identity-refused`, and `bad-request` for a query that is
 *   not understood
 */
export function createPurgesHandler(options: {
  login: Login;
  permissions: Pick<Permissions, 'mayAdminister'>;
  purgeLog: Pick<PurgeLog, 'latest'>;
}): RequestHandler {
  const { login, permissions } = options;

  return async (request, response) => {
    const principal = await login(request);
    refuseDelegation(request.headers, '');
    if (!permissions.mayAdminister(principal)) {
      throw new GatewayError(
        'forbidden',
        `Nothing is told: ${principal.name} is not in auth.admins.`,
      );
    }
    const { complete, purges } = await options.purgeLog.latest(readLimit(request));
    const answer = { complete, purges: purges.map(asJson) };
    const body = Buffer.from(`${JSON.stringify(answer, undefined, 2)}\n`);
    response.writeHead(200, {
      'content-type': 'application/json',
      'content-length': body.length,
      'cache-control': 'no-store',
    });
    response.end(request.method === 'HEAD' ? undefined : body);
  };
}

function asJson({ id, at, ...record }: PurgeRecord) {
  return { id, at: new Date(at).toISOString(), ...record };
}

function readLimit(request: { readonly url: string }): number {
  const { limit = String(LIMITS.usual), ...others } = queryParameters(request);
  const strange = Object.keys(others);
  if (strange.length > 0) {
    throw refused(`${strange.join(', ')} is no query parameter here; allowed is limit`);
  }
  if (typeof limit !== 'string') throw refused('limit is given more than once');
  if (!/^[1-9]\d{0,3}$/.test(limit) || Number(limit) > LIMITS.most) {
    throw refused(`limit must be a whole number from 1 to ${LIMITS.most}`);
  }
  return Number(limit);
}

function refused(why: string): GatewayError {
  return new GatewayError('bad-request', `The query is refused: ${why}.`);
}
