import type { Clock } from '../common/clock.ts';
import { LEASE_MARGIN } from '../common/leases.ts';
import { createOwnedTable } from '../common/owned-table.ts';
import { ownerOf } from '../common/principal.ts';
import {
  SESSION_LIFE,
  type FreshnessStore,
  type Scope,
  type SessionCall,
  type SessionData,
  type SessionReply,
} from './freshness-store.ts';

/** Tokens of more projects are forgotten, the least used first, which purges them. */
const MAX_PROJECTS = 100_000;
/** More, or a quarter by one user: the least used are forgotten. */
const MAX_SESSIONS = 100_000;

/** Asking gateway or worker; it uses what it reads for `lease` ms. */
export type Holder = Readonly<{ id: string; lease: number }>;
const ALONE: Holder = { id: '', lease: 0 };

type LeaseNotes = ReturnType<typeof createLeaseNotes>;
export function createLeaseNotes(clock: Pick<Clock, 'now'>) {
  const notes = new Map<string, { holder: string; lease: number; over: number }>();

  function sweep(): void {
    const now = clock.now();
    for (const [key, { over }] of notes) if (over <= now) notes.delete(key);
  }
  return {
    /** @param kept life of the note (ms), so that a late change finds it */
    note(holder: string, lease: number, kept = lease * 10): void {
      sweep();
      // What a holder read before a change of its lease, it may use for the longer one.
      notes.set(`${lease} ${holder}`, { holder, lease, over: clock.now() + kept });
    },
    longest(but?: string): number {
      sweep();
      const others = notes.values().filter(({ holder }) => holder !== but);
      return others.reduce((longest, { lease }) => Math.max(longest, lease), 0);
    },
  };
}

/** Outlasts the record, since others may use what they read. */
interface Session {
  version: string | undefined;
  readonly era: string;
  renewed: boolean;
  /** Undefined until `put`. */
  data: SessionData | undefined;
  readonly holders: LeaseNotes;
  /** When no other uses what was before its catalog. */
  settles: number;
  asked: number;
}

/** Owner of claims; no user has this name. */
const NO_USER = ':';

/** Store of one process, or of its holders, each of which names itself in every call. */
export function createMemoryStore(options: {
  newToken: () => string;
  clock: Pick<Clock, 'now' | 'wall'>;
  orphanLease?: number;
}) {
  const { newToken, clock, orphanLease = 0 } = options;
  const incarnation = newToken();
  const keySecret = newToken();
  const tokens = createOwnedTable<string>(MAX_PROJECTS);
  const leases = createLeaseNotes(clock);
  if (orphanLease > 0) leases.note('', orphanLease, orphanLease);

  function tokenOf(scope: string): string {
    const token = tokens.get(scope) ?? newToken();
    tokens.set(scope, '', token);
    return token;
  }

  const session = createSessionTable(clock, incarnation, leases, () => tokenOf('sessions'));

  return {
    incarnation: async () => incarnation,
    async read(scopes, { id, lease } = ALONE) {
      leases.note(id, lease);
      return { tokens: scopes.map(tokenOf), keySecret };
    },
    async renew(scopes, holder = ALONE) {
      leases.note(holder.id, holder.lease);
      // In this turn: later reads get the new ones.
      const present = scopes.filter((scope) => !isProject(scope) || tokens.get(scope));
      for (const scope of present) tokens.set(scope, '', newToken());
      const [lease, others] = [leases.longest(), leases.longest(holder.id)];
      return { lease, others, known: present.some(isProject), incarnation };
    },
    session,
    async announce() {},
    listen() {},
  } satisfies FreshnessStore;
}

/** `eraNow`: token of all sessions. */
function createSessionTable(
  clock: Pick<Clock, 'now'>,
  incarnation: string,
  leases: LeaseNotes,
  eraNow: () => string,
) {
  const sessions = createOwnedTable<Session>(MAX_SESSIONS);
  const isDirty = ({ version, era, renewed }: Session): boolean =>
    version !== undefined && (renewed || era !== eraNow());

  function sessionOf(name: string): Session | undefined {
    const session = sessions.get(name);
    if (session === undefined || clock.now() - session.asked < SESSION_LIFE) return session;
    sessions.delete(name);
    return undefined;
  }

  function recordOf(session: Session | undefined) {
    if (session?.data === undefined || session.version === undefined) return undefined;
    return { ...session.data, dirty: isDirty(session), version: session.version };
  }

  function begun(version: string, before: Session | undefined): Session {
    return {
      version,
      era: eraNow(),
      renewed: before !== undefined && isDirty(before),
      data: undefined,
      holders: before?.holders ?? createLeaseNotes(clock),
      settles: 0,
      asked: clock.now(),
    };
  }

  function answer(session: Session | undefined, holder: Holder, lease = 0) {
    const record = recordOf(session);
    if (session === undefined || record === undefined) return { lease, incarnation };
    session.asked = clock.now();
    if (!record.dirty) session.holders.note(holder.id, holder.lease);
    const settles = session.settles - clock.now();
    return { record, lease, incarnation, ...(settles > 0 && { settles }) };
  }

  function leaseOfOthers(session: Session | undefined, { id }: Holder): number {
    const notes = recordOf(session) === undefined ? leases : session?.holders;
    return notes?.longest(id) ?? 0;
  }

  return async (name: string, call: SessionCall, holder = ALONE): Promise<SessionReply> => {
    leases.note(holder.id, holder.lease);
    const session = sessionOf(name);
    switch (call.do) {
      case 'peek':
        return { record: recordOf(session), lease: 0, incarnation };
      case 'read':
        if (session !== undefined && session.data === undefined) session.version = undefined;
        return answer(session, holder);
      case 'claim':
        sessions.set(name, NO_USER, begun(call.token, session));
        return { lease: 0 };
      case 'put': {
        const next = call.dirty ? begun(call.token, session) : session;
        if (next === undefined || next.version !== call.token) {
          throw new Error('the claim on the session is gone');
        }
        next.data = call.data;
        next.renewed ||= call.dirty;
        sessions.set(name, ownerOf(call.data.principal), next);
        return answer(next, holder, leaseOfOthers(next, holder));
      }
      case 'renew':
        if (session !== undefined) session.renewed = true;
        return answer(session, holder, leaseOfOthers(session, holder));
      case 'take':
        if (session?.data !== undefined && !isDirty(session)) {
          if (session.version === call.expected) {
            session.data = { ...call.data, forwardedAt: session.data.forwardedAt };
            session.version = call.token;
            session.settles = clock.now() + leaseOfOthers(session, holder) * LEASE_MARGIN;
          } else if (!isSameWork(session.data, call.data)) session.renewed = true;
        }
        return answer(session, holder, leaseOfOthers(session, holder));
      case 'touch':
        if (session?.data !== undefined) session.data = { ...session.data, forwardedAt: call.at };
        return { lease: 0 };
      case 'end':
        if (session !== undefined) {
          const { principal = NO_USER } = session.data ?? {};
          session.data = session.version = undefined;
          sessions.set(name, ownerOf(principal), session);
        }
        return { lease: 0 };
    }
  };
}

const isProject = (scope: Scope): boolean => scope.startsWith('project:');

const isSameWork = (one: SessionData, other: SessionData): boolean =>
  one.catalog === other.catalog && one.profile === other.profile;
