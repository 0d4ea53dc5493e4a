import {
  request as httpRequest,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
} from 'node:http';
import { request as httpsRequest } from 'node:https';
import { urlToHttpOptions } from 'node:url';
import type { RemoteConfig } from '../config/config.ts';
import { GatewayError, StorageUnavailable } from '../errors.ts';
import { answerHead } from '../proxy/answer-head.ts';
import { breakOff } from '../proxy/break-off.ts';
import { answerHeaders, requestHeaders } from '../proxy/forwarded-headers.ts';
import { parameterName } from '../proxy/forwarded-query.ts';
import { acceptsConnections } from '../proxy/probe.ts';
import { endOnSilence } from '../proxy/silence.ts';
import { createUpstreamAgent } from '../proxy/upstream-agent.ts';
import { refusedLogin, serviceAuthorization } from '../proxy/upstream-login.ts';

/**
 * All that crosses, beside what is made anew. Who asks, what may be done and whether another site's page wants it
 * were decided here, by login, method, path and host; no list of the headers that tell servers otherwise is complete.
 */
const SENT: ReadonlySet<string> = new Set([
  'content-type',
  'accept',
  'accept-language',
  'accept-encoding',
  'user-agent',
]);

/** Bytes of the answer to a change: an id, or an error page. */
const LONGEST_HELD = 1024 * 1024;

/** One request of the API as a client sent it. */
export interface RemoteRequest {
  readonly method: string;
  /** Below /api; see {@link remoteTarget}. */
  readonly target: string;
  /** Names of the query parameters that the operation has. */
  readonly query: readonly string[];
  readonly headers: IncomingHttpHeaders;
  /** The bytes that are sent, without content coding; undefined without a body. */
  readonly body: Buffer | undefined;
}

/** The head of an answer as its client gets it. */
interface AcceptedHead {
  readonly status: number;
  readonly statusMessage: string;
  readonly headers: OutgoingHttpHeaders;
}

/** An answer that has arrived whole. */
export interface HeldAnswer {
  readonly head: AcceptedHead;
  readonly body: Buffer;
}

/**
 * A remote server that speaks the interface of the gateway's own API. It is connected to anew for each request: on a
 * kept connection it cannot be known whether a change was read.
 */
