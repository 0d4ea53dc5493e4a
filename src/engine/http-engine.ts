import { request as httpRequest, type ClientRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Clock } from '../clock.ts';
import type { EngineConfig } from '../config/config.ts';
import type { GatewayError } from '../errors.ts';
import type { Emit } from '../events.ts';
import { answerHead } from '../proxy/answer-head.ts';
import { acceptsConnections } from '../proxy/probe.ts';
import { endOnSilence } from '../proxy/silence.ts';
import { createUpstreamAgent } from '../proxy/upstream-agent.ts';
import { NoAnswer } from '../proxy/upstream-failure.ts';
import { refusedLogin, serviceAuthorization } from '../proxy/upstream-login.ts';
import type { AnswerHead } from '../query-cache/query.ts';
import type { Admission } from './admission.ts';
import type { Engine, EngineAddressee, QueryHeaders } from './engine.ts';
import { engineFailure, engineLoginFailure, EngineSilence } from './engine-failure.ts';
import { engineOrigin, engineTarget, tellsProject } from './engine-target.ts';
import { createPassThrough } from './pass-through.ts';

/** An engine that is spoken to by XMLA over HTTP or HTTPS. */
export function createHttpEngine(options: {
  config: EngineConfig;
  admission: Admission;
  clock: Clock;
  emit: Emit;
}): Engine {
  const { config, admission, clock, emit } = options;
  const origin = engineOrigin(config.url);
  const { agent, certificate } = createUpstreamAgent({ ...config, url: origin.href }, true);
  const start = origin.protocol === 'https:' ? httpsRequest : httpRequest;

  function authorizationOf(addressee: EngineAddressee): string | undefined {
    if (config.login === 'forward') return addressee.authorization;
    return config.service === undefined ? undefined : serviceAuthorization(config.service);
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
      endOnSilence(request, config.timeout, () => new EngineSilence());
      request.on('error', (error: Error) => {
        answer?.destroy(error);
        reject(brokenBeforeItBegan(request, error) ? new StaleConnection() : error);
      });
      // Nothing else tells of an engine that changes the protocol without being asked to.
      request.on('close', () => reject(new NoAnswer()));
      request.end(body);
    });
  }

  function closeIdle(): void {
    for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy();
  }

  function report(project: string, error: unknown): GatewayError {
    const failure = engineFailure(error);
    if (failure.reason !== 'client-gone') {
      emit({ type: 'engine-failed', project, reason: failure.reason, error });
    }
    return failure;
  }

  function acceptedHead(answer: IncomingMessage): AnswerHead {
    try {
      const head = answerHead(answer);
      if (refusedLogin(head.status, config.login)) throw engineLoginFailure();
      return head;
    } catch (error) {
      answer.destroy();
      throw error;
    }
  }

  return {
    tellsProject: tellsProject(config.url),
    id: JSON.stringify([
      config.url,
      config.kind,
      config.login,
      config.service?.name ?? null,
      certificate,
    ]),
    async ask(addressee, headers, body, signal) {
      const leave = await admission.admit(addressee.user, signal);
      const project = addressee.project ?? '';
      const began = { now: clock.now(), wall: clock.wall() };
      try {
        const answer = await send(addressee, headers, body, signal).catch((error: unknown) => {
          if (!(error instanceof StaleConnection)) throw error;
          // A query changes nothing, so that it may be sent again, on a new connection: an engine that closed
          // one has most likely closed them all.
          closeIdle();
          return send(addressee, headers, body, signal);
        });
        answer.once('error', (error) => {
          if (!signal.aborted) report(project, error);
        });
        answer.once('close', () => {
          leave();
          emit({ type: 'engine-answered', project, milliseconds: clock.now() - began.now });
        });
        return { head: acceptedHead(answer), body: answer, began };
      } catch (error) {
        leave();
        throw report(project, error);
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
    reachable: () => acceptsConnections(origin),
    close: () => agent.destroy(),
  };
}

/** A kept-alive connection that the engine had already closed when the request went out on it. */
class StaleConnection extends Error {}

function brokenBeforeItBegan(request: ClientRequest, error: NodeJS.ErrnoException): boolean {
  return request.reusedSocket && (error.code === 'ECONNRESET' || error.code === 'EPIPE');
}
