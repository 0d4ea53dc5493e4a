import type { Agent, ClientRequest, IncomingMessage, ServerResponse } from 'node:http';
import { Stream } from 'node:stream';
import { createProxyMiddleware } from 'http-proxy-middleware';

/** One request on its way through http-proxy-middleware, and who is told of what happens to it. */
export interface ProxyExchange {
  /** Its `headers` and `url` are what the upstream is sent. */
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The bytes that are sent, whatever the request held. */
  readonly body: Buffer | undefined;
  readonly origin: URL;
  readonly agent: Agent;
  onRequest(request: ClientRequest): void;
  /** Must take the body and finish the response. */
  onAnswer(answer: IncomingMessage): void;
  onError(error: unknown): void;
}

const EXCHANGE = Symbol('exchange');
const URL_TO_SEND = Symbol('url');

/** A request with its exchange of now; another attempt is another exchange. */
interface ProxiedRequest extends IncomingMessage {
  [EXCHANGE]?: ProxyExchange;
  [URL_TO_SEND]?: string;
}

function fail(error: unknown, request: ProxiedRequest | undefined): void {
  request?.[EXCHANGE]?.onError(error);
}

/**
 * What is sent as a body. It is in memory as a whole already, so nobody needs to wait for pieces of it, as with a
 * `Readable`, which costs 10 µs.
 */
function sourceOf(body: Buffer | undefined): Stream {
  return Object.assign(new Stream(), {
    pipe<T extends NodeJS.WritableStream>(to: T): T {
      if (body === undefined) to.end();
      else to.end(body);
      return to;
    },
  });
}

/**
 * One for the whole process: each one leaves a listener on the server for as long as that lives. All that
 * differs between upstreams and requests comes from the exchange. Its own parts that answer errors, copy headers
 * and log are switched off: it moves bytes, and what a client is told is decided elsewhere.
 */
const proxy = createProxyMiddleware<ProxiedRequest>({
  // Never asked: the router names the upstream of each request.
  target: 'http://127.0.0.1:9',
  changeOrigin: true,
  selfHandleResponse: true,
  ejectPlugins: true,
  pathFilter: () => true,
  router: (request, _response, options) => {
    const exchange = request[EXCHANGE];
    if (exchange === undefined) throw new Error('a request without an exchange');
    request.url = request[URL_TO_SEND] ?? '/';
    options.buffer = sourceOf(exchange.body);
    options.agent = exchange.agent;
    return exchange.origin;
  },
  plugins: [
    (proxyServer) => {
      proxyServer.on('proxyReq', (sent, request) => request[EXCHANGE]?.onRequest(sent));
      proxyServer.on('proxyRes', (answer, request) => request[EXCHANGE]?.onAnswer(answer));
      proxyServer.on('error', fail);
      proxyServer.on('econnreset', fail);
    },
  ],
});

/** Sends the exchange through. Resolves when it is over, however it ended. */
export async function proxyThrough(exchange: ProxyExchange): Promise<void> {
  const request: ProxiedRequest = exchange.request;
  request[EXCHANGE] = exchange;
  // The middleware parses what it finds here for a filter of paths that is not used (5 µs); the router puts it back.
  request[URL_TO_SEND] = request.url ?? '/';
  request.url = '';
  await proxy(request, exchange.response);
}
