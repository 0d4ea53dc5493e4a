import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../clock.ts';
import type { Authentication, Principal, RememberedLogin } from './authenticator.ts';

/** Entries that are kept; each is a few hundred bytes. */
const MAX_VERIFIED = 10_000;

export interface VerifiedCredentialsOptions {
  /** Random bytes of this process, so that a digest is worth nothing anywhere else. */
  readonly secret: Uint8Array;
  /** For how long credentials are believed without a check, in milliseconds. 0: nothing is kept at all. */
  readonly verifiedFor: number;
  readonly clock: Pick<Clock, 'now'>;
  /** Default: 10,000. The longest unused entry makes room. */
  readonly max?: number;
}

/**
 * What the right password of a user is compared with now, such as its hash; undefined when there is no such user.
 */
type ProofOf = (name: string) => string | undefined;

export interface VerifiedCredentials {
  /** SHA-256 of the secret and the exact header value: what stands here instead of the password. */
  digest(authorization: string): string;
  /** The login of these credentials, if they were verified less than `verifiedFor` ago. */
  find(digest: string, proofOf: ProofOf): Authentication | undefined;
  /** The same for whoever asks again and again: it counts as long as {@link VerifiedCredentials.find} would find it. */
  remembered(digest: string, proofOf: ProofOf): RememberedLogin | undefined;
  /**
   * Whether these credentials were right when they were last compared, with the proof that the user still
   * has. Time does not matter. Not a login: it only says that this is no guess.
   */
  wasRight(digest: string, proofOf: ProofOf): boolean;
  /** Keeps credentials that were found right by comparing them with this proof, `at` that time (default: now). */
  remember(digest: string, name: string, proof: string, at?: number): void;
  /** Forgets credentials that turned out wrong. */
  forget(digest: string): void;
  /** Forgets the credentials of users that changed or went. */
  forgetChanged(proofOf: ProofOf): void;
  clear(): void;
}

interface Entry {
  readonly name: string;
  readonly proof: string;
  readonly until: number;
  readonly principal: Principal;
  readonly authentication: Authentication;
}

/**
 * Remembers verified credentials under a keyed digest, so that not every request costs a check. The time runs
 * from the check and is not extended by use. An entry counts only while its user has the very proof it was
 * compared with, so a user that was changed or removed in the users file is out at once.
 */
export function createVerifiedCredentials({
  secret,
  verifiedFor,
  clock,
  max = MAX_VERIFIED,
}: VerifiedCredentialsOptions): VerifiedCredentials {
  const entries = new LRUCache<string, Entry>({ max });
  const key = Buffer.from(secret).toString('base64');

  const current = (digest: string, proofOf: ProofOf): Entry | undefined => {
    const entry = entries.get(digest);
    return entry !== undefined && proofOf(entry.name) === entry.proof ? entry : undefined;
  };

  const inTime = (digest: string, proofOf: ProofOf): Entry | undefined => {
    const entry = current(digest, proofOf);
    return entry !== undefined && clock.now() < entry.until ? entry : undefined;
  };

  return {
    // Not an HMAC, which takes five times as long (3 µs): that guards digests which others see and could extend, and
    // these never leave the process.
    digest: (authorization) => hash('sha256', key + authorization, 'base64url'),

    find: (digest, proofOf) => inTime(digest, proofOf)?.authentication,

    remembered(digest, proofOf) {
      const entry = inTime(digest, proofOf);
      if (entry === undefined) return undefined;
      const { principal } = entry;
      // By the entry itself, not by its name: one that was forgotten and verified anew is another check.
      return { principal, counts: () => inTime(digest, proofOf) === entry };
    },

    wasRight: (digest, proofOf) => current(digest, proofOf) !== undefined,

    remember(digest, name, proof, at = clock.now()) {
      if (verifiedFor <= 0) return;
      const principal = Object.freeze({ name });
      const authentication: Authentication = Object.freeze({ ok: true, principal });
      entries.set(digest, { name, proof, until: at + verifiedFor, principal, authentication });
    },

    forget: (digest) => void entries.delete(digest),

    forgetChanged(proofOf) {
      const gone = [...entries.entries()].filter(([, { name, proof }]) => proofOf(name) !== proof);
      for (const [digest] of gone) entries.delete(digest);
    },

    clear: () => entries.clear(),
  };
}
