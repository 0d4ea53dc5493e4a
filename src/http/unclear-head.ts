import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../errors.ts';

/** RFC 3986 §3.2.2 and §3.2.3: a registered name (or IPv4 address) or an IP literal, and perhaps a port. */
const HOST = /^(?:\[[\da-f:.]+\]|(?:[\w.~!$&'()*+,;=-]|%[\da-f]{2})*)(?::\d*)?$/i;

/**
 * What is wrong with a head that others may read in another way than this gateway, and that Node.js lets through: with
 * no Host, several or an invalid one (RFC 9112 §3.2; HTTP/1.0 needs none). A head that the hot path remembers was looked
 * at when it was learnt; there is none with another Host.
 * @returns `bad-request`; undefined for a clear one
 */
export function unclearHead({
  httpVersion,
  rawHeaders,
}: Pick<IncomingMessage, 'httpVersion' | 'rawHeaders'>): GatewayError | undefined {
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
  if (hosts === 0 && httpVersion === '1.1') {
    return refusal('The request has no header Host; HTTP/1.1 needs one.');
  }
  return undefined;
}

function refusal(message: string): GatewayError {
  return new GatewayError('bad-request', message, { headers: { connection: 'close' } });
}
