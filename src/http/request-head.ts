import { parse } from 'content-type';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import proxyAddr from 'proxy-addr';
import { GatewayError } from '../common/errors.ts';

/**
 * The kinds of client program that engines tell apart by User-Agent (MDX for Kylin does): the text up to the
 * first `/`, space or parenthesis. The engine is sent the class itself, so that an answer cannot depend on
 * anything finer than what is in the key.
 */
const USER_AGENT_CLASSES: ReadonlySet<string> = new Set([
  'MSOLAP',
  'ADOMD.NET',
  'XmlaClient',
  'Java',
  'Olap4j',
  'MicroStrategy',
  'Apache-HttpClient',
  'gSOAP',
]);

/** What the engine is sent for any other program. */
const OTHER_CLIENT = 'mdx-gateway';

/** @returns the class of a client program by its User-Agent; `other` for one that is not known, '' for none */
export function clientProgram(header: string | undefined): string {
  const program = (header ?? '').trim().split(/[/ (]/, 1)[0] ?? '';
  return (header ?? '').trim() === '' || USER_AGENT_CLASSES.has(program) ? program : 'other';
}

/** @returns the User-Agent to forward; undefined when the client sent none */
export function userAgentClass(header: string | undefined): string | undefined {
  const program = clientProgram(header);
  if (program === '') return undefined;
  return program === 'other' ? OTHER_CLIENT : program;
}

/** Media types for which engines answer SOAP; they look for the first that they know, left to right. */
const XML_TYPES: ReadonlySet<string> = new Set([
  'text/xml',
  'application/xml',
  'application/soap+xml',
  '*/*',
]);

/**
 * @returns the media type to ask the engine for, undefined when the client names none; `not-xml` when it may
 *   want something else, so that its request is passed through as it is
 */
export function acceptedType(header: string | undefined): string | undefined | 'not-xml' {
  if (header === undefined) return undefined;
  const ranges = header.split(',').map((range) => range.toLowerCase().split(';'));
  if (ranges.some((range) => range.some((part) => /^\s*q\s*=\s*0(\.0*)?\s*$/.test(part)))) {
    return 'not-xml';
  }
  const types = ranges.map(([type = '']) => type.trim());
  const known = types.find((type) => XML_TYPES.has(type) || type === 'application/json');
  return known === undefined || known === 'application/json' ? 'not-xml' : known;
}

/** Media types of an XMLA request (SOAP 1.1 §6, and what engines accept beside it). */
const XMLA_TYPES: ReadonlySet<string> = new Set(['text/xml', 'application/xml']);

/**
 * The Content-Type to send to the engine for a cacheable request: media type and charset, in one spelling.
 * @returns undefined when it is no XMLA type, or says more than that
 */
export function canonicalContentType(header: string | undefined): string | undefined {
  if (header === undefined) return undefined;
  try {
    const { type, parameters } = parse(header);
    const { charset, ...others } = parameters;
    if (!XMLA_TYPES.has(type.toLowerCase()) || Object.keys(others).length > 0) return undefined;
    return charset === undefined
      ? type.toLowerCase()
      : `${type.toLowerCase()}; charset=${charset.toLowerCase()}`;
  } catch {
    return undefined;
  }
}

/** A coding with its weight: `gzip`, `gzip;q=0.5`. Nothing else may stand beside it (RFC 9110 §12.4.2). */
const MEMBER =
  /^[ \t]*([!#$%&'*+\-.^_`|~0-9a-z]+)(?:[ \t]*;[ \t]*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?[ \t]*$/i;
/** To be overlooked (RFC 9110 §5.6.1.2). */
const EMPTY_MEMBER = /^[ \t]*$/;

/**
 * Whether the client takes gzip, and would not rather have the answer as it is (RFC 9110 §12.5.3). `x-gzip` is
 * gzip (§8.4.1.3), `*` is what is not named.
 *
 * @param header the request header Accept-Encoding. Without one, or with one that breaks the rules, the answer is
 *   no: who does not ask for gzip in so many words may not understand it
 */
export function acceptsGzip(header: string | undefined): boolean {
  if (header === undefined) return false;
  const weights = new Map<string, number>();
  for (const part of header.split(',')) {
    if (EMPTY_MEMBER.test(part)) continue;
    const [, name, weight = '1'] = MEMBER.exec(part) ?? [];
    if (name === undefined) return false;
    const coding = name.toLowerCase() === 'x-gzip' ? 'gzip' : name.toLowerCase();
    // Named twice, the smaller weight counts.
    weights.set(coding, Math.min(Number(weight), weights.get(coding) ?? 1));
  }
  const others = weights.get('*') ?? 0;
  const gzip = weights.get('gzip') ?? others;
  return gzip > 0 && gzip >= (weights.get('identity') ?? others);
}

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

/**
 * Whose request it is: the address of the connection, or, when that is a trusted proxy, the nearest address
 * in X-Forwarded-For that is none.
 * @param trusted IP addresses and CIDR ranges
 */
export function clientAddressReader(
  trusted: readonly string[],
): (request: IncomingMessage) => string {
  if (trusted.length === 0) return (request) => request.socket.remoteAddress ?? '';
  const isTrusted = proxyAddr.compile([...trusted]);
  return (request) => proxyAddr(request, isTrusted) ?? '';
}

/** Whether an address is that of a trusted proxy. */
export function trustedProxies(trusted: readonly string[]): (address: string) => boolean {
  const isTrusted = proxyAddr.compile([...trusted]);
  return (address) => isTrusted(address, 0);
}

/** How long the body of a request is by its head (bytes); 0 where that does not say it. */
export function announcedLength({ headers }: Pick<IncomingMessage, 'headers'>): number {
  return Number(headers['content-length'] ?? 0);
}

/** Whether a request announces a body that is not empty. */
export function carriesBody(request: Pick<IncomingMessage, 'headers'>): boolean {
  return request.headers['transfer-encoding'] !== undefined || announcedLength(request) > 0;
}

/** The values of a query by name: a string, or all strings of a name that is given more than once. */
export type QueryParameters = Readonly<Record<string, string | readonly string[]>>;

/**
 * The query of a request, percent-decoded once, `+` as a space.
 * @throws GatewayError `bad-request` when it is not well-formed; nothing is guessed
 */
export function queryParameters({ url = '' }: Pick<IncomingMessage, 'url'>): QueryParameters {
  const [, search = ''] = /\?(.*)/s.exec(url) ?? [];
  const pairs = search
    .split('&')
    .filter((piece) => piece !== '')
    .map((piece) => piece.split(/=(.*)/s).map(decoded));
  return Object.fromEntries(
    [...Map.groupBy(pairs, ([name = '']) => name)].map(([name, given]) => {
      const values = given.map(([, value = '']) => value);
      return [name, values.length > 1 ? values : (values[0] ?? '')];
    }),
  );
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw new GatewayError(
      'bad-request',
      'The query is not well-formed: %XX must be bytes of UTF-8.',
    );
  }
}
