import { request as httpRequest, type ClientRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { connect } from 'node:net';
import type { Clock } from '../clock.ts';
import type { EngineConfig } from '../config/config.ts';
import type { Emit } from '../events.ts';
import type { Admission } from './admission.ts';
import type { Engine, EngineAddressee, QueryHeaders } from './engine.ts';
import { createEngineAgent } from './engine-agent.ts';
import {
  engineFailure,
  engineLoginFailure,
  EngineSilence,
  refusedLogin,
} from './engine-failure.ts';
import { engineOrigin, engineTarget } from './engine-target.ts';
import { createPassThrough } from './pass-through.ts';

/** How long a probe of the engine's port may take (ms). */
const PROBE_TIMEOUT = 2_000;

/** An engine that is spoken to by XMLA over HTTP or HTTPS. */
export function createHttpEngine(options: {
  config: EngineConfig;
  admission: Admission;
  clock: Clock;
  emit: Emit;
}): Engine {
  const { config, admission, clock, emit } = options;
  const origin = engineOrigin(config.url);
  const agent = createEngineAgent(config);
  const start = origin.protocol === 'https:' ? httpsRequest : httpRequest;

  function authorizationOf(addressee: EngineAddressee): string | undefined {
    if (config.login === 'forward') return addressee.authorization;
    if (config.service === undefined) return undefined;
    const { name, password } = config.service;
    return `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`;
  }

  const target = (addressee: EngineAddressee) =>
    engineTarget(config.url, addressee.project, addressee.query);

  /** Sends a request and waits for the head of its answer. */
  function send(
    addressee: EngineAddressee,
    headers: QueryHeaders,
    body: Buffer,
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const authorization = authorizationOf(addressee);
      let answer: IncomingMessage | undefined;
      const request: ClientRequest = start(
        new URL(origin),
        {
          method: 'POST',
          path: target(addressee),
          agent,
          signal,
          timeout: config.timeout,
          headers: {
            'content-type': headers['content-type'],
            'content-length': body.length,
            soapaction: headers.soapaction,
            ...(headers.accept !== undefined && { accept: headers.accept }),
            ...(headers['user-agent'] !== undefined && { 'user-agent': headers['user-agent'] }),
            'accept-encoding': 'identity',
            ...(authorization !== undefined && { authorization }),
          },
        },
        (response) => {
          answer = response;
          resolve(response);
        },
      );
      request.on('timeout', () => (answer ?? request).destroy(new EngineSilence()));
      request.on('error', (error: Error) => {
        answer?.destroy(error);
        reject(brokenBeforeItBegan(request, error) ? new StaleConnection() : error);
      });
      request.end(body);
    });
  }

  return {
    id: JSON.stringify([config.url, config.kind, config.login, config.service?.name ?? null]),
    async ask(addressee, headers, body, signal) {
      const leave = await admission.admit(addressee.user, signal);
      const project = addressee.project ?? '';
      const began = { now: clock.now(), wall: clock.wall() };
      try {
        const answer = await send(addressee, headers, body, signal).catch((error: unknown) => {
          // A query changes nothing, so that it may be sent again.
          if (error instanceof StaleConnection) return send(addressee, headers, body, signal);
          throw error;
        });
        answer.once('close', () => {
          leave();
          emit({ type: 'engine-answered', project, milliseconds: clock.now() - began.now });
        });
        const status = answer.statusCode ?? 0;
        if (refusedLogin(status, config.login)) {
          answer.destroy();
          throw engineLoginFailure();
        }
        const statusMessage = answer.statusMessage ?? '';
        return { head: { status, statusMessage, headers: answer.headers }, body: answer, began };
      } catch (error) {
        leave();
        const failure = engineFailure(error);
        emit({ type: 'engine-failed', project, reason: failure.reason, error });
        throw failure;
      }
    },
    passThrough: createPassThrough({
      config,
      origin,
      agent,
      admission,
      clock,
      emit,
      target,
      authorizationOf,
    }),
    reachable() {
      const port = Number(origin.port) || (origin.protocol === 'https:' ? 443 : 80);
      const host = origin.hostname.replace(/^\[|\]$/g, '');
      return new Promise((resolve) => {
        const socket = connect({ host, port, timeout: PROBE_TIMEOUT });
        const decide = (reachable: boolean) => {
          socket.destroy();
          resolve(reachable);
        };
        socket.once('connect', () => decide(true));
        socket.once('timeout', () => decide(false));
        socket.once('error', () => decide(false));
      });
    },
    close: () => agent.destroy(),
  };
}

/** A kept-alive connection that the engine had already closed when the request went out on it. */
class StaleConnection extends Error {}

function brokenBeforeItBegan(request: ClientRequest, error: NodeJS.ErrnoException): boolean {
  return request.reusedSocket && (error.code === 'ECONNRESET' || error.code === 'EPIPE');
}
