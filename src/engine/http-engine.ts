import type { Clock } from '../common/clock.ts';
import type { EngineConfig } from '../config/config.ts';
import { GatewayError } from '../common/errors.ts';
import type { Emit } from '../common/events.ts';
import { answerHead, decodedAnswer, type UpstreamAnswer } from '../proxy/answer.ts';
import { refusedLogin, serviceAuthorization } from '../proxy/forwarded.ts';
import type { AnswerHead } from '../cache/query.ts';
import type { Admission } from './admission.ts';
import { createClearCalls } from './clear.ts';
import type { Engine, EngineAddressee } from './engine.ts';
import { tellsProject } from './engine-target.ts';
import { engineFailure, reportFailure } from './failure.ts';
import { createPassThrough } from './pass-through.ts';
import { createReplicas, upstreamOf } from './replicas.ts';
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
  const replicas = createReplicas(config, clock);
  const once = config.clear === 'none' ? [] : config.url;
  const cleared = once.map((url) => ({ url, upstream: upstreamOf(url, config, false) }));
  const ofService = service && serviceAuthorization(service);

  function authorizationOf(addressee: EngineAddressee): string | undefined {
    return login === 'forward' ? addressee.authorization : ofService;
  }

  /** @throws when the answer cannot be sent on; then it is ended */
  function acceptedHead(answer: UpstreamAnswer): AnswerHead {
    try {
      const head = answerHead(answer);
      if (!refusedLogin(head.status, login)) return head;
      throw new GatewayError(
        'engine-login',
        'The engine refused the login of the gateway; its operator must correct engine.login.',
      );
    } catch (error) {
      answer.destroy();
      throw error;
    }
  }

  const ask: Engine['ask'] = async (addressee, asked, body, signal, unwanted = signal) => {
    const leave = await admission.admit(addressee.user, unwanted);
    const project = addressee.project ?? '';
    // Before the first replica is tried: an answer may be taken for older than it is, never for younger.
    const began = { now: clock.now(), wall: clock.wall() };
    const authorization = authorizationOf(addressee);
    const headers: Record<string, string> = {
      'content-type': asked['content-type'],
      'content-length': String(body.length),
    };
    for (const [name, value] of Object.entries(asked)) {
      if (value !== undefined) headers[name] = value;
    }
    headers['accept-encoding'] = 'identity';
    if (authorization !== undefined) headers['authorization'] = authorization;
    const tell = (error: unknown) => {
      if (!signal.aborted) reportFailure(emit, project, error);
    };
    let url = '';
    try {
      const answer = await replicas.reach(addressee.replica, signal, (replica, connectLimit) => {
        url = replica.url;
        const path = replica.target(addressee.project, addressee.query);
        return replica.queries.send({ path, headers, body, signal, timeout, connectLimit });
      });
      const head = acceptedHead(answer);
      answer.once('close', () => {
        const { errored } = answer;
        if (errored !== null && !wasLeft(errored)) tell(errored);
        leave();
        emit({ type: 'engine-answered', project, milliseconds: clock.now() - began.now });
      });
      const decoded = decodedAnswer(answer, head, tell);
      return { head: decoded.head, body: decoded.body, began, replica: url };
    } catch (error) {
      leave();
      reportFailure(emit, project, error);
      throw engineFailure(error);
    }
  };

  return {
    tellsProject: config.url.every(tellsProject),
    id: JSON.stringify([
      config.url.toSorted(),
      config.kind,
      login,
      service?.name ?? null,
      config.delegation,
      replicas.certificate,
    ]),
    ask,
    passThrough: createPassThrough({
      timeout,
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
    clearCalls: createClearCalls(config, cleared, emit),
    close() {
      replicas.close();
      for (const { upstream } of cleared) upstream.close();
    },
  };
}

/** Whether its reader left the answer in the middle, which is no failure. */
function wasLeft({ code }: NodeJS.ErrnoException): boolean {
  return code === 'ABORT_ERR';
}
