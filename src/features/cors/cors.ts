import type { OfPage, PageOrigins } from '../../http/page-origins.ts';
import type { Feature } from '../feature.ts';
import type { CorsConfig } from './config.ts';

const OF_CLIENTS =
  'authorization, content-type, soapaction, cache-control, x-request-id, x-as-sessionid, traceparent, x-requested-with';
const UNLISTED: OfPage = { headers: {}, preflight: undefined };

/** CORS: pages of listed origins may ask over XMLA. */
export const cors = (): Feature => ({
  pageOrigins: ({ listen }, headers) => createCors(listen.cors, headers),
});

/** Knows the headers for all listed origins, and for the rest. @param named what `engine.headers` names */
export function createCors(
  { origins, max_age: maxAge }: CorsConfig,
  named: readonly string[] = [],
): PageOrigins {
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
  return (origin = ''): OfPage => listed.get(origin) ?? UNLISTED;
}
