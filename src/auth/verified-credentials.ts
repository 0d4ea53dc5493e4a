import { createHmac } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../clock.ts';
import type { Authentication } from './authenticator.ts';

/** Entries that are kept; each is a few hundred bytes. */
const MAX_VERIFIED = 10_000;

export interface VerifiedCredentialsOptions {
  /** Random bytes of this process, so that a digest is worth nothing anywhere else. */
  readonly secret: Uint8Array;
  /** For how long credentials are believed without hashing, in milliseconds. 0: nothing is kept at all. */
  readonly verifiedFor: number;
  readonly clock: Pick<Clock, 'now'>;
  /** Default: 10,000. The longest unused entry makes room. */
  readonly max?: number;
}

/** The hash of a user now, or undefined when there is no such user. */
type HashOf = (name: string) => string | undefined;

export interface VerifiedCredentials {
  /** HMAC-SHA-256 of the exact header value: what stands here instead of the password. */
  digest(authorization: string): string;
  /** The login of these credentials, if they were verified less than `verifiedFor` ago. */
  find(digest: string, hashOf: HashOf): Authentication | undefined;
  /**
   * Whether these credentials were right when they were last compared, with the hash that the user still
   * has. Time does not matter. Not a login: it only says that this is no guess.
   */
  wasRight(digest: string, hashOf: HashOf): boolean;
  /** Keeps credentials that were just found right by comparing them with this hash. */
  remember(digest: string, name: string, hash: string): void;
  /** Forgets the credentials of users that changed or went. */
  forgetChanged(hashOf: HashOf): void;
  clear(): void;
}

interface Entry {
  readonly name: string;
  readonly hash: string;
  readonly until: number;
  readonly authentication: Authentication;
}

/**
 * Remembers verified credentials under a keyed digest, so that not every request costs a hash. The time runs
 * from the comparison and is not extended by use. An entry counts only while its user has the very hash it
 * was compared with, so a changed or removed user is out at once.
 */
export function createVerifiedCredentials({
  secret,
  verifiedFor,
  clock,
  max = MAX_VERIFIED,
}: VerifiedCredentialsOptions): VerifiedCredentials {
  const entries = new LRUCache<string, Entry>({ max });

  const current = (digest: string, hashOf: HashOf): Entry | undefined => {
    const entry = entries.get(digest);
    return entry !== undefined && hashOf(entry.name) === entry.hash ? entry : undefined;
  };

  return {
    digest: (authorization) =>
      createHmac('sha256', secret).update(authorization).digest('base64url'),

    find(digest, hashOf) {
      const entry = current(digest, hashOf);
      return entry !== undefined && clock.now() < entry.until ? entry.authentication : undefined;
    },

    wasRight: (digest, hashOf) => current(digest, hashOf) !== undefined,

    remember(digest, name, hash) {
      if (verifiedFor <= 0) return;
      const authentication: Authentication = Object.freeze({
        ok: true,
        principal: Object.freeze({ name }),
      });
      entries.set(digest, { name, hash, until: clock.now() + verifiedFor, authentication });
    },

    forgetChanged(hashOf) {
      const gone = [...entries.entries()].filter(([, { name, hash }]) => hashOf(name) !== hash);
      for (const [digest] of gone) entries.delete(digest);
    },

    clear: () => entries.clear(),
  };
}
