import type {
  IncomingHttpHeaders,
  IncomingMessage,
  OutgoingHttpHeaders,
  ServerResponse,
} from 'node:http';
import { pipeline } from 'node:stream/promises';
import type { RemoteConfig } from '../config/config.ts';
import { GatewayError, StorageUnavailable } from '../common/errors.ts';
import {
  answerHead,
  answerHeaders,
  bodyUpTo,
  breakOff,
  parameterName,
  refusedLogin,
  requestHeaders,
  serviceAuthorization,
} from '../proxy/forwarded.ts';
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
  const { timeout } = config;

  /** Sends nothing of the request that came in but what is named here. */
  function send(
    { method, target, query, headers, body }: RemoteRequest,
    signal?: AbortSignal,
  ): Promise<IncomingMessage> {
    const authorization =
      config.service === undefined ? headers.authorization : serviceAuthorization(config.service);
    const path = remoteTarget(config.url, target, query);
    const sent = requestHeaders(headers, authorization, body?.length, SENT);
    return upstream.forward({ method, path, headers: sent, body }, { signal, timeout });
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
      throw new StorageUnavailable(
        outcome,
        undefined,
        `The storage answers with a redirect; its operator must correct storage.url.${doubt}`,
      );
    }
    if (!refusedLogin(status, config.login)) {
      return {
        status,
        statusMessage,
        headers: { ...answerHeaders(headers), 'cache-control': 'no-store' },
      };
    }
    throw new StorageUnavailable(
      'nothing-done',
      undefined,
      'The storage refused the login of the gateway; its operator must correct storage.service.',
    );
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
      if (response.destroyed) throw clientGone();
      response.once('close', leave);
      let answer: IncomingMessage | undefined;
      try {
        answer = await send(sent, gone.signal);
        const head = acceptedHead(answer, 'nothing-done');
        response.writeHead(head.status, head.statusMessage, head.headers);
        await pipeline(answer, response, { end: false });
        response.end();
        await new Promise((resolve) => void response.once('close', resolve));
        if (!response.writableFinished) throw clientGone();
      } catch (error) {
        answer?.destroy();
        // Its going away ends the request, which then fails in one way or another.
        if (gone.signal.aborted) throw clientGone();
        if (response.headersSent) breakOff(request, response);
        throw error instanceof GatewayError || error instanceof StorageUnavailable
          ? error
          : new StorageUnavailable('nothing-done', reasonOf(error));
      } finally {
        response.off('close', leave);
      }
    },
    /**
     * Sends a request that changes something, once, and holds its answer. It goes to its end whatever becomes of
     * its client.
     * @throws StorageUnavailable when no whole answer came
     */
    async change(sent: RemoteRequest): Promise<HeldAnswer> {
      let answer: IncomingMessage | undefined;
      try {
        answer = await send(sent);
        const head = acceptedHead(answer, 'unknown');
        const body = await bodyUpTo(answer, LONGEST_HELD);
        if (body === undefined) throw new Error('the answer to a change is too long');
        return { head, body };
      } catch (error) {
        answer?.destroy();
        if (error instanceof StorageUnavailable) throw error;
        const outcome = error instanceof NotConnected ? 'nothing-done' : 'unknown';
        throw new StorageUnavailable(outcome, reasonOf(error));
      }
    },
    /** Whether a connection to it can be made. Never rejects. */
    reachable: upstream.reachable,
    /** Breaks off what is under way. */
    close: upstream.close,
  };
}

function clientGone(): GatewayError {
  return new GatewayError('client-gone', 'The client went away.');
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
