import type { Agent, IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../clock.ts';
import type { EngineConfig } from '../config/config.ts';
import type { Emit } from '../events.ts';
import { answerHead } from '../proxy/answer-head.ts';
import { requestHeaders } from '../proxy/forwarded-headers.ts';
import { proxyThrough } from '../proxy/proxy.ts';
import { endOnSilence } from '../proxy/silence.ts';
import { NoAnswer } from '../proxy/upstream-failure.ts';
import { refusedLogin } from '../proxy/upstream-login.ts';
import type { Admission } from './admission.ts';
import type { Engine, EngineAddressee, PassThroughClient } from './engine.ts';
import { engineFailure, engineLoginFailure, EngineSilence } from './engine-failure.ts';

/** Passes requests through to an engine: the client's own headers, its pace, its end. */
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
  const { config, origin, agent, admission, clock, emit } = options;

  function relay(client: PassThroughClient, answer: IncomingMessage, response: ServerResponse) {
    const head = answerHead(answer);
    if (refusedLogin(head.status, config.login)) throw engineLoginFailure();
    client.open(head);
    answer.on('data', (chunk: Buffer) => client.sent(chunk.length));
    answer.pipe(response);
  }

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
    request.headers = requestHeaders(
      request.headers,
      options.authorizationOf(addressee),
      body?.length,
    );
    request.url = options.target(addressee);
    let answered = false;
    let failed = false;

    /** One failure shows in several events; the first counts. */
    function fail(error: unknown): void {
      if (failed) return;
      failed = true;
      const failure = engineFailure(error);
      if (!client.signal.aborted && failure.reason !== 'client-gone') {
        emit({ type: 'engine-failed', project, reason: failure.reason, error });
      }
      client.fail(failure);
    }

    try {
      await proxyThrough({
        request,
        response,
        body,
        origin,
        agent,
        onRequest(sent) {
          endOnSilence(sent, config.timeout, () => new EngineSilence());
          // Nothing else tells of an engine that changes the protocol without being asked to.
          sent.once('close', () => {
            if (!answered) fail(new NoAnswer());
          });
        },
        onAnswer(answer) {
          answered = true;
          answer.on('error', fail);
          try {
            relay(client, answer, response);
          } catch (error) {
            answer.destroy();
            fail(error);
          }
        },
        onError: fail,
      });
    } finally {
      leave();
      emit({ type: 'engine-answered', project, milliseconds: clock.now() - began });
    }
  };
}
