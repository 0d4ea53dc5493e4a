/**
 * A part of the query cache that goes stale as one. `everything`: every entry; `unassigned`, which
 * every purge renews: entries that name no project, a name too long, or may span several.
 */
export type CacheScope = 'everything' | 'unassigned' | `project:${string}`;
/** Scopes have one token each; `sessions` are all that were begun before its renewal. */
export type Scope = CacheScope | 'sessions';

export interface Reading {
  readonly tokens: readonly string[];
  readonly keySecret: string;
}

export interface Renewed {
  /** Longest lease (ms) under which any gateway may still use the old tokens. */
  readonly lease: number;
  /** Longest lease of the others; 0 without any. */
  readonly others: number;
  /** Whether some gateway was asked for a project among the scopes since the store forgot it. */
  readonly known: boolean;
  readonly incarnation: string;
}

/** A purge as other gateways are told of it. It never holds a token. */
export type Announcement = { readonly purge: string; readonly scopes: readonly CacheScope[] };

export interface Listener {
  renewed(scopes: readonly CacheScope[]): void;
  /** A gateway has handled an announcement that was made here. */
  forgotten(purge: string, gateway: string): void;
}

/**
 * Port: where tokens and sessions live. A token is random, never a counter: a lost token is only
 * one purge more, while a counter that restarts would make old entries reachable again. With every
 * call the store notes the lease for which the gateway uses what it reads, so that a renewal knows
 * how long the old tokens may be used. Every method rejects when the store does not answer within
 * its deadline; then nothing is known of what it did.
 */
export interface FreshnessStore {
  /** Makes those that are absent. */
  read(scopes: readonly Scope[]): Promise<Reading>;
  /** Renews in one atomic step. A project without a token stays so: the next read makes it. */
  renew(scopes: readonly Scope[]): Promise<Renewed>;
  /** New after every restart and failover, which may lose a renewal confirmed just before. */
  incarnation(): Promise<string>;
  session(name: string, call: SessionCall): Promise<SessionReply>;
  /** Has the other gateways forget the scopes. Nothing depends on its arrival. */
  announce(announcement: Announcement): Promise<void>;
  listen(listener: Listener): void;
}

export interface SessionData {
  readonly principal: string;
  /** Digest of its first properties and catalog; '' where none count. Equal ones answer alike. */
  readonly profile: string;
  /** Catalog of requests that name none; null when none was named yet. */
  readonly catalog: string | null;
  readonly replica: string;
  /** A digest of engine and id exactly as they were when it began. */
  readonly spelling: string;
  /** Wall clock (ms) of its latest request. */
  readonly forwardedAt: number;
}

export interface SessionRecord extends SessionData {
  /** Its token, or that of all sessions, was renewed: what its answers depend on is unknown. */
  readonly dirty: boolean;
  readonly version: string;
  /** Moment by its reader's clock (ms) until which others may use what was before its catalog. */
  readonly settles?: number | undefined;
  /** Incarnation of the store that told it. */
  readonly incarnation?: string | undefined;
}

/** The token under which the record stands then. */
type Renewing<Do extends string> = { readonly do: Do; readonly token: string };

export type SessionCall =
  /** A clean record is used for the lease from now on. A beginning that is under way fails. */
  | { readonly do: 'read' }
  /** Reads, and leaves no trace. */
  | { readonly do: 'peek' }
  /** Begins: a renewal until `put` counts. A dirty name stays so: engines may give ids again. */
  | Renewing<'claim'>
  /** The second half. Rejects when the claim is gone; a dirty session needs none. */
  | (Renewing<'put'> & { readonly data: SessionData; readonly dirty: boolean })
  | Renewing<'renew'>
  /**
   * Notes other data if the record is clean and has the expected version; one that has these data
   * already stays; any other becomes dirty.
   */
  | (Renewing<'take'> & { readonly expected: string; readonly data: SessionData })
  | { readonly do: 'touch'; readonly at: number }
  | { readonly do: 'end' };

export interface SessionReply {
  /** After the call; undefined without one, or from before a loss (another incarnation). */
  readonly record?: SessionRecord | undefined;
  /** Time for which others may still use what was before its catalog was noted (ms). */
  readonly settles?: number | undefined;
  /** After a change: longest lease (ms) of others that use what was; without a record, of any. */
  readonly lease: number;
  /**
   * Changes when the store may have lost sessions. Without one the record is not from the store.
   */
  readonly incarnation?: string;
}

/** How long a record is kept that no request asks for (ms). */
export const SESSION_LIFE = 24 * 3_600_000;

/** @throws Error for a lease that is not from `own` to `longest` (ms) */
export function checkLease(lease: number, own: number, longest: number, where: string): number {
  if (lease >= own && lease <= Math.max(own, longest)) return lease;
  throw new Error(
    `${where} holds a length that no lease can have: the longest is ${lease}, not between ${own} and ${longest} ms`,
  );
}
