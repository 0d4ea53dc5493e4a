/**
 * Part of the query cache that goes stale as one. `everything`: every entry; `unassigned`, which
 * every purge renews: entries that name no project, a name too long, or may span several.
 */
export type CacheScope = 'everything' | 'unassigned' | `project:${string}`;
/** `sessions`: all that were begun before its renewal. */
export type Scope = CacheScope | 'sessions';

export interface Reading {
  readonly tokens: readonly string[];
  readonly keySecret: string;
}

export interface Renewed {
  /** Longest lease of any gateway on the old tokens (ms). */
  readonly lease: number;
  /** Longest of the others (ms); 0 without any. */
  readonly others: number;
  /** Some gateway was asked for one of the projects since the store forgot it. */
  readonly known: boolean;
  readonly incarnation: string;
}

/** Tells other gateways of a purge. Holds no token. */
export type Announcement = { readonly purge: string; readonly scopes: readonly CacheScope[] };

export interface Listener {
  renewed(scopes: readonly CacheScope[]): void;
  forgotten(purge: string, gateway: string): void;
}

/**
 * Port: tokens and sessions. Tokens are random: a lost one is only one purge more, while a counter
 * that restarts would make old entries reachable again. Every call notes the lease under which the
 * gateway uses what it reads, so that a renewal knows how long old tokens may be used. Rejects when
 * the store is late; then nothing is known of what it did.
 */
export interface FreshnessStore {
  /** Makes absent tokens. */
  read(scopes: readonly Scope[]): Promise<Reading>;
  /** Atomic. A project without a token stays so: the next read makes it. */
  renew(scopes: readonly Scope[]): Promise<Renewed>;
  /** New after restart and failover, which may lose a renewal confirmed just before. */
  incarnation(): Promise<string>;
  session(name: string, call: SessionCall): Promise<SessionReply>;
  /** Nothing depends on its arrival. */
  announce(announcement: Announcement): Promise<void>;
  listen(listener: Listener): void;
}

export interface SessionData {
  readonly principal: string;
  /** Digest of first properties and catalog, '' where none count. Equal ones answer alike. */
  readonly profile: string;
  /** For requests that name none; null before the first was named. */
  readonly catalog: string | null;
  readonly replica: string;
  /** Digest of engine and id exactly as spelt. */
  readonly spelling: string;
  /** Latest request, wall clock (ms). */
  readonly forwardedAt: number;
}

export interface SessionRecord extends SessionData {
  /** A token was renewed: what its answers depend on is unknown. */
  readonly dirty: boolean;
  readonly version: string;
  /** Moment by its reader's clock (ms) until which others may use what was before its catalog. */
  readonly settles?: number | undefined;
  readonly incarnation?: string | undefined;
}

type Renewing<Do extends string> = { readonly do: Do; readonly token: string };

export type SessionCall =
  /** A clean record is used for the lease from now on. Ends a beginning under way. */
  | { readonly do: 'read' }
  | { readonly do: 'peek' }
  /** First half of a beginning. A dirty name stays so: engines may give ids again. */
  | Renewing<'claim'>
  /** Second half. Rejects when the claim is gone; a dirty session needs none. */
  | (Renewing<'put'> & { readonly data: SessionData; readonly dirty: boolean })
  | Renewing<'renew'>
  /**
   * Changes data of a clean record of the expected version. One with these data stays; any other
   * becomes dirty.
   */
  | (Renewing<'take'> & { readonly expected: string; readonly data: SessionData })
  | { readonly do: 'touch'; readonly at: number }
  | { readonly do: 'end' };

export interface SessionReply {
  /** Undefined without one, or from before a loss (another incarnation). */
  readonly record?: SessionRecord | undefined;
  /** Time for which others may use what was before its catalog (ms). */
  readonly settles?: number | undefined;
  /** After a change: longest lease (ms) of others on what was; without a record, of any. */
  readonly lease: number;
  /** Changes when sessions may be lost; undefined for a record not from the store. */
  readonly incarnation?: string;
}

/** Life of a record that no request asks for (ms). */
export const SESSION_LIFE = 24 * 3_600_000;

/** @throws Error for a lease that is not from `own` to `longest` (ms) */
export function checkLease(lease: number, own: number, longest: number, where: string): number {
  if (lease >= own && lease <= Math.max(own, longest)) return lease;
  throw new Error(
    `${where} holds a length that no lease can have: the longest is ${lease}, not between ${own} and ${longest} ms`,
  );
}
