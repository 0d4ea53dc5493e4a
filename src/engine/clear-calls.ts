import type { EngineConfig } from '../config/config.ts';
import type { GatewayReason } from '../reasons.ts';
import type { Emit } from '../events.ts';
import { serviceAuthorization } from '../proxy/upstream-login.ts';
import type { EngineClear } from '../query-cache/engine-clear.ts';
import { readClearAnswer } from './clear-answer.ts';
import { clearTarget } from './clear-target.ts';
import type { ClearCall } from './engine.ts';
import { engineFailure } from './engine-failure.ts';
import { createSmallRequests, inTime, LongAnswer, type SmallRequests } from './small-request.ts';

const BAD_NAME = 'It was not asked: the name of the project cannot stand in a path.';
const NO_LOGIN =
  'It was not asked: engine.login is forward, and nobody is here whose login it could get.';

/** What an engine gets as a login; or the lack of one that it would need. */
type Login = { readonly authorization: string | undefined } | 'missing';

/** The clear operation of one engine (`engine.clear`). */
export interface ClearCalls {
  /** As {@link Engine.clearCalls}. */
  of(project: string | undefined, authorization: string | undefined): readonly ClearCall[];
  close(): void;
}

/** @param options.emit told why a replica did not clear its cache */
export function createClearCalls({
  config,
  emit,
}: {
  config: EngineConfig;
  emit: Emit;
}): ClearCalls {
  const urls = config.clear === 'none' ? [] : config.url;
  const replicas = urls.map((url) => ({ url, requests: createSmallRequests(url, config) }));

  function loginOf(authorization: string | undefined): Login {
    if (config.login !== 'forward') {
      return { authorization: config.service && serviceAuthorization(config.service) };
    }
    return authorization === undefined ? 'missing' : { authorization };
  }

  /** @returns undefined when the cache is cleared, else one sentence */
  async function ask(
    requests: SmallRequests,
    path: string,
    login: string | undefined,
  ): Promise<string | undefined> {
    const headers = { accept: '*/*', ...(login !== undefined && { authorization: login }) };
    const { head, body } = await inTime(config, undefined, (signal) =>
      requests.send({ method: 'GET', path, headers }, signal),
    );
    const coding = head.headers['content-encoding'];
    return readClearAnswer({ status: head.status, coding, body });
  }

  async function clear(
    { url, requests }: (typeof replicas)[number],
    asked: { project: string | undefined; path: string | undefined; login: Login },
  ): Promise<EngineClear> {
    const { project = '', path, login } = asked;
    try {
      const why =
        path === undefined
          ? BAD_NAME
          : login === 'missing'
            ? NO_LOGIN
            : await ask(requests, path, login.authorization);
      if (why === undefined) return { replica: url, ok: true };
      const error = new Error(`clearCache of ${url}: ${why}`);
      emit({ type: 'engine-failed', project, reason: 'engine-not-cleared', error });
      return { replica: url, ok: false, why };
    } catch (error) {
      const { reason } = engineFailure(error);
      emit({ type: 'engine-failed', project, reason, error });
      return { replica: url, ok: false, why: whyNoAnswer(reason, error) };
    }
  }

  return {
    of(project, authorization) {
      const login = loginOf(authorization);
      return replicas.map((replica) => {
        const { origin, certificate } = replica.requests;
        const path = clearTarget(replica.url, project);
        return {
          id: JSON.stringify([origin, path, login, certificate]),
          make: () => clear(replica, { project, path, login }),
        };
      });
    },
    close() {
      for (const { requests } of replicas) requests.close();
    },
  };
}

function whyNoAnswer(reason: GatewayReason, error: unknown): string {
  if (error instanceof LongAnswer) return 'Its answer is too long for that of clearCache.';
  if (reason === 'engine-timeout') return 'It did not answer in time.';
  return 'It cannot be reached, or broke off its answer.';
}
