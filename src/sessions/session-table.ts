import type { Clock } from '../clock.ts';
import { createOwnedTable } from '../owned-table.ts';
import type { SessionRecord } from './session-store.ts';

/**
 * Of more sessions than this, or of more than a quarter of it by one user, those that were not asked for longest are
 * forgotten, and so unknown.
 */
export const MAX_SESSIONS = 100_000;

/**
 * Sessions in the memory of one process. What each method means says `SessionStore`; here all is done in the turn of
 * the call. Undefined where there is no record.
 */
export interface SessionTable {
  read(name: string): SessionRecord | undefined;
  begin(name: string, record: SessionRecord): SessionRecord;
  markDirty(name: string, version: string): SessionRecord | undefined;
  markAllDirty(): void;
  setCatalog(
    name: string,
    expected: string,
    next: Pick<SessionRecord, 'catalog' | 'profile' | 'version'>,
  ): SessionRecord | undefined;
  touch(name: string, forwardedAt: number): void;
  end(name: string): void;
}

interface Kept {
  readonly record: SessionRecord;
  /** The era in which it was begun; in a later one it counts as dirty. */
  readonly era: number;
  /** When it was last asked for, by the clock that never steps back. */
  readonly asked: number;
}

export function createSessionTable(options: {
  clock: Clock;
  /** Milliseconds after which a record that nobody asked for is dropped. */
  life: number;
}): SessionTable {
  const { clock, life } = options;
  const sessions = createOwnedTable<Kept>(MAX_SESSIONS);
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
    sessions.set(name, record.principal, { record, era, asked: clock.now() });
    return record;
  }

  return {
    read(name) {
      const record = look(name);
      return record && keep(name, record);
    },
    begin(name, record) {
      const dirty = record.dirty || look(name)?.dirty === true;
      return keep(name, { ...record, dirty });
    },
    markDirty(name, version) {
      const record = look(name);
      if (record === undefined || record.dirty) return record;
      return keep(name, { ...record, dirty: true, version });
    },
    markAllDirty() {
      era += 1;
    },
    setCatalog(name, expected, next) {
      const record = look(name);
      if (record === undefined || record.dirty) return record;
      if (record.version === expected) return keep(name, { ...record, ...next });
      if (record.catalog === next.catalog && record.profile === next.profile) return record;
      return keep(name, { ...record, dirty: true, version: next.version });
    },
    touch(name, forwardedAt) {
      const record = look(name);
      if (record !== undefined) keep(name, { ...record, forwardedAt });
    },
    end(name) {
      sessions.delete(name);
    },
  };
}
