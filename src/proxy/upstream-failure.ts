import { GatewayError } from '../errors.ts';

/** The client took nothing of its answer for as long as an upstream may be silent. */
export class ClientStall extends GatewayError {
  constructor() {
    super('client-gone', 'The client did not take its answer.');
  }
}

/** The connection ended without an error and without an answer. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
}
