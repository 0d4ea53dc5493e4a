import { once } from 'node:events';
import type {
  IncomingHttpHeaders,
  IncomingMessage,
  OutgoingHttpHeaders,
  ServerResponse,
} from 'node:http';
import { pipeline } from 'node:stream/promises';
import type { RemoteConfig } from '../config/config.ts';
import { GatewayError, StorageUnavailable } from '../common/errors.ts';
import { answerHead, bodyUpTo, breakOff } from '../proxy/answer.ts';
import {
  answerHeaders,
  parameterName,
  refusedLogin,
  requestHeaders,
  serviceAuthorization,
} from '../proxy/forwarded.ts';
import { createForward } from '../proxy/proxy.ts';
import { createUpstream, NotConnected, reasonOf } from '../proxy/upstream.ts';

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
  const upstream = createUpstream(config, false);
  const forward = createForward(upstream);

  /**
   * Sends nothing of the request that came in but what is named here.
   * @param outcome what is known when no answer came, or one that is none
   * @param take gets the answer with its head as a client may have it
   * @throws StorageUnavailable also when the server refused a login that is not the client's, or points elsewhere:
   *   the interface knows no redirects, and only the gateway could follow one
   */
  async function ask<T>(
    { method, target, query, headers, body }: RemoteRequest,
    outcome: StorageUnavailable['outcome'],
    signal: AbortSignal | undefined,
    take: (answer: IncomingMessage, head: AcceptedHead) => Promise<T>,
  ): Promise<T> {
    const { service, timeout, url, login } = config;
    const authorization =
      service === undefined ? headers.authorization : serviceAuthorization(service);
    const path = remoteTarget(url, target, query);
    const sent = requestHeaders(headers, authorization, body?.length, SENT);
    let answer: IncomingMessage | undefined;
    try {
      answer = await forward({ method, path, headers: sent, body }, { signal, timeout });
      const head = answerHead(answer);
      if (head.status >= 300 && head.status < 400) {
        const doubt = outcome === 'unknown' ? ' Whether the change was made is not known.' : '';
        const what = 'The storage answers with a redirect; its operator must correct storage.url.';
        throw new StorageUnavailable(outcome, undefined, `${what}${doubt}`);
      }
      if (refusedLogin(head.status, login)) {
        const what = 'The storage refused the login of the gateway; its operator must correct';
        throw new StorageUnavailable('nothing-done', undefined, `${what} storage.service.`);
      }
      const allowed = { ...answerHeaders(head.headers), 'cache-control': 'no-store' };
      return await take(answer, { ...head, headers: allowed });
    } catch (error) {
      answer?.destroy();
      if (error instanceof GatewayError || error instanceof StorageUnavailable) throw error;
      const known = error instanceof NotConnected ? 'nothing-done' : outcome;
      throw new StorageUnavailable(known, reasonOf(error));
    }
  }

  return {
    /**
     * Passes a request that changes nothing through, and streams the answer to its client. Resolves when the
     * client has it.
     * @throws StorageUnavailable when no answer began, or it broke off; then it is broken off for the client too
     * @throws GatewayError `client-gone`
     */
    async read(
      sent: RemoteRequest,
      { request, response }: { request: IncomingMessage; response: ServerResponse },
    ): Promise<void> {
      const gone = new AbortController();
      const leave = () => gone.abort();
      if (response.destroyed) leave();
      response.once('close', leave);
      try {
        await ask(sent, 'nothing-done', gone.signal, async (answer, head) => {
          response.writeHead(head.status, head.statusMessage, head.headers);
          await pipeline(answer, response, { end: false });
          response.off('close', leave).end();
          await once(response, 'close');
          if (!response.writableFinished) leave();
        });
      } catch (error) {
        if (!gone.signal.aborted && response.headersSent) breakOff(request, response);
        if (!gone.signal.aborted) throw error;
      } finally {
        response.off('close', leave);
      }
      // Its going away ends the request, which then fails in one way or another.
      if (gone.signal.aborted) throw new GatewayError('client-gone', 'The client went away.');
    },
    /**
     * Sends a request that changes something, once, and holds its answer. It goes to its end whatever becomes of
     * its client.
     * @throws StorageUnavailable when no whole answer came
     */
    change: (sent: RemoteRequest): Promise<HeldAnswer> =>
      ask(sent, 'unknown', undefined, async (answer, head) => {
        const body = await bodyUpTo(answer, LONGEST_HELD);
        if (body === undefined) throw new Error('the answer to a change is too long');
        return { head, body };
      }),
    /** Whether a connection to it can be made. Never rejects. */
    reachable: upstream.reachable,
    /** Breaks off what is under way. */
    close: upstream.close,
  };
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
    if (!/(?:^|[/\\])\.\.?(?:$|[/\\;])/.test(value)) continue;
    throw new GatewayError(
      'bad-request',
      `${name}: must not be "." or "..", nor hold them between slashes.`,
    );
  }
}
