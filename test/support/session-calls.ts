import { randomUUID } from 'node:crypto';
import type {
  FreshnessStore,
  SessionData,
  SessionRecord,
  SessionReply,
} from '../../src/freshness/freshness-store.ts';

/** What is noted of a session when its first catalog is named, and the token under which. */
export interface Taken {
  readonly catalog: string;
  readonly profile: string;
  readonly version: string;
}

/** Steps of sessions in a store, each as one call. */
export interface SessionCalls {
  read(name: string): Promise<SessionReply>;
  /** Both halves; the version of the record is its claim. */
  begin(name: string, record: SessionRecord): Promise<SessionRecord>;
  /** The same, with all that is told to who begins it. */
  beginAs(name: string, record: SessionRecord): Promise<SessionReply>;
  markDirty(name: string, token: string): Promise<SessionReply>;
  /** @returns the longest lease of any other gateway */
  markAllDirty(): Promise<number>;
  setCatalog(name: string, expected: string, next: Taken): Promise<SessionReply>;
  touch(name: string, at: number): Promise<unknown>;
  end(name: string): Promise<unknown>;
}

export function sessionCalls(store: Pick<FreshnessStore, 'session' | 'renew'>): SessionCalls {
  async function beginAs(
    name: string,
    { dirty, version: token, ...data }: SessionRecord,
  ): Promise<SessionReply> {
    await store.session(name, { do: 'claim', token });
    return await store.session(name, { do: 'put', token, data, dirty });
  }

  return {
    beginAs,
    read: (name) => store.session(name, { do: 'read' }),
    async begin(name, given) {
      const { record } = await beginAs(name, given);
      if (record === undefined) throw new Error('the session that was begun is not there');
      return record;
    },
    markDirty: (name, token) => store.session(name, { do: 'renew', token }),
    markAllDirty: async () => (await store.renew(['sessions'])).others,
    async setCatalog(name, expected, { version: token, ...next }) {
      const before: SessionData =
        (await store.session(name, { do: 'peek' })).record ?? sessionData();
      const { principal, replica, spelling, forwardedAt } = before;
      const data = { principal, replica, spelling, forwardedAt, ...next };
      return await store.session(name, { do: 'take', token, expected, data });
    },
    touch: (name, at) => store.session(name, { do: 'touch', at }),
    end: (name) => store.session(name, { do: 'end' }),
  };
}

/** What is noted of a session that was just begun. */
function sessionData(changed: Partial<SessionData> = {}): SessionData {
  return {
    principal: 'alice',
    profile: 'profile',
    catalog: null,
    replica: 'http://engine/xmla',
    spelling: 'as it was spelt',
    forwardedAt: 1_700_000_000_000,
    ...changed,
  };
}

/** Its record. */
export function sessionRecord(changed: Partial<SessionRecord> = {}): SessionRecord {
  return { ...sessionData(), dirty: false, version: randomUUID(), ...changed };
}
