import type { RequestListener } from 'node:http';
import { createApp, type Readiness } from '../app.ts';
import type { Config } from '../config/config.ts';
import {
  createExplainHandler,
  createPurgesHandler,
  shareFor,
  type ExplainXmla,
} from '../http/admin.ts';
import { createApiBackend, type ApiBackend } from './api-backend.ts';
import type { Cache } from './cache.ts';
import type { Engines, EngineStates } from './engines.ts';

type ApiGround = Parameters<typeof createApiBackend>[1];
type AppParts = Parameters<typeof createApp>[0];

/** What Express serves: everything, though XMLA comes here only where the hot path is switched off. */
export interface Pages {
  readonly handle: RequestListener;
  /** Closes what it made. */
  close(): void;
}

/** Engines and storage are asked at most so often (ms), however often /health/ready is. */
const READINESS_HOLDS = 1_000;

/** Loaded with the first request that it is to answer, since Express takes as long as half of a start. */
export function createPages(
  config: Config,
  ground: ApiGround &
    Pick<AppParts, 'xmlaRoutes' | 'metrics' | 'newId'> & {
      readonly explain: ExplainXmla;
      readonly engines: Engines;
      readonly cache: Cache;
    },
): Pages {
  const { login, permissions, cache, engines, parts } = ground;
  const api = createApiBackend(config, ground);
  const probe = shareFor(READINESS_HOLDS, parts.clock, async () => ({
    states: await engines.states(),
    isStorageUp: await api.reachable(),
  }));
  const app = createApp({
    xmlaRoutes: ground.xmlaRoutes,
    api: api.router,
    explain: createExplainHandler({
      login,
      permissions,
      explain: ground.explain,
      maxBody: config.limits.body,
    }),
    purges: createPurgesHandler({ login, permissions, purgeLog: cache.purgeLog }),
    login,
    open: config.listen.open,
    ready: async () => readiness(await probe(), cache, api.driver),
    metrics: ground.metrics,
    newId: ground.newId,
    emit: parts.emit,
  });
  return { handle: app, close: api.close };
}

/** Without its engine a gateway is of no use; without Redis or storage its queries go on. */
function readiness(
  { states, isStorageUp }: { readonly states: EngineStates; readonly isStorageUp: boolean },
  cache: Cache,
  driver: ApiBackend['driver'],
): Readiness {
  return {
    ready: states.ready,
    parts: {
      engines: states.replicas,
      redis: {
        state: cache.redisState(),
        why: cache.redisWhy(),
        mode: cache.redisMode,
        purges_owed: cache.owed().length,
        conditions: cache.redisConditions(),
      },
      storage: { driver, state: isStorageUp ? 'up' : 'down' },
    },
  };
}
