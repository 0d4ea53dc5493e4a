import { LRUCache } from 'lru-cache';
import type { Clock } from '../../clock.ts';
import type { EpochStore } from './epoch-store.ts';
import { leaseHolds, leaseStart, type LeaseStart } from '../../lease.ts';
import type { Scope } from './scopes.ts';

/** The epochs under which a look-up or a fill runs. Taken before the engine is asked, never after. */
export interface CapturedEpochs {
  readonly scopes: readonly Scope[];
  readonly tokens: readonly string[];
  readonly keySecret: string;
}

/** New epochs that the store has confirmed. */
export interface Renewal {
  /** What has to pass from the confirmation until no replica uses the old ones (milliseconds). */
  readonly lease: number;
  /** Replicas that have told so far that they forgot the old ones, this one included. */
  readonly replicas: () => number;
  /** Whether what confirmed it is still what keeps the epochs. Rejects when that cannot be known. */
  readonly stands: () => Promise<boolean>;
}

export interface Epochs {
  /** The epochs of the scopes, if this replica may use what it knows of them at this very moment. */
  held(scopes: readonly Scope[]): CapturedEpochs | undefined;
  /** Reads the epochs. Undefined when they cannot be known, so that the cache must not be used. */
  obtain(scopes: readonly Scope[]): Promise<CapturedEpochs | undefined>;
  /** Whether the captured epochs are still the ones in force, as far as this replica may know. */
  areCurrent(captured: CapturedEpochs): boolean;
  /**
   * Gives the scopes new epochs. Resolves as soon as the store has confirmed it, in the turn in which the other
   * replicas are told.
   * @param purge its id
   * @throws when the store did not confirm it; whether it is then owed says the caller, see {@link Epochs.owe}
   */
  renew(scopes: readonly Scope[], purge: string): Promise<Renewal>;
  /**
   * Notes that the scopes must be renewed before this replica uses any epoch again. Tried in the background
   * until it is done, since other replicas go on using the old epochs; until then no epoch can be obtained.
   * Resolves when it is done; never, when this replica is closed before, or when {@link MAX_OWED} more are owed
   * meanwhile. Never rejects.
   * @param purge the id of the purge
   */
  owe(scopes: readonly Scope[], purge: string): Promise<Renewal>;
  /** Scopes whose renewal is owed. */
  owed(): readonly Scope[];
  /** Milliseconds since the oldest epoch in use was read; undefined when none is held. */
  age(): number | undefined;
  close(): Promise<void>;
}

/** Of so many purges that are owed it is remembered who waits for them, the latest. */
export const MAX_OWED = 1_000;
/** How often an epoch read is sent again because an announcement made its reply worthless. */
const MAX_READS = 4;
/** Pause between two tries to settle what is owed. */
const SETTLE_INTERVAL = 500;
/** Scopes that this replica remembers; the others are read again. */
const MAX_HELD = 10_000;

interface Held {
  readonly token: string;
  readonly since: LeaseStart;
}

/**
 * What this replica knows of the epochs, and for how long it may use it.
 *
 * The promise: a request that arrives after a purge was acknowledged is answered under the new epochs. It
 * rests on one sentence: a replica uses an epoch for at most `lease` after it *sent* the read that brought
 * it, and a purge waits longer than that between the renewal and its answer. Announcements only make it
 * faster; they never set an epoch, and a reply to a read sent before an announcement was handled is thrown
 * away, since it may be the older of the two.
 *
 * @param options.lease milliseconds; Infinity when no other replica can renew an epoch
 */
