import { hash } from 'node:crypto';
import type { Clock } from '../common/clock.ts';
import { createOwnedTable } from '../common/owned-table.ts';
import type { Principal } from '../common/principal.ts';

/** Headers, some 100,000 users and more; each takes 800 bytes (measured, rounded up). One that is dropped costs a check. */
const MAX_HEADERS = 150_000;
/** Pause after a check behind a hit that brought nothing. */
const PAUSE_MS = 1_000;

/** For how long credentials that were right count without another check (ms). */
export interface Trust {
  /** For everything; 0: they are not kept. */
  readonly verifiedFor: number;
  /** Whether that runs from their last use, or from when their last right check was sent. */
  readonly since: 'use' | 'check';
  /** For hits alone, from when their last right check was sent. */
  readonly believedFor: number;
}

export interface RememberedLogin {
  readonly principal: Principal;
  /** Whether its header would still be answered with this principal and without a promise. */
  counts(): boolean;
  /** True while it is good for a hit: it counts, or is believed while it is checked again. */
  countsForHits(): boolean;
}

/** Credentials that were right. */
interface Verified {
  readonly principal: Principal;
  /** The proof that they were compared with. */
  readonly proof: unknown;
  /** When the last check that found them right was sent. */
  checkedAt: number;
  usedAt: number;
  /** When the next check behind a hit may begin. */
  tryFrom: number;
}

export type VerifiedTable = ReturnType<typeof createVerifiedTable>;
/** Verified credentials, by a keyed digest of their header. */
export function createVerifiedTable(secret: Uint8Array, max = MAX_HEADERS) {
  const key = Buffer.from(secret).toString('base64');
  return {
    entries: createOwnedTable<Verified>(max),
    /** The header itself is not kept. No HMAC, since it is never shown. */
    digest: (authorization: string) => hash('sha256', key + authorization, 'base64url'),
  };
}

/** Says for how long what is in the table counts. The user must still have the proof that was compared with. */
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
    /** One that is good for a hit at least. */
    find(name: string): RememberedLogin | undefined {
      const entry = current(name);
      if (entry === undefined) return undefined;
      // By the entry itself, not by its name: one that was forgotten and verified anew is another login.
      const isStill = () => current(name) === entry;
      const login = Object.freeze({
        principal: entry.principal,
        counts: () => isStill() && isVerified(entry),
        countsForHits: () => isStill() && (isVerified(entry) || isBelieved(entry)),
      });
      return login.countsForHits() ? login : undefined;
    },
    /** Whether they were right, at any time, by the proof that the user still has: no guess. */
    wasRight: (name: string) => current(name) !== undefined,
    /** Keeps what was found right by comparing it with this proof, in a check that was sent `at` that time. */
    remember(name: string, principal: Principal, proof: unknown, at: number): void {
      if (verifiedFor <= 0) return;
      const entry = current(name);
      const usedAt = clock.now();
      if (entry !== undefined) Object.assign(entry, { proof, checkedAt: at, usedAt });
      else
        entries.set(name, principal.owner, { principal, proof, checkedAt: at, usedAt, tryFrom: 0 });
    },
    /** Where a check behind a hit may begin: the next one may when what is returned was called, and a while is over. */
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
