import { createSweep } from '../cache/purge/sweep.ts';
import { createSharedEntries } from '../cache/shared-entries.ts';
import { createSharedFlights } from '../cache/shared-flights.ts';
import type { BodyAccount } from '../common/body-account.ts';
import { pause } from '../common/clock.ts';
import { readPemFiles } from '../common/pem-files.ts';
import { createSealer, NO_SEALER } from '../common/sealing.ts';
import type { Config } from '../config/config.ts';
import { LEASE_LIMITS } from '../common/leases.ts';
import { createRedisCache } from '../redis/redis-cache.ts';
import { watchRedisConditions } from '../redis/redis-conditions.ts';
import { connectRedis } from '../redis/redis-connections.ts';
import { createRedisFreshness } from '../redis/redis-freshness.ts';
import { createRedisHealth } from '../redis/redis-health.ts';
import type { Parts } from './parts.ts';

export type CacheGround = Parts & {
  readonly account: BodyAccount;
  readonly newToken: () => string;
} & Readonly<Record<Limit, () => number>>;
type Limit = 'maxEntry' | 'lease' | 'unusedAfter' | 'longestFlight' | 'staleIfError';

/** Longest wait of a start for Redis. */
const START_WAIT_MS = 2_000;

export async function inRedis(redis: Config['cache']['redis'], ground: CacheGround) {
  const { emit } = ground;
  const { namespace, encryption_key: encryptionKey } = redis;
  const sealer = encryptionKey === undefined ? NO_SEALER : createSealer(encryptionKey);
  const onError = (error: unknown) => emit({ type: 'redis-failed', operation: 'connect', error });
  const tls = readPemFiles(redis);
  const target = { ...redis, tls };
  const connections = connectRedis(target, (error, partial) => {
    onError(error);
    health.failed(error, partial);
  });
  const health = createRedisHealth({
    isConnected: connections.ready,
    probe: () => freshness.probe(),
    sleep: (milliseconds) => pause(ground.clock, milliseconds),
    onChange: (trouble) =>
      emit({ type: 'redis-state', ...(trouble ? { state: 'down', ...trouble } : { state: 'up' }) }),
  });
  const common = { ...ground, run: health.run, connections, namespace, sealer };
  const conditions = watchRedisConditions({
    ...common,
    target,
    onProblem: (message) => emit({ type: 'warning', message }),
  });
  const freshness = createRedisFreshness({
    ...common,
    longestLease: LEASE_LIMITS.longest,
    onError,
  });
  const { values, locks, sweepStore, ...shared } = createRedisCache(common);
  const sweep = createSweep({ ...common, store: sweepStore, fleet: shared.fleet });
  await connections.settled(START_WAIT_MS);
  return {
    freshness,
    ...shared,
    entries: createSharedEntries(values, sealer, common),
    sharedFlights: createSharedFlights({ ...common, locks }),
    sweep,
    /** Renews them for connections to come. @throws where a file cannot be read */
    renewCertificates: () => void Object.assign(tls, readPemFiles(redis)),
    state: health.state,
    why: () => health.trouble()?.why,
    whyFailed: (error: unknown) => health.causeOf(error).why,
    conditions: conditions.list,
    async close() {
      await sweep.close();
      conditions.close();
      health.close();
      await connections.close();
    },
  };
}
