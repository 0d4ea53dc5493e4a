import { LRUCache } from 'lru-cache';
import type { Cancel, Clock } from '../common/clock.ts';
import { createLeaseCache, type Leased, leaseStart } from '../common/leases.ts';
import type { CacheScope, FreshnessStore, Reading, Renewed } from './freshness-store.ts';

export interface KeyEpochs extends Reading {
  readonly scopes: readonly CacheScope[];
}

export interface CapturedEpochs extends KeyEpochs {
  readonly leases: readonly Leased<string>[];
}

export type Renewal = ReturnType<typeof renewalOf>;
/** @param gateways others known to have forgotten the old tokens */
const renewalOf = (renewed: Renewed, gateways: ReadonlySet<string>, store: FreshnessStore) => ({
  /** Until no gateway uses the old tokens (ms, from the confirmation). */
  lease: renewed.lease,
  known: renewed.known,
  replicas: () => gateways.size + 1,
  /** The store still keeps the tokens. Rejects when that cannot be known. */
  stands: async () => (await store.incarnation()) === renewed.incarnation,
});

export type Epochs = ReturnType<typeof createEpochs>;

interface Pending {
  readonly scopes: readonly CacheScope[];
  readonly purge: string;
  readonly waiting: ((renewal: Renewal) => void)[];
}

const MAX_HELD = 10_000;
/** Scopes that one read brings beside those asked for: with more it would hold Redis for long. */
const MOST_BESIDE = 1_000;
/** Bound of purges in `forgotten`, of their gateways, and of waiters for a renewal. */
const MOST = 1_000;
const PAUSE = 500;

/**
 * Tokens of the query cache, as this gateway knows them. A request that arrives after a purge was
 * acknowledged is answered under the new ones: a gateway uses a token for at most `lease` after it
 * *sent* the read that brought it, and a purge waits longer. Announcements only make it faster and
 * set no token. Replies to reads sent before a renewal was known here are discarded: they may be
 * older. Both hold for each scope, also where one read brings many: a gateway reads together what
 * it uses. What it has not used for some leases is left out, so that the store can forget it.
 */
export function createEpochs(options: {
  store: FreshnessStore;
  clock: Clock;
  lease: () => number;
  keySecret?: string | undefined;
  onError?: (error: unknown) => void;
}) {
  const { store, onError = () => {} } = options;
  const known = createLeaseCache<string>({ ...options, onError, max: MAX_HELD, ownerOf: () => '' });
  const forgotten = new LRUCache<string, Set<string>>({ max: MOST });
  const { owed, isPending, ...owing } = createOwing(options.clock, renew, onError);
  /** From the latest read. If Redis loses it and makes another, their keys never meet. */
  let keySecret: string | undefined;

  const { bring, coming, ...brought } = createBringing(
    known,
    store,
    (scopes, { keySecret: read }) => {
      keySecret = options.keySecret ?? read;
      return held(scopes);
    },
  );

  store.listen({
    renewed: forget,
    forgotten(purge, gateway) {
      const gateways = forgotten.get(purge);
      if (gateways !== undefined && gateways.size < MOST) gateways.add(gateway);
    },
  });

  function held(scopes: readonly CacheScope[]): CapturedEpochs | undefined {
    if (keySecret === undefined || isPending(scopes)) return undefined;
    const leases = scopes.flatMap((scope) => known.leased(scope) ?? []);
    if (leases.length < scopes.length) return undefined;
    leases.forEach(known.use);
    return { scopes, tokens: leases.map(({ value }) => value), keySecret, leases };
  }

  function forget(scopes: readonly CacheScope[]): void {
    known.forget(scopes);
    brought.forget(scopes);
  }

  async function renew(scopes: readonly CacheScope[], purge: string): Promise<Renewal> {
    const renewed = await store.renew(scopes);
    forget(scopes);
    const gateways = new Set<string>();
    forgotten.set(purge, gateways);
    store.announce({ purge, scopes }).catch(onError);
    return renewalOf(renewed, gateways, store);
  }

  return {
    held,
    /** Undefined when not known: then the cache must not be used. */
    async obtain(scopes: readonly CacheScope[]): Promise<CapturedEpochs | undefined> {
      // No request waits for a renewal that may take long to fail.
      if (isPending(scopes)) return undefined;
      const missing = scopes.filter((scope) => known.leased(scope) === undefined);
      const others = coming(missing);
      if (others === undefined) return bring(scopes);
      return (await others) ? (held(scopes) ?? bring(scopes)) : undefined;
    },
    areCurrent({ scopes, tokens, keySecret: captured, leases }: CapturedEpochs): boolean {
      if (keySecret !== captured || isPending(scopes)) return false;
      const at = leaseStart(options.clock);
      const areHeld = leases.every((one, i) => one.value === tokens[i] && known.holds(one, at));
      if (areHeld) leases.forEach(known.use);
      return areHeld;
    },
    /** Resolves in the turn of the confirmation, when the others are told. */
    renew,
    ...owing,
    owed,
    age: known.age,
  };
}

