import { GatewayError } from '../errors.ts';
import { asksForOtherIdentity } from '../xmla/request/delegation.ts';
import type { Asked } from './asked.ts';
import type { Destination } from './destination.ts';
import { isLong, ownTurn } from './own-turn.ts';

/** @throws GatewayError `identity-refused` where `engine.delegation` says so */
export async function refuseOtherIdentity(
  { reading, contentType }: Asked,
  body: Buffer,
  { settings }: Destination,
): Promise<void> {
  if (settings.delegation === 'forward') return;
  if (isLong(body)) await ownTurn();
  if (!asksForOtherIdentity({ body, reading, contentType })) return;
  throw new GatewayError(
    'identity-refused',
    'The request asks for the rights of another identity, or cannot be read well enough to say that it does not; engine.delegation refuses that.',
  );
}
