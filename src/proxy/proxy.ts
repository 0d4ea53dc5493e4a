import type { Agent, ClientRequest, IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
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

const exchanges = new WeakMap<IncomingMessage, ProxyExchange>();

function fail(error: unknown, request: IncomingMessage | undefined): void {
  if (request !== undefined) exchanges.get(request)?.onError(error);
}

/**
 * One for the whole process: each one leaves a listener on the server for as long as that lives. All that
 * differs between upstreams and requests comes from the exchange. Its own parts that answer errors, copy headers
 * and log are switched off: it moves bytes, and what a client is told is decided elsewhere.
 */
const proxy = createProxyMiddleware<IncomingMessage>({
  // Never asked: the router names the upstream of each request.
  target: 'http://127.0.0.1:9',
  changeOrigin: true,
  selfHandleResponse: true,
  ejectPlugins: true,
  router: (request, _response, options) => {
    const exchange = exchanges.get(request);
    if (exchange === undefined) throw new Error('a request without an exchange');
    options.buffer = Readable.from(exchange.body ?? []);
    options.agent = exchange.agent;
    return exchange.origin;
  },
  plugins: [
    (proxyServer) => {
      proxyServer.on('proxyReq', (sent, request) => exchanges.get(request)?.onRequest(sent));
      proxyServer.on('proxyRes', (answer, request) => exchanges.get(request)?.onAnswer(answer));
      proxyServer.on('error', fail);
      proxyServer.on('econnreset', fail);
    },
  ],
});

/** Sends the exchange through. Resolves when it is over, however it ended. */
export async function proxyThrough(exchange: ProxyExchange): Promise<void> {
  exchanges.set(exchange.request, exchange);
  await proxy(exchange.request, exchange.response);
}
