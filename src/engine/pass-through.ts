import type { Agent, IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { createProxyMiddleware } from 'http-proxy-middleware';
import type { Clock } from '../clock.ts';
import type { EngineConfig } from '../config/config.ts';
import type { Emit } from '../events.ts';
import type { Admission } from './admission.ts';
import { answerHead } from './answer-head.ts';
import type { Engine, EngineAddressee, PassThroughClient } from './engine.ts';
import { engineFailure, engineLoginFailure, NoAnswer, refusedLogin } from './engine-failure.ts';
import { requestHeaders } from './forwarded-headers.ts';
import { endOnSilence } from './silence.ts';

interface Exchange {
  readonly client: PassThroughClient;
  readonly body: Buffer | undefined;
  readonly project: string;
  answer: IncomingMessage | undefined;
  failed: boolean;
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

  /** One failure shows in several events; the first counts. */
  function fail(exchange: Exchange, error: unknown): void {
    if (exchange.failed) return;
    exchange.failed = true;
    const failure = engineFailure(error);
    if (!exchange.client.signal.aborted) {
      const { project } = exchange;
      emit({ type: 'engine-failed', project, reason: failure.reason, error });
    }
    exchange.client.fail(failure);
  }

  function relay(client: PassThroughClient, answer: IncomingMessage, response: ServerResponse) {
    const head = answerHead(answer);
    if (refusedLogin(head.status, config.login)) throw engineLoginFailure();
    client.open(head);
    answer.on('data', (chunk: Buffer) => client.sent(chunk.length));
    answer.pipe(response);
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
          if (exchange === undefined) return;
          endOnSilence(proxyRequest, config.timeout);
          // Nothing else tells of an engine that changes the protocol without being asked to.
          proxyRequest.once('close', () => {
            if (exchange.answer === undefined) fail(exchange, new NoAnswer());
          });
        });
        proxyServer.on('proxyRes', (answer, request, response) => {
          const exchange = exchanges.get(request);
          if (exchange === undefined) return;
          exchange.answer = answer;
          answer.on('error', (error) => fail(exchange, error));
          try {
            relay(exchange.client, answer, response);
          } catch (error) {
            answer.destroy();
            fail(exchange, error);
          }
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
    exchanges.set(request, { client, body, project, answer: undefined, failed: false });
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