export function createEpochs(options: {
  store: EpochStore;
  clock: Clock;
  lease: number;
  onError?: (error: unknown) => void;
}): Epochs {
  const { store, clock, lease } = options;
  const held = new LRUCache<Scope, Held>({ max: MAX_HELD });
  /** Scope → number of the debt, so that a debt made while an older one is being settled stays. */
  const owed = new Map<Scope, number>();
  /** The id of the purge that was owed last. */
  let owedFor = '';
  /** Those who wait until what they owe is renewed, the oldest first. */
  const creditors = new Set<(renewal: Renewal) => void>();
  const reads = new Map<string, Promise<CapturedEpochs | undefined>>();
  let debts = 0;
  /**
   * The one that was read last. Redis may lose it, and then make another; for up to a lease replicas make keys from
   * both. That costs misses only: no two keys of different secrets are equal, and each holds its epochs.
   */
  let keySecret: string | undefined;
  let announcements = 0;
  /** From when a try is planned until it is over. */
  let settling = false;
  let settleTimer: NodeJS.Timeout | undefined;
  let closed = false;

  function forget(scopes: readonly Scope[]): void {
    announcements += 1;
    for (const scope of scopes) held.delete(scope);
  }
  store.onAnnouncement(forget);

  function heldNow(scopes: readonly Scope[]): CapturedEpochs | undefined {
    if (owed.size > 0 || keySecret === undefined) return undefined;
    const tokens: string[] = [];
    for (const scope of scopes) {
      const known = held.get(scope);
      if (known === undefined || !leaseHolds(known.since, lease, clock)) return undefined;
      tokens.push(known.token);
    }
    return { scopes, tokens, keySecret };
  }

  async function renew(scopes: readonly Scope[], purge: string): Promise<Renewal> {
    const [before, leaseToPass] = await Promise.all([store.incarnation(), store.renew(scopes)]);
    forget(scopes);
    // Not awaited: the lease counts from the reply, and nothing depends on the message.
    store.announce({ purge, scopes }).catch((error: unknown) => options.onError?.(error));
    return {
      lease: leaseToPass,
      replicas: () => store.acknowledged(purge),
      stands: async () => (await store.incarnation()) === before,
    };
  }

  /** Renews what is owed. Rejects when it could not. */
  async function settle(): Promise<void> {
    const settled = [...owed];
    const paid = [...creditors];
    const renewal = await renew(
      settled.map(([scope]) => scope),
      owedFor,
    );
    for (const [scope, debt] of settled) if (owed.get(scope) === debt) owed.delete(scope);
    for (const tell of paid) {
      creditors.delete(tell);
      tell(renewal);
    }
  }

  /** One run at a time, as long as something is owed. */
  function settleLater(): void {
    if (settling || closed || owed.size === 0) return;
    settling = true;
    settleTimer = setTimeout(() => {
      settle()
        .catch((error: unknown) => options.onError?.(error))
        .finally(() => {
          settling = false;
          settleLater();
        });
    }, SETTLE_INTERVAL);
    settleTimer.unref();
  }

  async function read(scopes: readonly Scope[]): Promise<CapturedEpochs | undefined> {
    for (let sent = 0; sent < MAX_READS; sent += 1) {
      // Settled in the background: no request waits for a renewal that may take long to fail.
      if (owed.size > 0) return undefined;
      const since = leaseStart(clock);
      const announcementsBefore = announcements;
      const reading = await store.read(scopes);
      if (announcements !== announcementsBefore || owed.size > 0) continue;
      keySecret = reading.keySecret;
      for (const [i, scope] of scopes.entries()) {
        const token = reading.tokens[i];
        if (token === undefined) throw new Error('the epoch store answered with too few epochs');
        held.set(scope, { token, since });
      }
      const captured = heldNow(scopes);
      if (captured !== undefined) return captured;
      // The reply took longer than the lease: it is already too old to be used.
    }
    return undefined;
  }

  return {
    held: heldNow,
    obtain(scopes) {
      // A catalog may be named anything, also what would join two scopes.
      const name = JSON.stringify(scopes);
      const running = reads.get(name);
      if (running !== undefined) return running;
      const started = read(scopes)
        .catch((error: unknown) => {
          options.onError?.(error);
          return undefined;
        })
        .finally(() => reads.delete(name));
      reads.set(name, started);
      return started;
    },
    areCurrent({ scopes, tokens, keySecret: captured }) {
      if (owed.size > 0 || keySecret !== captured) return false;
      // What was read together began together.
      let holds: LeaseStart | undefined;
      return scopes.every((scope, i) => {
        const known = held.get(scope);
        if (known === undefined || known.token !== tokens[i]) return false;
        if (known.since !== holds && !leaseHolds(known.since, lease, clock)) return false;
        holds = known.since;
        return true;
      });
    },
    renew,
    owe(scopes, purge) {
      debts += 1;
      owedFor = purge;
      for (const scope of scopes) owed.set(scope, debts);
      forget(scopes);
      settleLater();
      return new Promise((resolve) => {
        creditors.add(resolve);
        const [oldest] = creditors;
        if (creditors.size > MAX_OWED && oldest !== undefined) creditors.delete(oldest);
      });
    },
    owed: () => [...owed.keys()],
    age() {
      let oldest: number | undefined;
      for (const { since } of held.values()) {
        if (!leaseHolds(since, lease, clock)) continue;
        oldest = Math.max(oldest ?? 0, clock.now() - since.now);
      }
      return oldest;
    },
    async close() {
      closed = true;
      clearTimeout(settleTimer);
      await store.close();
    },
  };
}
