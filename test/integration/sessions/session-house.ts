import { randomUUID } from 'node:crypto';
import { connectRedis, type RedisConnections } from '../../../src/redis/redis-connections.ts';
import { createRedisFreshness } from '../../../src/redis/redis-freshness.ts';
import type { RunAtRedis } from '../../../src/redis/redis-health.ts';
import { NO_SEALER, type Sealer } from '../../../src/common/sealing.ts';
import type { FreshnessStore } from '../../../src/freshness/freshness-store.ts';
import { sessionCalls, type SessionCalls } from '../../support/session-calls.ts';

export interface SessionHouse {
  /** Asks again when a deadline passed, since the machine that tests may be slow. */
  readonly store: SessionCalls;
  /** The same as a gateway has it. */
  readonly patient: FreshnessStore;
  /** Does not. */
  readonly hasty: SessionCalls;
  readonly connections: RedisConnections;
  close(): Promise<void>;
}

/** What one gateway has of the sessions in a Redis. */
export async function sessionHouse(
  url: string,
  options: {
    lease?: number;
    /** None unless given: it would hide the leases that a test speaks of. */
    longestLease?: number;
    sealer?: Sealer;
    namespace?: string;
    life?: number;
    /** Through which Redis is asked; asks it however it fails unless given. */
    run?: RunAtRedis;
    /** For how long to wait for connections (ms). */
    patience?: number;
  } = {},
): Promise<SessionHouse> {
  const connections = connectRedis({ url: [url], mode: 'standalone' }, () => {});
  await connections.settled(options.patience ?? 20_000);
  const freshness = createRedisFreshness({
    connections,
    run: options.run ?? ((operation) => operation()),
    namespace: options.namespace ?? 'test',
    sealer: options.sealer ?? NO_SEALER,
    lease: () => options.lease ?? 1_000,
    longestLease: options.longestLease ?? 0,
    unusedAfter: () => 3_600_000,
    life: options.life ?? 3_600_000,
    newToken: randomUUID,
    onError: () => {},
  });
  const patient: FreshnessStore = {
    ...freshness,
    renew: (scopes) => patiently(() => freshness.renew(scopes)),
    session: (name, call) => patiently(() => freshness.session(name, call)),
  };
  return {
    hasty: sessionCalls(freshness),
    patient,
    store: sessionCalls(patient),
    connections,
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
