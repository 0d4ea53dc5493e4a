import type { Clock } from '../clock.ts';
import type { EngineConfig } from '../config/config.ts';
import type { GatewayError } from '../errors.ts';
import type { Emit } from '../events.ts';
import { answerHead } from '../proxy/answer-head.ts';
import { decodedAnswer } from '../proxy/decoded-answer.ts';
import type { UpstreamAnswer } from '../proxy/upstream-answer.ts';
import { refusedLogin, serviceAuthorization } from '../proxy/upstream-login.ts';
import type { AnswerHead } from '../query-cache/query.ts';
import type { Admission } from './admission.ts';
import { createClearCalls } from './clear-calls.ts';
import type { Engine, EngineAddressee } from './engine.ts';
import { engineFailure, engineLoginFailure } from './engine-failure.ts';
import { tellsProject } from './engine-target.ts';
import { createPassThrough } from './pass-through.ts';
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
  const ofService = service && serviceAuthorization(service);

  function authorizationOf(addressee: EngineAddressee): string | undefined {
    return login === 'forward' ? addressee.authorization : ofService;
  }

  function report(project: string, error: unknown): GatewayError {
    const failure = engineFailure(error);
    if (failure.reason !== 'client-gone') {
      emit({ type: 'engine-failed', project, reason: failure.reason, error });
    }
    return failure;
  }

  function acceptedHead(answer: UpstreamAnswer): AnswerHead {
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
    const { user } = addressee;
    const leave = admission.tryAdmit(user, signal) ?? (await admission.admit(user, signal));
    const project = addressee.project ?? '';
    // Before the first replica is tried: an answer may be taken for older than it is, never for younger.
    const began = { now: clock.now(), wall: clock.wall() };
    const authorization = authorizationOf(addressee);
    const sessionId = asked['x-as-sessionid'];
    const headers: Record<string, string> = {
      'content-type': asked['content-type'],
      'content-length': String(body.length),
      soapaction: asked.soapaction,
    };
    if (asked.accept !== undefined) headers['accept'] = asked.accept;
    if (asked['user-agent'] !== undefined) headers['user-agent'] = asked['user-agent'];
    if (sessionId !== undefined) headers['x-as-sessionid'] = sessionId;
    headers['accept-encoding'] = 'identity';
    if (authorization !== undefined) headers['authorization'] = authorization;
    const tell = (error: unknown) => {
      if (!signal.aborted) report(project, error);
    };
    const over = (error: Error | null) => {
      if (error !== null) tell(error);
      leave();
      emit({ type: 'engine-answered', project, milliseconds: clock.now() - began.now });
    };
    let url = '';
    try {
      const answer = await replicas.reach(addressee.replica, signal, (replica, connectLimit) => {
        url = replica.url;
        const path = replica.target(addressee.project, addressee.query);
        return replica.queries.send({ path, headers, body, signal, timeout }, connectLimit, over);
      });
      const { head, body: decoded } = decodedAnswer(answer, acceptedHead(answer), tell);
      return { head, body: decoded, began, replica: url };
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
