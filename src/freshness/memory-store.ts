import { LRUCache } from 'lru-cache';
import type { Clock } from '../common/clock.ts';
import {
  SESSION_LIFE,
  type FreshnessStore,
  type Reading,
  type Renewed,
  type Scope,
  type SessionCall,
  type SessionData,
  type SessionRecord,
  type SessionReply,
} from './freshness-store.ts';
import { createOwnedTable } from '../common/owned-table.ts';

/** Tokens of more projects than this are forgotten, the least used first; that purges those projects. */
const MAX_PROJECTS = 100_000;
/**
 * Of more sessions than this, or of more than a quarter of it by one user, those that were not asked for longest are
 * forgotten, and so unknown.
 */
const MAX_SESSIONS = 100_000;

/** Who asks, and for how long it uses what it reads (ms). */
export interface Holder {
  readonly id: string;
  readonly lease: number;
}

/** So many leases a note of a holder counts. */
const KEPT = 10;

/** Which holders use what they read, and for how long. @param clock of the process that keeps the notes */
export function createLeaseNotes(clock: Pick<Clock, 'now'>) {
  const notes = new Map<string, { holder: string; lease: number; over: number }>();

  function sweep(): void {
    const now = clock.now();
    for (const [key, { over }] of notes) if (over <= now) notes.delete(key);
  }

  return {
    /**
     * Notes that this holder uses what it reads now for `lease` milliseconds.
     * @param kept for how long the note counts (ms); ten leases when left out, so that a change that comes late finds it
     */
    note(holder: string, lease: number, kept = lease * KEPT): void {
      sweep();
      // A holder whose lease was changed may use for the longer one what it read before.
      notes.set(`${lease} ${holder}`, { holder, lease, over: clock.now() + kept });
    },
    /** The longest lease of all holders but this one (ms); 0 where there is none. */
    longest(but?: string): number {
      sweep();
      const others = notes.values().filter(({ holder }) => holder !== but);
      return others.reduce((longest, { lease }) => Math.max(longest, lease), 0);
    },
  };
}

/** A session. It outlasts its record, since others may use what they read of that. */
interface Session {
  /** The token under which it was noted; undefined when it is over. */
  version: string | undefined;
  /** That of all sessions at that time. */
  readonly era: string;
  /** Whether its own token was renewed since. */
  renewed: boolean;
  /** Undefined until its beginning is complete. */
  data: SessionData | undefined;
  /** Who may use it as clean. */
  readonly holders: ReturnType<typeof createLeaseNotes>;
  /** When it was last asked for, by the clock that never steps back. */
  asked: number;
}

/** Tokens and sessions in the memory of one process, for itself or for several holders. */
export type MemoryStore = ReturnType<typeof createMemoryStore>;

/**
 * Holders are undefined where this process is alone: then no lease is waited for.
 *
 * @param options.orphanLease for which holders of a process that has just died may still use what they read (ms)
 */
