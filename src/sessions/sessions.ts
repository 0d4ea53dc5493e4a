import type { Clock } from '../common/clock.ts';
import { createLeaseCache, type Lease, LEASE_MARGIN, tryToRenew } from '../common/leases.ts';
import { createOwnedTable } from '../common/owned-table.ts';
import { ownerOf } from '../common/principal.ts';
import type { FreshnessStore, SessionCall, SessionRecord } from '../freshness/freshness-store.ts';
import { type UnnotedSessions, withUnnoted } from '../freshness/unnoted.ts';
import { createSessionDigests, type SessionName } from './digests.ts';

/**
 * `unknown`: no record of this spelling. `otherwise`: a record of another endpoint or spelling that
 * the engine could take for it. `last`: good for where a request goes, never for its answer.
 */
export type FoundSession =
  | { readonly kind: 'known'; readonly record: SessionRecord }
  | { readonly kind: 'unknown'; readonly otherwise?: SessionRecord }
  | { readonly kind: 'unavailable'; readonly last: SessionRecord | undefined };

function asSpelt(found: FoundSession, spelling: string): FoundSession {
  if (!isSpeltOtherwise(found, spelling)) return found;
  return found.kind === 'known'
    ? { kind: 'unknown', otherwise: found.record }
    : { kind: 'unavailable', last: undefined };
}

function isSpeltOtherwise(found: FoundSession, spelling: string): boolean {
  return (lastRecord(found)?.spelling ?? spelling) !== spelling;
}

export function lastRecord(found: FoundSession): SessionRecord | undefined {
  if (found.kind === 'unavailable') return found.last;
  return found.kind === 'known' ? found.record : undefined;
}

/** Pause between notes of a forwarded request (ms). */
const FORWARDED_EVERY = 30_000;
/** More, or a quarter by one user: the oldest are read again. */
const MAX_SESSIONS = 100_000;

type Begun = Pick<SessionRecord, 'principal' | 'profile' | 'catalog' | 'replica'> &
  Partial<Pick<SessionRecord, 'dirty'>>;
export type Sessions = ReturnType<typeof createSessions>;

type Catalogued = Pick<SessionRecord, 'catalog' | 'profile'>;
interface SessionsOptions {
  readonly store: Pick<FreshnessStore, 'session' | 'renew'>;
  readonly clock: Clock;
  readonly lease: () => number;
  readonly sleep: (milliseconds: number) => Promise<void>;
  readonly newToken: () => string;
  readonly onError: (error: unknown) => void;
  readonly unnoted: UnnotedSessions;
}

/**
 * Sessions of the engine, over the store shared with other gateways. A record counts as clean while
 * it was read less than a lease ago, and is read again before anything of its session is kept. When
 * `dirty` has resolved to true, a request that arrives at any gateway finds none of them clean: a
 * gateway uses a clean record for at most `lease` after it *sent* the read, the store notes that
 * lease, and a change waits longer between the store's word and its own answer. A name without a
 * record may be made dirty too: the store then does not begin a session of that name clean. Never
 * rejects.
 */
