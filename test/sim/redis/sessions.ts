import { LEASE_MARGIN } from '../../../src/common/leases.ts';
import {
  SESSION_LIFE,
  type SessionCall,
  type SessionData,
  type SessionReply,
} from '../../../src/freshness/freshness-store.ts';
import type { Caller, Server, Session } from './state.ts';

/** For how long a claim stands, and the notes of holders after an end (ms). */
const BRIEF = 60_000;

/** What an end leaves of a session: who may use it. */
const ENDED: Partial<Session> = {
  ...{ incarnation: undefined, token: undefined, version: undefined, era: undefined },
  ...{ data: undefined, at: undefined, settles: undefined },
};

/**
 * The script of the sessions (`src/redis/redis-freshness.ts`).
 * @param eraNow gives the token of all sessions
 */
export function createSessions(server: Server, eraNow: () => string) {
  const { now, newToken, state, replid } = server;

  function sessionOf(name: string): Session {
    const found = state().sessions.get(name);
    if (found !== undefined && found.over > now()) return found;
    return { held: new Map(), over: Infinity };
  }

  return function ask(name: string, call: SessionCall, caller: Caller): SessionReply {
    const { id, lease } = caller;
    const { longest, others } = server.enter(caller);
    const era = eraNow();
    const session = sessionOf(name);
    const isNoted = () => session.incarnation === replid() && session.version !== undefined;
    const isKnown = () => isNoted() && session.data !== undefined;
    const isStale = () => session.version !== session.token || session.era !== era;
    const note = (fields: Partial<Session>, life?: number) => {
      Object.assign(session, fields);
      if (life !== undefined) session.over = now() + life;
      state().sessions.set(name, session);
    };

    function leaseOfOthers(): number {
      if (!isKnown()) return others;
      for (const [one, { over }] of session.held) if (over <= now()) session.held.delete(one);
      const held = [...session.held].filter(([one]) => one !== id);
      return Math.max(0, ...held.map(([, { length }]) => length));
    }

    function answer(toWait: number): SessionReply {
      const told = { lease: toWait, incarnation: `${replid()} ${era}` };
      const { data, version, at } = session;
      if (!isKnown() || data === undefined || version === undefined) return told;
      const dirty = isStale();
      if (call.do !== 'peek') {
        note({}, SESSION_LIFE);
        if (!dirty) session.held.set(id, { over: now() + lease * 10, length: lease });
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
        const fields = { incarnation: replid(), era, version, token };
        note({ ...fields, data: undefined, settles: undefined }, BRIEF);
        return answer(0);
      }
      case 'put':
        if (call.dirty) {
          note({ incarnation: replid(), era, version: call.token, token: newToken() });
        } else if (!isNoted() || session.version !== call.token) {
          throw new Error('ERR the claim on the session is gone');
        }
        note({ data: call.data, at: call.data.forwardedAt });
        return answer(leaseOfOthers());
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
        if (state().sessions.has(name)) note(ENDED, BRIEF);
        return answer(0);
    }
  };
}

/** Equal ones are equal bytes for the script. */
const textOf = (data: SessionData | undefined) =>
  data && JSON.stringify([data.principal, data.replica, data.spelling, data.catalog, data.profile]);
