import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../common/clock.ts';
import type { RememberedLogin } from './authenticator.ts';

/** Entries that are kept; each is a few hundred bytes. */
const MAX_VERIFIED = 10_000;

/**
 * Remembers verified credentials under a keyed digest, so that not every request costs a check. The time runs
 * from the check and is not extended by use. An entry counts only while its user has the very proof it was
 * compared with, so a user that was changed or removed in the users file is out at once.
 */
export function createVerifiedCredentials(options: {
  /** Random bytes of this process, so that a digest is worth nothing anywhere else. */
  readonly secret: Uint8Array;
  /** For how long credentials are believed without a check, in milliseconds. 0: nothing is kept at all. */
  readonly verifiedFor: number;
  /** What the right password of a user is compared with now; undefined when there is no such user. */
  readonly proofOf: (name: string) => unknown;
  readonly clock: Pick<Clock, 'now'>;
  /** The longest unused entry makes room. */
  readonly max?: number;
}) {
  const { secret, verifiedFor, proofOf, clock, max = MAX_VERIFIED } = options;
  const entries = new LRUCache<string, RememberedLogin & { readonly proof: unknown }>({ max });
  const key = Buffer.from(secret).toString('base64');

  const current = (digest: string) => {
    const entry = entries.get(digest);
    return entry !== undefined && proofOf(entry.principal.name) === entry.proof ? entry : undefined;
  };

  return {
    /**
     * SHA-256 of the secret and the exact header value: what stands here instead of the password. An HMAC, which takes
     * five times as long (3 µs), guards digests that others see and could extend; these never leave the process.
     */
    digest: (authorization: string) => hash('sha256', key + authorization, 'base64url'),

    /** The login of these credentials, if they were verified less than `verifiedFor` ago. */
    find(digest: string): RememberedLogin | undefined {
      const entry = entries.get(digest);
      return entry?.counts() ? entry : undefined;
    },

    /**
     * Whether these credentials were right when they were last compared, with the proof that the user still
     * has. Time does not matter. Not a login: it only says that this is no guess.
     */
    wasRight: (digest: string) => current(digest) !== undefined,

    /** Keeps credentials that were found right by comparing them with this proof, `at` that time. */
    remember(digest: string, name: string, proof: unknown, at: number): void {
      if (verifiedFor <= 0) return;
      const entry = Object.freeze({
        principal: Object.freeze({ name }),
        proof,
        // By the entry itself, not by its name: one that was forgotten and verified anew is another check.
        counts: () => current(digest) === entry && clock.now() < at + verifiedFor,
      });
      entries.set(digest, entry);
    },

    /** Forgets credentials that turned out wrong. */
    forget: (digest: string) => void entries.delete(digest),
    clear: () => entries.clear(),
  };
}
