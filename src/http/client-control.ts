import type { IncomingHttpHeaders } from 'node:http';

/** What a client asks of the cache: a fresh answer that is stored, or one of which nothing is stored. */
export type ClientControl = 'none' | 'no-cache' | 'no-store';

/** What stands between two commas that are not inside of quotes (RFC 9110 §5.6.4); quotes may lack their end. */
const ELEMENT = /(?:"(?:[^"\\]|\\.)*(?:"|\\?$)|[^",])+/gs;

/** `token`, `token=token` or `token="…"` (RFC 9111 §5.2). No argument that counts here holds an escape. */
const DIRECTIVE =
  /^[ \t]*([!#$%&'*+.^_`|~\w-]+)(?:=(?:"([^"\\]*)"|([!#$%&'*+.^_`|~\w-]+)))?[ \t]*$/;

/**
 * Reads the request header Cache-Control (RFC 9111 §5.2.1). `max-age=0` asks for what `no-cache` asks for;
 * `no-store` wins over both. Other directives, and those that are not well-formed, are ignored as the RFC
 * says. So is `Pragma`, on purpose: WinInet sends it by itself, below Excel.
 * @param allowed whether the header of this client counts at all
 */
export function clientControl(headers: IncomingHttpHeaders, allowed: boolean): ClientControl {
  const field = headers['cache-control'];
  if (!allowed || field === undefined) return 'none';
  const asked = new Set((field.match(ELEMENT) ?? []).map(meaning));
  if (asked.has('no-store')) return 'no-store';
  return asked.has('no-cache') ? 'no-cache' : 'none';
}

function meaning(element: string): ClientControl {
  const [, name = '', quoted, token] = DIRECTIVE.exec(element) ?? [];
  const argument = quoted ?? token;
  switch (name.toLowerCase()) {
    case 'no-store':
      return argument === undefined ? 'no-store' : 'none';
    case 'no-cache':
      return argument === undefined ? 'no-cache' : 'none';
    case 'max-age':
      return /^0+$/.test(argument ?? '') ? 'no-cache' : 'none';
    default:
      return 'none';
  }
}
