import { LRUCache } from 'lru-cache';
import type { Clock } from '../clock.ts';
import { LEASE_MARGIN, leaseStart } from '../lease.ts';
import { asDirty, asSpelt, isSame, isSpeltOtherwise } from './found-session.ts';
import { createSessionMemory } from './session-memory.ts';
import { createSessionDigests } from './session-name.ts';
import type { SessionRecord, SessionStore } from './session-store.ts';
import type { FoundSession, Sessions } from './sessions.ts';

/** A change that was not confirmed is repeated: what is dirty twice is only dirty. */
const CHANGE_TRIES = 3;
/** Between two tries, so that a Redis that restarts has time for it (ms). */
const CHANGE_PAUSE = 300;
/** How often a read is sent again because a change here, or its slowness, made its reply worthless. */
const MAX_READS = 4;
/** Of one session it is noted at most so often that a request was forwarded (ms). */
const FORWARDED_EVERY = 30_000;
/** Sessions of which is remembered when that was. */
const MAX_FORWARDED = 10_000;

interface Take {
  readonly next: Pick<SessionRecord, 'catalog' | 'profile'>;
  readonly result: Promise<FoundSession>;
}

/**
 * What this replica knows of sessions, over the store that it shares with others.
 *
 * The promise: when `dirty` has resolved to true, a request that arrives at any replica finds none of the sessions
 * clean. It rests on one sentence: a replica uses a clean record for at most `lease` after it *sent* the read that
 * brought it, the store notes that lease, and a change waits longer than that between the store's word and its own
 * answer. A reply to a read sent before a change here is thrown away, since it may be the older of the two.
 *
 * A name without a record may be made dirty too: nothing claims that it is clean. If the engine begins a session
 * of that name at the same time, the store sees to it that it is not begun clean with what was dirty before; one
 * that is begun afterwards is another session.
 *
 * @param options.lease milliseconds; Infinity when no other replica can change a session
 * @param options.onError told of every failure of the store
 */
