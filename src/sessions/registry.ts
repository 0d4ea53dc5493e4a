import { LRUCache } from 'lru-cache';
import type { Clock } from '../common/clock.ts';
import type {
  FreshnessStore,
  SessionCall,
  SessionRecord,
  SessionReply,
} from '../freshness/freshness-store.ts';
import { createLeaseCache } from '../freshness/lease-cache.ts';
import { LEASE_MARGIN } from '../common/lease.ts';
import { asSpelt, isSpeltOtherwise, lastRecord } from './found-session.ts';
import { createSessionDigests } from './session-name.ts';
import type { FoundSession, Sessions } from './sessions.ts';

/** A change that was not confirmed is repeated: what is dirty twice is only dirty. */
const CHANGE_TRIES = 3;
/** Between two tries, so that a Redis that restarts has time for it (ms). */
const CHANGE_PAUSE = 300;
/** Of one session it is noted at most so often that a request was forwarded (ms). */
const FORWARDED_EVERY = 30_000;
/** Of more sessions than this, or of more than a quarter of it by one user, the oldest are read again. */
const MAX_KNOWN = 100_000;
const MAX_DIRTIED = 100_000;

/**
 * What this gateway knows of sessions, over the store that it shares with others.
 *
 * The promise: when `dirty` has resolved to true, a request that arrives at any gateway finds none of the sessions
 * clean. It rests on one sentence: a gateway uses a clean record for at most `lease` after it *sent* the read that
 * brought it, the store notes that lease, and a change waits longer than that between the store's word and its own
 * answer.
 *
 * A name without a record may be made dirty too: nothing claims that it is clean. If the engine begins a session
 * of that name at the same time, the store sees to it that it is not begun clean with what was dirty before; one
 * that is begun afterwards is another session.
 *
 * @param options.lease that of the questions that are asked now (ms)
 * @param options.onError told of every failure of the store
 */