export function createMemoryStore(options: {
  newToken: () => string;
  keySecret: string;
  clock: Clock;
  orphanLease?: number;
}) {
  const { newToken, keySecret, clock, orphanLease = 0 } = options;
  const incarnation = newToken();
  /** Those of the scopes that are not projects are asked for all the time; one that is lost is only one purge more. */
  const tokens = new LRUCache<Scope, string>({
    // With `max` it would take the memory for all of them at once.
    maxSize: MAX_PROJECTS,
    sizeCalculation: () => 1,
  });
  const sessions = createOwnedTable<Session>(MAX_SESSIONS);
  /** All who asked for anything. */
  const leases = createLeaseNotes(clock);
  if (orphanLease > 0) leases.note('', orphanLease, orphanLease);

  function tokenOf(scope: Scope): string {
    const token = tokens.get(scope) ?? newToken();
    tokens.set(scope, token);
    return token;
  }

  function isDirty({ version, era, renewed }: Session): boolean {
    return version !== undefined && (renewed || era !== tokenOf('sessions'));
  }

  function sessionOf(name: string): Session | undefined {
    const session = sessions.get(name);
    if (session === undefined || clock.now() - session.asked < SESSION_LIFE) return session;
    sessions.delete(name);
    return undefined;
  }

  function recordOf(session: Session | undefined): SessionRecord | undefined {
    if (session?.data === undefined || session.version === undefined) return undefined;
    return { ...session.data, dirty: isDirty(session), version: session.version };
  }

  /** The record as it is now, which this holder uses from now on if it is clean. */
  function answer(session: Session | undefined, holder: Holder | undefined, lease = 0) {
    const record = recordOf(session);
    if (session === undefined || record === undefined) return { lease };
    session.asked = clock.now();
    if (!record.dirty && holder !== undefined) session.holders.note(holder.id, holder.lease);
    return { record, lease };
  }

  function leaseOfOthers(session: Session | undefined, holder: Holder | undefined): number {
    const notes = recordOf(session) === undefined ? leases : session?.holders;
    return notes?.longest(holder?.id) ?? 0;
  }

  function note(holder: Holder | undefined): void {
    if (holder !== undefined) leases.note(holder.id, holder.lease);
  }

  return {
    incarnation,
    read(holder: Holder | undefined, scopes: readonly Scope[]): Reading {
      note(holder);
      return { tokens: scopes.map(tokenOf), keySecret };
    },
    renew(holder: Holder | undefined, scopes: readonly Scope[]): Renewed {
      note(holder);
      // In this turn: what is read from now on gets the new ones.
      for (const scope of scopes) tokens.set(scope, newToken());
      return { lease: leases.longest(), others: leases.longest(holder?.id), incarnation };
    },
    /** @throws Error when the claim of a beginning is gone */
    session(holder: Holder | undefined, name: string, call: SessionCall): SessionReply {
      note(holder);
      const session = sessionOf(name);
      switch (call.do) {
        case 'peek':
          return { record: recordOf(session), lease: 0 };
        case 'read':
          if (session !== undefined && session.data === undefined) session.version = undefined;
          return answer(session, holder);
        case 'claim':
          sessions.set(name, '', {
            version: call.token,
            era: tokenOf('sessions'),
            renewed: session !== undefined && isDirty(session),
            data: undefined,
            holders: session?.holders ?? createLeaseNotes(clock),
            asked: clock.now(),
          });
          return { lease: 0 };
        case 'put':
          if (session === undefined || session.version !== call.token) {
            throw new Error('the claim on the session is gone');
          }
          session.data = call.data;
          session.renewed ||= call.dirty;
          sessions.set(name, call.data.principal, session);
          return answer(session, holder);
        case 'renew':
          if (session !== undefined) session.renewed = true;
          return answer(session, holder, leaseOfOthers(session, holder));
        case 'take':
          if (session?.data !== undefined && !isDirty(session)) {
            if (session.version === call.expected) {
              session.data = { ...call.data, forwardedAt: session.data.forwardedAt };
              session.version = call.token;
            } else if (!isSameWork(session.data, call.data)) session.renewed = true;
          }
          return answer(session, holder, leaseOfOthers(session, holder));
        case 'touch':
          if (session?.data !== undefined) session.data = { ...session.data, forwardedAt: call.at };
          return { lease: 0 };
        case 'end':
          if (session !== undefined) {
            session.data = session.version = undefined;
            sessions.set(name, '', session);
          }
          return { lease: 0 };
      }
    },
  };
}

/** The store of a process that is alone. */
export function aloneStore(memory: MemoryStore): FreshnessStore {
  return {
    read: async (scopes) => memory.read(undefined, scopes),
    renew: async (scopes) => memory.renew(undefined, scopes),
    incarnation: async () => memory.incarnation,
    session: async (name, call) => memory.session(undefined, name, call),
    async announce() {},
    listen() {},
    async close() {},
  };
}

function isSameWork(one: SessionData, other: SessionData): boolean {
  return one.catalog === other.catalog && one.profile === other.profile;
}