export function createSessions(options: SessionsOptions) {
  const { clock, sleep, onError } = options;
  const records = createRecords(options);
  const { store, known, taking, now, read } = records;
  const { digestsOf, dirty, ...others } = createChanges(options, records);

  function held(name: SessionName): FoundSession | undefined {
    const { key, spelling } = digestsOf(name);
    const found = taking.has(key) ? undefined : now(key);
    return found && asSpelt(found, spelling);
  }

  return {
    ...others,
    /** For another process, whose clock differs: `settles` is a duration. */
    last(name: string): SessionRecord | undefined {
      const last = known.last(name);
      return last && { ...last, settles: (last.settles ?? 0) - clock.now() };
    },
    /** Undefined where the store must be asked. */
    held,
    /** A session begun elsewhere, or spelt otherwise, is unknown. */
    find(name: SessionName): FoundSession | Promise<FoundSession> {
      const { key, spelling } = digestsOf(name);
      const ask = () => read(key, 'readOnce').then((found) => asSpelt(found, spelling));
      return held(name) ?? taking.get(key)?.then(ask) ?? ask();
    },
    /** For what only explains: renews no life. */
    async peek(name: SessionName): Promise<FoundSession> {
      const { key, spelling } = digestsOf(name);
      return asSpelt(now(key) ?? (await read(key, 'peek')), spelling);
    },
    /** Makes them dirty, however spelt. True when no gateway takes them for clean. */
    dirty: (names: readonly SessionName[]) =>
      dirty([...new Set(names.map((name) => digestsOf(name).key))]),
    async dirtyAll(): Promise<boolean> {
      const renewed = await tryToRenew(() => options.store.renew(['sessions']), sleep, onError);
      known.forget('all');
      if (renewed === undefined) return false;
      await waitOut(renewed.others, sleep);
      return true;
    },
    /** Waits until no gateway uses what was before its catalog. */
    async settled({ settles = 0 }: SessionRecord): Promise<void> {
      const left = settles - clock.now();
      if (left > 0) await sleep(left);
    },
    /** Reads anew: true when it is the same and clean. */
    async confirm(name: SessionName, { dirty, version }: SessionRecord): Promise<boolean> {
      const found = await read(digestsOf(name).key);
      const { record } = found.kind === 'known' ? found : {};
      return record?.version === version && !record.dirty && !dirty;
    },
    forwarded(name: SessionName, record: SessionRecord): void {
      const { key } = digestsOf(name);
      const wall = clock.wall();
      const age = wall - (known.held(key) ?? record).forwardedAt;
      // Another gateway's clock may run ahead.
      if (age >= 0 && age < FORWARDED_EVERY) return;
      known.amend(key, (held) => ({ ...held, forwardedAt: wall }));
      store.session(key, { do: 'touch', at: wall }).catch(onError);
    },
  };
}

async function waitOut(lease: number, sleep: SessionsOptions['sleep']): Promise<void> {
  if (lease > 0) await sleep(lease * LEASE_MARGIN);
}

const ownerOfRecord = ({ principal }: SessionRecord) => ownerOf(principal);

function createRecords(options: SessionsOptions) {
  const { clock, unnoted } = options;
  const store = withUnnoted(options.store, unnoted);
  const known = createLeaseCache({ ...options, max: MAX_SESSIONS, ownerOf: ownerOfRecord });
  /** Made dirty here: version that no gateway uses ('' for none), or undefined before that. */
  const dirtied = createOwnedTable<{ readonly version: string | undefined }>(MAX_SESSIONS);

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

  /** For a store that is away: what was dirty still is. */
  function lasting(key: string): FoundSession {
    const last = known.last(key);
    const found = last && seen(key, last);
    return found?.kind === 'known' && found.record.dirty ? found : { kind: 'unavailable', last };
  }

  type Reply = Awaited<ReturnType<typeof askStore>>;
  /** Makes sessions dirty that the store has lost. */
  async function askStore(key: string, call: SessionCall) {
    const reply = await store.session(key, call);
    if (reply.record !== undefined) {
      const settles = clock.now() + (reply.settles ?? 0);
      return { ...reply, record: { ...reply.record, settles } };
    }
    if (call.do === 'end') return reply;
    const own = known.last(key);
    const last = own ?? (await unnoted.elsewhere?.(key));
    if (last === undefined || last.incarnation === reply.incarnation) return reply;
    const settles = (own === undefined ? clock.now() : 0) + (last.settles ?? 0);
    const record = { ...last, settles, dirty: true };
    const shared = dirtied.get(key)?.version !== last.version;
    if (call.do !== 'peek') await unnoted.keep({ name: key, record, shared });
    return { ...reply, record, incarnation: undefined };
  }

  function keep(key: string, { record, incarnation }: Reply, since: Lease): void {
    const start = incarnation === undefined ? undefined : since;
    if (record === undefined) known.drop(key);
    else known.keep(key, { ...record, incarnation }, start);
  }

  /** @param how only `readOnce` joins a read under way */
  async function read(key: string, how: 'read' | 'readOnce' | 'peek' = 'read') {
    const call = how === 'peek' ? how : 'read';
    const ask = how === 'peek' ? 'read' : how;
    const found = await known[ask]<Reply, FoundSession>(
      [key],
      () => askStore(key, { do: call }),
      (reply, since) => {
        const { record } = reply;
        if (record === undefined || call === 'read') keep(key, reply, since);
        if (record === undefined) return { kind: 'unknown' };
        // A stale 'dirty' never turns clean.
        return record.dirty || call === 'peek' ? seen(key, record) : now(key);
      },
    );
    return found ?? lasting(key);
  }

  async function change(key: string, call: SessionCall) {
    const since = known.begin();
    using watch = known.watch([key]);
    const reply = await askStore(key, call);
    const { overtaken } = watch;
    known.forget([key]);
    if (reply.record === undefined || !overtaken) keep(key, reply, since);
    return reply;
  }

  /** Catalogs being noted: others may know one before this gateway does. */
  const taking = new Map<string, Promise<unknown>>();

  function take(key: string, call: SessionCall) {
    const taken = change(key, call);
    const over = taken
      .catch(() => {})
      .finally(() => void (taking.get(key) === over && taking.delete(key)));
    taking.set(key, over);
    return taken;
  }

  return { store, known, dirtied, taking, isDirtyHere, now, read, change, take };
}