export function createSessions(options: {
  store: SessionStore;
  clock: Clock;
  lease: number;
  sleep: (milliseconds: number) => Promise<void>;
  newToken: () => string;
  onError: (error: unknown) => void;
}): Sessions {
  const { store, clock, lease, sleep, newToken, onError } = options;
  const memory = createSessionMemory({ clock, lease });
  const digestsOf = createSessionDigests();
  const finds = new Map<string, Promise<FoundSession>>();
  const takes = new Map<string, Take>();
  /** When this replica last noted that a request was forwarded, by the clock that never steps back. */
  const forwardedNotes = new LRUCache<string, number>({ max: MAX_FORWARDED });

  /** Nobody joins a read that was sent before this, nor uses what it brings. */
  function forget(name: string): void {
    finds.delete(name);
    memory.forget(name);
  }

  function forgetAll(): void {
    finds.clear();
    memory.forgetAll();
  }

  async function read(name: string): Promise<FoundSession> {
    for (let sent = 0; sent < MAX_READS; sent += 1) {
      const since = leaseStart(clock);
      const watch = memory.watch(name);
      try {
        const { record } = await store.read(name);
        if (watch.overtaken()) continue;
        const found = memory.remember(name, record, since);
        // Old news of a dirty session, or of none, are as good as new ones.
        if (found.kind !== 'known' || found.record.dirty) return found;
        const held = memory.now(name);
        if (held !== undefined) return held;
      } catch (error) {
        onError(error);
        return memory.lasting(name);
      } finally {
        watch.stop();
      }
    }
    return memory.lasting(name);
  }

  /** One read for all who ask at one time. */
  function readOnce(key: string): Promise<FoundSession> {
    const running = finds.get(key);
    if (running !== undefined) return running;
    const started = read(key).finally(() => {
      if (finds.get(key) === started) finds.delete(key);
    });
    finds.set(key, started);
    return started;
  }

  /** Resolves to the lease that others may go on for; undefined when the store did not confirm it. */
  async function tryToChange(change: () => Promise<number>): Promise<number | undefined> {
    for (let tries = 0; tries < CHANGE_TRIES; tries += 1) {
      if (tries > 0) await sleep(CHANGE_PAUSE);
      try {
        return await change();
      } catch (error) {
        onError(error);
      }
    }
    return undefined;
  }

  async function waitOut(longest: number): Promise<void> {
    if (longest > 0) await sleep(longest * LEASE_MARGIN);
  }

  /** Whether no replica takes it for clean, so that there is nothing left to do. */
  async function isSettled(name: string): Promise<boolean> {
    if (!memory.isSettled(name)) return false;
    // Elsewhere it may have ended, and the engine may have begun another one under its id.
    await (memory.now(name) ?? read(name));
    return memory.isSettled(name);
  }

  async function makeDirty(name: string): Promise<number | undefined> {
    finds.delete(name);
    memory.mark(name);
    // What is dirty here may be clean for others still.
    if (await isSettled(name)) return 0;
    const lease = await tryToChange(async () => (await store.markDirty(name, newToken())).lease);
    // The first mark may have been dropped for others, and what was read since may be from before the change.
    finds.delete(name);
    memory.mark(name);
    return lease;
  }

  async function dirty(names: readonly string[]): Promise<boolean> {
    const leases = await Promise.all(names.map(makeDirty));
    const confirmed = leases.filter((one) => one !== undefined);
    if (confirmed.length < leases.length) return false;
    await waitOut(confirmed.reduce((longest, one) => Math.max(longest, one), 0));
    for (const name of names) memory.settle(name);
    return true;
  }

  async function take(
    name: string,
    record: SessionRecord,
    next: Pick<SessionRecord, 'catalog' | 'profile'>,
  ): Promise<FoundSession> {
    const { catalog, profile } = next;
    forget(name);
    const since = leaseStart(clock);
    const changing = memory.watch(name);
    try {
      const receipt = await store.setCatalog(name, record.version, {
        catalog,
        profile,
        version: newToken(),
      });
      const overtaken = changing.overtaken();
      // What was read in the meantime may be from before the change.
      forget(name);
      if (!overtaken) memory.remember(name, receipt.record, since);
      const waiting = memory.watch(name);
      await waitOut(receipt.lease);
      waiting.stop();
      const found = memory.seen(name, receipt.record);
      // Nobody knows which of two changes the engine will see first.
      return overtaken || waiting.overtaken() ? asDirty(found) : found;
    } catch (error) {
      onError(error);
      // The store may have changed it, or do so later; the engine may see the catalog or not.
      if (!(await dirty([name]))) return { kind: 'unavailable', last: undefined };
      return asDirty({ kind: 'known', record });
    } finally {
      changing.stop();
    }
  }

  return {
    find(name) {
      const { key, spelling } = digestsOf(name);
      const known = memory.now(key);
      if (known !== undefined) return asSpelt(known, spelling);
      return readOnce(key).then((found) => asSpelt(found, spelling));
    },
    handle(name) {
      const { key, spelling } = digestsOf(name);
      return {
        find() {
          const known = memory.now(key);
          return known && asSpelt(known, spelling);
        },
      };
    },
    async begin(name, given) {
      const { key, spelling } = digestsOf(name);
      const { principal, profile, catalog, replica, dirty = false } = given;
      const begun: SessionRecord = {
        principal,
        profile,
        catalog,
        replica,
        dirty,
        spelling,
        version: newToken(),
        forwardedAt: clock.wall(),
      };
      forget(key);
      const since = leaseStart(clock);
      const watch = memory.watch(key);
      try {
        const record = await store.begin(key, begun);
        const overtaken = watch.overtaken();
        forget(key);
        if (!overtaken) {
          memory.revive(key);
          memory.remember(key, record, since);
        }
        return true;
      } catch (error) {
        onError(error);
        memory.unnoted(key, begun);
        return false;
      } finally {
        watch.stop();
      }
    },
    dirty: (names) => dirty([...new Set(names.map((name) => digestsOf(name).key))]),
    async dirtyAll() {
      forgetAll();
      const longest = await tryToChange(() => store.markAllDirty());
      // What was read in the meantime may be from before the change.
      forgetAll();
      if (longest === undefined) return false;
      await waitOut(longest);
      return true;
    },
    takeCatalog(name, record, next) {
      const { key } = digestsOf(name);
      const running = takes.get(key);
      if (running !== undefined && isTake(running, next)) return running.result;
      const result = take(key, record, next).finally(() => {
        if (takes.get(key)?.result === result) takes.delete(key);
      });
      takes.set(key, { next, result });
      return result;
    },
    confirm(name, record) {
      const { key } = digestsOf(name);
      // Where nobody else changes sessions, what is remembered is what is.
      const known = lease === Infinity ? memory.now(key) : undefined;
      if (known !== undefined) return isSame(known, record);
      return read(key).then((found) => isSame(found, record));
    },
    forwarded(name, record) {
      const { key } = digestsOf(name);
      const wall = clock.wall();
      memory.forwarded(key, wall);
      const age = wall - record.forwardedAt;
      // Another gateway's clock may run ahead: what is to come is not recent.
      if (age >= 0 && age < FORWARDED_EVERY) return;
      const noted = forwardedNotes.get(key);
      if (noted !== undefined && clock.now() - noted < FORWARDED_EVERY) return;
      forwardedNotes.set(key, clock.now());
      store.touch(key, wall).catch(onError);
    },
    async end(name) {
      const { key, spelling } = digestsOf(name);
      const found = memory.now(key) ?? (await read(key));
      // The engine may take the two for one or not: it may be over, or go on.
      if (isSpeltOtherwise(found, spelling)) return void (await dirty([key]));
      finds.delete(key);
      memory.end(key);
      try {
        await store.end(key);
        finds.delete(key);
        memory.drop(key);
      } catch (error) {
        onError(error);
        // For others it goes on, and perhaps at the engine too: what happens in it must still reach them.
        memory.revive(key);
        memory.mark(key);
      }
    },
  };
}

function isTake({ next }: Take, other: Take['next']): boolean {
  return next.catalog === other.catalog && next.profile === other.profile;
}
