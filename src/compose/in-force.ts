import type { EngineClearing, Purges } from '../cache/purge/purge.ts';
import type { BodyAccount } from '../common/body-account.ts';
import type { Config } from '../config/config.ts';
import { describeConfig } from '../config/describe-config.ts';
import type { createGatewayServer } from '../http/server.ts';
import type { Storage } from '../storage/sql-storage.ts';
import { atPrimary } from '../workers/shared.ts';
import type { Cache } from './cache.ts';
import { endOfCertificate } from './config-warnings.ts';
import type { Parts } from './parts.ts';
import type { Runtime } from './runtime.ts';

export type InForce = ReturnType<typeof createInForce>;

export function createInForce(initial: Config) {
  let runtime: Runtime | undefined;
  return {
    config: initial,
    waiting: [] as readonly string[],
    reloaded: true,
    certificateEnd: endOfCertificate(initial.listen),
    get runtime(): Runtime {
      if (runtime === undefined) throw new Error('no configuration is in force yet');
      return runtime;
    },
    set runtime(next: Runtime) {
      runtime = next;
    },
  };
}

/** Tells what is in force. Of several workers the primary process knows it. */
export const aboutInForce = (inForce: InForce, { primary }: Pick<Parts, 'primary'>) => ({
  certificateEnd: () => inForce.certificateEnd,
  inForce: atPrimary(primary, 'inForce', async () => {
    const { waiting, reloaded } = inForce;
    return { waiting, reloaded, workers: 1 };
  }),
  // Each worker has a part of what the file allows.
  configuration: atPrimary(primary, 'configuration', async () => describeConfig(inForce.config)),
});

export const clearingOf = (inForce: InForce): EngineClearing => ({
  clear: (...order) => inForce.runtime.clearEngines(...order),
  asksAsCaller: () => inForce.runtime.engines.clearAsCaller,
});

/** Purges again after a reload: it brought engines that must clear their caches too. */
export const acrossReloads = (purges: Purges, inForce: InForce): Purges => ({
  async purge(...order) {
    for (;;) {
      const before = inForce.runtime;
      const outcome = await purges.purge(...order);
      if (inForce.runtime === before) return outcome;
    }
  },
  renew: purges.renew,
});

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
    enginesAway: () => inForce.runtime.enginesAway(),
    states: {
      // Of several workers the primary process knows these.
      engines: () => (primary === undefined ? inForce.runtime.engineStates.follow() : []),
      ...(primary === undefined && { reloaded: () => inForce.reloaded }),
      redisUp: () => {
        const { state } = cache.redis();
        return state === 'off' ? undefined : state === 'up';
      },
      // State of the reading before: a storage that hangs must not keep the metrics.
      storageUp: async () => {
        void storage?.reachable().then((up) => (storageUp = up));
        return storageUp;
      },
    },
    certificateEnd: () => inForce.certificateEnd,
  };
}
