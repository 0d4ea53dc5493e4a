/** Names of request headers, in lower case. */

export const words = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/));

/** Lower case name for all that a server could take for the same, as CGI does. */
export const nameAsRead = (name: string) =>
  /[^a-z0-9-]/.test(name) ? name.replaceAll(/[^a-z0-9]/g, '-') : name;

/** Headers that concern one connection only (RFC 9110 §7.6.1). */
export const HOP_BY_HOP = words(`
  connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer
  transfer-encoding upgrade
`);

const PER_CALL =
  /^(?:x-as-(?:activity|request)id|x-(?:request|correlation)-id|traceparent|tracestate|baggage|b3|x-b3-(?:trace|span|parentspan)id|x-amzn-trace-id|x-cloud-trace-context|sentry-trace)$/i;
/**
 * Ids, and the length that the parser of HTTP has checked: they neither shape an answer nor reach
 * the engine with a cacheable request.
 */
export const isWithoutEffect = (name: string) =>
  PER_CALL.test(name) || name.toLowerCase() === 'content-length';

/** Sent as a matter of course; no engine is known to answer by more than is in the key. */
const USUAL = words(`
  accept accept-charset accept-encoding cache-control content-type date dnt forwarded from max-forwards
  mime-version origin pragma priority purpose range referer save-data soapaction translate
  upgrade-insecure-requests user-agent via x-moz x-real-ip x-requested-with
  if-match if-modified-since if-none-match if-range if-unmodified-since
  x-forwarded-for x-forwarded-host x-forwarded-port x-forwarded-prefix x-forwarded-proto x-forwarded-server
`);
const USUAL_KINDS = /^(?:access-control|sec|x-arr|x-b3|x-datadog|x-envoy)-/;
/** Headers that pass without configuration. Those of SSAS do in any spelling. */
export const isUsual = (name: string) =>
  USUAL.has(name) ||
  PER_CALL.test(name) ||
  USUAL_KINDS.test(name) ||
  nameAsRead(name).startsWith('x-as-');

/** A browser names the page by them (Fetch §3.2, Fetch Metadata, RFC 9110 §10.1.3). */
const OF_PAGE = /^(?:origin|referer|sec-fetch-.*)$/;
export const isOfPage = (name: string) => OF_PAGE.test(name);

/** With them a client could pass for another, or get binary answers. */
const IDENTITY =
  /^(?:authorization|cookie|gatewayauth|x-forwarded-.*|x-remote-user|x-auth-user|remote-user|execute-as-user-id|x-transport-caps-negotiation-flags)$/;

/** Reason why `engine.headers` must not name a header, however a server reads its name. */
export function whyNotNamed(name: string): string | undefined {
  const read = nameAsRead(name);
  if (IDENTITY.test(read))
    return 'a client could pass for another one by it, or get binary answers';
  if (HOP_BY_HOP.has(read) || /^(?:content-.*|expect|host)$/.test(read))
    return 'it is of the connection or the body, for which the gateway makes its own';
  if (PER_CALL.test(read)) return 'it is new for every request, so that nothing would be a hit';
  const isRuled = /^(?:accept|accept-encoding|soapaction|user-agent|x-as-.*)$/.test(read);
  return isRuled || isOfPage(read) ? 'the gateway has a rule of its own for it' : undefined;
}
