import type { IncomingHttpHeaders } from 'node:http';

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
  // Proxies blank them.
  for (const page of [headers.origin, headers.referer]) {
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
