import type { IncomingMessage } from 'node:http';
import type { Authenticator, Principal } from '../auth/authenticator.ts';
import { loginError } from './error-answer.ts';

/**
 * Who sends this request.
 * @throws GatewayError `unauthenticated`, `throttled`, or `engine-unreachable` when the engine checks logins
 */
export type Login = (request: IncomingMessage) => Promise<Principal>;

export function createLogin(
  authenticator: Authenticator,
  addressOf: (request: IncomingMessage) => string,
): Login {
  return async (request) => {
    const checked = authenticator.authenticate(request.headers.authorization, addressOf(request));
    // Remembered credentials are answered without a promise, so that a hit costs no turn of the loop.
    const result = checked instanceof Promise ? await checked : checked;
    if (!result.ok) throw loginError(result);
    return result.principal;
  };
}
