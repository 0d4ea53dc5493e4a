import express, { type ErrorRequestHandler, type Express, type RequestHandler } from 'express';
import type { Login, Permissions } from './auth/authenticator.ts';
import type { Clock } from './common/clock.ts';
import type { Config, OpenPage } from './config/config.ts';
import { GatewayError } from './common/errors.ts';
import type { Emit } from './common/events.ts';
import { createExplainHandler, createPurgesHandler, shareFor } from './http/admin.ts';
import { asAnsweredError, sendError } from './http/answers.ts';
import { docsPages, openApiPage } from './http/docs-page.ts';
import { unclearHead } from './http/request-head.ts';
import type { XmlaHandler } from './line/handler.ts';
import { metricsPage, type Metrics } from './observability/metrics.ts';
import type { PurgeLog } from './cache/purge/purge-log.ts';

/** Engines and storage are asked at most so often (ms), however often /health/ready is. */
const READINESS_HOLDS = 1_000;

/** The whole HTTP surface, in the order in which it is asked. */
export function createApp(
  { listen, limits }: Pick<Config, 'listen' | 'limits'>,
  dependencies: {
    xmla: XmlaHandler;
    /** What stands behind /api; it checks the login by itself. `reachable` is of the storage, and never rejects. */
    api: { router: RequestHandler; driver: string; reachable: () => Promise<boolean> };
    login: Login;
    permissions: Permissions;
    engines: { states: () => Promise<{ readonly ready: boolean; readonly replicas: unknown }> };
    cache: { purgeLog: Pick<PurgeLog, 'latest'>; redis: () => unknown };
    metrics: Metrics;
    clock: Clock;
    newId: () => string;
    emit: Emit;
  },
): Express {
  const { xmla, api, login, permissions, engines, cache, metrics, newId, emit } = dependencies;
  const probe = shareFor(READINESS_HOLDS, dependencies.clock, async () => ({
    ...(await engines.states()),
    storage: { driver: api.driver, state: (await api.reachable()) ? 'up' : 'down' },
  }));
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');

  // These two look at the head by themselves, since they tell errors in their own shape.
  app.use((request, response, next) => {
    if (!xmla.handle(request, response)) next();
  });
  app.use('/api', api.router);
  app.use((request, _response, next) => {
    next(unclearHead(request));
  });

  const reads = onlyMethods('GET', 'HEAD');
  /** Lets only known users through, unless the page is open. */
  const loginFor = (page: OpenPage): RequestHandler => {
    const open = listen.open.includes(page);
    return async (request, _response, next) => {
      if (!open) await login(request);
      next();
    };
  };
  // The process answers. It says nothing else, since it is open to all.
  app.use('/health/live', reads, (_request, response) => {
    response.set('cache-control', 'no-store').json({ status: 'up' });
  });
  // Whether queries can be answered. Without its engine a gateway is of no use; without Redis or storage queries go on.
  app.use('/health/ready', reads, loginFor('health'), async (_request, response) => {
    const { ready, replicas, storage } = await probe();
    const status = ready ? 'ready' : 'not ready';
    response.status(ready ? 200 : 503).set('cache-control', 'no-store');
    response.json({ status, engines: replicas, redis: cache.redis(), storage });
  });
  app.use('/metrics', reads, loginFor('metrics'), metricsPage(metrics));
  app.use('/openapi.json', reads, loginFor('docs'), openApiPage());
  app.use('/docs', reads, loginFor('docs'), docsPages());

  const explain = { login, permissions, explain: xmla.explain, maxBody: limits.body };
  app.all('/admin/explain', onlyMethods('POST'), createExplainHandler(explain));
  const { purgeLog } = cache;
  app.all('/admin/purges', reads, createPurgesHandler({ login, permissions, purgeLog }));
  app.use((request) => {
    throw new GatewayError('not-found', `Nothing is served under ${request.path}.`);
  });
  app.use(errorMapper(newId, emit));
  return app;
}

/** Allows only some methods on a path (HEAD goes with GET). */
export function onlyMethods(...methods: string[]): RequestHandler {
  return (request, _response, next) => {
    if (methods.includes(request.method)) return next();
    throw new GatewayError('method-not-allowed', `Allowed here: ${methods.join(', ')}.`, {
      headers: { allow: methods.join(', ') },
    });
  };
}

/** The one place where errors of Express routes become answers. */
export function errorMapper(newId: () => string, emit: Emit): ErrorRequestHandler {
  return (error, _request, response, next) => {
    if (response.headersSent) return next(error);
    const id = newId();
    sendError(response, asAnsweredError(error, id, emit), 'json', id);
  };
}
