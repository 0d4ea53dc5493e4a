import { hash } from 'node:crypto';
import { isIPv6, SocketAddress } from 'node:net';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../common/clock.ts';

/** Failures that are let through: `burst` at once, and one more every `refill` milliseconds. Those that fail together may owe some. */
const THROTTLE_LIMITS = {
  user: { burst: 10, refill: 6_000 },
  client: { burst: 100, refill: 600 },
};

type Limit = Readonly<Record<'burst' | 'refill', number>>;
type ThrottleOptions = Readonly<{ clock: Pick<Clock, 'now'>; max?: number }>;
export type LoginThrottle = ReturnType<typeof createLoginThrottle>;

/** Counts failures by user and client together and by client alone, so that no client locks out a user elsewhere. */
export function createLoginThrottle(options: ThrottleOptions) {
  const users = createBuckets(THROTTLE_LIMITS.user, options);
  const clients = createBuckets(THROTTLE_LIMITS.client, options);

  /** A digest of the name, since that may be thousands of characters of an attacker's choosing. */
  function bucketsOf(name: string, clientAddress: string) {
    const client = clientNetwork(clientAddress);
    const user = hash('sha256', JSON.stringify([name, client]), 'base64url');
    return [users(user), clients(client)] as const;
  }

  return {
    /** Charges an attempt to this user from this client, as failed while it is under way. @returns 0, or the seconds to wait, uncharged */
    admit(name: string, clientAddress: string): number {
      const [user, client] = bucketsOf(name, clientAddress);
      const wait = Math.max(user.wait(), client.wait());
      if (wait > 0) return Math.ceil(wait / 1000);
      user.add(-1);
      return 0;
    },
    /** Charges it to the client, whatever the name. @returns the seconds for which all of this client must wait now; else 0 */
    failed(name: string, clientAddress: string): number {
      bucketsOf(name, clientAddress)[1].add(-1);
      return Math.ceil(bucketsOf(name, clientAddress)[1].wait() / 1000);
    },
    /** Forgets the failures of this user from this client. */
    succeeded(name: string, clientAddress: string): void {
      bucketsOf(name, clientAddress)[0].add(THROTTLE_LIMITS.user.burst);
    },
    /** The attempt did not tell whether it was right: it is given back. */
    abandoned(name: string, clientAddress: string): void {
      bucketsOf(name, clientAddress)[0].add(1);
    },
  };
}

/** An IPv4 address, also mapped to IPv6 (RFC 4291 §2.5.5.2); of an IPv6 one its /64 network (RFC 6177 §2). */
export function clientNetwork(address: string): string {
  const plain = address.replace(/%.*$/s, '');
  if (!isIPv6(plain)) return plain;
  // In the one spelling of RFC 5952, where only a mapped address (and ::/96) ends in dotted decimals.
  const { address: canonical } = new SocketAddress({ address: plain, family: 'ipv6' });
  const mapped = /^::ffff:(\d+\.[\d.]+)$/.exec(canonical)?.[1];
  if (mapped !== undefined) return mapped;
  const [left = [], right = []] = canonical.split('::').map((half) => half.match(/[^:]+/g) ?? []);
  const zeros = Array.from({ length: 8 - left.length - right.length }, () => '0');
  return `${[...left, ...zeros, ...right].slice(0, 4).join(':')}::/64`;
}

/** Token buckets by key: full when unknown, filled by one token every `refill` milliseconds. */
export function createBuckets({ burst, refill }: Limit, { clock, max = 10_000 }: ThrottleOptions) {
  const buckets = new LRUCache<string, { readonly tokens: number; readonly at: number }>({ max });
  return (key: string) => {
    const at = clock.now();
    const known = buckets.get(key);
    const tokens = known === undefined ? burst : known.tokens + (at - known.at) / refill;
    return {
      /** Milliseconds. */
      wait: (): number => Math.max(0, (1 - tokens) * refill),
      add(count: number): void {
        const left = Math.min(burst, tokens) + count;
        if (left >= burst) buckets.delete(key);
        else buckets.set(key, { tokens: left, at });
      },
    };
  };
}

/** Told how an attempt that was let through ended. @returns as {@link LoginThrottle.failed}. Never rejects. */
type Settle = (how: 'failed' | 'succeeded' | 'abandoned') => Promise<number>;

/** Port: see {@link LoginThrottle.admit}, here or in another process. Never rejects. */
export type AskLeave = (name: string, clientAddress: string) => Promise<number | Settle>;

/** Asks a throttle in this process. */
export const leaveOf =
  (throttle: LoginThrottle): AskLeave =>
  async (...attempt) =>
    throttle.admit(...attempt) || (async (how) => throttle[how](...attempt) ?? 0);