/**
 * Reads scopes, and with them the others in use whose leases end soon.
 * @param take what was asked for, once it is kept
 */
function createBringing<T>(
  known: ReturnType<typeof createLeaseCache<string>>,
  store: Pick<FreshnessStore, 'read'>,
  take: (scopes: readonly CacheScope[], reading: Reading) => T | undefined,
) {
  /** Ends of the reads under way by what they bring: whether they brought what was asked. */
  const bringing = new Map<string, Promise<boolean>>();

  async function bring(scopes: readonly CacheScope[]): Promise<T | undefined> {
    const over = Promise.withResolvers<boolean>();
    let beside: readonly Leased<string>[] = [];
    let names = scopes;
    function leaveOff(): void {
      for (const name of names) if (bringing.get(name) === over.promise) bringing.delete(name);
    }
    function ask() {
      leaveOff();
      for (const scope of scopes) bringing.set(scope, over.promise);
      beside = known.inUse((name) => !bringing.has(name), MOST_BESIDE);
      names = [...scopes, ...beside.map(({ name }) => name as CacheScope)];
      for (const name of names) bringing.set(name, over.promise);
      return store.read(names);
    }
    const taken = await known.read(scopes, ask, (reading, since) => {
      const { tokens } = reading;
      if (tokens.length < names.length) throw new Error('the store answered with too few tokens');
      const tokenOf = (at: number) => tokens[at] ?? '';
      for (const [i, scope] of scopes.entries()) known.keep(scope, tokenOf(i), since);
      for (const [i, one] of beside.entries()) {
        known.keepInstead(one, tokenOf(scopes.length + i), since);
      }
      return take(scopes, reading);
    });
    leaveOff();
    over.resolve(taken !== undefined);
    return taken;
  }

  return {
    bring,
    /** Resolves when all are read, to false where a read failed; undefined if some are not read. */
    coming(scopes: readonly CacheScope[]): Promise<boolean> | undefined {
      const ends = scopes.flatMap((scope) => bringing.get(scope) ?? []);
      if (ends.length === 0 || ends.length < scopes.length) return undefined;
      return Promise.all(ends).then((all) => all.every(Boolean));
    },
    /** Later callers do not wait for reads of these that are under way. */
    forget: (scopes: readonly CacheScope[]) => scopes.forEach((scope) => bringing.delete(scope)),
  };
}

function createOwing(
  clock: Clock,
  renew: (scopes: readonly CacheScope[], purge: string) => Promise<Renewal>,
  onError: (error: unknown) => void,
) {
  /** Keyed by scopes, of which nothing is used until confirmed. */
  const pending = new Map<string, Pending>();
  let cancel: Cancel | undefined;
  let closed = false;
  const owed = () => [...new Set(pending.values().flatMap(({ scopes }) => scopes))];

  async function tryAgain(name: string, { scopes, purge, waiting }: Pending): Promise<void> {
    const earlier = waiting.splice(0);
    try {
      const renewal = await renew(scopes, purge);
      if (waiting.length === 0) pending.delete(name);
      for (const tell of earlier) tell(renewal);
    } catch (error) {
      onError(error);
      waiting.unshift(...earlier);
    }
  }

  function tryLater(): void {
    if (cancel !== undefined || closed || pending.size === 0) return;
    cancel = clock.after(PAUSE, () => {
      void Promise.all([...pending].map((one) => tryAgain(...one))).then(() => {
        cancel = undefined;
        tryLater();
      });
    });
  }

  return {
    owed,
    isPending: (scopes: readonly CacheScope[]) =>
      pending.size > 0 && owed().some((scope) => scopes.includes(scope)),
    /** Tries until the store confirms. Never rejects. */
    renewLater(scopes: readonly CacheScope[], purge: string): Promise<Renewal> {
      const { promise, resolve } = Promise.withResolvers<Renewal>();
      const name = JSON.stringify(scopes);
      const one = pending.get(name) ?? { scopes, purge, waiting: [] };
      pending.set(name, one);
      one.waiting.push(resolve);
      one.waiting.splice(0, one.waiting.length - MOST);
      tryLater();
      return promise;
    },
    close(): void {
      closed = true;
      cancel?.();
    },
  };
}
