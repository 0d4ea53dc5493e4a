import { randomUUID } from 'node:crypto';
import { createCircuitBreaker } from '../../../src/redis/circuit-breaker.ts';
import { connectRedis, type RedisConnections } from '../../../src/redis/redis-connections.ts';
import { createRedisSessionStore } from '../../../src/redis/redis-session-store.ts';
import { NO_SEALER, type Sealer } from '../../../src/sealing.ts';
import type { SessionStore } from '../../../src/sessions/session-store.ts';

export interface SessionHouse {
  /** Asks again when a deadline passed, since the machine that tests may be slow. */
  readonly store: SessionStore;
  /** Does not. */
  readonly hasty: SessionStore;
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
    /** Failures after which the breaker opens, for good. */
    failures?: number;
    /** For how long to wait for connections (ms). */
    patience?: number;
  } = {},
): Promise<SessionHouse> {
  const connections = connectRedis({ url: [url], mode: 'standalone' }, () => {});
  await connections.settled(options.patience ?? 20_000);
  const hasty = createRedisSessionStore({
    connections,
    breaker: createCircuitBreaker({
      failures: options.failures ?? Infinity,
      pause: 0,
      probe: () => Promise.reject(new Error('away')),
      sleep: () => new Promise(() => {}),
      isSilence: () => false,
      onChange: () => {},
    }),
    namespace: options.namespace ?? 'test',
    sealer: options.sealer ?? NO_SEALER,
    replica: randomUUID(),
    lease: options.lease ?? 1_000,
    longestLease: options.longestLease ?? 0,
    life: options.life ?? 3_600_000,
    newToken: randomUUID,
  });
  return {
    hasty,
    store: {
      read: (name) => patiently(() => hasty.read(name)),
      begin: (name, record) => patiently(() => hasty.begin(name, record)),
      markDirty: (name, version) => patiently(() => hasty.markDirty(name, version)),
      markAllDirty: () => patiently(() => hasty.markAllDirty()),
      setCatalog: (name, expected, next) => patiently(() => hasty.setCatalog(name, expected, next)),
      touch: (name, at) => patiently(() => hasty.touch(name, at)),
      end: (name) => patiently(() => hasty.end(name)),
      close: () => hasty.close(),
    },
    connections,
    async close() {
      await hasty.close();
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
