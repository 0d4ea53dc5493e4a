import type { EpochReading, EpochStore } from '../../../src/query-cache/epoch-store.ts';
import type { Scope } from '../../../src/query-cache/scopes.ts';

interface Pending<T> {
  readonly scopes: readonly Scope[];
  answer(value: T): void;
  fail(): void;
}

export interface HandStore extends EpochStore {
  /** Calls that have not been answered, oldest first. */
  readonly reads: Pending<EpochReading>[];
  readonly renewals: Pending<number>[];
  readonly announced: (readonly Scope[])[];
  /** Delivers an announcement. */
  tell(scopes: readonly Scope[]): void;
  readonly closed: boolean;
}

/** An epoch store whose every reply a test releases by hand. */
export function handStore(): HandStore {
  const reads: Pending<EpochReading>[] = [];
  const renewals: Pending<number>[] = [];
  const announced: (readonly Scope[])[] = [];
  let listener: ((scopes: readonly Scope[]) => void) | undefined;
  let closed = false;

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

  return {
    reads,
    renewals,
    announced,
    read: (scopes) => ask(reads, scopes),
    renew: (scopes) => ask(renewals, scopes),
    async announce(scopes) {
      announced.push(scopes);
    },
    onAnnouncement(heard) {
      listener = heard;
    },
    tell: (scopes) => listener?.(scopes),
    async close() {
      closed = true;
    },
    get closed() {
      return closed;
    },
  };
}

/** The epoch of every scope is one and the same text. */
export function reading(scopes: readonly Scope[], token: string): EpochReading {
  return { tokens: scopes.map((scope) => `${scope}=${token}`), keySecret: 'secret' };
}

export interface SharedEpochs {
  /** The store as one more replica sees it. */
  replica(lease: number): EpochStore;
  /** Whether announcements are delivered. */
  delivering: boolean;
  /** Whether the store can be reached. */
  reachable: boolean;
}

/** One set of epochs that several replicas use, as in Redis. */
export function sharedEpochs(): SharedEpochs {
  const tokens = new Map<Scope, string>();
  const listeners: ((scopes: readonly Scope[]) => void)[] = [];
  let made = 0;
  let longest = 0;
  const fresh = () => `token ${(made += 1)}`;
  const shared: SharedEpochs = {
    delivering: true,
    reachable: true,
    replica(lease) {
      const reached = () => {
        if (!shared.reachable) throw new Error('the store cannot be reached');
        longest = Math.max(longest, lease);
      };
      return {
        async read(scopes) {
          reached();
          return {
            keySecret: 'secret',
            tokens: scopes.map((scope) => {
              const token = tokens.get(scope) ?? fresh();
              tokens.set(scope, token);
              return token;
            }),
          };
        },
        async renew(scopes) {
          reached();
          for (const scope of scopes) tokens.set(scope, fresh());
          return longest;
        },
        async announce(scopes) {
          if (shared.delivering) for (const listener of listeners) listener(scopes);
        },
        onAnnouncement: (listener) => void listeners.push(listener),
        async close() {},
      };
    },
  };
  return shared;
}
