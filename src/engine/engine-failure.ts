import { GatewayError } from '../errors.ts';

/** The engine was silent for longer than `engine.timeout`. */
export class EngineSilence extends GatewayError {
  constructor() {
    super('engine-timeout', 'The engine did not answer in time.');
  }
}

/** The client took nothing of its answer for as long as an engine may be silent. */
export class ClientStall extends GatewayError {
  constructor() {
    super('client-gone', 'The client did not take its answer.');
  }
}

/** The connection ended without an error and without an answer. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
}

/** What a client is told when the engine failed. Host names and error codes stay in the log. */
export function engineFailure(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error;
  return new GatewayError('engine-unreachable', 'The engine cannot be reached.', { cause: error });
}

/**
 * With a login of the gateway's own, a 401 of the engine is not a question to the client, whose password is
 * not the one that was refused.
 */
export function refusedLogin(status: number, login: 'forward' | 'service' | 'none'): boolean {
  return login !== 'forward' && (status === 401 || status === 407);
}

export function engineLoginFailure(): GatewayError {
  return new GatewayError(
    'engine-login',
    'The engine refused the login of the gateway; its operator must correct engine.login.',
  );
}
