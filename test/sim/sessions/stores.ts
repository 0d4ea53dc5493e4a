import { Redis } from 'ioredis';
import { NO_SEALER } from '../../../src/common/sealing.ts';
import type { FreshnessStore } from '../../../src/freshness/freshness-store.ts';
import { startRedis } from '../../support/redis-server.ts';
import type { RequestProgram } from './gateway.ts';
import type { SimulatedTime } from '../time.ts';

export type SessionStore = Pick<FreshnessStore, 'session' | 'renew'>;

/** What gateways share. */
export interface SharedStore {
  /** As one gateway asks it; it always answers. */
  of(gateway: string): SessionStore;
  /** Notes what `restart` may bring back. */
  save(): Promise<void>;
  /** It is another incarnation then, with what was saved or with nothing. */
  restart(comesBack: 'empty' | 'as it was saved'): Promise<void>;
  /** Another run begins: nothing is left of the one before. */
  clear(): Promise<void>;
  close(): Promise<void>;
}

interface Settings {
  readonly program: RequestProgram;
  readonly time: SimulatedTime;
  readonly newToken: () => string;
  /** Of every gateway (ms). */
  readonly lease: number;
}
export type OpenStore = (settings: Settings) => SharedStore;

/** In the memory of a process: to its sessions every restart is one that lost them. */
export const memoryStore: OpenStore = ({ program, time, newToken, lease }) => {
  const open = (orphanLease: number) =>
    program.memory.createMemoryStore({ newToken, clock: time.clock, orphanLease });
  let store = open(0);
  const nothing = async () => {};
  return {
    of(id) {
      const holder = { id, lease };
      return {
        session: (name, call) => store.session(name, call, holder),
        renew: (scopes) => store.renew(scopes, holder),
      };
    },
    save: nothing,
    async restart() {
      store = open(lease);
    },
    clear: nothing,
    close: nothing,
  };
};

/** The scripts of the product in a real Redis, in its own time: its notes of leases last longer than they have to. */
export async function realRedis(): Promise<{ open: OpenStore; close(): Promise<void> }> {
  const server = await startRedis({ args: ['--enable-debug-command', 'yes'] });
  const client = new Redis({ port: server.port, host: '127.0.0.1' });
  let saved: (readonly [key: string, value: Buffer])[] = [];

  async function save(): Promise<void> {
    const keys = await client.keys('*');
    const values = await Promise.all(keys.map((key) => client.dumpBuffer(key)));
    saved = keys.flatMap((key, at) => (values[at] ? [[key, values[at]] as const] : []));
  }

  return {
    open: ({ program, newToken, lease }) => ({
      of: () =>
        program.redis.createRedisFreshness({
          connections: { reader: client, epochs: client, subscriber: client },
          run: (operation) => operation(),
          namespace: 'oracle',
          sealer: NO_SEALER,
          lease: () => lease,
          longestLease: lease,
          unusedAfter: () => 3_600_000,
          newToken,
          onError: () => {},
        }),
      save,
      async restart(comesBack) {
        await client.flushall();
        if (comesBack === 'as it was saved') {
          for (const [key, value] of saved) await client.restore(key, 0, value);
        }
        await client.call('DEBUG', 'CHANGE-REPL-ID');
      },
      async clear() {
        saved = [];
        await client.flushall();
      },
      close: async () => {},
    }),
    async close() {
      client.disconnect();
      await server.close();
    },
  };
}
