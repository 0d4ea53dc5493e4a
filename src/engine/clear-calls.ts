import type { EngineConfig } from '../config/config.ts';
import { GatewayError } from '../errors.ts';
import type { Emit } from '../events.ts';
import { serviceAuthorization } from '../proxy/upstream-login.ts';
import type { EngineClear } from '../query-cache/purge/engine-clear.ts';
import type { GatewayReason } from '../reasons.ts';
import { readClearAnswer } from './clear-answer.ts';
import { clearTarget } from './clear-target.ts';
import type { ClearCall } from './engine.ts';
import { engineFailure } from './engine-failure.ts';
import { createSmallRequests, inTime, LongAnswer, type SmallRequests } from './small-request.ts';

const BAD_NAME = 'It was not asked: the name of the project cannot stand in a path.';

/** What an engine gets as a login. */
interface Login {
  readonly authorization: string | undefined;
}

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

  /** @returns undefined when nobody is here whose login the engine could get */
  function loginOf(authorization: string | undefined): Login | undefined {
    if (config.login !== 'forward') {
      return { authorization: config.service && serviceAuthorization(config.service) };
    }
    return authorization === undefined ? undefined : { authorization };
  }

  /** @returns undefined when the cache is cleared, else one sentence */
  async function ask(
    requests: SmallRequests,
    asked: { project: string | undefined; path: string; login: string | undefined },
  ): Promise<string | undefined> {
    const { project, path, login } = asked;
    const headers = { accept: '*/*', ...(login !== undefined && { authorization: login }) };
    const { head, body } = await inTime(config, undefined, (signal) =>
      requests.send({ method: 'GET', path, headers }, signal),
    );
    const coding = head.headers['content-encoding'];
    return readClearAnswer({ status: head.status, coding, body }, project);
  }

  async function clear(
    { url, requests }: (typeof replicas)[number],
    asked: { project: string | undefined; path: string | undefined; login: Login },
  ): Promise<EngineClear> {
    const { path, login } = asked;
    const about = { type: 'engine-failed', project: asked.project ?? '', replica: url } as const;
    try {
      const why =
        path === undefined
          ? BAD_NAME
          : await ask(requests, { ...asked, path, login: login.authorization });
      if (why === undefined) return { replica: url, ok: true };
      const error = new GatewayError('engine-not-cleared', why);
      emit({ ...about, reason: 'engine-not-cleared', error });
      return { replica: url, ok: false, why, ...(path === undefined && { called: false }) };
    } catch (error) {
      const { reason } = engineFailure(error);
      emit({ ...about, reason, error });
      return { replica: url, ok: false, why: whyNoAnswer(reason, error) };
    }
  }

  return {
    of(project, authorization) {
      const login = loginOf(authorization);
      if (login === undefined) return [];
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
