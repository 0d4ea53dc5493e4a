import {
  IncomingMessage,
  ServerResponse,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from 'node:http';
import { Socket } from 'node:net';
import type { RemoteConfig } from '../config/config.ts';
import { GatewayError, StorageUnavailable } from '../errors.ts';
import { answerHead } from '../proxy/answer-head.ts';
import { breakOff } from '../proxy/break-off.ts';
import { answerHeaders, requestHeaders } from '../proxy/forwarded-headers.ts';
import { acceptsConnections } from '../proxy/probe.ts';
import { proxyThrough } from '../proxy/proxy.ts';
import { endOnSilence } from '../proxy/silence.ts';
import { createUpstreamAgent } from '../proxy/upstream-agent.ts';
import { NoAnswer } from '../proxy/upstream-failure.ts';
import { refusedLogin, serviceAuthorization } from '../proxy/upstream-login.ts';
import { remoteTarget } from './remote-target.ts';

/**
 * All that crosses, beside what is made anew. Who asks, what may be done and whether another site's page wants it
 * were decided here, by login, method, path and host; nobody knows all headers that tell servers otherwise.
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

/** A remote server that speaks the interface of the gateway's own API. */
export interface RemoteStorage {
  /**
   * Passes a request that changes nothing through, and streams the answer to its client. Resolves when the
   * client has it.
   * @throws StorageUnavailable when no answer began, or it broke off; then it is broken off for the client too
   * @throws GatewayError `client-gone`
   */
  read(
    request: RemoteRequest,
    client: { readonly request: IncomingMessage; readonly response: ServerResponse },
  ): Promise<void>;
  /**
   * Sends a request that changes something, once, and holds its answer. It goes to its end whatever becomes of
   * its client.
   * @throws StorageUnavailable when no whole answer came
   */
  change(request: RemoteRequest): Promise<HeldAnswer>;
  /** Whether a connection to it can be made. Never rejects. */
  reachable(): Promise<boolean>;
  /** Breaks off what is under way. */
  close(): void;
}

/** Connects when it is asked, anew for each request: on a kept connection nobody could tell whether a change was read. */
export function createRemoteStorage(config: RemoteConfig): RemoteStorage {
  const origin = new URL(new URL(config.url).origin);
  const { agent } = createUpstreamAgent(config, false);
  const connected = origin.protocol === 'https:' ? 'secureConnect' : 'connect';

  /** The request that goes out; nothing of the one that came in but what is named here. */
  function outgoing({ method, target, query, headers, body }: RemoteRequest): IncomingMessage {
    const request = new IncomingMessage(new Socket());
    const authorization =
      config.service === undefined ? headers.authorization : serviceAuthorization(config.service);
    request.method = method;
    request.url = remoteTarget(config.url, target, query);
    request.headers = requestHeaders(headers, authorization, body?.length, SENT);
    return request;
  }

  /**
   * Sends a request and lets its answer be taken.
   * @param response to which the proxy ties the request: it ends when that closes before its time
   * @param take what it throws ends the answer
   * @param failed called once, in the very turn of the first error, with whether something may have been sent
   * @throws what `failed` makes of the error
   */
  function send<T>(
    sent: RemoteRequest,
    response: ServerResponse | undefined,
    take: (answer: IncomingMessage) => Promise<T>,
    failed: (error: unknown, reached: boolean) => Error,
  ): Promise<T> {
    const request = outgoing(sent);
    return new Promise((resolve, reject) => {
      let reached = false;
      let answered = false;
      let over = false;
      function fail(error: unknown): void {
        if (over) return;
        over = true;
        reject(failed(error, reached));
      }
      void proxyThrough({
        request,
        response: response ?? new ServerResponse(request),
        body: sent.body,
        origin,
        agent,
        onRequest(request) {
          endOnSilence(request, config.timeout, () => new Error('no answer in time'));
          request.socket?.once(connected, () => {
            reached = true;
          });
          // Nothing else tells of a server that changes the protocol without being asked to.
          request.once('close', () => {
            if (!answered) fail(new NoAnswer());
          });
        },
        onAnswer(answer) {
          answered = true;
          answer.once('error', fail);
          take(answer).then(
            (taken) => {
              over = true;
              resolve(taken);
            },
            (error: unknown) => {
              answer.destroy();
              fail(error);
            },
          );
        },
        onError: fail,
      });
    });
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
    async read(sent, { request, response }) {
      if (response.destroyed) throw clientGone();
      await send(
        sent,
        response,
        async (answer) => {
          if (response.destroyed) throw clientGone();
          const head = acceptedHead(answer, 'nothing-done');
          response.writeHead(head.status, head.statusMessage, head.headers);
          answer.pipe(response);
          await new Promise((resolve) => {
            response.once('close', resolve);
          });
          if (!response.writableFinished) throw clientGone();
        },
        (error) => {
          // Its going away ends the request, which then fails in one way or another.
          if (response.destroyed) return clientGone();
          // The proxy would only close it, which looks like an end to some clients.
          if (response.headersSent && !response.writableEnded) breakOff(request, response);
          return error instanceof GatewayError || error instanceof StorageUnavailable
            ? error
            : new StorageUnavailable('nothing-done', error);
        },
      );
    },
    change: (sent) =>
      send(
        sent,
        undefined,
        async (answer) => ({
          head: acceptedHead(answer, 'unknown'),
          body: await wholeBody(answer),
        }),
        (error, reached) =>
          error instanceof StorageUnavailable
            ? error
            : new StorageUnavailable(reached ? 'unknown' : 'nothing-done', error),
      ),
    reachable: () => acceptsConnections(origin),
    close: () => agent.destroy(),
  };
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
