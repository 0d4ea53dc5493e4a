import express, { type ErrorRequestHandler, type RequestHandler } from 'express';
import { type ApiFront, createApiRouter } from './api/api.ts';
import { createDatasetOperations } from './api/datasets.ts';
import { createDocumentGate, slotsBeside } from './api/documents.ts';
import { createRemoteOperations } from './api/remote.ts';
import { createRoleOperations } from './api/roles.ts';
import { shareFor } from './common/clock.ts';
import { GatewayError } from './common/errors.ts';
import type { Emit, Invalidate, ReplicaState } from './common/events.ts';
import type { Config } from './config/config.ts';
import { LEASE_LIMITS } from './common/leases.ts';
import type { OpenPage } from './http/config.ts';
import type { Features } from './features/all.ts';
import type { Line, RuntimeCore } from './features/feature.ts';
import { createAdmin, createAdminHandler } from './http/admin.ts';
import { type AdminAct, createActHandler, questionAct, type TellAbout } from './http/admin-act.ts';
import { asAnsweredError, onlyMethods, sendError } from './http/answers.ts';
import { docsPages, openApiPage } from './http/docs-page.ts';
import { nameRequest, unclearHead } from './http/request-head.ts';
import type { createXmlaHandler } from './line/handler.ts';
import { type Metrics, metricsPage } from './observability/metrics.ts';
import type { Storage } from './storage/sql-storage.ts';

/** Least pause between two questions to the storage by /health/ready. */
const STORAGE_HOLDS_MS = 1_000;

export interface LastingParts {
  /** False once a shutdown begins. */
  readonly isServing: () => boolean;
  readonly metrics: Metrics;
  readonly features: Pick<Features, 'pages' | 'judges' | 'seen' | 'pageOrigins'>;
  /** Behind /api; undefined where a remote server is. */
  readonly storage: Storage | undefined;
  readonly invalidate: Invalidate;
}

interface PageParts
  extends LastingParts, ApiFront, Pick<RuntimeCore, 'askLeave' | 'addressOf' | 'during'> {
  readonly xmla: { handle: ReturnType<typeof createXmlaHandler>; explain: TellAbout; steps: Line };
  readonly states: () => Promise<{ ready: boolean; replicas: readonly ReplicaState[] }>;
  readonly cache: Pick<RuntimeCore, 'purgeLog' | 'redis'>;
  readonly sleep: (milliseconds: number) => Promise<void>;
}

/**
 * Builds the pages, in the order in which they are asked. It is loaded with the first page, since
 * Express takes half as long as a start.
 */
export async function createApp(config: Config, given: PageParts) {
  const { xmla, login, permissions, states, cache, metrics, clock, newId, emit } = given;
  const { handlers, reachable, close } = apiOf(config, given);
  const { driver } = config.storage;
  const storageState = shareFor(STORAGE_HOLDS_MS, clock, async () => ({
    driver,
    state: (await reachable()) ? 'up' : 'down',
  }));
  const ofFeatures = await given.features.pages({
    ...given,
    config,
    line: xmla.steps,
    purgeLog: cache.purgeLog,
    redis: cache.redis,
    engines: states,
    storageState,
    tellAdmin: (...asked) => admin.tell(...asked),
  });
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');

  // These two read the head by themselves: they tell errors in their own shape.
  app.use((request, response, next) => {
    if (!xmla.handle(request, response)) next();
  });
  app.use('/api', createApiRouter(handlers, given));
  app.use((request, response, next) => {
    nameRequest(request, response, newId);
    next(unclearHead(request));
  });

  const reads = onlyMethods('GET', 'HEAD');
  const loginFor = (page: OpenPage): RequestHandler => {
    const open = config.listen.open.includes(page);
    return async (request, response, next) => {
      if (!open) await login(request, nameRequest(request, response, newId));
      next();
    };
  };
  // Says no more than that the process answers: it is open to all.
  app.use('/health/live', reads, (_request, response) => {
    response.set('cache-control', 'no-store').json({ status: 'up' });
  });
  // For load balancers: what is in the cache is answered without an engine.
  app.use('/health/serving', reads, (_request, response) => {
    const isUp = given.isServing();
    response.status(isUp ? 200 : 503).set('cache-control', 'no-store');
    response.json({ status: isUp ? 'up' : 'down' });
  });
  // Queries go on without Redis or storage.
  app.use('/health/ready', reads, loginFor('health'), async (_request, response) => {
    const [{ ready, replicas }, storage] = await Promise.all([states(), storageState()]);
    const status = ready ? 'ready' : 'not ready';
    // What an engine or the network said is for users who log in.
    const tells = !config.listen.open.includes('health');
    const shown = (one: ReplicaState) => (tells && one.state === 'down' ? one.why : undefined);
    const engines = replicas.map((one) => ({ url: one.url, state: one.state, why: shown(one) }));
    response.status(ready ? 200 : 503).set('cache-control', 'no-store');
    response.json({ status, engines, redis: cache.redis(), storage });
  });
  app.use('/metrics', reads, loginFor('metrics'), metricsPage(metrics));
  app.use('/openapi.json', reads, loginFor('docs'), openApiPage());
  app.use('/docs', reads, loginFor('docs'), docsPages());

  for (const { routes = [] } of ofFeatures) {
    for (const [path, ...route] of routes) app.use(path, ...route);
  }
  const admin = createAdmin({ ...given, ...cache, ofFeatures });
  const acts = Object.assign(
    { '/admin/explain': questionAct(xmla.explain, { user: true }) },
    ...ofFeatures.map((one) => one.acts),
  ) as Readonly<Record<string, AdminAct>>;
  for (const [path, act] of Object.entries(acts)) {
    app.post(path, createActHandler({ login, permissions, maxBodyBytes: config.limits.body }, act));
    const methods = admin.paths.includes(path) ? ['GET', 'HEAD', 'POST'] : ['POST'];
    app.all(path, onlyMethods(...methods));
  }
  for (const path of admin.paths) {
    app.all(path, onlyMethods('GET', 'HEAD'), createAdminHandler({ login, admin, path }));
  }
  app.use((request) => {
    throw new GatewayError('not-found', `Nothing is served under ${request.path}.`);
  });
  app.use(errorMapper(newId, emit));
  return { app, close };
}

/** Makes the operations behind /api, which check no login. `reachable` never rejects. */
function apiOf({ storage: config, limits }: Config, { storage, invalidate, sleep }: PageParts) {
  const slots = config.driver === 'postgres' ? { slots: slotsBeside(config.connections) } : {};
  const common = { invalidate, documents: createDocumentGate(slots), limits };
  if (config.driver === 'http') return createRemoteOperations(config, common);
  if (storage === undefined) throw new Error(`the driver ${config.driver} needs a storage`);
  const { roles, datasets, reachable } = storage;
  const handlers = {
    ...createRoleOperations({ roles, sleep, longestLease: LEASE_LIMITS.longest, limits }),
    ...createDatasetOperations(datasets, common),
  };
  return { handlers, reachable, close() {} };
}

export function errorMapper(newId: () => string, emit: Emit): ErrorRequestHandler {
  return (error, request, response, next) => {
    if (response.headersSent) return next(error);
    const id = nameRequest(request, response, newId);
    sendError(response, asAnsweredError(error, id, emit), 'json', id);
  };
}