export function createSessions(options: {
  store: Pick<FreshnessStore, 'session' | 'renew'>;
  clock: Clock;
  lease: () => number;
  sleep: (milliseconds: number) => Promise<void>;
  newToken: () => string;
  onError: (error: unknown) => void;
}): Sessions {
  const { store, clock, sleep, newToken, onError } = options;
  const known = createLeaseCache<SessionRecord>({
    ...options,
    max: MAX_KNOWN,
    ownerOf: ({ principal }) => principal,
  });
  const digestsOf = createSessionDigests();
  /**
   * Sessions that were made dirty here → the version of their record ('' without one) that no gateway takes for clean;
   * undefined where the store did not confirm that, so that it counts here alone.
   */
  const dirtied = new LRUCache<string, { readonly version: string | undefined }>({
    maxSize: MAX_DIRTIED,
    sizeCalculation: () => 1,
  });

  /** Whether it was made dirty, and the store has not confirmed it, or others may still take it for clean. */
  function isDirtyHere(key: string): boolean {
    const here = dirtied.get(key);
    return here !== undefined && here.version === undefined;
  }

  function seen(key: string, record: SessionRecord): FoundSession {
    const dirty = record.dirty || isDirtyHere(key);
    return { kind: 'known', record: dirty ? { ...record, dirty } : record };
  }

  function now(key: string): FoundSession | undefined {
    const record = known.held(key);
    return record && seen(key, record);
  }

  /** What can be said while the store cannot be asked: a session that was dirty still is. */
  function lasting(key: string): FoundSession {
    const last = known.last(key);
    const found = last && seen(key, last);
    return found?.kind === 'known' && found.record.dirty ? found : { kind: 'unavailable', last };
  }

  /** @param how `read` never joins a read that is under way, `readOnce` does; see {@link LeaseCache} */
  async function read(
    key: string,
    how: 'read' | 'readOnce' = 'read',
    call: 'read' | 'peek' = 'read',
  ): Promise<FoundSession> {
    const found = await known[how]<SessionReply, FoundSession>(
      [key],
      () => store.session(key, { do: call }),
      ({ record }, since) => {
        if (record === undefined) known.drop(key);
        else if (call === 'read') known.keep(key, record, since);
        if (record === undefined) return { kind: 'unknown' };
        // A stale 'dirty' needs no refresh: it never turns clean.
        return record.dirty || call === 'peek' ? seen(key, record) : now(key);
      },
    );
    return found ?? lasting(key);
  }

  /** Changes it in the store. What was read before counts no longer, here or for a reply that is under way. */
  async function change(key: string, call: SessionCall): Promise<SessionReply> {
    const since = known.begin();
    const watch = known.watch([key]);
    try {
      const reply = await store.session(key, call);
      const overtaken = watch.overtaken();
      known.forget([key]);
      if (reply.record === undefined) known.drop(key);
      else if (!overtaken) known.keep(key, reply.record, since);
      return reply;
    } finally {
      watch.stop();
    }
  }

  /** Undefined when the store did not confirm it. */
  async function tryToRenew<T>(renew: () => Promise<T>): Promise<T | undefined> {
    for (let tries = 0; tries < CHANGE_TRIES; tries += 1) {
      if (tries > 0) await sleep(CHANGE_PAUSE);
      try {
        return await renew();
      } catch (error) {
        onError(error);
      }
    }
    return undefined;
  }

  async function waitOut(lease: number): Promise<void> {
    if (lease > 0) await sleep(lease * LEASE_MARGIN);
  }

  /** Whether what no gateway takes for clean is still all that there is, so that there is nothing left to do. */
  async function isStill(key: string, version: string): Promise<boolean> {
    // Elsewhere it may have ended, and the engine may have begun another one under its id.
    const record = lastRecord(now(key) ?? (await read(key)));
    return record === undefined ? version === '' : record.dirty && record.version === version;
  }

  /** Resolves when no gateway takes it for clean. False when the store did not confirm it. */
  async function makeDirty(key: string): Promise<boolean> {
    const version = dirtied.get(key)?.version;
    if (version !== undefined && (await isStill(key, version))) return true;
    const here = { version: undefined };
    dirtied.set(key, here);
    const reply = await tryToRenew(() => change(key, { do: 'renew', token: newToken() }));
    if (reply === undefined) return false;
    await waitOut(reply.lease);
    // Another one of that name may have begun meanwhile.
    if (dirtied.get(key) === here) dirtied.set(key, { version: reply.record?.version ?? '' });
    return true;
  }

  async function dirty(keys: readonly string[]): Promise<boolean> {
    const done = await Promise.all(keys.map(makeDirty));
    return done.every(Boolean);
  }

  return {
    find(name) {
      const { key, spelling } = digestsOf(name);
      const found = now(key);
      if (found !== undefined) return asSpelt(found, spelling);
      return read(key, 'readOnce').then((one) => asSpelt(one, spelling));
    },
    async peek(name) {
      const { key, spelling } = digestsOf(name);
      return asSpelt(now(key) ?? (await read(key, 'read', 'peek')), spelling);
    },
    handle(name) {
      const { key, spelling } = digestsOf(name);
      return {
        find() {
          const found = now(key);
          return found && asSpelt(found, spelling);
        },
      };
    },
    async begin(name, { dirty: isDirty = false, ...given }) {
      const { key, spelling } = digestsOf(name);
      const data = { ...given, spelling, forwardedAt: clock.wall() };
      const token = newToken();
      known.forget([key]);
      try {
        await store.session(key, { do: 'claim', token });
        const dirtyFromFirst = isDirty || isDirtyHere(key);
        await change(key, { do: 'put', token, data, dirty: dirtyFromFirst });
        return true;
      } catch (error) {
        onError(error);
        // It is known nowhere, but its requests go on.
        known.keep(key, { ...data, dirty: isDirty, version: token }, undefined);
        return false;
      }
    },
    dirty: (names) => dirty([...new Set(names.map((name) => digestsOf(name).key))]),
    async dirtyAll() {
      const renewed = await tryToRenew(() => store.renew(['sessions']));
      known.forget('all');
      if (renewed === undefined) return false;
      await waitOut(renewed.others);
      return true;
    },
    async takeCatalog(name, record, next) {
      const { key } = digestsOf(name);
      const { dirty: _, version: expected, ...before } = record;
      const token = newToken();
      try {
        const data = { ...before, ...next };
        const { lease } = await change(key, { do: 'take', token, expected, data });
        await waitOut(lease);
        // Another change may have come meanwhile.
        return now(key) ?? (await read(key));
      } catch (error) {
        onError(error);
        // The store may have changed it, or do so later; the engine may see the catalog or not.
        if (!(await dirty([key]))) return { kind: 'unavailable', last: undefined };
        return { kind: 'known', record: { ...record, dirty: true } };
      }
    },
    async confirm(name, { dirty: wasDirty, version }) {
      const found = await read(digestsOf(name).key);
      if (found.kind !== 'known' || found.record.dirty || wasDirty) return false;
      return found.record.version === version;
    },
    forwarded(name, record) {
      const { key } = digestsOf(name);
      const wall = clock.wall();
      const age = wall - (known.held(key) ?? record).forwardedAt;
      // Another gateway's clock may run ahead: what is to come is not recent.
      if (age >= 0 && age < FORWARDED_EVERY) return;
      known.amend(key, (held) => ({ ...held, forwardedAt: wall }));
      store.session(key, { do: 'touch', at: wall }).catch(onError);
    },
    async end(name) {
      const { key, spelling } = digestsOf(name);
      const found = now(key) ?? (await read(key));
      // The engine may take the two for one or not: it may be over, or go on.
      if (isSpeltOtherwise(found, spelling)) return void (await dirty([key]));
      try {
        await change(key, { do: 'end' });
        dirtied.delete(key);
      } catch (error) {
        onError(error);
        known.forget([key]);
        // For others it goes on, and perhaps at the engine too: what happens in it must still reach them.
        dirtied.set(key, { version: undefined });
      }
    },
  };
}
