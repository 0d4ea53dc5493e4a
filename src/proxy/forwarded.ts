import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http';
import { foldCase } from '../common/fold-case.ts';

/** Headers that concern one connection only (RFC 9110 §7.6.1). */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Headers by which a client could pass for another one, or make an engine answer in binary. */
const NEVER_FORWARDED: ReadonlySet<string> = new Set([
  'cookie',
  'gatewayauth',
  'x-forwarded-user',
  'x-forwarded-groups',
  'x-forwarded-email',
  'x-forwarded-preferred-username',
  'x-remote-user',
  'x-auth-user',
  'remote-user',
  // Refused before it comes here; no engine is ever to see it.
  'execute-as-user-id',
  'x-transport-caps-negotiation-flags',
  // The gateway is the one who waits for `100 Continue`.
  'expect',
  // It replaces the body's own length and coding, and the host.
  'content-length',
  'content-encoding',
  'host',
  'authorization',
]);

/** Headers of the upstream that belong to its own connection or login, never to another client. */
const NEVER_ANSWERED: ReadonlySet<string> = new Set(['set-cookie']);

/** Query parameters that name a login to some servers; a client could smuggle another identity in them. */
const IDENTITY_PARAMETERS: ReadonlySet<string> = new Set(['username', 'password', 'userid']);

/**
 * One name for all that a server could take for the same: those behind CGI-like gateways cannot tell `_` from `-`,
 * and some no sign from any other.
 * @param name in lower case
 */
export function nameAsRead(name: string): string {
  return /[^a-z0-9-]/.test(name) ? name.replaceAll(/[^a-z0-9]/g, '-') : name;
}

function without(
  headers: IncomingHttpHeaders,
  left: ReadonlySet<string>,
): Record<string, string | string[]> {
  const { connection = 'keep-alive' } = headers;
  const listed =
    connection === 'keep-alive'
      ? []
      : connection.split(',').map((name) => name.trim().toLowerCase());
  const kept: Record<string, string | string[]> = {};
  for (const name of Object.keys(headers)) {
    const value = headers[name];
    const read = nameAsRead(name);
    if (value === undefined || HOP_BY_HOP.has(read) || left.has(read)) continue;
    if (!listed.includes(name)) kept[name] = value;
  }
  return kept;
}

/**
 * What of a client's headers goes to the upstream with a request that is passed through.
 * @param authorization the login at the upstream, undefined for none
 * @param length bytes of the body that is sent; undefined without a body
 * @param only names of the headers that may cross, in lower case; undefined for all but those that never do
 */
export function requestHeaders(
  headers: IncomingHttpHeaders,
  authorization: string | undefined,
  length: number | undefined,
  only?: ReadonlySet<string>,
): IncomingHttpHeaders {
  const all = without(headers, NEVER_FORWARDED);
  const crossing: IncomingHttpHeaders =
    only === undefined
      ? all
      : Object.fromEntries(Object.entries(all).filter(([name]) => only.has(name)));
  if (authorization !== undefined) crossing.authorization = authorization;
  if (length !== undefined) crossing['content-length'] = String(length);
  return crossing;
}

/** What of the upstream's headers goes to the client that asked. */
export function answerHeaders(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  return without(headers, NEVER_ANSWERED);
}

/** One `name=value` of a query, exactly as it was sent. */
export type QueryParameter = string;

/** The name of a parameter, decoded. */
export function parameterName(parameter: QueryParameter): string {
  return [...new URLSearchParams(parameter).keys()][0] ?? '';
}

/**
 * The query parameters that may be forwarded, in their order and exact spelling. Those that name a login are
 * left out, however their names are spelt (letter case in the widest sense, percent-encoding).
 * @param search what follows the `?`; '' without one
 */
export function forwardedQuery(search: string): readonly QueryParameter[] {
  return search
    .split('&')
    .filter((piece) => piece !== '' && !IDENTITY_PARAMETERS.has(foldCase(parameterName(piece))));
}

/** A login of the gateway's own as a header Authorization (RFC 7617). */
export function serviceAuthorization(service: {
  readonly name: string;
  readonly password: string;
}): string {
  return `Basic ${Buffer.from(`${service.name}:${service.password}`).toString('base64')}`;
}

/**
 * With a login of the gateway's own, a 401 of the upstream is not a question to the client, whose password is
 * not the one that was refused.
 */
export function refusedLogin(status: number, login: 'forward' | 'service' | 'none'): boolean {
  return login !== 'forward' && (status === 401 || status === 407);
}
