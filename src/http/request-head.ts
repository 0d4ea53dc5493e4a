import { parse } from 'content-type';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { parse as parseQuery } from 'node:querystring';
import proxyAddr from 'proxy-addr';
import { namesParameter } from '../proxy/forwarded.ts';
import { GatewayError } from '../common/errors.ts';
import { whyNotNamed } from '../common/header-names.ts';

/** RFC 3986 §3.2.2 and §3.2.3: a registered name (or IPv4 address) or an IP literal, and perhaps a port. */
const HOST = /^(?:\[[\da-f:.]+\]|(?:[\w.~!$&'()*+,;=-]|%[\da-f]{2})*)(?::\d*)?$/i;

/**
 * What is wrong with a head that others may read in another way than this gateway, and that Node.js lets through: no
 * Host, several or an invalid one (RFC 9112 §3.2; HTTP/1.0 needs none), or a transfer coding beside chunked (§6.1).
 */
export function unclearHead({
  httpVersion,
  headers,
  rawHeaders,
}: Pick<IncomingMessage, 'httpVersion' | 'headers' | 'rawHeaders'>): GatewayError | undefined {
  const coding = headers['transfer-encoding'] ?? 'chunked';
  // Node.js takes chunked off and leaves what it holds.
  if (!/^chunked$/i.test(coding)) {
    const message = 'The Transfer-Encoding of the request is not supported; allowed is chunked.';
    return new GatewayError('transfer-coding', message, CLOSE);
  }
  // Not by `headersDistinct`, which lists all the others too.
  const hosts = rawHeaders.filter((_, i) => i % 2 === 1 && /^host$/i.test(rawHeaders[i - 1] ?? ''));
  const mistake = mistakeInHosts(hosts, httpVersion);
  if (mistake === undefined) return undefined;
  return new GatewayError('bad-request', mistake, CLOSE);
}

const CLOSE = { headers: { connection: 'close' } } as const;

function mistakeInHosts(hosts: readonly string[], httpVersion: string): string | undefined {
  if (hosts.length > 1) return 'The request has several headers Host; one is allowed.';
  if (!HOST.test(hosts[0] ?? '')) {
    return 'The header Host is not valid; allowed is a name or an IP address, and a port.';
  }
  const isMissing = hosts.length === 0 && httpVersion === '1.1';
  return isMissing ? 'The request has no header Host; HTTP/1.1 needs one.' : undefined;
}

/**
 * Why a request that does something must not be believed, though its credentials are right: browsers add remembered
 * Basic credentials also to what another site makes them send, and fetch links ahead of a click; programs say none of
 * this. Sources: Fetch Metadata (Sec-Fetch-Site), Fetch (Sec-Purpose), RFC 6454 §7 (Origin).
 * @param isListed whether pages of its Origin may send it
 */
export function forgery(headers: IncomingHttpHeaders, isListed = false): string | undefined {
  const site = isListed ? undefined : headers['sec-fetch-site'];
  if (site !== undefined && site !== 'same-origin' && site !== 'none') {
    return 'the request comes from another site';
  }
  const purposes = [headers['sec-purpose'], headers['purpose'], headers['x-moz']].join(' ');
  if (/prefetch|prerender|preview/i.test(purposes)) return 'the request is a prefetch';
  // The browser has compared origins by the address that it knows; a proxy may have changed the Host since.
  if (isListed || site === 'same-origin') return undefined;
  // Browsers send Fetch Metadata over HTTPS only; these two they also send without it. Proxies blank them.
  const { origin = '', referer = '', host } = headers;
  const isOwn = [origin, referer].every((page) => page === '' || isOwnOrigin(page, host));
  return isOwn ? undefined : 'the request comes from another origin';
}

/**
 * The same for what a GET may do: a browser sends it with the credentials that it remembers wherever a link leads, and over
 * plain HTTP says nothing of a page that asks it to keep quiet (Referrer Policy). By Upgrade-Insecure-Requests it says
 * that it goes to a page.
 */
export function forgedAct(headers: IncomingHttpHeaders): string | undefined {
  const { 'sec-fetch-site': site, origin, referer } = headers;
  const isUnnamed = !(site || origin || referer) && headers['upgrade-insecure-requests'];
  const remedy = 'use the console, a program such as curl, or HTTPS';
  const unnamed = `a browser does not say over plain HTTP which page led it here; ${remedy}`;
  return forgery(headers) ?? (isUnnamed ? unnamed : undefined);
}

/** Schemes may differ, since a proxy may end TLS; so the port that the page's scheme implies may be named in the Host. */
function isOwnOrigin(page: string, host: string | undefined): boolean {
  const own = URL.parse(page);
  if (own === null || own.host === '') return false;
  return URL.parse(`${own.protocol}//${host}`)?.host === own.host;
}

const DELEGATION = 'execute_as_user_id';

/** In a header or in the query, however it is spelt. @throws GatewayError `identity-refused` */
export function refuseDelegation(headers: IncomingHttpHeaders, search: string): void {
  const named = Object.keys(headers).some(isDelegation);
  if (!named && (search === '' || !namesParameter(search, DELEGATION))) return;
  const rule = 'a request is answered with the rights of its own login';
  throw new GatewayError('identity-refused', `EXECUTE_AS_USER_ID is not allowed: ${rule}.`);
}

const isDelegation = (name: string): boolean =>
  name.length === DELEGATION.length && name.replaceAll('-', '_') === DELEGATION;

/** Those that engines tell apart (MDX for Kylin does). The engine is sent nothing finer than is in the key. */
const USER_AGENT_CLASSES =
  'MSOLAP ADOMD.NET XmlaClient Java Olap4j MicroStrategy Apache-HttpClient gSOAP'.split(' ');

/** The class of a client program by its User-Agent; `other` for one that is not known, '' for none. */
export function clientProgram(header = ''): string {
  const text = header.trim();
  const program = text.split(/[/ (]/, 1)[0] ?? '';
  // Not the part of the header, by which V8 would keep the whole of it in memory.
  return text === '' ? '' : (USER_AGENT_CLASSES.find((one) => one === program) ?? 'other');
}

/** The User-Agent to forward. */
export function userAgentClass(header: string | undefined): string | undefined {
  const program = clientProgram(header);
  if (program === '') return undefined;
  return program === 'other' ? 'mdx-gateway' : program;
}

/** Media types for which engines answer SOAP; they look for the first that they know, left to right. */
const XML_TYPE = /^(?:text\/xml|application\/(?:soap\+)?xml|\*\/\*)$/;

/** The media type to ask the engine for; undefined when the client takes any, `not-xml` when it may be answered by another. */
export function acceptedType(header: string | undefined): string | undefined | 'not-xml' {
  if (header === undefined) return undefined;
  const ranges = header.split(',').map((range) => range.split(';'));
  if (ranges.flat().some((part) => /^\s*q\s*=\s*0(\.0*)?\s*$/i.test(part))) return 'not-xml';
  const types = ranges.map(([type = '']) => type.trim());
  const known = types.find(
    (type) => /^application\/json$/i.test(type) || XML_TYPE.test(type.toLowerCase()),
  );
  // Some engines know a type in lower case only.
  if (known === undefined || !XML_TYPE.test(known)) return 'not-xml';
  // To send none says the same (RFC 9110 §12.5.1).
  return known === '*/*' ? undefined : known;
}

/**
 * In lower case. An XMLA request is understood by these, and by those that `engine.headers` may name; what else its program
 * sends speaks of the call itself.
 */
const XMLA_HEADER =
  /^(?:content-type|soapaction|accept|user-agent|x-as-sessionid|x-as-getsessiontoken)$/;
export const isXmlaHeader = (name: string) =>
  XMLA_HEADER.test(name) || whyNotNamed(name) === undefined;

/** The header that names a request, in its answer and in the log. */
export const REQUEST_ID = 'x-request-id';

/** The id under which a request is known: as its client names it, in 1 to 128 visible characters of ASCII, or a new one. */
export const requestId = (given: unknown, newId: () => string): string =>
  typeof given === 'string' && /^[!-~]{1,128}$/.test(given) ? given : newId();

/** The header traceparent, if it is one (W3C Trace Context §3.2); '' for none. */
export const traceOf = (given: unknown): string =>
  typeof given === 'string' && /^[\da-f]{2}-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/.test(given)
    ? given
    : '';

/** Puts the id into the head of the answer, once. Returns it. */
export function nameRequest(
  request: IncomingMessage,
  response: ServerResponse,
  newId: () => string,
): string {
  const known = response.getHeader(REQUEST_ID);
  if (typeof known === 'string') return known;
  const id = requestId(request.headers[REQUEST_ID], newId);
  response.setHeader(REQUEST_ID, id);
  return id;
}

/** Media types of an XMLA request (SOAP 1.1 §6, and what engines accept beside it). */
const XMLA_TYPE = /^(?:text|application)\/xml$/;

/** The media type and charset of an XMLA request in one spelling; undefined for another type, or one that says more. */
export function canonicalContentType(header: string | undefined): string | undefined {
  if (header === undefined) return undefined;
  try {
    const { type, parameters } = parse(header.toLowerCase());
    const { charset, ...others } = parameters;
    if (!XMLA_TYPE.test(type) || Object.keys(others).length > 0) return undefined;
    return charset === undefined ? type : `${type}; charset=${charset}`;
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
 * Whether the client takes gzip, and would not rather have the answer as it is (RFC 9110 §12.5.3). `x-gzip` is gzip
 * (§8.4.1.3), `*` is what is not named. No where Accept-Encoding is missing or breaks the rules.
 */
export function acceptsGzip(header = ''): boolean {
  const weights = new Map<string, number>();
  for (const part of header.split(',')) {
    if (EMPTY_MEMBER.test(part)) continue;
    const [, name, weight = '1'] = MEMBER.exec(part) ?? [];
    if (name === undefined) return false;
    const coding = name.toLowerCase().replace(/^x-gzip$/, 'gzip');
    // Named twice, the smaller weight counts.
    weights.set(coding, Math.min(Number(weight), weights.get(coding) ?? 1));
  }
  const others = weights.get('*') ?? 0;
  const gzip = weights.get('gzip') ?? others;
  return gzip > 0 && gzip >= (weights.get('identity') ?? others);
}

/** `no-cache`: a fresh answer, which is stored. */
export type ClientControl = 'none' | 'no-cache' | 'no-store';

/** Between two commas that are not inside of quotes (RFC 9110 §5.6.4); quotes may lack their end. */
const ELEMENT = /(?:"(?:[^"\\]|\\.)*(?:"|\\?$)|[^",])+/gs;
const NO_STORE = /^[ \t]*no-store[ \t]*$/i;
const NO_CACHE = /^[ \t]*(?:no-cache|max-age=(?:0+|"0+"))[ \t]*$/i;

/**
 * Reads the request header Cache-Control (RFC 9111 §5.2.1). `max-age=0` asks for what `no-cache` asks for; `no-store`
 * wins over both. Others are ignored, and so is `Pragma`, since WinInet sends it by itself, below Excel.
 * @param allowed whether the header of this client counts at all
 */
export function clientControl(headers: IncomingHttpHeaders, allowed: boolean): ClientControl {
  const field = headers['cache-control'];
  if (!allowed || field === undefined) return 'none';
  const directives = field.match(ELEMENT) ?? [];
  if (directives.some((directive) => NO_STORE.test(directive))) return 'no-store';
  return directives.some((directive) => NO_CACHE.test(directive)) ? 'no-cache' : 'none';
}

/**
 * Whose request it is: the address of the connection, or, when that is a trusted proxy, the nearest address in
 * X-Forwarded-For that is none.
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
export const announcedLength = ({ headers }: Pick<IncomingMessage, 'headers'>): number =>
  Number(headers['content-length'] ?? 0);

/** Whether a request announces a body that is not empty. */
export const carriesBody = (request: Pick<IncomingMessage, 'headers'>): boolean =>
  request.headers['transfer-encoding'] !== undefined || announcedLength(request) > 0;

/**
 * The query of a request, percent-decoded once, `+` as a space; all strings of a name that is given more than once.
 * @throws GatewayError `bad-request` when it is not well-formed
 */
export function queryParameters({
  url = '',
}: Pick<IncomingMessage, 'url'>): Readonly<NodeJS.Dict<string | readonly string[]>> {
  const [, search = ''] = /\?(.*)/s.exec(url) ?? [];
  try {
    decodeURIComponent(search);
  } catch {
    const text = 'The query is not well-formed: %XX must be bytes of UTF-8.';
    throw new GatewayError('bad-request', text);
  }
  return parseQuery(search, '&', '=', { maxKeys: 0 });
}
