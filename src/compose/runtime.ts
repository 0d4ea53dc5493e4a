import type { IncomingMessage, ServerResponse } from 'node:http';
import type { createApp, LastingParts } from '../app.ts';
import { createPermissions } from '../auth/authenticator.ts';
import type { KnownNames } from '../cache/projects.ts';
import type { ClearEngines, Purge } from '../cache/purge/purge.ts';
import type { BodyAccount } from '../common/body-account.ts';
import type { Config } from '../config/config.ts';
import { createAway } from '../engine/away.ts';
import { createClearCacheHandler } from '../http/clear-cache.ts';
import { clientAddressReader } from '../http/request-head.ts';
import { createDroppedHeaders } from '../line/dropped-headers.ts';
import { createRoleSets, NO_ROLE_SETS } from '../roles/role-sets.ts';
import { atPrimary } from '../workers/shared.ts';
import type { Cache } from './cache.ts';
import { createEngineStates } from './engine-states.ts';
import { createEngines } from './engines.ts';
import { createLine } from './line.ts';
import { createLogins, type KeptLogins } from './logins.ts';
import { createIds, type Parts } from './parts.ts';

export type Runtime = Awaited<ReturnType<typeof createRuntime>>;
interface Before {
  readonly logins: KeptLogins;
  readonly engineStates: Pick<ReturnType<typeof createEngineStates>, 'known'>;
}

/** Builds what a configuration builds anew. @param house.before knows of engines and logins */
export async function createRuntime(
  config: Config,
  house: LastingParts & {
    names: KnownNames;
    account: BodyAccount;
    cache: Cache;
    purge: Purge;
    parts: Parts;
    before?: Before | undefined;
  },
) {
  const { cache, storage, parts, features } = house;
  const { emit } = parts;
  const newId = createIds(parts);
  const work = createWorkCounter();
  const { during } = work;
  const addressOf = clientAddressReader(config.listen.trusted_proxies);
  const away = createAway(parts);
  const aware = { ...parts, away };
  const logins = await createLogins(config, aware, addressOf, house.before?.logins);
  const { authenticator, login, askLeave } = logins;
  const engines = createEngines(config, aware);
  const engineStates = createEngineStates(config, aware, house.before?.engineStates.known());
  const states = atPrimary(parts.primary, 'states', () => engineStates.states());
  const permissions = createPermissions(config.auth, config.cache.client_control);
  const common = { ...house, ...parts, login, permissions, askLeave, addressOf, newId };
  const roleSets = storage
    ? createRoleSets({
        ...common,
        storage,
        lease: config.cache.lease,
        isLookAlike: authenticator.isLookAlike,
        onError(error) {
          const message = 'roles cannot be read; queries are cached by user';
          emit({ type: 'warning', message, error });
        },
      })
    : NO_ROLE_SETS;
  const dropped = createDroppedHeaders(emit);
  const clearCache = createClearCacheHandler(common);
  const lineParts = { ...common, cache, engines, authenticator, roleSets, clearCache, dropped };
  const xmla = createLine(config, {
    ...lineParts,
    judges: features.judges,
    pageOrigins: features.pageOrigins(config, engines.headers),
    seen: features.seen(config),
    work,
  });

  let pages: ReturnType<typeof createApp> | undefined;
  const loadPages = async () =>
    (await import('../app.ts')).createApp(config, { ...common, xmla, states, during });
  const loaded = () => (pages ??= loadPages());
  // Certificates of a remote server are read with them: what is wrong there must be told now.
  if (storage === undefined) await loaded();

  /** Only a mistake of this program leads here. */
  function giveUp(response: ServerResponse, error: unknown): void {
    emit({ type: 'internal-error', id: newId(), error });
    response.destroy();
  }

  return {
    handle(request: IncomingMessage, response: ServerResponse): void {
      try {
        // XMLA need not wait for Express.
        if (xmla.handle(request, response)) return;
        work.begin();
        response.once('close', work.end);
        loaded().then(
          ({ app }) => app(request, response),
          (error) => giveUp(response, error),
        );
      } catch (error) {
        giveUp(response, error);
      }
    },
    app: async () => (await loaded()).app,
    engines,
    logins: logins.kept,
    loginsWaiting: authenticator.waiting,
    droppedHeaders: dropped.names,
    steps: xmla.steps,
    engineStates,
    enginesAway: away.list,
    /** Calls under way are requests under way: they end before the engines are closed. */
    clearEngines: ((...order) => during(engines.clear(...order))) satisfies ClearEngines,
    /** Resolves when no request is under way and nothing is left to be stored. */
    idle: work.idle,
    /** Breaks off requests under way: wait for `idle` before. */
    async close(): Promise<void> {
      await authenticator.close();
      engines.close();
      engineStates.close();
      (await pages?.catch(() => undefined))?.close();
    },
  };
}

function createWorkCounter() {
  let running = 0;
  let over: PromiseWithResolvers<void> | undefined;
  const isBusy = () => running > 0;
  const begin = () => void (running += 1);
  function end(): void {
    running -= 1;
    if (isBusy()) return;
    over?.resolve();
    over = undefined;
  }
  return {
    begin,
    end,
    during<T>(promise: Promise<T>): Promise<T> {
      begin();
      return promise.finally(end);
    },
    async idle(): Promise<void> {
      // What has ended may have handed on to what begins.
      while (isBusy()) await (over ??= Promise.withResolvers()).promise;
    },
  };
}
