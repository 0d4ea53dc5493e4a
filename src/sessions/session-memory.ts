import type { Clock } from '../clock.ts';
import { leaseHolds, type LeaseStart } from '../lease.ts';
import { createOwnedTable } from '../owned-table.ts';
import type { SessionRecord } from './session-store.ts';
import type { FoundSession } from './sessions.ts';

/**
 * Of more sessions than this, or of more than a quarter of it by one user, those that were not asked for longest are
 * read from the store again.
 */
const MAX_REMEMBERED = 100_000;
/**
 * Where nobody else changes sessions, the store is asked again so often (ms), since it drops what nobody asks it
 * for: far below `SESSION_LIFE`.
 */
const REREAD = 3_600_000;

interface Held {
  readonly record: SessionRecord;
  readonly since: LeaseStart;
  readonly era: number;
}

interface Entry {
  held: Held | undefined;
  /** What was known last, of whatever age and whether or not it may be used. */
  last: SessionRecord | undefined;
  /**
   * `marked`: this replica takes it for dirty, and maybe only this one. `settled`: no replica takes it for clean.
   * Only a store that knows a clean one of that name (another one, begun since) makes it `marked` again.
   */
  dirty: 'no' | 'marked' | 'settled';
  /** It is over, and the store could not be told. */
  ended: boolean;
}

/** Sees whether a session was changed here while the store was asked for it. */
export interface Watch {
  readonly overtaken: () => boolean;
  stop(): void;
}

/** What this replica remembers of sessions, by their names, and for how long it may use it. */
export interface SessionMemory {
  /** What may be used at this very moment; undefined when the store must be asked. */
  now(name: string): FoundSession | undefined;
  /** What can be said while the store cannot be asked: a session that was dirty still is. */
  lasting(name: string): FoundSession;
  /** A record as it counts here: what is dirty for this replica is dirty whatever the store says. */
  seen(name: string, record: SessionRecord | undefined): FoundSession;
  /** Keeps what the store said to a question sent at `since`. The caller has looked at his watch before. */
  remember(name: string, record: SessionRecord | undefined, since: LeaseStart): FoundSession;
  /** Notes what the store could not be told: it is known nowhere, but its requests go on. */
  unnoted(name: string, record: SessionRecord): void;
  watch(name: string): Watch;
  /** Nothing is known of its record, and replies to what the store was asked before are worthless. */
  forget(name: string): void;
  /** Everything that was clean is unknown. */
  forgetAll(): void;
  /** This replica takes it for dirty from now on. */
  mark(name: string): void;
  /** No replica takes the one that was marked for clean any more; does nothing where the mark is gone. */
  settle(name: string): void;
  readonly isSettled: (name: string) => boolean;
  /** Notes when a request of it was forwarded (wall clock). */
  forwarded(name: string, at: number): void;
  /** Notes that it is over, also if the store is not told. */
  end(name: string): void;
  /** The store was told that it is over: nothing of it counts any more. */
  drop(name: string): void;
  /** Another one of that name was begun. */
  revive(name: string): void;
}

export function createSessionMemory({
  clock,
  lease,
}: {
  clock: Clock;
  lease: number;
}): SessionMemory {
  const entries = createOwnedTable<Entry>(MAX_REMEMBERED);
  const watches = new Map<string, Set<{ overtaken: boolean }>>();
  let era = 0;

  /** Those of which no record is known are together one owner's. */
  function entryOf(name: string): Entry {
    const known = entries.get(name);
    if (known !== undefined) return known;
    const made: Entry = { held: undefined, last: undefined, dirty: 'no', ended: false };
    entries.set(name, '', made);
    return made;
  }

  function entryWith(name: string, record: SessionRecord): Entry {
    const entry = entryOf(name);
    if (entry.last?.principal !== record.principal) entries.set(name, record.principal, entry);
    entry.last = record;
    return entry;
  }

  function holds({ since, era: heldIn }: Held): boolean {
    if (heldIn !== era) return false;
    if (lease === Infinity) return clock.now() - since.now < REREAD;
    return leaseHolds(since, lease, clock);
  }

  function seen(name: string, record: SessionRecord | undefined): FoundSession {
    const entry = entries.get(name);
    if (record === undefined || entry?.ended === true) return { kind: 'unknown' };
    const dirty = record.dirty || (entry !== undefined && entry.dirty !== 'no');
    return { kind: 'known', record: dirty ? { ...record, dirty } : record };
  }

  function overtake(name: string): void {
    for (const watch of watches.get(name) ?? []) watch.overtaken = true;
  }

  return {
    now(name) {
      const entry = entries.get(name);
      if (entry?.ended === true) return { kind: 'unknown' };
      if (entry?.held === undefined || !holds(entry.held)) return undefined;
      return seen(name, entry.held.record);
    },
    lasting(name) {
      const entry = entries.get(name);
      if (entry?.ended === true) return { kind: 'unknown' };
      if (entry?.held === undefined || entry.dirty === 'no') {
        return { kind: 'unavailable', last: entry?.last };
      }
      return seen(name, entry.held.record);
    },
    seen,
    remember(name, record, since) {
      if (record === undefined) {
        const entry = entries.get(name);
        if (entry !== undefined) [entry.held, entry.last] = [undefined, undefined];
        return { kind: 'unknown' };
      }
      const entry = entryWith(name, record);
      if (record.dirty && entry.dirty === 'no') entry.dirty = 'marked';
      if (!record.dirty && entry.dirty === 'settled') entry.dirty = 'marked';
      entry.held = { record, since, era };
      return seen(name, record);
    },
    unnoted(name, record) {
      entryWith(name, record);
    },
    watch(name) {
      const begunIn = era;
      const watch = { overtaken: false };
      const others = watches.get(name) ?? new Set();
      watches.set(name, others.add(watch));
      return {
        overtaken: () => watch.overtaken || begunIn !== era,
        stop() {
          others.delete(watch);
          if (others.size === 0 && watches.get(name) === others) watches.delete(name);
        },
      };
    },
    forget(name) {
      overtake(name);
      const entry = entries.get(name);
      if (entry !== undefined) entry.held = undefined;
    },
    forgetAll() {
      era += 1;
    },
    mark(name) {
      overtake(name);
      const entry = entryOf(name);
      if (entry.dirty === 'no') entry.dirty = 'marked';
    },
    settle(name) {
      const entry = entries.get(name);
      if (entry?.dirty === 'marked') entry.dirty = 'settled';
    },
    isSettled: (name) => entries.get(name)?.dirty === 'settled',
    forwarded(name, at) {
      const entry = entries.get(name);
      if (entry?.held === undefined) return;
      entry.held = { ...entry.held, record: { ...entry.held.record, forwardedAt: at } };
    },
    end(name) {
      overtake(name);
      const entry = entryOf(name);
      entry.held = undefined;
      entry.ended = true;
    },
    drop(name) {
      overtake(name);
      entries.delete(name);
    },
    revive(name) {
      const entry = entries.get(name);
      if (entry !== undefined) entry.ended = false;
    },
  };
}
