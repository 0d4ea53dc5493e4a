import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http';

type Headers = Readonly<Record<string, string>>;

/** Headers for the browser of a page of another origin (Fetch §3.3). */
export interface OfPage {
  /** In every head, beside Vary; none for a page that may not read the answer, and where no page asks. */
  readonly headers: Headers;
  /** Beside these, where the browser asks first; undefined for an origin that is not listed. */
  readonly preflight: Headers | undefined;
}

/** Port: the headers for the Origin of a request; undefined where no answer says anything of origins. */
export type PageOrigins = ((origin?: string) => OfPage) | undefined;

/** Whether a browser asks what a page may send (Fetch §3.3.2). It sends no login with that. */
export const isPreflight = ({ method, headers }: Pick<IncomingMessage, 'method' | 'headers'>) =>
  method === 'OPTIONS' &&
  headers.origin !== undefined &&
  headers['access-control-request-method'] !== undefined;

/**
 * Challenge for a page whose login is wrong, under a scheme that browsers do not know. By `Basic` they
 * would ask their user in a dialog while the page waits. They forget what they remembered by it too.
 */
export const QUIET_CHALLENGE = 'xBasic realm="mdx-gateway", charset="UTF-8"';

/** Drops what the engine says of origins: it knows none but that of the gateway. */
export function dropOriginHeaders(headers: OutgoingHttpHeaders): void {
  for (const name in headers) if (name.startsWith('access-control-')) delete headers[name];
}

/** Value of Vary with Origin in it, once. @param vary what the answer varies by beside that */
export function varyByOrigin(vary: unknown = ''): string {
  const names = String(vary).split(',');
  const others = names.map((name) => name.trim()).filter((name) => !/^(?:origin)?$/i.test(name));
  return [...others, 'origin'].join(', ');
}
