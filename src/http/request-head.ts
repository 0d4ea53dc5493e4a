import { parse } from 'content-type';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { parse as parseQuery } from 'node:querystring';
import proxyAddr from 'proxy-addr';
import { namesParameter } from '../proxy/forwarded.ts';
import { GatewayError } from '../common/errors.ts';
import { whyNotNamed } from '../common/header-names.ts';

/** A name, IPv4 address or IP literal, with or without port (RFC 3986 §3.2.2, §3.2.3). */
const HOST = /^(?:\[[\da-f:.]+\]|(?:[\w.~!$&'()*+,;=-]|%[\da-f]{2})*)(?::\d*)?$/i;

/**
 * Finds an ambiguous head that Node.js lets through: no Host, several or an invalid one (RFC 9112
 * §3.2; HTTP/1.0 needs none), or a transfer coding beside chunked (§6.1).
 */
export function unclearHead({
  httpVersion,
  headers,
  rawHeaders,
}: Pick<IncomingMessage, 'httpVersion' | 'headers' | 'rawHeaders'>): GatewayError | undefined {
  const coding = headers['transfer-encoding'] ?? 'chunked';
  // Node.js decodes chunked and leaves the other codings.
  if (!/^chunked$/i.test(coding)) {
    const message = 'The Transfer-Encoding of the request is not supported; allowed is chunked.';
    return new GatewayError('transfer-coding', message, CLOSE);
  }
  // `headersDistinct` would list all other headers too.
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
 * Why an act must not be believed despite right credentials: browsers add remembered ones to
 * requests of other sites and to prefetches. Sources: Fetch Metadata, Fetch (Sec-Purpose), RFC 6454
 * §7.
 * @param isListed pages of its Origin may send it
 */
export function forgery(headers: IncomingHttpHeaders, isListed = false): string | undefined {
  const site = isListed ? undefined : headers['sec-fetch-site'];
  if (site !== undefined && site !== 'same-origin' && site !== 'none') {
    return 'the request comes from another site';
  }
  const purposes = [headers['sec-purpose'], headers['purpose'], headers['x-moz']].join(' ');
  if (/prefetch|prerender|preview/i.test(purposes)) return 'the request is a prefetch';
  // The browser compared origins by its own address; a proxy may have changed the Host since.
  if (isListed || site === 'same-origin') return undefined;
  // Browsers send Fetch Metadata over HTTPS only, these two also without. Proxies blank them.
  const { origin = '', referer = '', host } = headers;
  const isOwn = [origin, referer].every((page) => page === '' || isOwnOrigin(page, host));
  return isOwn ? undefined : 'the request comes from another origin';
}

/**
 * {@link forgery} for GET, to which any link may lead. Over plain HTTP a page may hide itself
 * (Referrer Policy), but Upgrade-Insecure-Requests shows a navigation.
 */
export function forgedAct(headers: IncomingHttpHeaders): string | undefined {
  const { 'sec-fetch-site': site, origin, referer } = headers;
  const isUnnamed = !(site || origin || referer) && headers['upgrade-insecure-requests'];
  const remedy = 'use the console, a program such as curl, or HTTPS';
  const unnamed = `a browser does not say over plain HTTP which page led it here; ${remedy}`;
  return forgery(headers) ?? (isUnnamed ? unnamed : undefined);
}

/** Compares by the page's scheme: a proxy may end TLS, and the Host may name the implied port. */
function isOwnOrigin(page: string, host: string | undefined): boolean {
  const own = URL.parse(page);
  if (own === null || own.host === '') return false;
  return URL.parse(`${own.protocol}//${host}`)?.host === own.host;
}

const DELEGATION = 'execute_as_user_id';

/** Looks in headers and query, in any spelling. @throws GatewayError `identity-refused` */
export function refuseDelegation(headers: IncomingHttpHeaders, search: string): void {
  const named = Object.keys(headers).some(isDelegation);
  if (!named && (search === '' || !namesParameter(search, DELEGATION))) return;
  const rule = 'a request is answered with the rights of its own login';
  throw new GatewayError('identity-refused', `EXECUTE_AS_USER_ID is not allowed: ${rule}.`);
}

const isDelegation = (name: string): boolean =>
  name.length === DELEGATION.length && name.replaceAll('-', '_') === DELEGATION;

/** Programs that engines tell apart. The engine gets nothing finer than the key has. */
const USER_AGENT_CLASSES =
  'MSOLAP ADOMD.NET XmlaClient Java Olap4j MicroStrategy Apache-HttpClient gSOAP'.split(' ');

export function clientProgram(header = ''): string {
  const text = header.trim();
  const program = text.split(/[/ (]/, 1)[0] ?? '';
  // Returns our own text: a part of the header would keep all of it in memory (V8).
  return text === '' ? '' : (USER_AGENT_CLASSES.find((one) => one === program) ?? 'other');
}

export function userAgentClass(header: string | undefined): string | undefined {
  const program = clientProgram(header);
  if (program === '') return undefined;
  return program === 'other' ? 'mdx-gateway' : program;
}

/** Types for which engines answer SOAP; they take the first known one, left to right. */
const XML_TYPE = /^(?:text\/xml|application\/(?:soap\+)?xml|\*\/\*)$/;

/** The type to ask for; undefined for any, `not-xml` if the client may get another one. */
export function acceptedType(header: string | undefined): string | undefined | 'not-xml' {
  if (header === undefined) return undefined;
  const ranges = header.split(',').map((range) => range.split(';'));
  if (ranges.flat().some((part) => /^\s*q\s*=\s*0(\.0*)?\s*$/i.test(part))) return 'not-xml';
  const types = ranges.map(([type = '']) => type.trim());
  const known = types.find(
    (type) => /^application\/json$/i.test(type) || XML_TYPE.test(type.toLowerCase()),
  );
  // Some engines know only lower case.
  if (known === undefined || !XML_TYPE.test(known)) return 'not-xml';
  // Sending none says the same (RFC 9110 §12.5.1).
  return known === '*/*' ? undefined : known;
}

/** Headers of an XMLA request, in lower case; `engine.headers` may name others. */
const XMLA_HEADER =
  /^(?:content-type|soapaction|accept|user-agent|x-as-sessionid|x-as-getsessiontoken)$/;
export const isXmlaHeader = (name: string) =>
  XMLA_HEADER.test(name) || whyNotNamed(name) === undefined;

export const REQUEST_ID = 'x-request-id';

/** The client's id of 1 to 128 visible ASCII characters, or a new one. */
export const requestId = (given: unknown, newId: () => string): string =>
  typeof given === 'string' && /^[!-~]{1,128}$/.test(given) ? given : newId();

/** A valid traceparent (W3C Trace Context §3.2), or ''. */
export const traceOf = (given: unknown): string =>
  typeof given === 'string' && /^[\da-f]{2}-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/.test(given)
    ? given
    : '';

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

/** SOAP 1.1 §6, and types that engines accept beside it. */
const XMLA_TYPE = /^(?:text|application)\/xml$/;

/** One spelling of type and charset; undefined for other types or parameters. */
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

/** A coding with its weight, such as `gzip;q=0.5`, and nothing else (RFC 9110 §12.4.2). */
const MEMBER =
  /^[ \t]*([!#$%&'*+\-.^_`|~0-9a-z]+)(?:[ \t]*;[ \t]*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?[ \t]*$/i;

/**
 * True if the client takes gzip and does not prefer identity (RFC 9110 §12.5.3). `x-gzip` is gzip
 * (§8.4.1.3), `*` stands for unnamed ones. False for a missing or broken Accept-Encoding.
 */
export function acceptsGzip(header = ''): boolean {
  const weights = new Map<string, number>();
  for (const part of header.split(',')) {
    // RFC 9110 §5.6.1.2
    if (/^[ \t]*$/.test(part)) continue;
    const [, name, weight = '1'] = MEMBER.exec(part) ?? [];
    if (name === undefined) return false;
    const coding = name.toLowerCase().replace(/^x-gzip$/, 'gzip');
    weights.set(coding, Math.min(Number(weight), weights.get(coding) ?? 1));
  }
  const others = weights.get('*') ?? 0;
  const gzip = weights.get('gzip') ?? others;
  return gzip > 0 && gzip >= (weights.get('identity') ?? others);
}

export type ClientControl = 'none' | 'no-cache' | 'no-store';

/** Text between commas outside of quotes (RFC 9110 §5.6.4), which may lack their end. */
const ELEMENT = /(?:"(?:[^"\\]|\\.)*(?:"|\\?$)|[^",])+/gs;
const NO_STORE = /^[ \t]*no-store[ \t]*$/i;
const NO_CACHE = /^[ \t]*(?:no-cache|max-age=(?:0+|"0+"))[ \t]*$/i;

/**
 * Reads Cache-Control (RFC 9111 §5.2.1). `max-age=0` means `no-cache`; `no-store` wins. Others are
 * ignored, and so is `Pragma`, which WinInet below Excel sends by itself.
 * @param allowed false ignores the header
 */
export function clientControl(headers: IncomingHttpHeaders, allowed: boolean): ClientControl {
  const field = headers['cache-control'];
  if (!allowed || field === undefined) return 'none';
  const directives = field.match(ELEMENT) ?? [];
  if (directives.some((directive) => NO_STORE.test(directive))) return 'no-store';
  return directives.some((directive) => NO_CACHE.test(directive)) ? 'no-cache' : 'none';
}

/** @param trusted IP addresses and CIDR ranges of proxies whose X-Forwarded-For is believed */
export function clientAddressReader(
  trusted: readonly string[],
): (request: IncomingMessage) => string {
  if (trusted.length === 0) return (request) => request.socket.remoteAddress ?? '';
  const isTrusted = proxyAddr.compile([...trusted]);
  return (request) => proxyAddr(request, isTrusted) ?? '';
}

export function trustedProxies(trusted: readonly string[]): (address: string) => boolean {
  const isTrusted = proxyAddr.compile([...trusted]);
  return (address) => isTrusted(address, 0);
}

export const announcedLength = ({ headers }: Pick<IncomingMessage, 'headers'>): number =>
  Number(headers['content-length'] ?? 0);

export const carriesBody = (request: Pick<IncomingMessage, 'headers'>): boolean =>
  request.headers['transfer-encoding'] !== undefined || announcedLength(request) > 0;

/**
 * The query, percent-decoded once, `+` as a space; a repeated name has a list.
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
