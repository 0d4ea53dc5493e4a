/** Names of request headers, in lower case. */

export const words = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/));

/** One name (lower case) for all that a server could take for the same, such as a CGI-like one. */
export const nameAsRead = (name: string) =>
  /[^a-z0-9-]/.test(name) ? name.replaceAll(/[^a-z0-9]/g, '-') : name;

/** Headers that concern one connection only (RFC 9110 §7.6.1). */
export const HOP_BY_HOP = words(`
  connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer
  transfer-encoding upgrade
`);

/** By these a client could pass for another one, or make an engine answer in binary. */
const IDENTITIES = words(`
  authorization cookie gatewayauth x-remote-user x-auth-user remote-user execute-as-user-id
  x-transport-caps-negotiation-flags
`);
/** What proxies tell by `X-Forwarded-` beside users and their groups. */
const OF_PROXIES = /^x-forwarded-(?:for|host|port|proto|prefix|server)$/;
const isIdentity = (name: string) =>
  IDENTITIES.has(name) || (name.startsWith('x-forwarded-') && !OF_PROXIES.test(name));

/** The gateway replaces them: `100 Continue`, length and coding of the body, host. */
const REPLACED = words('expect content-length content-encoding host');

/** @param name as a server could read it ({@link nameAsRead}) */
export const isNeverForwarded = (name: string) =>
  HOP_BY_HOP.has(name) || REPLACED.has(name) || isIdentity(name);

/**
 * Headers whose values neither shape an answer nor reach the engine with a cacheable request: how long the body is, which
 * the parser of HTTP has checked, and ids that are new for every request. Any other header counts.
 */
const WITHOUT_EFFECT =
  /^(?:content-length|x-as-(?:activity|request)id|x-(?:request|correlation)-id|traceparent|tracestate|baggage|b3|x-b3-(?:trace|span|parentspan)id|x-amzn-trace-id|x-cloud-trace-context|sentry-trace)$/i;
export const isWithoutEffect = (name: string) => WITHOUT_EFFECT.test(name);

/** By these a browser says which page asks (Fetch §3.2, Fetch Metadata, RFC 9110 §10.1.3). */
const OF_PAGE = /^(?:origin|referer|sec-fetch-.*)$/;
export const isOfPage = (name: string) => OF_PAGE.test(name);

/** They are forwarded, and keyed where they shape answers, by rules of their own. */
const RULED = /^(?:accept|accept-encoding|soapaction|user-agent|x-as-.*)$/;

/** What else HTTP, browsers, proxies and programs send as a matter of course. */
const USUAL = words(`
  accept-charset cache-control content-type date dnt forwarded from max-forwards mime-version pragma priority
  purpose range save-data translate upgrade-insecure-requests via x-moz x-real-ip x-requested-with
  if-match if-modified-since if-none-match if-range if-unmodified-since
`);
const USUAL_KINDS = /^(?:access-control|cf|sec|x-amzn|x-arr|x-azure|x-b3|x-datadog|x-envoy)-/;

/**
 * Whether a header goes on with what passes, though no configuration names it: engines are not known to answer by it.
 * @param name as a server could read it
 */
export const isUsual = (name: string) =>
  RULED.test(name) ||
  USUAL.has(name) ||
  isWithoutEffect(name) ||
  isOfPage(name) ||
  OF_PROXIES.test(name) ||
  USUAL_KINDS.test(name);

/** Why `engine.headers` must not name a header, in any spelling that a server may read as its name; undefined where it may. */
export function whyNotNamed(name: string): string | undefined {
  const read = nameAsRead(name);
  if (isIdentity(read) || read.startsWith('x-forwarded-'))
    return 'a client could pass for another one by it, or be answered in binary';
  if (isNeverForwarded(read) || read.startsWith('content-'))
    return 'it is of the connection or the body, for which the gateway makes its own';
  if (isWithoutEffect(read)) return 'it is new for every request, so that nothing would be a hit';
  if (RULED.test(read) || isOfPage(read)) return 'the gateway has a rule of its own for it';
  return undefined;
}
