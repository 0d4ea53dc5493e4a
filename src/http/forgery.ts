import type { IncomingHttpHeaders } from 'node:http';

/**
 * Why a request that changes something must not be believed, though its credentials are right: browsers add
 * remembered Basic credentials also to what another site makes them send, and fetch links ahead of a click.
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
  // Browsers send Fetch Metadata over HTTPS only; these two they also send without it.
  for (const page of [headers.origin, headers.referer]) {
    if (page !== undefined && !isOwnOrigin(page, headers.host)) {
      return 'the request comes from another origin';
    }
  }
  return undefined;
}

function isOwnOrigin(origin: string, host: string | undefined): boolean {
  return URL.canParse(origin) && new URL(origin).host === host;
}