export function createRemoteStorage(config: RemoteConfig) {
  const origin = new URL(new URL(config.url).origin);
  const { agent } = createUpstreamAgent(config, false);
  const isSecure = origin.protocol === 'https:';

  /** Sends a request; nothing of the one that came in but what is named here. */
  function send({ method, target, query, headers, body }: RemoteRequest): Sent {
    const authorization =
      config.service === undefined ? headers.authorization : serviceAuthorization(config.service);
    const request = (isSecure ? httpsRequest : httpRequest)({
      ...urlToHttpOptions(origin),
      agent,
      method,
      path: remoteTarget(config.url, target, query),
      headers: requestHeaders(headers, authorization, body?.length, SENT),
    });
    let reached = false;
    request.once('socket', (socket) =>
      socket.once(isSecure ? 'secureConnect' : 'connect', () => (reached = true)),
    );
    endOnSilence(request, config.timeout, () => new Error('no answer in time'));
    const answer = new Promise<IncomingMessage>((resolve, reject) => {
      request.once('response', resolve);
      request.on('error', reject);
      // Nothing else tells of a server that changes the protocol without being asked to.
      request.once('close', () => reject(new Error('the connection ended without an answer')));
    });
    request.end(body);
    return { request, answer, reached: () => reached };
  }

  /**
   * The head as a client may have it.
   * @param outcome of a request that is redirected
   * @throws StorageUnavailable when the server refused a login that is not the client's, or points elsewhere:
   *   the interface knows no redirects, and only the gateway could follow one
   */
  function acceptedHead(
    answer: IncomingMessage,
    outcome: StorageUnavailable['outcome'],
  ): AcceptedHead {
    const { status, statusMessage, headers } = answerHead(answer);
    if (status >= 300 && status < 400) {
      const doubt = outcome === 'unknown' ? ' Whether the change was made is not known.' : '';
      const told = `The storage answers with a redirect; its operator must correct storage.url.${doubt}`;
      throw new StorageUnavailable(outcome, undefined, told);
    }
    if (refusedLogin(status, config.login)) {
      const told =
        'The storage refused the login of the gateway; its operator must correct storage.service.';
      throw new StorageUnavailable('nothing-done', undefined, told);
    }
    const crossing = { ...answerHeaders(headers), 'cache-control': 'no-store' };
    return { status, statusMessage, headers: crossing };
  }

  return {
    /**
     * Passes a request that changes nothing through, and streams the answer to its client. Resolves when the
     * client has it.
     * @throws StorageUnavailable when no answer began, or it broke off; then it is broken off for the client too
     * @throws GatewayError `client-gone`
     */
    async read(
      given: RemoteRequest,
      { request, response }: { request: IncomingMessage; response: ServerResponse },
    ): Promise<void> {
      if (response.destroyed) throw clientGone();
      const sent = send(given);
      const leave = () => sent.request.destroy();
      response.once('close', leave);
      try {
        const answer = await sent.answer;
        const over = new Promise<void>((resolve, reject) => {
          answer.once('error', reject);
          response.once('close', resolve);
        });
        over.catch(() => {});
        const head = acceptedHead(answer, 'nothing-done');
        response.writeHead(head.status, head.statusMessage, head.headers);
        answer.pipe(response);
        await over;
        if (!response.writableFinished) throw clientGone();
      } catch (error) {
        // Its going away ends the request, which then fails in one way or another.
        if (response.destroyed) throw clientGone();
        if (response.headersSent) breakOff(request, response);
        if (error instanceof GatewayError || error instanceof StorageUnavailable) throw error;
        throw new StorageUnavailable('nothing-done', error);
      } finally {
        response.off('close', leave);
        leave();
      }
    },

    /**
     * Sends a request that changes something, once, and holds its answer. It goes to its end whatever becomes of
     * its client.
     * @throws StorageUnavailable when no whole answer came
     */
    async change(given: RemoteRequest): Promise<HeldAnswer> {
      const sent = send(given);
      try {
        const answer = await sent.answer;
        const head = acceptedHead(answer, 'unknown');
        return { head, body: await wholeBody(answer) };
      } catch (error) {
        if (error instanceof StorageUnavailable) throw error;
        throw new StorageUnavailable(sent.reached() ? 'unknown' : 'nothing-done', error);
      } finally {
        sent.request.destroy();
      }
    },

    /** Whether a connection to it can be made. Never rejects. */
    reachable: () => acceptsConnections(origin),
    /** Breaks off what is under way. */
    close: () => agent.destroy(),
  };
}

/** A request on its way. */
interface Sent {
  readonly request: ClientRequest;
  /** Its head is there, its body may still come. */
  readonly answer: Promise<IncomingMessage>;
  /** Whether there was a connection, so that something may have been sent. */
  reached(): boolean;
}

function clientGone(): GatewayError {
  return new GatewayError('client-gone', 'The client went away.');
}

async function wholeBody(answer: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > LONGEST_HELD) throw new Error('the answer to a change is too long');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/**
 * The path and query under which a remote server is asked, spelt as the client sent them, less what the
 * operation does not know: the server may read more than the interface names, such as another method or user.
 * @param url `storage.url`
 * @param below the request target below /api (RFC 9112 §3.2, origin-form or absolute-form)
 * @param known names of the operation's query parameters
 */
function remoteTarget(url: string, below: string, known: readonly string[]): string {
  const base = new URL(url).pathname.replace(/\/+$/, '');
  const originForm = below.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, '');
  const [path = '', ...rest] = originForm.split('?');
  const search = rest
    .join('?')
    .split('&')
    .filter((parameter) => known.includes(parameterName(parameter)))
    // To some servers it separates parameters.
    .map((parameter) => parameter.replaceAll(';', '%3B'))
    .join('&');
  return `${base}/api${path}${search === '' ? '' : `?${search}`}`;
}

/**
 * Refuses what would lead out of its place in the path, at the remote server or at a proxy before it that
 * decodes `%2F`, or leaves away what follows a semicolon, before it looks for dots.
 * @param parameters of the path by name, decoded once
 * @throws GatewayError `bad-request`
 */
export function refuseClimbing(parameters: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(parameters)) {
    const parts = value.split(/[/\\]/).map((part) => part.split(';', 1)[0]);
    if (!parts.some((part) => part === '.' || part === '..')) continue;
    throw new GatewayError(
      'bad-request',
      `${name}: must not be "." or "..", nor hold them between slashes.`,
    );
  }
}
