import { createHmac } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../clock.ts';
import type { Authentication } from './authenticator.ts';

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
  /** HMAC-SHA-256 of the exact header value: what stands here instead of the password. */
  digest(authorization: string): string;
  /** The login of these credentials, if they were verified less than `verifiedFor` ago. */
  find(digest: string, proofOf: ProofOf): Authentication | undefined;
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

  const current = (digest: string, proofOf: ProofOf): Entry | undefined => {
    const entry = entries.get(digest);
    return entry !== undefined && proofOf(entry.name) === entry.proof ? entry : undefined;
  };

  return {
    digest: (authorization) =>
      createHmac('sha256', secret).update(authorization).digest('base64url'),

    find(digest, proofOf) {
      const entry = current(digest, proofOf);
      return entry !== undefined && clock.now() < entry.until ? entry.authentication : undefined;
    },

    wasRight: (digest, proofOf) => current(digest, proofOf) !== undefined,

    remember(digest, name, proof, at = clock.now()) {
      if (verifiedFor <= 0) return;
      const authentication: Authentication = Object.freeze({
        ok: true,
        principal: Object.freeze({ name }),
      });
      entries.set(digest, { name, proof, until: at + verifiedFor, authentication });
    },

    forget: (digest) => void entries.delete(digest),

    forgetChanged(proofOf) {
      const gone = [...entries.entries()].filter(([, { name, proof }]) => proofOf(name) !== proof);
      for (const [digest] of gone) entries.delete(digest);
    },

    clear: () => entries.clear(),
  };
}
