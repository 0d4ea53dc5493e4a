import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import type { CorsConfig } from '../features/cors/config.ts';

type Headers = Readonly<Record<string, string>>;

/** What the browser of a page is told, by the Origin of its request (Fetch §3.3). */
export interface CorsAnswer {
  /** In every head, beside Vary; none for a page that may not read the answer, and where no page asks. */
  readonly headers: Headers;
  /** Beside these, where the browser asks first; undefined for an origin that is not listed. */
  readonly preflight: Headers | undefined;
}

/** Undefined where no origin is listed: then no answer says anything of origins. */
export type Cors = ReturnType<typeof createCors>;

const OF_CLIENTS =
  'authorization, content-type, soapaction, cache-control, x-request-id, x-as-sessionid, traceparent, x-requested-with';
const UNLISTED: CorsAnswer = { headers: {}, preflight: undefined };

/** Knows the answers to all listed origins, and to the rest. @param named the headers that `engine.headers` names */
export function createCors(
  { origins, max_age: maxAge }: CorsConfig,
  named: readonly string[] = [],
) {
  if (origins.length === 0) return undefined;
  const preflight = {
    'access-control-allow-methods': 'POST',
    'access-control-allow-headers': [OF_CLIENTS, ...named].join(', '),
    'access-control-max-age': String(Math.floor(maxAge / 1000)),
  };
  const listed = new Map(
    origins.map((origin) => {
      const headers = {
        'access-control-allow-origin': origin,
        'access-control-allow-credentials': 'true',
        'access-control-expose-headers': 'Cache-Status, Age, Retry-After, X-Request-Id',
      };
      return [origin, { headers, preflight }] as const;
    }),
  );
  // Of several headers Origin the text is a list, which is no origin, as `null` is none.
  return (origin = ''): CorsAnswer => listed.get(origin) ?? UNLISTED;
}

/** Whether a browser asks what a page may send (Fetch §3.3.2). It sends no login with that. */
export const isPreflight = ({ method, headers }: Pick<IncomingMessage, 'method' | 'headers'>) =>
  method === 'OPTIONS' &&
  headers.origin !== undefined &&
  headers['access-control-request-method'] !== undefined;

/**
 * For a page whose login is wrong, under a scheme that browsers do not know: by `Basic` they would ask their user in a
 * dialog, behind which the page waits. What they remembered they forget by it too.
 */
export const QUIET_CHALLENGE = 'xBasic realm="mdx-gateway", charset="UTF-8"';

/** Takes out what the engine says of origins: it knows none but that of the gateway. */
export function dropCors(headers: OutgoingHttpHeaders): void {
  for (const name in headers) if (name.startsWith('access-control-')) delete headers[name];
}

/** The value of Vary with Origin in it, once. @param vary what the answer varies by beside that */
export function varyByOrigin(vary: unknown = ''): string {
  const names = String(vary).split(',');
  const others = names.map((name) => name.trim()).filter((name) => !/^(?:origin)?$/i.test(name));
  return [...others, 'origin'].join(', ');
}