function createChanges(
  { clock, sleep, newToken, onError, unnoted }: SessionsOptions,
  { store, known, dirtied, isDirtyHere, now, read, change, take }: ReturnType<typeof createRecords>,
) {
  const digestsOf = createSessionDigests();

  /** True when the dirty version is still all that there is. */
  async function isStill(key: string, version: string): Promise<boolean> {
    // It may have ended elsewhere, and the engine may have begun another under its id.
    const record = lastRecord(now(key) ?? (await read(key)));
    return record === undefined ? version === '' : record.dirty && record.version === version;
  }

  async function makeDirty(key: string): Promise<boolean> {
    const version = dirtied.get(key)?.version;
    if (version !== undefined && (await isStill(key, version))) return true;
    const here = { version: undefined };
    dirtied.set(key, '', here);
    const renew = () => change(key, { do: 'renew', token: newToken() });
    const reply = await tryToRenew(renew, sleep, onError);
    if (reply === undefined) return false;
    await waitOut(reply.lease, sleep);
    // Another of that name may have begun.
    if (dirtied.get(key) === here) dirtied.set(key, '', { version: reply.record?.version ?? '' });
    return true;
  }

  const dirty = async (keys: readonly string[]) =>
    (await Promise.all(keys.map(makeDirty))).every(Boolean);

  return {
    digestsOf,
    dirty,
    /** Notes a begun session, before its client has the id. False: only here, dirty. */
    async begin(name: SessionName, { dirty: isDirty = false, ...given }: Begun): Promise<boolean> {
      const { key, spelling } = digestsOf(name);
      const data = { ...given, spelling, forwardedAt: clock.wall() };
      const token = newToken();
      // Others may take an earlier one of that name for clean.
      let shared = known.last(key) !== undefined || isDirtyHere(key);
      known.forget([key]);
      try {
        await store.session(key, { do: 'claim', token });
        shared = true;
        const dirtyFromFirst = isDirty || isDirtyHere(key);
        const put = { do: 'put', token, data, dirty: dirtyFromFirst } as const;
        // Others may still take one of its name for clean that ended shortly before.
        await waitOut((await change(key, put)).lease, sleep);
        return true;
      } catch (error) {
        onError(error);
        const record = { ...data, dirty: true, version: token };
        known.keep(key, record, undefined);
        if (!shared) dirtied.set(key, '', { version: token });
        await Promise.resolve(unnoted.keep({ name: key, record, shared })).catch(onError);
        return false;
      }
    },
    /** Notes its first catalog; it is dirty if another was quicker. True as with `dirty`. */
    async takeCatalog(name: SessionName, record: SessionRecord, next: Catalogued) {
      const { key } = digestsOf(name);
      const { dirty: _, version: expected, ...before } = record;
      const data = { ...before, ...next };
      try {
        const { lease } = await take(key, { do: 'take', token: newToken(), expected, data });
        await waitOut(lease, sleep);
        return true;
      } catch (error) {
        onError(error);
        // Store and engine may have seen the catalog or not.
        return dirty([key]);
      }
    },
    /** Forgets it, only here while the store is away; one spelt otherwise becomes dirty. */
    async end(name: SessionName): Promise<void> {
      const { key, spelling } = digestsOf(name);
      const found = now(key) ?? (await read(key));
      // The engine may take the two for one or not.
      if (isSpeltOtherwise(found, spelling)) return void (await dirty([key]));
      try {
        await change(key, { do: 'end' });
        dirtied.delete(key);
      } catch (error) {
        onError(error);
        known.forget([key]);
        known.drop(key);
        // It goes on for others, perhaps at the engine: they must learn of what happens in it.
        dirtied.set(key, '', { version: undefined });
      }
    },
  };
}
