import type { OfPage, PageOrigins } from '../../http/page-origins.ts';
import type { Feature } from '../feature.ts';
import type { CorsConfig } from './config.ts';

const OF_CLIENTS =
  'authorization, content-type, soapaction, cache-control, x-request-id, x-as-sessionid, traceparent, x-requested-with';
const UNLISTED: OfPage = { headers: {}, preflight: undefined };

/** Lets pages of listed origins ask over XMLA (CORS). */
export const cors = (): Feature => ({
  pageOrigins: ({ listen }, headers) => createCors(listen.cors, headers),
});

/** @param named headers that `engine.headers` names */
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
  // Several headers Origin make a list, which is no origin, as `null` is none.
  return (origin = ''): OfPage => listed.get(origin) ?? UNLISTED;
}
