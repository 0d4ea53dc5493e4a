import {
  validateHeaderValue,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
} from 'node:http';
import { pipeline, type Readable, type Transform } from 'node:stream';
import { createGunzip, createInflate, createInflateRaw } from 'node:zlib';
import { foldCase } from '../common/fold-case.ts';

const words = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/));

/** Headers that concern one connection only (RFC 9110 §7.6.1). */
const HOP_BY_HOP = words(`
  connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer
  transfer-encoding upgrade
`);

/**
 * Headers by which a client could pass for another one, or make an engine answer in binary; execute-as-user-id is refused
 * before it comes here, and no engine is ever to see it. The gateway is the one who waits for `100 Continue`, and replaces
 * the body's own length and coding, the host and the login.
 */
const NEVER_FORWARDED = words(`
  cookie gatewayauth x-forwarded-user x-forwarded-groups x-forwarded-email
  x-forwarded-preferred-username x-remote-user x-auth-user remote-user execute-as-user-id
  x-transport-caps-negotiation-flags
  expect content-length content-encoding host authorization
`);

/** Headers of the upstream that belong to its own connection or login, never to another client. */
const NEVER_ANSWERED = words('set-cookie');

/** Query parameters that name a login to some servers; a client could smuggle another identity in them. */
const IDENTITY_PARAMETERS = words('username password userid');

/**
 * One name for all that a server could take for the same: those behind CGI-like gateways cannot tell `_` from `-`,
 * and some no sign from any other.
 * @param name in lower case
 */
export const nameAsRead = (name: string) =>
  /[^a-z0-9-]/.test(name) ? name.replaceAll(/[^a-z0-9]/g, '-') : name;

function without(headers: IncomingHttpHeaders, left: ReadonlySet<string>) {
  const listed = words((headers.connection ?? '').toLowerCase().replaceAll(',', ' '));
  const kept: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(headers)) {
    const read = nameAsRead(name);
    if (value === undefined || HOP_BY_HOP.has(read) || left.has(read)) continue;
    if (!listed.has(name)) kept[name] = value;
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
  const crossing: IncomingHttpHeaders = without(headers, NEVER_FORWARDED);
  for (const name in crossing) if (only?.has(name) === false) delete crossing[name];
  if (authorization !== undefined) crossing.authorization = authorization;
  if (length !== undefined) crossing['content-length'] = String(length);
  return crossing;
}

/** What of the upstream's headers goes to the client that asked. */
export const answerHeaders = (headers: IncomingHttpHeaders): OutgoingHttpHeaders =>
  without(headers, NEVER_ANSWERED);

/** The name of a parameter (`name=value`, exactly as it was sent), decoded. */
export const parameterName = (parameter: string) =>
  [...new URLSearchParams(parameter).keys()][0] ?? '';

/**
 * The query parameters that may be forwarded, in their order and exact spelling. Those that name a login are
 * left out, however their names are spelt (letter case in the widest sense, percent-encoding).
 * @param search what follows the `?`; '' without one
 */
export function forwardedQuery(search: string): readonly string[] {
  return search
    .split('&')
    .filter((piece) => piece !== '' && !IDENTITY_PARAMETERS.has(foldCase(parameterName(piece))));
}

/** Whether a query holds a parameter of this name (lower case), however it is spelt. */
export const namesParameter = (search: string, name: string) =>
  search.split('&').some((piece) => foldCase(parameterName(piece)) === name);

/** The parameters in the one order that a key needs: by name; equal names keep their order. */
export function sortedQuery(parameters: readonly string[]): readonly string[] {
  const named = parameters.map((parameter) => [parameterName(parameter), parameter] as const);
  return named.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([, parameter]) => parameter);
}

/** A login of the gateway's own as a header Authorization (RFC 7617). */
export const serviceAuthorization = (service: Readonly<Record<'name' | 'password', string>>) =>
  `Basic ${Buffer.from(`${service.name}:${service.password}`).toString('base64')}`;

/**
 * With a login of the gateway's own, a 401 of the upstream is not a question to the client, whose password is
 * not the one that was refused.
 */
export const refusedLogin = (status: number, login: 'forward' | 'service' | 'none') =>
  login !== 'forward' && (status === 401 || status === 407);

