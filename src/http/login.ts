import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Authenticator, Principal, RememberedLogin } from '../auth/authenticator.ts';
import { loginError } from './error-answer.ts';

/**
 * Who sends this request; without a promise where that was checked a short time ago.
 * @throws GatewayError `unauthenticated`, `throttled`, or `engine-unreachable` when the engine checks logins
 */
export type Login = (request: IncomingMessage) => Principal | Promise<Principal>;

/** The login of the latest request of a connection. */
interface SeenLogin {
  /** The exact header: it holds the password, and is dropped with the connection. */
  readonly authorization: string;
  readonly login: RememberedLogin;
}

export function createLogin(
  authenticator: Authenticator,
  addressOf: (request: IncomingMessage) => string,
): Login {
  // To compare a header with the one before takes 0.3 µs, its digest and what belongs to it 1 µs.
  const seen = new WeakMap<Socket, SeenLogin>();

  /** Undefined where the header must be checked. */
  function rememberedLogin({ socket }: IncomingMessage, authorization: string) {
    const before = seen.get(socket);
    if (before?.authorization === authorization && before.login.counts()) return before.login;
    const login = authenticator.remembered(authorization);
    if (login === undefined) seen.delete(socket);
    else seen.set(socket, { authorization, login });
    return login;
  }

  async function check(request: IncomingMessage): Promise<Principal> {
    const { authorization } = request.headers;
    const result = await authenticator.authenticate(authorization, addressOf(request));
    if (!result.ok) throw loginError(result);
    return result.principal;
  }

  return (request) => {
    const { authorization } = request.headers;
    if (authorization === undefined) return check(request);
    return rememberedLogin(request, authorization)?.principal ?? check(request);
  };
}
