import { hash } from 'node:crypto';
import { isIPv6, SocketAddress } from 'node:net';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../common/clock.ts';

/** Failures let through: `burst` at once, then one more every `refill` milliseconds. */
const THROTTLE_LIMITS = {
  user: { burst: 10, refill: 6_000 },
  client: { burst: 100, refill: 600 },
};

type Limit = Readonly<Record<'burst' | 'refill', number>>;
type ThrottleOptions = Readonly<{ clock: Pick<Clock, 'now'>; max?: number }>;
export type LoginThrottle = ReturnType<typeof createLoginThrottle>;

/** Counts by user and client, and by client alone: no client locks out a user elsewhere. */
export function createLoginThrottle(options: ThrottleOptions) {
  const users = createBuckets(THROTTLE_LIMITS.user, options);
  const clients = createBuckets(THROTTLE_LIMITS.client, options);

  /** Hashes the name, which may be thousands of characters of an attacker's choosing. */
  function bucketsOf(name: string, clientAddress: string) {
    const client = clientNetwork(clientAddress);
    const user = hash('sha256', JSON.stringify([name, client]), 'base64url');
    return [users(user), clients(client)] as const;
  }

  return {
    /** Charges an attempt as failed. @returns 0, or the seconds to wait, uncharged */
    admit(name: string, clientAddress: string): number {
      const [user, client] = bucketsOf(name, clientAddress);
      const wait = Math.max(user.wait(), client.wait());
      if (wait > 0) return Math.ceil(wait / 1000);
      user.add(-1);
      return 0;
    },
    /** Charges the client. @returns the seconds for which all of this client must wait */
    failed(name: string, clientAddress: string): number {
      bucketsOf(name, clientAddress)[1].add(-1);
      return Math.ceil(bucketsOf(name, clientAddress)[1].wait() / 1000);
    },
    succeeded(name: string, clientAddress: string): void {
      bucketsOf(name, clientAddress)[0].add(THROTTLE_LIMITS.user.burst);
    },
    abandoned(name: string, clientAddress: string): void {
      bucketsOf(name, clientAddress)[0].add(1);
    },
  };
}

/** An IPv4 address, also mapped to IPv6 (RFC 4291 §2.5.5.2), or an IPv6 /64 (RFC 6177 §2). */
export function clientNetwork(address: string): string {
  const plain = address.replace(/%.*$/s, '');
  if (!isIPv6(plain)) return plain;
  // RFC 5952: only a mapped address (and ::/96) ends in dotted decimals.
  const { address: canonical } = new SocketAddress({ address: plain, family: 'ipv6' });
  const mapped = /^::ffff:(\d+\.[\d.]+)$/.exec(canonical)?.[1];
  if (mapped !== undefined) return mapped;
  const [left = [], right = []] = canonical.split('::').map((half) => half.match(/[^:]+/g) ?? []);
  const zeros = Array.from({ length: 8 - left.length - right.length }, () => '0');
  return `${[...left, ...zeros, ...right].slice(0, 4).join(':')}::/64`;
}

/** Token buckets: full when unknown, and filled by one token every `refill` milliseconds. */
export function createBuckets({ burst, refill }: Limit, { clock, max = 10_000 }: ThrottleOptions) {
  const buckets = new LRUCache<string, { readonly tokens: number; readonly at: number }>({ max });
  return (key: string) => {
    const at = clock.now();
    const known = buckets.get(key);
    const tokens = known === undefined ? burst : known.tokens + (at - known.at) / refill;
    return {
      wait: (): number => Math.max(0, (1 - tokens) * refill),
      add(count: number): void {
        const left = Math.min(burst, tokens) + count;
        if (left >= burst) buckets.delete(key);
        else buckets.set(key, { tokens: left, at });
      },
    };
  };
}

/** Ends an admitted attempt. @returns as {@link LoginThrottle.failed}; never rejects */
type Settle = (how: 'failed' | 'succeeded' | 'abandoned') => Promise<number>;

/** Port of {@link LoginThrottle.admit}, here or in another process. Never rejects. */
export type AskLeave = (name: string, clientAddress: string) => Promise<number | Settle>;

export const leaveOf =
  (throttle: LoginThrottle): AskLeave =>
  async (...attempt) =>
    throttle.admit(...attempt) || (async (how) => throttle[how](...attempt) ?? 0);
