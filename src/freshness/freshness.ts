import { LRUCache } from 'lru-cache';
import type { Clock } from '../common/clock.ts';
import type { CacheScope, FreshnessStore } from './freshness-store.ts';
import { createLeaseCache } from './lease-cache.ts';
import { createPending, type Pending } from './pending.ts';

/** The tokens under which a look-up or a fill runs. Taken before the engine is asked, never after. */
export interface CapturedEpochs {
  readonly scopes: readonly CacheScope[];
  readonly tokens: readonly string[];
  readonly keySecret: string;
}

/** New tokens that the store has confirmed. */
export interface Renewal {
  /** What has to pass from the confirmation until no gateway uses the old ones (milliseconds). */
  readonly lease: number;
  /** Gateways that have told so far that they forgot the old ones, this one included. */
  readonly replicas: () => number;
  /** Whether what confirmed it is still what keeps the tokens. Rejects when that cannot be known. */
  readonly stands: () => Promise<boolean>;
}

/** What this gateway knows of the tokens of the query cache, and for how long it may use it. */
export interface Epochs {
  /** The tokens of the scopes, if this gateway may use what it knows of them at this very moment. */
  held(scopes: readonly CacheScope[]): CapturedEpochs | undefined;
  /** Reads the tokens. Undefined when they cannot be known, so that the cache must not be used. */
  obtain(scopes: readonly CacheScope[]): Promise<CapturedEpochs | undefined>;
  /** Whether the captured tokens are still the ones in force, as far as this gateway may know. */
  areCurrent(captured: CapturedEpochs): boolean;
  /**
   * Gives the scopes new tokens. Resolves as soon as the store has confirmed it, in the turn in which the other
   * gateways are told.
   * @param purge its id
   * @throws when the store did not confirm it; whether it is then pending says the caller
   */
  renew(scopes: readonly CacheScope[], purge: string): Promise<Renewal>;
  /** Renewals that the store did not confirm: nothing is held or obtained of their scopes. */
  readonly pending: Pending;
  /** Scopes whose renewal is pending. */
  owed(): readonly CacheScope[];
  /** Milliseconds since the oldest token in use was read; undefined when none is held. */
  age(): number | undefined;
  close(): Promise<void>;
}

/** Scopes that are remembered, a quarter of this; the others are read again. */
const MAX_HELD = 40_000;
/** Gateways that have forgotten are counted for so many purges, and so many of them. */
const MAX_ANNOUNCED = 1_000;
const MAX_GATEWAYS = 1_000;

/**
 * The promise: a request that arrives after a purge was acknowledged is answered under the new tokens. It rests on one
 * sentence: a gateway uses a token for at most `lease` after it *sent* the read that brought it, and a purge waits
 * longer than that between the renewal and its answer. Announcements only make it faster; they never set a token, and a
 * reply to a read sent before a renewal of one of its scopes was known here is thrown away, since it may be the older.
 *
 * @param options.lease that of the questions that are asked now (ms)
 */
export function createEpochs(options: {
  store: FreshnessStore;
  clock: Clock;
  lease: () => number;
  onError?: (error: unknown) => void;
}): Epochs {
  const { store, onError = () => {} } = options;
  const known = createLeaseCache<string>({ ...options, onError, max: MAX_HELD, ownerOf: () => '' });
  const pending = createPending(onError);
  /** Purges announced here → gateways that have forgotten. */
  const forgotten = new LRUCache<string, Set<string>>({ max: MAX_ANNOUNCED });
  /**
   * The one that was read last. Redis may lose it, and then make another; for up to a lease gateways make keys from
   * both. That costs misses only: no two keys of different secrets are equal, and each holds its tokens.
   */
  let keySecret: string | undefined;

  store.listen({
    renewed: known.forget,
    forgotten(purge, gateway) {
      const gateways = forgotten.get(purge);
      if (gateways !== undefined && gateways.size < MAX_GATEWAYS) gateways.add(gateway);
    },
  });

  function isPending(scopes: readonly CacheScope[]): boolean {
    const unconfirmed = pending.scopes();
    return unconfirmed.size > 0 && scopes.some((scope) => unconfirmed.has(scope));
  }

  function held(scopes: readonly CacheScope[]): CapturedEpochs | undefined {
    if (keySecret === undefined || isPending(scopes)) return undefined;
    const tokens: string[] = [];
    for (const scope of scopes) {
      const token = known.held(scope);
      if (token === undefined) return undefined;
      tokens.push(token);
    }
    return { scopes, tokens, keySecret };
  }

  return {
    held,
    pending,
    async obtain(scopes) {
      // No request waits for a renewal that may take long to fail.
      if (isPending(scopes)) return undefined;
      return await known.readOnce(
        scopes,
        () => store.read(scopes),
        (reading, since) => {
          keySecret = reading.keySecret;
          for (const [i, scope] of scopes.entries()) {
            const token = reading.tokens[i];
            if (token === undefined) throw new Error('the store answered with too few tokens');
            known.keep(scope, token, since);
          }
          return held(scopes);
        },
      );
    },
    areCurrent({ scopes, tokens, keySecret: captured }) {
      if (keySecret !== captured || isPending(scopes)) return false;
      return scopes.every((scope, i) => known.held(scope) === tokens[i]);
    },
    async renew(scopes, purge) {
      const { lease, incarnation } = await store.renew(scopes);
      known.forget(scopes);
      const gateways = new Set<string>();
      forgotten.set(purge, gateways);
      // Not awaited: the lease counts from the reply, and nothing depends on the message.
      store.announce({ purge, scopes }).catch(onError);
      return {
        lease,
        replicas: () => gateways.size + 1,
        stands: async () => (await store.incarnation()) === incarnation,
      };
    },
    owed: () => [...pending.scopes()] as CacheScope[],
    age: known.age,
    async close() {
      pending.close();
      await store.close();
    },
  };
}
