import { LEASE_MARGIN } from '../../src/common/leases.ts';
import {
  SESSION_LIFE,
  type FreshnessStore,
  type SessionCall,
  type SessionData,
  type SessionReply,
} from '../../src/freshness/freshness-store.ts';
import { pick, type Random } from './random.ts';

/** A hash, as the script of the sessions writes it. */
interface Session {
  token?: string | undefined;
  version?: string | undefined;
  era?: string | undefined;
  incarnation?: string | undefined;
  data?: SessionData | undefined;
  at?: number | undefined;
  settles?: number | undefined;
  readonly held: Map<string, { readonly over: number; readonly length: number }>;
  /** When the key is gone (ms). */
  over: number;
}

/** What stands in Redis, and in a snapshot of it. */
interface State {
  incarnation: string | undefined;
  /** Ends of notes (ms) by caller and length. */
  leases: Map<string, { caller: string; length: number; over: number; isAgain: boolean }>;
  isComplete: boolean;
  readonly tokens: Map<string, string>;
  readonly sessions: Map<string, Session>;
}

const empty = (): State => ({
  incarnation: undefined,
  leases: new Map(),
  isComplete: false,
  tokens: new Map(),
  sessions: new Map(),
});

/** For how long a claim stands, and the notes of holders after an end (ms). */
const BRIEF = 60_000;

/** What an end leaves of a session: who may use it. */
const ENDED: Partial<Session> = {
  ...{ incarnation: undefined, token: undefined, version: undefined, era: undefined },
  ...{ data: undefined, at: undefined, settles: undefined },
};

type Store = Pick<FreshnessStore, 'read' | 'renew' | 'incarnation' | 'session'>;
/** Who asks, with the lease of what it reads now. */
interface Caller {
  readonly id: string;
  readonly lease: () => number;
}

/**
 * The scripts of the product (`src/redis/redis-freshness.ts`) as they act on one server, in simulated time. Held to the
 * contracts of the stores, like the scripts.
 * @param options.longestLease the longest lease that any gateway may have (ms)
 */
