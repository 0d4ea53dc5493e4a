import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../errors.ts';

/** So many headers are too many. Node.js answers 431 then; releases of version 24 leave away those beyond. */
export const MAX_HEADERS = 200;
/** RFC 3986 §3.2.2 and §3.2.3: a registered name (or IPv4 address) or an IP literal, and perhaps a port. */
const HOST = /^(?:\[[\da-f:.]+\]|(?:[\w.~!$&'()*+,;=-]|%[\da-f]{2})*)(?::\d*)?$/i;

/**
 * What is wrong with a head that others may read in another way than this gateway, and that Node.js lets through: with
 * several lines Host or an invalid one (RFC 9112 §3.2), or with more headers than were kept. A head that the hot path
 * remembers was looked at when it was learnt; there is none with another Host.
 * @returns `bad-request`; undefined for a clear one
 */
export function unclearHead({
  rawHeaders,
}: Pick<IncomingMessage, 'rawHeaders'>): GatewayError | undefined {
  if (rawHeaders.length >= 2 * MAX_HEADERS) {
    return refusal(`The request has ${MAX_HEADERS} headers or more; fewer are allowed.`);
  }
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() !== 'host') continue;
    hosts += 1;
    if (hosts > 1) return refusal('The request has several headers Host; one is allowed.');
    if (!HOST.test(rawHeaders[i + 1] ?? '')) {
      return refusal(
        'The header Host is not valid; allowed is a name or an IP address, and a port.',
      );
    }
  }
  return undefined;
}

function refusal(message: string): GatewayError {
  return new GatewayError('bad-request', message, { headers: { connection: 'close' } });
}
