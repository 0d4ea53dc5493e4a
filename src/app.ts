import express, { type Express, type RequestHandler } from 'express';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { OpenPage } from './config/config.ts';
import type { Emit } from './events.ts';
import { docsPages, openApiPage } from './http/docs-page.ts';
import {
  clearHeadRequired,
  errorMapper,
  loginRequired,
  nothingHere,
  onlyMethods,
} from './http/guards.ts';
import { liveness, readiness, type Readiness } from './http/health.ts';
import type { Login } from './http/login.ts';
import { asMiddleware } from './http/xmla-routes.ts';
import { metricsPage, type Metrics } from './observability/metrics.ts';

/** The whole HTTP surface, in the order in which it is asked. */
export function createApp(parts: {
  xmlaRoutes: (request: IncomingMessage, response: ServerResponse) => boolean;
  /** Everything below /api; it checks the login by itself. */
  api: RequestHandler;
  /** `POST /admin/explain`; it checks the login by itself. */
  explain: RequestHandler;
  /** `GET /admin/purges`; it checks the login by itself. */
  purges: RequestHandler;
  login: Login;
  /** Pages that need no login. */
  open: readonly OpenPage[];
  ready: () => Promise<Readiness>;
  metrics: Metrics;
  newId: () => string;
  emit: Emit;
}): Express {
  const { login, open, newId, emit } = parts;
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');

  // These two look at the head by themselves, since they tell errors in their own shape.
  app.use(asMiddleware(parts.xmlaRoutes));
  app.use('/api', parts.api);
  app.use(clearHeadRequired());

  app.use('/health/live', onlyMethods('GET', 'HEAD'), liveness());
  app.use(
    '/health/ready',
    onlyMethods('GET', 'HEAD'),
    loginRequired(login, open.includes('health')),
    readiness(parts.ready),
  );
  app.use(
    '/metrics',
    onlyMethods('GET', 'HEAD'),
    loginRequired(login, open.includes('metrics')),
    metricsPage(parts.metrics),
  );
  app.use(
    '/openapi.json',
    onlyMethods('GET', 'HEAD'),
    loginRequired(login, open.includes('docs')),
    openApiPage(),
  );
  app.use(
    '/docs',
    onlyMethods('GET', 'HEAD'),
    loginRequired(login, open.includes('docs')),
    docsPages(),
  );

  app.all('/admin/explain', onlyMethods('POST'), parts.explain);
  app.all('/admin/purges', onlyMethods('GET', 'HEAD'), parts.purges);
  app.use(nothingHere());
  app.use(errorMapper('json', newId, emit));
  return app;
}
