import type { SessionStore } from '../sessions/session-store.ts';
import { READ_DEADLINE, WRITE_DEADLINE } from './deadlines.ts';
import type { Link } from './link.ts';
import { readNumber, readReceipt } from './reading.ts';

/** Sessions that the primary process keeps for all workers. */
export function createWorkerSessionStore(options: {
  /** To the primary process. */
  link: Link;
  /** Names who holds what it read. Random, and new with every store. */
  holder: string;
  /** Milliseconds for which this worker uses what it reads. */
  lease: number;
  newToken: () => string;
}): SessionStore {
  const { link, holder, lease, newToken } = options;
  const call = (method: string, args: readonly unknown[], within = WRITE_DEADLINE) =>
    link.call('sessions', method, [{ holder, lease }, ...args], within);
  return {
    async read(name) {
      const { record } = readReceipt(await call('read', [name], READ_DEADLINE));
      return { record };
    },
    async begin(name, given) {
      const claim = newToken();
      await call('claim', [name, claim]);
      const { record } = readReceipt(await call('begin', [name, claim, given]));
      if (record === undefined) throw new Error('the session that was begun is not there');
      return record;
    },
    markDirty: async (...change) => readReceipt(await call('markDirty', change)),
    markAllDirty: async () => readNumber(await call('markAllDirty', [])),
    setCatalog: async (...change) => readReceipt(await call('setCatalog', change)),
    async touch(...note) {
      await call('touch', note);
    },
    async end(name) {
      await call('end', [name]);
    },
    async close() {},
  };
}