/** The answer of an upstream as it comes, whichever library speaks HTTP with it; an `IncomingMessage` is one. */
export interface UpstreamAnswer extends Readable {
  readonly statusCode?: number | undefined;
  readonly statusMessage?: string | undefined;
  /** Whether a provisional `100 Continue` came before it. */
  readonly continued?: boolean;
  /** Names in lower case, bytes as ISO-8859-1, fields of one name put together as node does. */
  readonly headers: IncomingHttpHeaders;
}

export type UpstreamHead = Readonly<ReturnType<typeof answerHead>>;

/**
 * The head of an upstream's answer, in a form that can be sent on.
 * @throws when it is no head of HTTP (RFC 9110 §15: a final status is 200 or more; §5.5: no control
 *   characters), which the parser lets through
 */
export function answerHead(
  answer: Pick<UpstreamAnswer, 'statusCode' | 'statusMessage' | 'headers'>,
) {
  const { statusCode: status = 0, statusMessage = '', headers } = answer;
  if (status < 200) throw new Error(`the upstream answered with the status ${status}`);
  validateHeaderValue('reason phrase', statusMessage);
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value === 'string') validateHeaderValue(name, value);
    else for (const one of value ?? []) validateHeaderValue(name, one);
  }
  return { status, statusMessage, headers };
}

/**
 * The first byte tells a `deflate` that is zlib, as it should be, from a bare one: its low half names the method, and 8
 * is the only one (RFC 1950 §2.2).
 */
function decoderOf(coding: string, first: Buffer): Transform {
  if (coding !== 'deflate') return createGunzip();
  return ((first[0] ?? 0) & 0x0f) === 8 ? createInflate() : createInflateRaw();
}

/**
 * An answer without its content coding, where that is gzip or deflate (RFC 9110 §8.4.1). The head then speaks
 * neither of the coding nor of the length. In another coding, also in several, it stays as it is.
 *
 * The body throws when the answer breaks off, and when the coding is cut off or corrupt. Leaving its loop early
 * ends the request. What is kept of it in memory does not grow with it.
 * @param onCorrupt told when the coding is at fault: nothing else tells that of an answer that came whole
 */
export function decodedAnswer(
  answer: UpstreamAnswer,
  head: UpstreamHead,
  onCorrupt: (error: unknown) => void,
): { readonly head: UpstreamHead; readonly body: AsyncIterable<Buffer> } {
  const coding = head.headers['content-encoding']?.trim().toLowerCase() ?? '';
  if (!['gzip', 'x-gzip', 'deflate'].includes(coding)) return { head, body: answer };
  const { 'content-encoding': _coding, 'content-length': _length, ...headers } = head.headers;
  return { head: { ...head, headers }, body: decode(answer, coding, onCorrupt) };
}

async function* decode(
  answer: UpstreamAnswer,
  coding: string,
  onCorrupt: (error: unknown) => void,
): AsyncGenerator<Buffer, void, undefined> {
  const pieces = answer[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  const first = await pieces.next();
  // An answer that has no body, as to HEAD, has no coding either.
  if (first.done) return;
  let taken = false;
  async function* all(start: Buffer): AsyncGenerator<Buffer, void, undefined> {
    yield start;
    yield* { [Symbol.asyncIterator]: () => pieces };
    taken = true;
  }
  try {
    const decoded = pipeline(all(first.value), decoderOf(coding, first.value), () => {});
    for await (const piece of decoded) yield piece as Buffer;
    if (!taken) throw new Error('the coded answer goes on after its end');
  } catch (error) {
    if (answer.errored === null) onCorrupt(error);
    throw error;
  } finally {
    // The pieces may wait for bytes that never come.
    answer.destroy();
  }
}

/** The whole body, or undefined when it is longer. Leaves it there then, which ends the request. */
export async function bodyUpTo(body: AsyncIterable<Buffer>, most: number) {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > most) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/**
 * Ends an answer that cannot be finished, so that no client takes it for whole: in HTTP/1.1 the missing last
 * chunk or bytes show it; in HTTP/1.0 only a reset tells it from a normal end.
 */
export function breakOff(request: IncomingMessage, response: ServerResponse): void {
  const { socket } = request;
  if (request.httpVersion === '1.0' && !('encrypted' in socket)) socket.resetAndDestroy();
  else response.destroy();
}
