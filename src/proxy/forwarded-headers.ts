import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http';

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

/** Headers by which a client could pass for somebody else, or make an engine answer in binary. */
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

/**
 * One name for all that a server could take for the same: those behind CGI-like gateways cannot tell `_` from `-`,
 * and some no sign from any other.
 * @param name in lower case
 */
export function nameAsRead(name: string): string {
  return name.replaceAll(/[^a-z0-9]/g, '-');
}

/** The names that a header Connection lists, in lower case; undefined for none. */
function connectionNames({ connection }: IncomingHttpHeaders): ReadonlySet<string> | undefined {
  if (connection === undefined || connection === 'keep-alive') {
    return undefined;
  }
  return new Set(connection.split(',').map((name) => name.trim().toLowerCase()));
}

/** Says of a name whether it stays here. Clients and engines send few names: what was said of one is remembered. */
function createStays(left: ReadonlySet<string>): (name: string) => boolean {
  const said = new Map<string, boolean>();
  return (name) => {
    const known = said.get(name);
    if (known !== undefined) return known;
    const read = nameAsRead(name);
    const stays = HOP_BY_HOP.has(read) || left.has(read);
    // Whoever makes names up does not fill the memory.
    if (said.size < MOST_REMEMBERED && name.length < LONGEST_REMEMBERED) said.set(name, stays);
    return stays;
  };
}

const MOST_REMEMBERED = 256;
const LONGEST_REMEMBERED = 64;

const staysOfRequest = createStays(NEVER_FORWARDED);
const staysOfAnswer = createStays(NEVER_ANSWERED);

function without(
  headers: IncomingHttpHeaders,
  stays: (name: string) => boolean,
): Record<string, string | string[]> {
  const listed = connectionNames(headers);
  const kept: Record<string, string | string[]> = {};
  for (const name of Object.keys(headers)) {
    const value = headers[name];
    if (value !== undefined && !stays(name) && !listed?.has(name)) kept[name] = value;
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
  const all = without(headers, staysOfRequest);
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
  return without(headers, staysOfAnswer);
}
