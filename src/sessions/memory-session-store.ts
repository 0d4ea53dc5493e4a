import { LRUCache } from 'lru-cache';
import type { Clock } from '../clock.ts';
import type { SessionRecord, SessionStore } from './session-store.ts';

/** Of more sessions than this the ones that were not asked for longest are forgotten, and so unknown. */
const MAX_SESSIONS = 100_000;

interface Kept {
  readonly record: SessionRecord;
  /** The era in which it was begun; in a later one it counts as dirty. */
  readonly era: number;
  /** When it was last asked for, by the clock that never steps back. */
  readonly asked: number;
}

/** Sessions of a gateway that is alone: nobody else holds what was, so nobody waits for a lease. */
export function createMemorySessionStore(options: {
  clock: Clock;
  /** Milliseconds after which a record that nobody asked for is dropped. */
  life: number;
}): SessionStore {
  const { clock, life } = options;
  const sessions = new LRUCache<string, Kept>({
    // With `max` it would take the memory for all of them at once.
    maxSize: MAX_SESSIONS,
    sizeCalculation: () => 1,
  });
  let era = 0;

  /** The record as it counts now. */
  function look(name: string): SessionRecord | undefined {
    const kept = sessions.get(name);
    if (kept === undefined) return undefined;
    if (clock.now() - kept.asked >= life) {
      sessions.delete(name);
      return undefined;
    }
    return { ...kept.record, dirty: kept.record.dirty || kept.era !== era };
  }

  /** Keeps what {@link look} has shown, changed: the mark of an era that is over is in it by now. */
  function keep(name: string, record: SessionRecord): SessionRecord {
    sessions.set(name, { record, era, asked: clock.now() });
    return record;
  }

  return {
    async read(name) {
      const record = look(name);
      return { record: record && keep(name, record) };
    },
    async begin(name, record) {
      const dirty = record.dirty || look(name)?.dirty === true;
      return keep(name, { ...record, dirty });
    },
    async markDirty(name, version) {
      const record = look(name);
      if (record === undefined || record.dirty) return { record, lease: 0 };
      return { record: keep(name, { ...record, dirty: true, version }), lease: 0 };
    },
    async markAllDirty() {
      era += 1;
      return 0;
    },
    async setCatalog(name, expected, next) {
      const record = look(name);
      if (record === undefined || record.dirty) return { record, lease: 0 };
      if (record.version === expected) {
        return { record: keep(name, { ...record, ...next }), lease: 0 };
      }
      if (record.catalog === next.catalog && record.profile === next.profile) {
        return { record, lease: 0 };
      }
      const { version } = next;
      return { record: keep(name, { ...record, dirty: true, version }), lease: 0 };
    },
    async touch(name, forwardedAt) {
      const record = look(name);
      if (record !== undefined) keep(name, { ...record, forwardedAt });
    },
    async end(name) {
      sessions.delete(name);
    },
    async close() {},
  };
}
