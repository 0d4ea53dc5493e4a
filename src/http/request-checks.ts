import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { namesParameter } from '../proxy/forwarded.ts';
import { GatewayError } from '../common/errors.ts';

/** RFC 3986 §3.2.2 and §3.2.3: a registered name (or IPv4 address) or an IP literal, and perhaps a port. */
const HOST = /^(?:\[[\da-f:.]+\]|(?:[\w.~!$&'()*+,;=-]|%[\da-f]{2})*)(?::\d*)?$/i;

/**
 * What is wrong with a head that others may read in another way than this gateway, and that Node.js lets through: with
 * no Host, several or an invalid one (RFC 9112 §3.2; HTTP/1.0 needs none). A head that is remembered was looked
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

/**
 * Why a request that does something must not be believed, though its credentials are right: browsers add
 * remembered Basic credentials also to what another site makes them send, and fetch links ahead of a click.
 * Programs say none of this. A page whose host name another site has pointed at the gateway is not told apart.
 * Sources: Fetch Metadata (Sec-Fetch-Site), Fetch (Sec-Purpose), RFC 6454 §7 (Origin).
 * @returns undefined when nothing speaks against it
 */
export function forgery(headers: IncomingHttpHeaders): string | undefined {
  const site = headers['sec-fetch-site'];
  if (site !== undefined && site !== 'same-origin' && site !== 'none') {
    return 'the request comes from another site';
  }
  const purposes = [headers['sec-purpose'], headers['purpose'], headers['x-moz']].join(' ');
  if (/prefetch|prerender|preview/i.test(purposes)) return 'the request is a prefetch';
  // The browser has compared origins by the address that it knows; a proxy may have changed the Host since.
  if (site === 'same-origin') return undefined;
  // Browsers send Fetch Metadata over HTTPS only; these two they also send without it.
  for (const page of [headers.origin, headers.referer]) {
    // Proxies blank them.
    if (page !== undefined && page !== '' && !isOwnOrigin(page, headers.host)) {
      return 'the request comes from another origin';
    }
  }
  return undefined;
}

/** Schemes may differ, since a proxy may end TLS; so the port that the page's scheme implies may be named in the Host. */
function isOwnOrigin(page: string, host: string | undefined): boolean {
  if (!URL.canParse(page)) return false;
  const { protocol, host: own } = new URL(page);
  const addressed = `${protocol}//${host}`;
  return own !== '' && URL.canParse(addressed) && new URL(addressed).host === own;
}

/** Asks a server to act for another user; the gateway knows no such delegation. */
const DELEGATION = 'execute_as_user_id';

/**
 * Refuses a request that asks for the rights of another user, in a header or in the query, however it is spelt.
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
