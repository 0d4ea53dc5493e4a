import type { Agent, IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { createProxyMiddleware } from 'http-proxy-middleware';
import type { Clock } from '../clock.ts';
import type { EngineConfig } from '../config/config.ts';
import type { Emit } from '../events.ts';
import type { Admission } from './admission.ts';
import type { Engine, EngineAddressee, PassThroughClient } from './engine.ts';
import {
  engineFailure,
  engineLoginFailure,
  EngineSilence,
  refusedLogin,
} from './engine-failure.ts';
import { requestHeaders } from './forwarded-headers.ts';

interface Exchange {
  readonly client: PassThroughClient;
  readonly body: Buffer | undefined;
  readonly project: string;
  answer: IncomingMessage | undefined;
}

/**
 * Passes requests through by http-proxy-middleware. Its own parts that answer errors or copy headers are
 * switched off: it moves bytes, and what the client is told is decided in one place.
 */
export function createPassThrough(options: {
  config: EngineConfig;
  origin: URL;
  agent: Agent;
  admission: Admission;
  clock: Clock;
  emit: Emit;
  target: (addressee: EngineAddressee) => string;
  authorizationOf: (addressee: EngineAddressee) => string | undefined;
}): Engine['passThrough'] {
  const { config, admission, clock, emit } = options;
  const exchanges = new WeakMap<IncomingMessage, Exchange>();

  function fail(exchange: Exchange, error: unknown): void {
    const failure = engineFailure(error);
    if (!exchange.client.signal.aborted) {
      const { project } = exchange;
      emit({ type: 'engine-failed', project, reason: failure.reason, error });
    }
    exchange.client.fail(failure);
  }

  const proxy = createProxyMiddleware<IncomingMessage>({
    target: options.origin,
    changeOrigin: true,
    agent: options.agent,
    selfHandleResponse: true,
    ejectPlugins: true,
    // The one place where options can be set for each request: here, the bytes that are replayed.
    router: (request, _response, proxyOptions) => {
      proxyOptions.buffer = Readable.from(exchanges.get(request)?.body ?? []);
      return options.origin;
    },
    plugins: [
      (proxyServer) => {
        proxyServer.on('proxyReq', (proxyRequest, request) => {
          const exchange = exchanges.get(request);
          proxyRequest.setTimeout(config.timeout, () => {
            (exchange?.answer ?? proxyRequest).destroy(new EngineSilence());
          });
        });
        proxyServer.on('proxyRes', (answer, request, response) => {
          const exchange = exchanges.get(request);
          if (exchange === undefined) return;
          exchange.answer = answer;
          const status = answer.statusCode ?? 0;
          if (refusedLogin(status, config.login)) {
            answer.resume();
            return fail(exchange, engineLoginFailure());
          }
          const statusMessage = answer.statusMessage ?? '';
          exchange.client.open({ status, statusMessage, headers: answer.headers });
          answer.on('error', (error) => fail(exchange, error));
          answer.on('data', (chunk: Buffer) => exchange.client.sent(chunk.length));
          answer.pipe(response);
        });
        proxyServer.on('error', (error, request) => {
          const exchange = request && exchanges.get(request);
          if (exchange !== undefined) fail(exchange, error);
        });
        proxyServer.on('econnreset', (error, request) => {
          const exchange = request && exchanges.get(request);
          if (exchange !== undefined) fail(exchange, error);
        });
      },
    ],
  });

  return async function passThrough(addressee, client, body) {
    const { request, response } = client;
    const project = addressee.project ?? '';
    let leave: () => void;
    try {
      leave = await admission.admit(addressee.user, client.signal);
    } catch (error) {
      client.fail(error);
      return;
    }
    const began = clock.now();
    exchanges.set(request, { client, body, project, answer: undefined });
    // http-proxy-middleware forwards the headers and the target that it finds in the request.
    request.headers = requestHeaders(
      request.headers,
      options.authorizationOf(addressee),
      body?.length,
    );
    request.url = options.target(addressee);
    try {
      await proxy(request, response);
    } finally {
      leave();
      emit({ type: 'engine-answered', project, milliseconds: clock.now() - began });
    }
  };
}
