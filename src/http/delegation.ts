import type { IncomingHttpHeaders } from 'node:http';
import { namesParameter } from '../engine/engine-target.ts';
import { GatewayError } from '../errors.ts';

/** Asks a server to act for another user; the gateway knows no such delegation. */
const DELEGATION = 'execute_as_user_id';

/**
 * Refuses a request that asks for the rights of somebody else, in a header or in the query, however it is spelt.
 * @param search what follows the `?`; '' without one
 * @throws GatewayError `identity-refused`
 */
export function refuseDelegation(headers: IncomingHttpHeaders, search: string): void {
  const named = Object.keys(headers).some(isDelegation);
  if (!named && (search === '' || !namesParameter(search, DELEGATION))) return;
  throw new GatewayError(
    'identity-refused',
    'EXECUTE_AS_USER_ID is not allowed: a request is answered with the rights of its own login.',
  );
}

function isDelegation(name: string): boolean {
  return name.length === DELEGATION.length && name.replaceAll('-', '_') === DELEGATION;
}
