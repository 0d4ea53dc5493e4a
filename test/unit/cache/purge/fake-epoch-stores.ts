import type {
  Announcement,
  CacheScope,
  FreshnessStore,
  Listener,
  Reading,
  Renewed,
  Scope,
} from '../../../../src/freshness/freshness-store.ts';

interface Pending<T> {
  readonly scopes: readonly Scope[];
  answer(value: T): void;
  fail(): void;
}

export interface HandStore extends FreshnessStore {
  /** Calls that have not been answered, oldest first. */
  readonly reads: Pending<Reading>[];
  /** Answered with a lease. */
  readonly renewals: Pending<number>[];
  readonly announced: Announcement[];
  /** What keeps the tokens now, or the error with which it cannot be asked. */
  incarnationNow: string | Error;
  /** Whether it finds tokens of what is renewed. */
  known: boolean;
  /** Delivers an announcement. */
  tell(scopes: readonly CacheScope[]): void;
  /** A gateway tells that it has forgotten. */
  forgotten(purge: string, gateway: string): void;
}

/** An epoch store whose every reply a test releases by hand. */
export function handStore(): HandStore {
  const reads: Pending<Reading>[] = [];
  const renewals: Pending<number>[] = [];
  const announced: Announcement[] = [];
  let listener: Listener | undefined;

  function ask<T>(queue: Pending<T>[], scopes: readonly Scope[]): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const leaveQueue = () => queue.splice(queue.indexOf(pending), 1);
    const pending: Pending<T> = {
      scopes,
      answer(value) {
        leaveQueue();
        resolve(value);
      },
      fail() {
        leaveQueue();
        reject(new Error('the store does not answer'));
      },
    };
    queue.push(pending);
    return promise;
  }

  const store: HandStore = {
    reads,
    renewals,
    announced,
    incarnationNow: 'first',
    known: true,
    async incarnation() {
      if (typeof store.incarnationNow === 'string') return store.incarnationNow;
      throw store.incarnationNow;
    },
    read: (scopes) => ask(reads, scopes),
    async renew(scopes): Promise<Renewed> {
      const confirmed = ask(renewals, scopes);
      const incarnation = await store.incarnation();
      const lease = await confirmed;
      return { lease, others: lease, known: store.known, incarnation };
    },
    session: () => Promise.reject(new Error('there are no sessions here')),
    async announce(announcement) {
      announced.push(announcement);
    },
    listen(heard) {
      listener = heard;
    },
    tell: (scopes) => listener?.renewed(scopes),
    forgotten: (...told) => listener?.forgotten(...told),
  };
  return store;
}

/** The epoch of every scope is one and the same text. */
export function reading(scopes: readonly Scope[], token: string): Reading {
  return { tokens: scopes.map((scope) => `${scope}=${token}`), keySecret: 'secret' };
}

export interface SharedEpochs {
  /** The store as one more replica sees it. */
  replica(lease: number): FreshnessStore;
  /** Whether announcements are delivered: at once, never, or when {@link SharedEpochs.deliver} is called. */
  messages: 'delivered' | 'lost' | 'late';
  /** Delivers those that are late. */
  deliver(): void;
  /** Held here: before the store renews epochs, and before the replica is told that it has. */
  beforeRenewal: () => Promise<void>;
  afterRenewal: () => Promise<void>;
  /** Whether the store can be reached. */
  reachable: boolean;
  /** What keeps the epochs. */
  incarnation: string;
  /** The secret of the keys, which the store may lose and make anew. */
  keySecret: string;
}

/** One set of epochs that several replicas use, as in Redis. */
export function sharedEpochs(): SharedEpochs {
  const tokens = new Map<Scope, string>();
  const listeners: Listener[] = [];
  let made = 0;
  let longest = 0;
  let late: Announcement[] = [];
  const tellAll = ({ purge, scopes }: Announcement) => {
    for (const listener of listeners) listener.renewed(scopes);
    for (const [number, listener] of listeners.slice(1).entries()) {
      listener.forgotten(purge, `gateway ${number}`);
    }
  };
  const fresh = () => `token ${(made += 1)}`;
  const shared: SharedEpochs = {
    messages: 'delivered',
    reachable: true,
    incarnation: 'first',
    keySecret: 'secret',
    beforeRenewal: async () => {},
    afterRenewal: async () => {},
    deliver() {
      for (const announcement of late) tellAll(announcement);
      late = [];
    },
    replica(lease) {
      const reached = () => {
        if (!shared.reachable) throw new Error('the store cannot be reached');
        longest = Math.max(longest, lease);
      };
      return {
        async read(scopes) {
          reached();
          return {
            keySecret: shared.keySecret,
            tokens: scopes.map((scope) => {
              const token = tokens.get(scope) ?? fresh();
              tokens.set(scope, token);
              return token;
            }),
          };
        },
        async renew(scopes) {
          await shared.beforeRenewal();
          reached();
          const known = scopes.some((scope) => scope.startsWith('project:') && tokens.has(scope));
          for (const scope of scopes) tokens.set(scope, fresh());
          const { incarnation } = shared;
          const renewed = { lease: longest, others: longest, known, incarnation };
          await shared.afterRenewal();
          return renewed;
        },
        async incarnation() {
          reached();
          return shared.incarnation;
        },
        async announce(announcement) {
          if (shared.messages === 'delivered') tellAll(announcement);
          if (shared.messages === 'late') late.push(announcement);
        },
        session: () => Promise.reject(new Error('there are no sessions here')),
        listen: (listener) => void listeners.push(listener),
        async close() {},
      };
    },
  };
  return shared;
}
