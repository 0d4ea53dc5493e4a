import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { clientNetwork } from './client-network.ts';
import type { Clock } from '../clock.ts';

/** How many failures are let through: `burst` at once, and one more every `refill` milliseconds. */
interface ThrottleLimit {
  readonly burst: number;
  readonly refill: number;
}

/** Ten in a minute for one user name from one client, a hundred in a minute for all names from one client. */
const THROTTLE_LIMITS: Readonly<Record<'user' | 'client', ThrottleLimit>> = {
  user: { burst: 10, refill: 6_000 },
  client: { burst: 100, refill: 600 },
};

/** Buckets kept of each kind; the longest unused makes room. */
const MAX_BUCKETS = 10_000;

export interface LoginThrottle {
  /**
   * Asks leave for one attempt, and charges it in the same step: attempts under way count as failed until
   * they are known not to be, or a thousand guesses sent at once would all pass.
   *
   * @returns 0, or the seconds after which it makes sense to ask again; then nothing was charged.
   */
  admit(name: string, clientAddress: string): number;
  /** The attempt was right: forgets the failures of this user from this client. */
  succeeded(name: string, clientAddress: string): void;
  /** The attempt came to nothing, without telling whether it was right: it is given back. */
  abandoned(name: string, clientAddress: string): void;
}

/**
 * Slows the guessing of passwords. Failures are counted by user and client together and by client alone,
 * never by user alone: no client can lock a user out from elsewhere. Names count as spelt, whether or not such
 * a user exists.
 */
export function createLoginThrottle({
  clock,
  limits = THROTTLE_LIMITS,
  max = MAX_BUCKETS,
}: {
  readonly clock: Pick<Clock, 'now'>;
  readonly limits?: typeof THROTTLE_LIMITS;
  readonly max?: number;
}): LoginThrottle {
  const users = createBuckets(limits.user, clock, max);
  const clients = createBuckets(limits.client, clock, max);

  return {
    admit(name, clientAddress) {
      const client = clientNetwork(clientAddress);
      const user = userKey(name, client);
      const wait = Math.max(users.wait(user), clients.wait(client));
      if (wait > 0) return Math.ceil(wait / 1000);
      users.take(user);
      clients.take(client);
      return 0;
    },
    succeeded(name, clientAddress) {
      const client = clientNetwork(clientAddress);
      users.reset(userKey(name, client));
      clients.giveBack(client);
    },
    abandoned(name, clientAddress) {
      const client = clientNetwork(clientAddress);
      users.giveBack(userKey(name, client));
      clients.giveBack(client);
    },
  };
}

/** Leave for one attempt to log in, or the time for which there is none. */
export interface Admission {
  /** 0, or the seconds after which it makes sense to ask again; then nothing was charged. */
  readonly wait: number;
  /** The attempt was right. */
  succeeded(): void;
  /** The attempt came to nothing, without telling whether it was right: it is given back. */
  abandoned(): void;
}

/**
 * Port: lets attempts to log in through, here or in another process. What becomes of an attempt is told to the one
 * that charged it: nothing is given back where nothing was taken.
 */
export interface LoginAdmission {
  /** Asks leave for one attempt, and charges it in the same step. Never rejects. */
  admit(name: string, clientAddress: string): Promise<Admission>;
}

/** Of an attempt that is not counted. */
export const UNCHARGED: Admission = { wait: 0, succeeded() {}, abandoned() {} };

/** What one throttle says. */
export function admittedBy(
  throttle: LoginThrottle,
  name: string,
  clientAddress: string,
): Admission {
  const wait = throttle.admit(name, clientAddress);
  if (wait > 0) return { ...UNCHARGED, wait };
  return {
    wait,
    succeeded: () => throttle.succeeded(name, clientAddress),
    abandoned: () => throttle.abandoned(name, clientAddress),
  };
}

/** Of a gateway in one process: its own throttle. */
export function ownAdmission(throttle: LoginThrottle): LoginAdmission {
  return { admit: async (name, clientAddress) => admittedBy(throttle, name, clientAddress) };
}

/** A digest, because a name may be thousands of characters of an attacker's choosing. */
function userKey(name: string, client: string): string {
  return hash('sha256', JSON.stringify([name, client]), 'base64url');
}

interface Bucket {
  readonly tokens: number;
  readonly at: number;
}

/** Token buckets: full when unknown, filled by one token every `refill` milliseconds. */
function createBuckets({ burst, refill }: ThrottleLimit, clock: Pick<Clock, 'now'>, max: number) {
  const buckets = new LRUCache<string, Bucket>({ max });

  const tokensOf = (key: string, now: number): number => {
    const bucket = buckets.get(key);
    if (bucket === undefined) return burst;
    return Math.min(burst, bucket.tokens + (now - bucket.at) / refill);
  };
  const add = (key: string, count: number): void => {
    const now = clock.now();
    const tokens = tokensOf(key, now) + count;
    if (tokens >= burst) buckets.delete(key);
    else buckets.set(key, { tokens, at: now });
  };

  return {
    /** Milliseconds until there is a token; 0 when there is one. */
    wait: (key: string): number => Math.max(0, (1 - tokensOf(key, clock.now())) * refill),
    take: (key: string): void => add(key, -1),
    giveBack: (key: string): void => add(key, 1),
    reset: (key: string): void => void buckets.delete(key),
  };
}
