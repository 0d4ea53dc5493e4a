import type { RequestHandler } from 'express';

export interface Readiness {
  readonly ready: boolean;
  /** What depends on others, each with its state. */
  readonly parts: Readonly<Record<string, unknown>>;
}

/** `GET /health/live`: the process answers. Says nothing else, since it is open to all. */
export function liveness(): RequestHandler {
  return (_request, response) => {
    response.set('cache-control', 'no-store').json({ status: 'up' });
  };
}

/** `GET /health/ready`: whether queries can be answered; 503 when they cannot. */
export function readiness(check: () => Promise<Readiness>): RequestHandler {
  return async (_request, response) => {
    const { ready, parts } = await check();
    response
      .status(ready ? 200 : 503)
      .set('cache-control', 'no-store')
      .json({ status: ready ? 'ready' : 'not ready', ...parts });
  };
}
