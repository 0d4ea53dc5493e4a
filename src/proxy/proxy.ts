import { IncomingMessage, ServerResponse, type ClientRequest } from 'node:http';
import type { IncomingHttpHeaders } from 'node:http';
import { Socket } from 'node:net';
import { createProxyMiddleware } from 'http-proxy-middleware';
import { NotConnected, type RequestLimits, type Upstream } from './upstream.ts';

/** A request as the upstream is to get it. */
export interface ForwardedRequest {
  readonly method: string | undefined;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer | undefined;
}

/**
 * Sends a request on and waits for its answer.
 * @throws NotConnected when nothing was sent; all that {@link Upstream.answerTo} throws
 */
export type Forward = (
  request: ForwardedRequest,
  limits: RequestLimits,
) => Promise<IncomingMessage>;

/**
 * The proxy to one upstream: http-proxy-middleware without its own parts that answer errors, copy headers and log. It
 * is given a request and a response of its own, and never the client's: it would break off the client's response as
 * soon as the answer breaks off, before the client could be told why, and leave listeners on the server for good.
 */
export function createForward(upstream: Upstream): Forward {
  /** A WeakMap would take a fifth of the time of a request for collecting its garbage. */
  const waiting = new Map<IncomingMessage, (sent: ClientRequest) => void>();
  const nowhere = new Socket();
  const proxy = createProxyMiddleware<IncomingMessage>({
    target: upstream.origin,
    agent: upstream.agent,
    changeOrigin: true,
    selfHandleResponse: true,
    ejectPlugins: true,
    plugins: [
      (server) => {
        server.on('proxyReq', (sent, request) => {
          waiting.get(request)?.(sent);
          waiting.delete(request);
        });
        // How a request fails is heard from the request itself.
        server.on('error', () => {});
        server.on('econnreset', () => {});
      },
    ],
  });

  return async function forward({ method, path, headers, body }, limits) {
    await upstream.settled();
    if (limits.signal?.aborted === true) throw new NotConnected(limits.signal.reason);
    const request = Object.assign(new IncomingMessage(nowhere), {
      method,
      url: path,
      headers,
      complete: true,
    });
    if (body !== undefined) request.push(body);
    request.push(null);
    return new Promise<IncomingMessage>((resolve, reject) => {
      waiting.set(request, (sent) => resolve(upstream.answerTo(sent, limits)));
      const refused = (error: unknown) => {
        waiting.delete(request);
        reject(error ?? new Error('the proxy sent nothing'));
      };
      proxy(request, new ServerResponse(request), refused).catch(refused);
    });
  };
}
