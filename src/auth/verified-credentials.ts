import { hash } from 'node:crypto';
import type { Clock } from '../common/clock.ts';
import { createOwnedTable } from '../common/owned-table.ts';
import type { Principal } from '../common/principal.ts';

/** Enough for some 100,000 users; each takes 800 bytes (measured). A dropped one costs a check. */
const MAX_HEADERS = 150_000;
const PAUSE_MS = 1_000;

/** How long right credentials count without another check (ms). */
export interface Trust {
  /** Counts for everything; 0: they are not kept. */
  readonly verifiedFor: number;
  /** The start of that time: the last use, or the sending of the last right check. */
  readonly since: 'use' | 'check';
  /** Counts for hits alone, from the sending of the last right check. */
  readonly believedFor: number;
}

export type RememberedLogin = NonNullable<
  ReturnType<ReturnType<typeof createVerifiedCredentials>['find']>
>;

interface Verified {
  readonly principal: Principal;
  readonly proof: unknown;
  checkedAt: number;
  usedAt: number;
  tryFrom: number;
}

export type VerifiedTable = ReturnType<typeof createVerifiedTable>;
export function createVerifiedTable(secret: Uint8Array, max = MAX_HEADERS) {
  const key = Buffer.from(secret).toString('base64');
  return {
    entries: createOwnedTable<Verified>(max),
    /** Hides the header. No HMAC, since the digest is never shown. */
    digest: (authorization: string) => hash('sha256', key + authorization, 'base64url'),
  };
}

/** Decides how long an entry counts; its user must still have the same proof. */
export function createVerifiedCredentials({
  table: { entries, digest },
  trust: { verifiedFor, since, believedFor },
  users,
  clock,
}: {
  readonly table: VerifiedTable;
  readonly trust: Trust;
  readonly users: { readonly accounts: Pick<ReadonlyMap<string, unknown>, 'get'> };
  readonly clock: Pick<Clock, 'now'>;
}) {
  let closed = false;

  const current = (name: string) => {
    const entry = closed ? undefined : entries.get(name);
    return entry && users.accounts.get(entry.principal.name) === entry.proof ? entry : undefined;
  };

  function isVerified(entry: Verified): boolean {
    const now = clock.now();
    if (now >= (since === 'use' ? entry.usedAt : entry.checkedAt) + verifiedFor) return false;
    entry.usedAt = now;
    return true;
  }

  const isBelieved = ({ checkedAt }: Verified) =>
    verifiedFor > 0 && clock.now() < checkedAt + believedFor;

  return {
    digest,
    find(name: string) {
      const entry = current(name);
      if (entry === undefined) return undefined;
      // Compares the entry: one that was verified anew is another login.
      const isStill = () => current(name) === entry;
      const login = Object.freeze({
        principal: entry.principal,
        /** True while the header gets this principal without a promise. */
        counts: () => isStill() && isVerified(entry),
        /** True while it counts, or is believed during another check. */
        countsForHits: () => isStill() && (isVerified(entry) || isBelieved(entry)),
      });
      return login.countsForHits() ? login : undefined;
    },
    /** True for credentials that were right once, by the proof that the user still has. */
    wasRight: (name: string) => current(name) !== undefined,
    /** @param at when the check was sent */
    remember(name: string, principal: Principal, proof: unknown, at: number): void {
      if (verifiedFor <= 0) return;
      const entry = current(name);
      const usedAt = clock.now();
      if (entry !== undefined) Object.assign(entry, { proof, checkedAt: at, usedAt });
      else
        entries.set(name, principal.owner, { principal, proof, checkedAt: at, usedAt, tryFrom: 0 });
    },
    /** Begins a background check, unless one runs or ended just now. @returns ends it */
    beginTry(name: string): (() => void) | undefined {
      const entry = current(name);
      if (entry === undefined || clock.now() < entry.tryFrom) return undefined;
      entry.tryFrom = Infinity;
      return () => void (entry.tryFrom = clock.now() + PAUSE_MS);
    },
    forget: (name: string) => entries.delete(name),
    close: () => void (closed = true),
  };
}
