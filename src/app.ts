import express, { type ErrorRequestHandler, type Express, type RequestHandler } from 'express';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { OpenPage } from './config/config.ts';
import { GatewayError } from './errors.ts';
import type { Emit } from './events.ts';
import { asAnsweredError, sendError } from './http/answers.ts';
import { docsPages, openApiPage } from './http/docs-page.ts';
import type { Login } from './http/login.ts';
import { unclearHead } from './http/request-checks.ts';
import { metricsPage, type Metrics } from './observability/metrics.ts';

export interface Readiness {
  readonly ready: boolean;
  /** What depends on others, each with its state. */
  readonly parts: Readonly<Record<string, unknown>>;
}

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
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');

  // These two look at the head by themselves, since they tell errors in their own shape.
  app.use((request, response, next) => {
    if (!parts.xmlaRoutes(request, response)) next();
  });
  app.use('/api', parts.api);
  app.use((request, _response, next) => {
    next(unclearHead(request));
  });

  const reads = onlyMethods('GET', 'HEAD');
  /** Lets only known users through, unless the page is open. */
  const loginFor = (page: OpenPage): RequestHandler => {
    const open = parts.open.includes(page);
    return async (request, _response, next) => {
      if (!open) await parts.login(request);
      next();
    };
  };
  app.use('/health/live', reads, liveness);
  app.use('/health/ready', reads, loginFor('health'), readiness(parts.ready));
  app.use('/metrics', reads, loginFor('metrics'), metricsPage(parts.metrics));
  app.use('/openapi.json', reads, loginFor('docs'), openApiPage());
  app.use('/docs', reads, loginFor('docs'), docsPages());

  app.all('/admin/explain', onlyMethods('POST'), parts.explain);
  app.all('/admin/purges', reads, parts.purges);
  app.use((request) => {
    throw new GatewayError('not-found', `Nothing is served under ${request.path}.`);
  });
  app.use(errorMapper(parts.newId, parts.emit));
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

/** `GET /health/live`: the process answers. Says nothing else, since it is open to all. */
const liveness: RequestHandler = (_request, response) => {
  response.set('cache-control', 'no-store').json({ status: 'up' });
};

/** `GET /health/ready`: whether queries can be answered; 503 when they cannot. */
function readiness(check: () => Promise<Readiness>): RequestHandler {
  return async (_request, response) => {
    const { ready, parts } = await check();
    response
      .status(ready ? 200 : 503)
      .set('cache-control', 'no-store')
      .json({ status: ready ? 'ready' : 'not ready', ...parts });
  };
}
