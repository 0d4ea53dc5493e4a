import type { BodyAccount } from '../common/body-account.ts';
import type { createGatewayServer } from '../http/server.ts';
import type { Storage } from '../storage/sql-storage.ts';
import type { Cache } from './cache.ts';
import type { InForce } from './in-force.ts';
import type { Parts } from './parts.ts';

/** Figures of this process, as metrics and statistics read them. */
export function createReadings(parts: {
  readonly cache: Cache;
  readonly account: BodyAccount;
  readonly inForce: InForce;
  readonly server: ReturnType<typeof createGatewayServer>;
  readonly storage: Storage | undefined;
  readonly primary: Parts['primary'];
}) {
  const { cache, account, inForce, server, storage, primary } = parts;
  let storageUp: boolean | undefined;
  return {
    memory: cache.memory.usage,
    evictions: cache.memory.evictions,
    limits: () => ({ ...inForce.config.limits, memory: inForce.config.cache.memory }),
    flights: cache.flights.usage,
    engine: () => inForce.runtime.engines.usage(),
    logins: () => inForce.runtime.loginsWaiting(),
    bodies: account.usage,
    connections: server.connections,
    epochAge: cache.epochAge,
    owed: cache.owed,
    owedPurges: () => cache.owed().length,
    redisConditions: () => cache.redis().conditions,
    droppedHeaders: () => inForce.runtime.droppedHeaders(),
    timedOut: cache.queryCache.timedOut,
    states: {
      // Of several workers the primary process knows these.
      engines: () => (primary === undefined ? inForce.runtime.engineStates.follow() : []),
      ...(primary === undefined && { reloaded: () => inForce.reloaded }),
      redisUp: () => {
        const { state } = cache.redis();
        return state === 'off' ? undefined : state === 'up';
      },
      // As it was at the reading before: a storage that hangs must not keep the metrics.
      storageUp: async () => {
        void storage?.reachable().then((up) => (storageUp = up));
        return storageUp;
      },
    },
    certificateEnd: () => inForce.certificateEnd,
  };
}
