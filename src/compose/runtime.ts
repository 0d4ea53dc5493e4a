import type { IncomingMessage, ServerResponse } from 'node:http';
import type { createApp } from '../app.ts';
import { createPermissions } from '../auth/permissions.ts';
import type { Config } from '../config/config.ts';
import { createClearCacheHandler } from '../http/clear-cache.ts';
import { createLogin } from '../http/login.ts';
import { clientAddressReader } from '../http/request-head.ts';
import type { Invalidate } from '../common/invalidation.ts';
import { createXmlaHandler } from '../line/handler.ts';
import type { Metrics } from '../observability/metrics.ts';
import { createGzipMaker, makeGzip } from '../cache/stored-answer.ts';
import { type KnownNames, projectPolicy } from '../cache/projects.ts';
import type { ClearEngines, Purge } from '../cache/purge/purge.ts';
import { createRoleSets, NO_ROLE_SETS } from '../roles/role-sets.ts';
import type { Storage } from '../storage/storage.ts';
import { createAuthenticator } from './authenticator.ts';
import type { Bodies } from './bodies.ts';
import type { Cache } from './cache.ts';
import { createEngines, type Engines } from './engines.ts';
import { createIds, type Parts } from './parts.ts';

/** Serves everything by itself (Express). */
type App = ReturnType<typeof createApp>;

/** Everything that a reload of the configuration builds anew; the server, the metrics and the cache stay. */
export interface Runtime {
  readonly handle: (request: IncomingMessage, response: ServerResponse) => void;
  /** Loaded when it is first asked for, since Express takes as long as half of a start. */
  readonly app: () => Promise<App>;
  readonly engines: Engines;
  /** Calls under way are requests under way: they end before the engines are closed. */
  readonly clearEngines: ClearEngines;
  /** Resolves when no request is under way and nothing is left to be stored. */
  idle(): Promise<void>;
  /** Closes what it made. Requests under way break off: wait for {@link Runtime.idle} before. */
  close(): Promise<void>;
}

/** What a runtime is built on, and what outlives it. */
interface RuntimeDependencies {
  readonly cache: Cache;
  /** Undefined with the driver `http`, which forwards. */
  readonly storage: Storage | undefined;
  readonly purge: Purge;
  readonly invalidate: Invalidate;
  readonly metrics: Metrics;
  readonly names: KnownNames;
  readonly bodies: Bodies;
  readonly parts: Parts;
}

export async function createRuntime(
  config: Config,
  dependencies: RuntimeDependencies,
): Promise<Runtime> {
  const { cache, storage, purge, invalidate, metrics, names, bodies, parts } = dependencies;
  const { clock, emit } = parts;
  const newId = createIds(parts);
  const work = createWorkCounter();
  const { during } = work;
  const authenticator = await createAuthenticator(config, parts);
  const engines = createEngines(config, parts);
  const permissions = createPermissions(config.auth, config.cache.client_control);
  const addressOf = clientAddressReader(config.listen.trusted_proxies);
  const login = createLogin(authenticator, addressOf);
  const roleSets =
    storage === undefined
      ? NO_ROLE_SETS
      : createRoleSets({
          storage,
          lease: config.cache.lease,
          isLookAlike: authenticator.isLookAlike,
          clock,
          onError: (error) =>
            emit({
              type: 'warning',
              message: 'roles cannot be read; queries are cached by user',
              error,
            }),
        });

  const xmla = createXmlaHandler({
    authenticator,
    login,
    addressOf,
    permissions,
    clearCache: createClearCacheHandler({ login, permissions, purge, newId, emit }),
    engineOf: engines.engineOf,
    policyOf: projectPolicy(config),
    roleSets,
    gzip: createGzipMaker({ make: makeGzip, most: 1, account: bodies.account }),
    cache: cache.queryCache,
    sessions: cache.sessions,
    names,
    invalidate,
    purgeOnRefresh: config.cache.purge_on_refresh_cube,
    permissionsIgnored: config.cache.engine_permissions_ignored,
    provider: config.auth.provider,
    maxBody: config.limits.body,
    ...bodies,
    work,
    clock,
    secret: newId(),
    newId,
    emit,
  });

  let pages: Promise<{ app: App; close: () => void }> | undefined;
  const load = async () => {
    const [{ createApp }, { createApiBackend }] = await Promise.all([
      import('../app.ts'),
      import('./api-backend.ts'),
    ]);
    const dependencies = { login, permissions, during, storage, invalidate, parts };
    const api = createApiBackend(config, dependencies);
    const app = createApp(config, {
      xmla,
      api,
      login,
      permissions,
      engines,
      cache,
      metrics,
      clock: parts.clock,
      newId,
      emit,
    });
    return { app, close: api.close };
  };
  const loaded = () => (pages ??= load());
  // Certificates of a remote server are read with them: what is wrong there must be told now.
  if (storage === undefined) await loaded();

  return {
    handle(request, response) {
      // Only a mistake of this program leads there.
      const giveUp = (error: unknown) => {
        emit({ type: 'internal-error', id: newId(), error });
        response.destroy();
      };
      try {
        // XMLA need not wait for Express.
        if (xmla.handle(request, response)) return;
        work.begin();
        response.once('close', work.end);
        loaded().then(({ app }) => app(request, response), giveUp);
      } catch (error) {
        giveUp(error);
      }
    },
    app: async () => (await loaded()).app,
    engines,
    clearEngines: (...order) => during(engines.clear(...order)),
    idle: work.idle,
    async close() {
      await authenticator.close();
      engines.close();
      (await pages?.catch(() => undefined))?.close();
    },
  };
}

/** Counts what is under way. */
function createWorkCounter() {
  let running = 0;
  const waiting: (() => void)[] = [];
  const isBusy = () => running > 0;
  const begin = () => void (running += 1);
  const end = () => {
    running -= 1;
    if (running === 0) for (const tell of waiting.splice(0)) tell();
  };
  return {
    begin,
    end,
    during<T>(promise: Promise<T>): Promise<T> {
      begin();
      return promise.finally(end);
    },
    async idle(): Promise<void> {
      // What has ended may have handed on to what begins.
      while (isBusy()) await new Promise<void>((resolve) => void waiting.push(resolve));
    },
  };
}
