import { hash } from 'node:crypto';
import { isIPv6, SocketAddress } from 'node:net';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../common/clock.ts';

/** How many failures are let through: `burst` at once, and one more every `refill` milliseconds. */
const THROTTLE_LIMITS = {
  user: { burst: 10, refill: 6_000 },
  client: { burst: 100, refill: 600 },
};

export type LoginThrottle = ReturnType<typeof createLoginThrottle>;

/**
 * Slows the guessing of passwords. Failures are counted by user and client together and by client alone, never by user
 * alone: no client can lock a user out from elsewhere. Names count as spelt, whether or not such a user exists.
 * @param max buckets kept of each kind; the longest unused makes room
 */
export function createLoginThrottle({
  clock,
  max,
}: Readonly<{ clock: Pick<Clock, 'now'>; max?: number }>) {
  const users = createBuckets(THROTTLE_LIMITS.user, clock, max);
  const clients = createBuckets(THROTTLE_LIMITS.client, clock, max);

  /** Of the name a digest, since it may be thousands of characters of an attacker's choosing. */
  function bucketsOf(name: string, clientAddress: string) {
    const client = clientNetwork(clientAddress);
    const user = hash('sha256', JSON.stringify([name, client]), 'base64url');
    return [users(user), clients(client)] as const;
  }

  return {
    /**
     * Asks leave for one attempt, and charges it in the same step: attempts under way count as failed until they are
     * known not to be, or a thousand guesses sent at once would all pass.
     * @returns 0, or the seconds after which it makes sense to ask again; then nothing was charged
     */
    admit(name: string, clientAddress: string): number {
      const [user, client] = bucketsOf(name, clientAddress);
      const wait = Math.max(user.wait(), client.wait());
      if (wait > 0) return Math.ceil(wait / 1000);
      user.add(-1);
      client.add(-1);
      return 0;
    },
    /** The attempt was right: forgets the failures of this user from this client. */
    succeeded(name: string, clientAddress: string): void {
      const [user, client] = bucketsOf(name, clientAddress);
      user.add(THROTTLE_LIMITS.user.burst);
      client.add(1);
    },
    /** The attempt came to nothing, without telling whether it was right: it is given back. */
    abandoned(name: string, clientAddress: string): void {
      for (const bucket of bucketsOf(name, clientAddress)) bucket.add(1);
    },
  };
}

/**
 * What counts as one client: an IPv4 address, also when it is written as IPv4-mapped IPv6 (RFC 4291 §2.5.5.2), or the
 * /64 network of an IPv6 address, of which a host commonly has all (RFC 6177 §2). Anything else is the text that it is.
 */
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
function createBuckets(
  { burst, refill }: { readonly burst: number; readonly refill: number },
  clock: Pick<Clock, 'now'>,
  max = 10_000,
) {
  const buckets = new LRUCache<string, { readonly tokens: number; readonly at: number }>({ max });
  return (key: string) => {
    const at = clock.now();
    const known = buckets.get(key);
    const tokens = known === undefined ? burst : known.tokens + (at - known.at) / refill;
    return {
      /** Milliseconds until there is a token; 0 when there is one. */
      wait: (): number => Math.max(0, (1 - tokens) * refill),
      add(count: number): void {
        const left = Math.min(burst, tokens) + count;
        if (left >= burst) buckets.delete(key);
        else buckets.set(key, { tokens: left, at });
      },
    };
  };
}

/** Is told what became of an attempt that was charged. A wrong one changes nothing. */
type Settle = (how: 'succeeded' | 'abandoned') => void;
/** Of an attempt that is not counted. */
export const UNCHARGED: Settle = () => {};

/**
 * Port: asks leave for one attempt, here or in another process. Never rejects.
 * @returns see {@link LoginThrottle.admit}; where it was charged, what is told how it ended
 */
export type AskLeave = (name: string, clientAddress: string) => Promise<number | Settle>;

/** What one throttle says. */
export const leaveOf =
  (throttle: LoginThrottle): AskLeave =>
  async (...attempt) =>
    throttle.admit(...attempt) || ((how) => throttle[how](...attempt));
