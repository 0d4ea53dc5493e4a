import type { IncomingMessage } from 'node:http';
import type { Clock } from '../clock.ts';
import type { EngineConfig } from '../config/config.ts';
import type { GatewayError } from '../errors.ts';
import type { Emit } from '../events.ts';
import { answerHead } from '../proxy/answer-head.ts';
import { decodedAnswer } from '../proxy/decoded-answer.ts';
import { refusedLogin, serviceAuthorization } from '../proxy/upstream-login.ts';
import type { AnswerHead } from '../query-cache/query.ts';
import type { Admission } from './admission.ts';
import { createClearCalls } from './clear-calls.ts';
import type { Engine, EngineAddressee } from './engine.ts';
import { engineFailure, engineLoginFailure } from './engine-failure.ts';
import { engineTarget, tellsProject } from './engine-target.ts';
import { createPassThrough } from './pass-through.ts';
import { sendQuery } from './query-request.ts';
import { createReplicas } from './replicas.ts';
import { createTouch } from './touch.ts';

/** An engine that is spoken to by XMLA over HTTP or HTTPS. */
export function createHttpEngine(options: {
  config: EngineConfig;
  admission: Admission;
  clock: Clock;
  emit: Emit;
}): Engine {
  const { config, admission, clock, emit } = options;
  const { login, service, timeout } = config;
  const replicas = createReplicas({ config, clock });
  const clears = createClearCalls({ config, emit });

  function authorizationOf(addressee: EngineAddressee): string | undefined {
    if (login === 'forward') return addressee.authorization;
    return service === undefined ? undefined : serviceAuthorization(service);
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
      if (refusedLogin(head.status, login)) throw engineLoginFailure();
      return head;
    } catch (error) {
      answer.destroy();
      throw error;
    }
  }

  const ask: Engine['ask'] = async (addressee, asked, body, signal) => {
    const leave = await admission.admit(addressee.user, signal);
    const project = addressee.project ?? '';
    // Before the first replica is tried: an answer may be taken for older than it is, never for younger.
    const began = { now: clock.now(), wall: clock.wall() };
    const authorization = authorizationOf(addressee);
    const sessionId = asked['x-as-sessionid'];
    const headers = {
      'content-type': asked['content-type'],
      'content-length': body.length,
      soapaction: asked.soapaction,
      ...(asked.accept !== undefined && { accept: asked.accept }),
      ...(asked['user-agent'] !== undefined && { 'user-agent': asked['user-agent'] }),
      ...(sessionId !== undefined && { 'x-as-sessionid': sessionId }),
      'accept-encoding': 'identity',
      ...(authorization !== undefined && { authorization }),
    };
    try {
      const { answer, url } = await replicas.reach(
        addressee.replica,
        signal,
        async (replica, connectLimit) => {
          const path = engineTarget(replica.url, addressee.project, addressee.query);
          const query = { path, headers, body, signal, timeout };
          return { answer: await sendQuery(replica, query, connectLimit), url: replica.url };
        },
      );
      const tell = (error: unknown) => {
        if (!signal.aborted) report(project, error);
      };
      answer.once('error', tell);
      answer.once('close', () => {
        leave();
        emit({ type: 'engine-answered', project, milliseconds: clock.now() - began.now });
      });
      return { ...decodedAnswer(answer, acceptedHead(answer), tell), began, replica: url };
    } catch (error) {
      leave();
      throw report(project, error);
    }
  };

  return {
    tellsProject: config.url.every(tellsProject),
    id: JSON.stringify([
      config.url.toSorted(),
      config.kind,
      login,
      service?.name ?? null,
      replicas.certificate,
    ]),
    ask,
    passThrough: createPassThrough({
      config,
      replicas,
      admission,
      clock,
      emit,
      authorizationOf,
      acceptedHead,
    }),
    touch: createTouch(ask),
    replicaFor: replicas.nameFor,
    reachable: replicas.reachable,
    clearCalls: clears.of,
    close() {
      replicas.close();
      clears.close();
    },
  };
}
