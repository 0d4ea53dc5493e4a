import type { IncomingMessage } from 'node:http';
import type { Authentication, Authenticator, Principal } from '../auth/authenticator.ts';
import { GatewayError } from '../common/errors.ts';

/**
 * Who sends this request; without a promise where that was checked a short time ago.
 * @throws GatewayError `unauthenticated`, `throttled`, or `engine-unreachable` when the engine checks logins
 */
export type Login = (request: IncomingMessage) => Principal | Promise<Principal>;

export function createLogin(
  authenticator: Authenticator,
  addressOf: (request: IncomingMessage) => string,
): Login {
  async function check(request: IncomingMessage): Promise<Principal> {
    const { authorization } = request.headers;
    const result = await authenticator.authenticate(authorization, addressOf(request));
    if (!result.ok) throw loginError(result);
    return result.principal;
  }

  return (request) => {
    const { authorization } = request.headers;
    const known = authorization === undefined ? undefined : authenticator.remembered(authorization);
    return known?.principal ?? check(request);
  };
}

/**
 * A refused login as an error: the same text for every reason but throttling. One that could not be checked is no
 * refusal, and asks for no other password.
 */
export function loginError(refused: Extract<Authentication, { ok: false }>): GatewayError {
  if (refused.reason === 'throttled') {
    return new GatewayError('throttled', 'Too many failed logins. Try again later.', {
      retryAfter: refused.retryAfter,
    });
  }
  if (refused.reason === 'unavailable') {
    return new GatewayError(
      'engine-unreachable',
      'The login could not be checked, because the engine that knows the users did not say. Try again later.',
    );
  }
  const text = 'A valid user name and password are needed (HTTP Basic authentication).';
  return new GatewayError('unauthenticated', text, {
    // RFC 9110 §11.6.1; the parameter charset: RFC 7617 §2.1.
    headers: { 'www-authenticate': 'Basic realm="mdx-gateway", charset="UTF-8"' },
  });
}
