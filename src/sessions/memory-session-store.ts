import type { Clock } from '../clock.ts';
import type { SessionStore } from './session-store.ts';
import { createSessionTable } from './session-table.ts';

/** Sessions of a gateway that is alone: nobody else holds what was, so nobody waits for a lease. */
export function createMemorySessionStore(options: {
  clock: Clock;
  /** Milliseconds after which a record that nobody asked for is dropped. */
  life: number;
}): SessionStore {
  const table = createSessionTable(options);
  return {
    read: async (name) => ({ record: table.read(name) }),
    begin: async (name, record) => table.begin(name, record),
    markDirty: async (name, version) => ({ record: table.markDirty(name, version), lease: 0 }),
    async markAllDirty() {
      table.markAllDirty();
      return 0;
    },
    setCatalog: async (...change) => ({ record: table.setCatalog(...change), lease: 0 }),
    touch: async (...note) => table.touch(...note),
    end: async (name) => table.end(name),
    async close() {},
  };
}
