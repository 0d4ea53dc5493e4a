import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { FreshnessStore, Scope } from '../../../src/freshness/freshness-store.ts';
import type { ValueTier } from '../../../src/cache/shared-entries.ts';
import {
  connectRedis,
  type RedisConnections,
  type RedisTarget,
} from '../../../src/redis/redis-connections.ts';
import { createRedisFreshness } from '../../../src/redis/redis-freshness.ts';
import { createRedisCache } from '../../../src/redis/redis-cache.ts';
import type { RunAtRedis } from '../../../src/redis/redis-health.ts';
import { NO_SEALER } from '../../../src/common/sealing.ts';

/** Reads whole values unless it is told otherwise. */
interface WholeValues extends ValueTier {
  get(key: string, from?: number, count?: number): Promise<Buffer>;
}
const wholeValues = ({ get, set }: ValueTier): WholeValues => ({
  get: (key, from = 0, count = 2 ** 30) => get(key, from, count),
  set,
});

export interface House {
  /** These ask again when a deadline passed, since the machine that tests may be slow. */
  readonly store: FreshnessStore;
  /** The lease that a purge of the scopes waits for (ms). */
  renew(scopes: readonly Scope[]): Promise<number>;
  readonly tier: WholeValues;
  /** These do not. */
  readonly hasty: { readonly store: FreshnessStore; readonly tier: WholeValues };
  readonly connections: RedisConnections;
  /** What was told of failing connections. */
  readonly errors: unknown[];
  close(): Promise<void>;
}

/** Asks Redis however it fails. */
export const unguarded: RunAtRedis = (operation) => operation();

/** What one gateway has of a Redis, connected unless the Redis refuses it. */
export async function house(
  where: string | RedisTarget,
  options: {
    lease?: number;
    /** None unless given: it would hide the leases that a test speaks of. */
    longestLease?: number;
    namespace?: string;
    unusedAfter?: number;
    /** For how long to wait for connections (ms). */
    patience?: number;
  } = {},
): Promise<House> {
  const errors: unknown[] = [];
  const onError = (error: unknown) => void errors.push(error);
  const connections = connectRedis(
    typeof where === 'string' ? { url: [where], mode: 'standalone' } : where,
    onError,
  );
  await connections.settled(options.patience ?? 20_000);
  const namespace = options.namespace ?? 'test';
  const store = createRedisFreshness({
    connections,
    run: unguarded,
    namespace,
    sealer: NO_SEALER,
    lease: () => options.lease ?? 1_000,
    longestLease: options.longestLease ?? 0,
    unusedAfter: () => options.unusedAfter ?? 3_600_000,
    newToken: randomUUID,
    onError,
  });
  const { values } = createRedisCache({
    connections,
    run: unguarded,
    namespace,
    sealer: NO_SEALER,
    newToken: randomUUID,
  });
  const tier = wholeValues(values);
  const renew: FreshnessStore['renew'] = (scopes) => patiently(() => store.renew(scopes));
  return {
    store: { ...store, read: (scopes) => patiently(() => store.read(scopes)), renew },
    renew: async (scopes) => (await renew(scopes)).lease,
    tier: {
      get: (...which) => patiently(() => tier.get(...which)),
      set: (...value) => patiently(() => tier.set(...value)),
    },
    hasty: { store, tier },
    connections,
    errors,
    async close() {
      await connections.close();
    },
  };
}

async function patiently<T>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!(error as Error).message.includes('timed out')) throw error;
    }
  }
}

/** Asks again and again until the answer is fit; the test's own timeout is the limit. */
export async function until<T>(ask: () => Promise<T> | T, fit: (answer: T) => boolean): Promise<T> {
  for (;;) {
    const answer = await ask();
    if (fit(answer)) return answer;
    await delay(5);
  }
}