export function createRedisModel(options: {
  now: () => number;
  newToken: () => string;
  longestLease: number;
}) {
  const { now, newToken, longestLease } = options;
  const keySecret = newToken();
  let replid = newToken();
  let state = empty();
  let saved = empty();

  /** What both scripts begin with. @returns the longest lease in use, and that of all but the caller (ms) */
  function enter(caller: string, lease: number) {
    if (state.incarnation !== replid) {
      state.tokens.set('everything', newToken());
      state.isComplete = false;
    }
    const { leases } = state;
    if (!state.isComplete) {
      const over = now() + longestLease;
      leases.set('lost', { caller: '', length: longestLease, over, isAgain: false });
      state.isComplete = true;
    }
    state.incarnation = replid;
    for (const [key, note] of leases) {
      if (note.over > now()) continue;
      leases.delete(key);
      // What ends is noted once more, for one lease.
      const again = { ...note, over: now() + note.length, isAgain: true };
      if (!note.isAgain) leases.set(`${key} again`, again);
    }
    const over = now() + lease * 10;
    leases.set(`${caller} ${lease}`, { caller, length: lease, over, isAgain: false });
    const longest = (but?: string) =>
      Math.max(
        0,
        ...[...leases.values()].filter((one) => one.caller !== but).map(({ length }) => length),
      );
    return { longest: longest(), others: longest(caller) };
  }

  function tokenOf(scope: string): string {
    const token = state.tokens.get(scope) ?? newToken();
    state.tokens.set(scope, token);
    return token;
  }

  function sessionOf(name: string): Session {
    const found = state.sessions.get(name);
    if (found !== undefined && found.over > now()) return found;
    return { held: new Map(), over: Infinity };
  }

  function askSession(
    name: string,
    call: SessionCall,
    caller: string,
    lease: number,
  ): SessionReply {
    const { longest, others } = enter(caller, lease);
    const era = tokenOf('sessions');
    const session = sessionOf(name);
    const isNoted = () => session.incarnation === replid && session.version !== undefined;
    const isKnown = () => isNoted() && session.data !== undefined;
    const isStale = () => session.version !== session.token || session.era !== era;
    const note = (fields: Partial<Session>, life?: number) => {
      Object.assign(session, fields);
      if (life !== undefined) session.over = now() + life;
      state.sessions.set(name, session);
    };

    function leaseOfOthers(): number {
      if (!isKnown()) return others;
      for (const [id, { over }] of session.held) if (over <= now()) session.held.delete(id);
      const held = [...session.held].filter(([id]) => id !== caller);
      return Math.max(0, ...held.map(([, { length }]) => length));
    }

    function answer(toWait: number): SessionReply {
      const told = { lease: toWait, incarnation: `${replid} ${era}` };
      const { data, version, at } = session;
      if (!isKnown() || data === undefined || version === undefined) return told;
      const dirty = isStale();
      if (call.do !== 'peek') {
        note({}, SESSION_LIFE);
        if (!dirty) session.held.set(caller, { over: now() + lease * 10, length: lease });
      }
      const settles = Math.min((session.settles ?? now()) - now(), longest * LEASE_MARGIN);
      const record = { ...data, forwardedAt: at ?? 0, dirty, version };
      return { ...told, record, ...(settles > 0 && { settles }) };
    }

    switch (call.do) {
      case 'read':
        if (isNoted() && session.data === undefined) note({ version: undefined });
        return answer(0);
      case 'peek':
        return answer(0);
      case 'claim': {
        const { token: version } = call;
        const token = isNoted() && isStale() ? newToken() : version;
        const fields = { incarnation: replid, era, version, token };
        note({ ...fields, data: undefined, settles: undefined }, BRIEF);
        return answer(0);
      }
      case 'put':
        if (call.dirty) {
          note({ incarnation: replid, era, version: call.token, token: newToken() });
        } else if (!isNoted() || session.version !== call.token) {
          throw new Error('ERR the claim on the session is gone');
        }
        note({ data: call.data, at: call.data.forwardedAt });
        return answer(0);
      case 'renew':
        if (isNoted()) note({ token: call.token });
        return answer(leaseOfOthers());
      case 'take':
        if (isKnown() && !isStale()) {
          const { token, data } = call;
          if (session.version === call.expected) {
            const settles = now() + leaseOfOthers() * LEASE_MARGIN;
            note({ data, version: token, token, settles });
          } else if (textOf(session.data) !== textOf(data)) note({ token });
        }
        return answer(leaseOfOthers());
      case 'touch':
        if (isKnown()) note({ at: call.at });
        return { lease: 0 };
      case 'end':
        if (state.sessions.has(name)) note(ENDED, BRIEF);
        return answer(0);
    }
  }

  function askTokens(scopes: readonly string[], { id, lease }: Caller, renews: boolean) {
    const { longest, others } = enter(id, lease());
    const isProject = (scope: string) => scope.startsWith('project:');
    const present = scopes.filter((scope) => !isProject(scope) || state.tokens.has(scope));
    if (renews) for (const scope of present) state.tokens.set(scope, newToken());
    const known = present.some(isProject);
    return { lease: longest, others, known: renews && known, incarnation: replid };
  }

  return {
    /** As one gateway asks it. */
    of(caller: Caller): Store {
      return {
        async read(scopes) {
          askTokens(scopes, caller, false);
          return { tokens: scopes.map(tokenOf), keySecret };
        },
        renew: async (scopes) => askTokens(scopes, caller, true),
        incarnation: async () => askTokens([], caller, false).incarnation,
        session: async (name, call) => askSession(name, call, caller.id, caller.lease()),
      };
    },
    /** Notes what `restart` may bring back. */
    save: () => void (saved = structuredClone(state)),
    /** Another incarnation, with nothing or with what was saved last. */
    restart(comesBack: 'empty' | 'as it was saved'): void {
      state = comesBack === 'empty' ? empty() : structuredClone(saved);
      replid = newToken();
    },
    /** Has no room for one of its keys any more. */
    evict(random: Random): void {
      const sessions = [...state.sessions.keys()].map(
        (name) => () => void state.sessions.delete(name),
      );
      const tokens = [...state.tokens.keys()].map((scope) => () => void state.tokens.delete(scope));
      const others = [
        () => void (state.incarnation = undefined),
        () => Object.assign(state, { leases: new Map(), isComplete: false }),
      ];
      pick(random, random(4) > 0 && sessions.length > 0 ? sessions : [...tokens, ...others])();
    },
  };
}

/** Equal ones are equal bytes for the script. */
const textOf = (data: SessionData | undefined) =>
  data && JSON.stringify([data.principal, data.replica, data.spelling, data.catalog, data.profile]);
