import { setTimeout as delay } from 'node:timers/promises';
import { LEASE_MARGIN } from '../common/leases.ts';
import { createOwnedTable } from '../common/owned-table.ts';
import { ownerOf } from '../common/principal.ts';
import type { FreshnessStore, SessionData, SessionReply } from './freshness-store.ts';

/** Of more sessions, or of more than a quarter of it by one user, the least used are unknown again. */
const MAX_SESSIONS = 100_000;
/** Noted at one time. Where that failed, one is tried after so long (ms), so that a store that is away is left alone. */
const TOGETHER = 100;
const PAUSE = 500;

/** A session that the store does not know and this gateway does: it is dirty, and is to be noted as such. */
export interface Unnoted {
  readonly data: SessionData;
  /** Of its record, until it is noted under another one. */
  readonly version: string;
  /** Whether another gateway may take it for clean, since the store knew it, or may know it. */
  readonly shared: boolean;
}

/** Where they are kept: in this process, or in the primary one for all workers. */
export interface UnnotedSessions {
  /** At once where they are kept here. */
  get(name: string): Unnoted | undefined | Promise<Unnoted | undefined>;
  keep(name: string, session: Unnoted): unknown;
  drop(name: string): unknown;
  /** Nothing is noted from here any more. @returns how many sessions are lost thereby */
  close(): number;
}

/** Keeps no process alive. */
const pause = (milliseconds: number) => delay(milliseconds, undefined, { ref: false });

export type Note = (name: string, session: Unnoted) => Promise<unknown>;
type SessionStore = Pick<FreshnessStore, 'session'>;

/**
 * Keeps sessions, and notes them as soon as that can be done, some at one time.
 * @param options.note rejects where the store does not do it
 */
export function createUnnoted(options: {
  note: Note;
  sleep?: (milliseconds: number) => Promise<void>;
}) {
  const { note, sleep = pause } = options;
  const table = createOwnedTable<Unnoted & { readonly name: string }>(MAX_SESSIONS);
  const closing = new AbortController();
  let noting = false;

  async function isNoted(name: string, session: Unnoted): Promise<boolean> {
    try {
      await note(name, session);
    } catch {
      return false;
    }
    if (table.get(name) === session) table.delete(name);
    return true;
  }

  async function noteAll(): Promise<void> {
    if (noting) return;
    noting = true;
    let together = TOGETHER;
    while (!closing.signal.aborted) {
      const next = table.values().take(together).toArray();
      if (next.length === 0) break;
      const noted = await Promise.all(next.map((session) => isNoted(session.name, session)));
      together = noted.includes(false) ? 1 : TOGETHER;
      if (together === 1) await sleep(PAUSE);
    }
    noting = false;
  }

  return {
    get: table.get,
    keep(name, { data, version, shared }): void {
      table.set(name, ownerOf(data.principal), { name, data, version, shared });
      void noteAll();
    },
    drop: table.delete,
    close(): number {
      closing.abort();
      return [...table.values()].length;
    },
  } satisfies UnnotedSessions;
}

/** Notes a session in the store as a dirty one. */
export function noteIn(options: {
  store: SessionStore;
  sleep: (milliseconds: number) => Promise<void>;
  newToken: () => string;
}): Note {
  const { store, sleep, newToken } = options;
  return async (name, { data, shared }) => {
    if (shared) {
      const { lease } = await store.session(name, { do: 'renew', token: newToken() });
      // A record without holders tells of no gateway that holds one from before a loss.
      await sleep(lease * LEASE_MARGIN);
    }
    // Another version than here: what comes next in it asks anew who uses what stood under its name.
    const token = newToken();
    await store.session(name, { do: 'claim', token });
    await store.session(name, { do: 'put', token, data, dirty: true });
  };
}

/** The same store, which knows the sessions that are not noted in it, too. */
export function withUnnoted(store: SessionStore, sessions: UnnotedSessions): SessionStore {
  return {
    async session(name, call): Promise<SessionReply> {
      const found = sessions.get(name);
      // Not a turn later where they are kept here.
      const kept = found instanceof Promise ? await found : found;
      if (kept === undefined) return await store.session(name, call);
      switch (call.do) {
        case 'read':
        case 'peek':
          return replyOf(kept);
        case 'renew':
          return replyOf(kept, kept.shared ? (await store.session(name, call)).lease : 0);
        case 'put': {
          const reply = await store.session(name, { ...call, dirty: true });
          await sessions.drop(name);
          return reply;
        }
        case 'end':
          await sessions.drop(name);
          if (kept.shared) return await store.session(name, call);
          // It may be on its way into the store; where that is away it is not.
          return await store.session(name, call).catch(() => ({ lease: 0 }));
        default:
          return await store.session(name, call);
      }
    },
  };
}

/** Of a session that is kept. */
export function replyOf({ data, version }: Unnoted, lease = 0): SessionReply {
  return { record: { ...data, version, dirty: true }, lease, isKept: true };
}
