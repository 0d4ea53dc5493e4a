import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http';

type Headers = Readonly<Record<string, string>>;

/** Headers for the browser of a page of another origin (Fetch §3.3). */
export interface OfPage {
  /** For every head, beside Vary; empty for a page that may not read the answer. */
  readonly headers: Headers;
  /** Added to these for a preflight; undefined for an origin that is not listed. */
  readonly preflight: Headers | undefined;
}

/** Port: headers for the Origin of a request; undefined if no answer has any. */
export type PageOrigins = ((origin?: string) => OfPage) | undefined;

/** Detects a preflight (Fetch §3.3.2), which has no login. */
export const isPreflight = ({ method, headers }: Pick<IncomingMessage, 'method' | 'headers'>) =>
  method === 'OPTIONS' &&
  headers.origin !== undefined &&
  headers['access-control-request-method'] !== undefined;

/**
 * Challenge for a page with a wrong login, in a scheme unknown to browsers: they forget the login,
 * but show no dialog, as they would for `Basic` while the page waits.
 */
export const QUIET_CHALLENGE = 'xBasic realm="mdx-gateway", charset="UTF-8"';

/** Drops the engine's CORS headers: it knows only the gateway's origin. */
export function dropOriginHeaders(headers: OutgoingHttpHeaders): void {
  for (const name in headers) if (name.startsWith('access-control-')) delete headers[name];
}

export function varyByOrigin(vary: unknown = ''): string {
  const names = String(vary).split(',');
  const others = names.map((name) => name.trim()).filter((name) => !/^(?:origin)?$/i.test(name));
  return [...others, 'origin'].join(', ');
}
