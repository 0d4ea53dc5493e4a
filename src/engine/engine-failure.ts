import { GatewayError } from '../errors.ts';

/** The engine was silent for longer than `engine.timeout`. */
export class EngineSilence extends GatewayError {
  constructor() {
    super('engine-timeout', 'The engine did not answer in time.');
  }
}

/** No connection was made, so that nothing was sent. */
export class NotConnected extends Error {
  override readonly name = 'NotConnected';

  constructor(cause: unknown) {
    super('no connection', { cause });
  }
}

/** What a client is told when the engine failed. Host names and error codes stay in the log. */
export function engineFailure(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error;
  return new GatewayError('engine-unreachable', 'The engine cannot be reached.', { cause: error });
}

export function engineLoginFailure(): GatewayError {
  return new GatewayError(
    'engine-login',
    'The engine refused the login of the gateway; its operator must correct engine.login.',
  );
}
