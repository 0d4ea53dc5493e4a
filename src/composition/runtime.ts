import type { IncomingMessage, ServerResponse } from 'node:http';
import { createPermissions } from '../auth/permissions.ts';
import type { Config } from '../config/config.ts';
import { createHotPath, type HotPath } from '../hot-path/hot-path.ts';
import type { Invalidate } from '../invalidation.ts';
import { clientAddressReader } from '../http/request-head.ts';
import { createClearCacheHandler } from '../http/clear-cache.ts';
import { createLogin } from '../http/login.ts';
import { createXmlaRoutes } from '../http/xmla-routes.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { ClearEngines } from '../query-cache/purge/engine-clear.ts';
import { createGzipMaker } from '../query-cache/gzip.ts';
import { makeGzip } from '../query-cache/gzip.ts';
import type { KnownNames } from '../query-cache/known-names.ts';
import type { Purge } from '../query-cache/purge/purge.ts';
import { projectPolicy } from '../query-cache/project-policy.ts';
import { createXmlaHandler } from '../xmla-handler.ts';
import { createRoleSets, NO_ROLE_SETS } from '../roles/role-sets.ts';
import type { Storage } from '../storage/storage.ts';
import { createAuthenticator } from './authenticator.ts';
import type { Bodies } from './bodies.ts';
import type { Cache } from './cache.ts';
import { createEngines, type Engines } from './engines.ts';
import type { Pages } from './pages.ts';
import { createIds, type Parts } from './parts.ts';

/** Everything that a reload of the configuration builds anew; the server, the metrics and the cache stay. */
export interface Runtime {
  readonly handle: (request: IncomingMessage, response: ServerResponse) => void;
  /** Asked before `handle`; undefined where it is switched off. */
  readonly hotPath: HotPath | undefined;
  readonly engines: Engines;
  /** Calls under way are requests under way: they end before the engines are closed. */
  readonly clearEngines: ClearEngines;
  /** Resolves when no request is under way and nothing is left to be stored. */
  idle(): Promise<void>;
  /** Closes what it made. Requests under way break off: wait for {@link Runtime.idle} before. */
  close(): Promise<void>;
}

/** What a runtime is built on, and what outlives it. */
interface Ground {
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

export async function createRuntime(config: Config, ground: Ground): Promise<Runtime> {
  const { cache, storage, purge, invalidate, metrics, names, bodies, parts } = ground;
  const { clock, emit } = parts;
  const newId = createIds(parts);
  const work = createWorkCounter();
  const authenticator = await createAuthenticator(config, parts);
  const engines = createEngines(config, parts);
  const permissions = createPermissions(config.auth, config.cache.client_control);
  const login = createLogin(authenticator, clientAddressReader(config.listen.trusted_proxies));

  const gzip = createGzipMaker({ make: makeGzip, most: 1, account: bodies.account });
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
  const hotPath = config.listen.hot_path
    ? createHotPath({
        authenticator,
        cache: cache.queryCache,
        sessions: cache.sessions,
        roleSets,
        gzip,
        inUse: bodies.inUse,
        work,
        clock,
        secret: newId(),
        newId,
        emit,
      })
    : undefined;

  const xmla = createXmlaHandler({
    login,
    permissions,
    engineOf: engines.engineOf,
    policyOf: projectPolicy(config),
    roleSets,
    hotPath,
    gzip,
    cache: cache.queryCache,
    sessions: cache.sessions,
    names,
    invalidate,
    purgeOnRefresh: config.cache.purge_on_refresh_cube,
    permissionsIgnored: config.cache.engine_permissions_ignored,
    maxBody: config.limits.body,
    ...bodies,
    clock,
    newId,
    emit,
  });
  const clearCache = createClearCacheHandler({
    login,
    permissions,
    purge,
    newId,
    emit,
  });
  const xmlaRoutes = createXmlaRoutes({
    xmla: (...exchange) => work.during(xmla.handle(...exchange)),
    clearCache: (...exchange) => work.during(clearCache(...exchange)),
    clock,
    newId,
    emit,
  });
  const { during } = work;
  let pages: Promise<Pages> | undefined;
  const loadPages = async (): Promise<Pages> => {
    const { createPages } = await import('./pages.ts');
    const { explain } = xmla;
    const ground = { login, permissions, during, storage, invalidate, engines, cache, metrics };
    return createPages(config, { ...ground, xmlaRoutes, explain, newId, parts });
  };
  // Certificates of a remote server are read with them: what is wrong there must be told now.
  if (storage === undefined) await (pages = loadPages());

  function handle(request: IncomingMessage, response: ServerResponse): void {
    try {
      // Express serves XMLA only where the hot path is switched off, so that the two can be compared.
      if (hotPath !== undefined && xmlaRoutes(request, response)) return;
      pages ??= loadPages();
      work.begin();
      response.once('close', work.end);
      pages.then((loaded) => loaded.handle(request, response)).catch(giveUp);
    } catch (error) {
      giveUp(error);
    }

    /** Only a mistake of this program leads here. */
    function giveUp(error: unknown): void {
      emit({ type: 'internal-error', id: newId(), error });
      response.destroy();
    }
  }

  return {
    handle,
    hotPath,
    engines,
    clearEngines: (...order) => work.during(engines.clear(...order)),
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
