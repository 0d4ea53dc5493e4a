import { BYPASS_REASONS, GATEWAY_REASONS, HIT_SOURCES, REFUSAL_REASONS } from '../reasons.ts';
import type { Header, Headers } from './openapi-types.ts';

export const WWW_AUTHENTICATE: Header = {
  description: 'Asks for HTTP Basic credentials (RFC 7617).',
  required: true,
  schema: { type: 'string', pattern: '^Basic ' },
  example: 'Basic realm="mdx-gateway", charset="UTF-8"',
};

export const ALLOW: Header = {
  description: 'The methods that are allowed on this path.',
  required: true,
  schema: { type: 'string', pattern: '^[A-Z]+(?:, [A-Z]+)*$' },
  example: 'GET, HEAD',
};

export const RETRY_AFTER: Header = {
  description: 'Seconds after which it is worth to try again.',
  required: true,
  schema: { type: 'integer', minimum: 0 },
  example: 5,
};

export const ETAG: Header = {
  description: 'Changes with the content. Send it as `If-None-Match` to be told of a change only.',
  required: true,
  schema: { type: 'string', pattern: '^"[A-Za-z0-9_-]+"$' },
  example: '"mB0Y3jXJ4f1y2Vv9w0yqgQ"',
};

const AGE: Header = {
  description:
    'Seconds since the engine gave the answer; 0 when it was not answered from the cache.',
  required: true,
  schema: { type: 'integer', minimum: 0 },
  example: 42,
};

const TRANSPORT_CAPS: Header = {
  description:
    'Sent to clients that negotiate the transport of Analysis Services: plain text, no binary XML, no compression.',
  schema: { type: 'string' },
  example: '0,0,0,0,0',
};

const words = (table: object) => Object.keys(table).join('|');

const CACHE_STATUS: Header = {
  description:
    'What the cache did (RFC 9211): `hit`, with the seconds for which the entry may still be used and where it was ' +
    'found; `fwd=miss`, whether the answer was `stored`, and otherwise why not; `fwd=bypass` and why the cache was ' +
    'not asked; only `detail` when the gateway answered by itself. The words are a closed list.',
  required: true,
  schema: {
    type: 'string',
    pattern: `^mdx-gateway; (?:${[
      `hit; ttl=\\d+; detail=(?:${words(HIT_SOURCES)})`,
      `fwd=miss(?:; stored)?(?:; detail=(?:${words(REFUSAL_REASONS)}))?`,
      `fwd=bypass; detail=(?:${words(BYPASS_REASONS)})`,
      `detail=(?:${words(GATEWAY_REASONS)})`,
    ].join('|')})$`,
  },
  example: 'mdx-gateway; hit; ttl=3599; detail=memory',
};

/** On every answer to XMLA, and on every Fault. */
export const XMLA_HEADERS: Headers = Object.fromEntries(
  ['Cache-Status', 'Age', 'X-Transport-Caps-Negotiation-Flags'].map((name) => [
    name,
    { $ref: `#/components/headers/${name}` },
  ]),
);

/** The headers of the components. */
export const SHARED_HEADERS: Readonly<Record<string, Header>> = {
  'Cache-Status': CACHE_STATUS,
  Age: AGE,
  'X-Transport-Caps-Negotiation-Flags': TRANSPORT_CAPS,
};
