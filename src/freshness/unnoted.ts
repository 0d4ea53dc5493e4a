import { LEASE_MARGIN } from '../common/leases.ts';
import { createOwnedTable } from '../common/owned-table.ts';
import { ownerOf } from '../common/principal.ts';
import type { FreshnessStore, SessionRecord, SessionReply } from './freshness-store.ts';

/** More, or a quarter by one user: the least used are forgotten. */
const MAX_SESSIONS = 100_000;
/** Noted at a time; after a failure one, and a pause (ms), to spare the store. */
const TOGETHER = 200;
const PAUSE = 500;

/** Known to this gateway and not to the store, where it is to be noted as dirty. */
export interface Unnoted {
  readonly name: string;
  readonly record: SessionRecord;
  /** Another gateway may take it for clean: the store knew it, or may know it. */
  readonly shared: boolean;
}

export interface UnnotedSessions {
  /** No promise where they are kept here. */
  get(name: string): Unnoted | undefined | Promise<Unnoted | undefined>;
  keep(session: Unnoted): unknown;
  drop(name: string): unknown;
  elsewhere?(name: string): Promise<SessionRecord | undefined>;
  /** Ends noting. @returns what is lost, in one sentence */
  close(): string | undefined;
}

type SessionStore = Pick<FreshnessStore, 'session'>;
export type Note = (session: Unnoted) => Promise<unknown>;
type Sleep = (milliseconds: number) => Promise<unknown>;

export function createUnnoted(note: Note, sleep: Sleep) {
  const table = createOwnedTable<Unnoted>(MAX_SESSIONS);
  const closing = new AbortController();
  let noting = false;

  async function noteOne(session: Unnoted): Promise<void> {
    await note(session);
    if (table.get(session.name) === session) table.delete(session.name);
  }

  async function noteAll(): Promise<void> {
    noting = true;
    // A session that the store never takes must not stop others.
    let [most, skipped] = [TOGETHER, 0];
    while (!closing.signal.aborted) {
      const next = table.values().drop(skipped).take(most).toArray();
      if (next.length + skipped === 0) break;
      const noted = await Promise.allSettled(next.map(noteOne));
      const hasFailed = noted.some(({ status }) => status === 'rejected');
      [most, skipped] = hasFailed ? [1, skipped + 1] : [TOGETHER, 0];
      if (hasFailed) await sleep(PAUSE);
    }
    noting = false;
  }

  return {
    get: table.get,
    keep(session) {
      table.set(session.name, ownerOf(session.record.principal), session);
      if (!noting) void noteAll();
    },
    drop: table.delete,
    close() {
      closing.abort();
      const count = table.values().toArray().length;
      return count > 0 ? `sessions that Redis was not told of are lost: ${count}` : undefined;
    },
  } satisfies UnnotedSessions;
}

export function noteIn(
  { store, newToken }: { store: SessionStore; newToken: () => string },
  sleep: Sleep,
): Note {
  return async ({ name, record, shared }) => {
    const { version } = record;
    const { record: there, lease } = await store.session(name, { do: 'renew', token: newToken() });
    // The new record knows no gateway that holds one from before a loss.
    if (shared) await sleep(lease * LEASE_MARGIN);
    // A taken name gets a new version: the next change then asks who holds what stood there.
    const isTaken = !shared && there !== undefined && there.version !== version;
    const token = isTaken ? newToken() : version;
    await store.session(name, { do: 'put', token, data: record, dirty: true });
  };
}

export function withUnnoted(store: SessionStore, unnoted: UnnotedSessions): SessionStore {
  return {
    async session(name, call): Promise<SessionReply> {
      const found = unnoted.get(name);
      // Not a turn later where kept here.
      const kept = found instanceof Promise ? await found : found;
      if (kept === undefined) return await store.session(name, call);
      const { record, shared } = kept;
      const isRenewal = call.do === 'renew';
      if (call.do === 'read' || call.do === 'peek' || (isRenewal && !shared)) {
        return { record, lease: 0 };
      }
      if (call.do === 'end') await unnoted.drop(name);
      const isBegun = call.do === 'put';
      const reply = await store.session(name, isBegun ? { ...call, dirty: true } : call);
      if (isBegun) await unnoted.drop(name);
      return isRenewal ? { record, lease: reply.lease } : reply;
    },
  };
}
