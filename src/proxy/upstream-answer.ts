import type { IncomingHttpHeaders } from 'node:http';

/** The answer of an upstream as it comes, whoever speaks HTTP with it; an `IncomingMessage` is one. */
export interface UpstreamAnswer extends AsyncIterable<Buffer> {
  readonly statusCode?: number | undefined;
  readonly statusMessage?: string | undefined;
  /** Names in lower case, bytes as ISO-8859-1, fields of one name put together as node does. */
  readonly headers: IncomingHttpHeaders;
  /** Why it broke off; null as long as it has not. */
  readonly errored: Error | null;
  /** Ends the request, unless the answer came whole. */
  destroy(error?: Error): void;
}

const SPACE = 0x20;
const TAB = 0x09;
const NOTHING = Buffer.alloc(0);

/** Of several of these in one head, which none may have, the first counts; that is what node does. */
const SINGLE: ReadonlySet<string> = new Set([
  'age',
  'authorization',
  'content-length',
  'content-type',
  'etag',
  'expires',
  'from',
  'host',
  'if-modified-since',
  'if-unmodified-since',
  'last-modified',
  'location',
  'max-forwards',
  'proxy-authorization',
  'referer',
  'retry-after',
  'server',
  'user-agent',
]);

/**
 * Header fields as `IncomingMessage.headers` has them.
 * @param raw names and values in turn, as they came
 */
export function headersOf(raw: readonly Buffer[]): IncomingHttpHeaders {
  const headers: Record<string, string | string[]> = {};
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = (raw[index] ?? NOTHING).toString('latin1').toLowerCase();
    const value = valueOf(raw[index + 1] ?? NOTHING);
    const before = headers[name];
    if (name === 'set-cookie') headers[name] = [...(before ?? []), value];
    // What every object has by these names is no string.
    else if (typeof before !== 'string') headers[name] = value;
    else if (!SINGLE.has(name)) headers[name] = before + (name === 'cookie' ? '; ' : ', ') + value;
  }
  return headers;
}

/** Blanks behind a value are not of it (RFC 9110 §5.5). */
function valueOf(raw: Buffer): string {
  let end = raw.length;
  while (end > 0 && (raw[end - 1] === SPACE || raw[end - 1] === TAB)) end -= 1;
  return raw.toString('latin1', 0, end);
}
