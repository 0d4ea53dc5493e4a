/** What of the query cache may go stale, see `cache/projects.ts`. */
export type CacheScope = 'everything' | 'unassigned' | `project:${string}`;
/** What goes stale as one, and has one token. `sessions` are all sessions that were begun before its renewal. */
export type Scope = CacheScope | 'sessions';

/** Tokens as they are now. */
export interface Reading {
  /** Aligned with the scopes that were asked for. */
  readonly tokens: readonly string[];
  /** The secret under which all gateways make keys. */
  readonly keySecret: string;
}

/** New tokens that the store has confirmed. */
export interface Renewed {
  /** The longest lease (ms) under which any gateway may still use the old ones, this one included. */
  readonly lease: number;
  /** The same without this gateway; 0 when there is no other. */
  readonly others: number;
  /** See {@link FreshnessStore.incarnation}. */
  readonly incarnation: string;
}

/** What is told to the other gateways. It never holds a token. */
export interface Announcement {
  /** The id of the purge. */
  readonly purge: string;
  readonly scopes: readonly CacheScope[];
}

export interface Listener {
  /** Called for every announcement, also one's own. */
  renewed(scopes: readonly CacheScope[]): void;
  /** A gateway has handled an announcement. Called for those that were made here only. */
  forgotten(purge: string, gateway: string): void;
}

/**
 * Port: where tokens and sessions live. A token is random, never a counter: a lost token is only one purge more, while a
 * counter that restarts would make old entries reachable again.
 *
 * Each gateway uses what it reads for its own lease. The store notes that lease with every call, so that a renewal
 * knows for how long the old tokens may be used. Every method rejects when the store does not answer within its
 * deadline; then nothing is known of what it did.
 */
export interface FreshnessStore {
  /** Reads the tokens of the scopes, and makes those that are absent. */
  read(scopes: readonly Scope[]): Promise<Reading>;
  /** Gives all the scopes new tokens in one atomic step. */
  renew(scopes: readonly Scope[]): Promise<Renewed>;
  /**
   * Names what keeps the tokens now: new after every restart and failover, of which a renewal that was confirmed just
   * before may know nothing.
   */
  incarnation(): Promise<string>;
  /** Reads or changes the record of a session, which stands beside the token of its scope. */
  session(name: string, call: SessionCall): Promise<SessionReply>;
  /** Tells the other gateways to forget the scopes. Nothing depends on its arrival. */
  announce(announcement: Announcement): Promise<void>;
  /** To be called once. */
  listen(listener: Listener): void;
}

/** What is noted of a session when it begins. */
export interface SessionData {
  /** Who began it, as the gateway knows the user. */
  readonly principal: string;
  /**
   * A digest of what went before in the session and may shape its later answers (properties and catalog of its
   * beginning); '' where the engine keeps nothing. Equal profiles of clean sessions mean equal answers.
   */
  readonly profile: string;
  /** The catalog in which it works where a request names none; null when none was named yet. */
  readonly catalog: string | null;
  /** The replica of the engine on which it lives (its URL). */
  readonly replica: string;
  /** A digest of engine and id exactly as they were when it began: other spellings lead to it too. */
  readonly spelling: string;
  /** Wall clock (ms) when a request of it was last forwarded. */
  readonly forwardedAt: number;
}

/** What is known of one session of the engine. */
export interface SessionRecord extends SessionData {
  /** Whether its token, or that of all sessions, was renewed since: what its answers depend on is not known. */
  readonly dirty: boolean;
  /** The token under which this was noted. */
  readonly version: string;
}

/** Brings the token under which the record stands then. */
type Renewing<Do extends string> = { readonly do: Do; readonly token: string };

/** What can be asked of the record of a session. */
export type SessionCall =
  /**
   * A clean record is used for the lease from now on. Where there is none, a beginning that is under way fails: its
   * caller has given up, and what happens in the session from now on is not noted.
   */
  | { readonly do: 'read' }
  /** Reads it and leaves no trace. */
  | { readonly do: 'peek' }
  /**
   * The first half of a beginning: nothing is known of the session from now on, and a renewal until the second half
   * counts. So a second half that comes late makes nothing clean. A name that is dirty stays so until it is ended,
   * since an engine may give the id of an earlier session again.
   */
  | Renewing<'claim'>
  /** The second half. Rejects when the claim is gone. */
  | (Renewing<'put'> & { readonly data: SessionData; readonly dirty: boolean })
  /** Makes it dirty, if it is there. */
  | Renewing<'renew'>
  /**
   * Notes other data under a new token if the record is clean and has the version that is expected. One that has these
   * data already stays as it is; any other becomes dirty.
   */
  | (Renewing<'take'> & { readonly expected: string; readonly data: SessionData })
  | { readonly do: 'touch'; readonly at: number }
  | { readonly do: 'end' };

export interface SessionReply {
  /** As it is after the call; undefined when there is none, or it is from before a loss (another incarnation). */
  readonly record?: SessionRecord | undefined;
  /**
   * After a change: the longest lease (ms) under which another gateway may use what was; 0 when none has read it.
   * Without a record it is not known who has: then the longest lease of any other gateway.
   */
  readonly lease: number;
}

/** How long a record of a session is kept that no request asks for (ms). */
export const SESSION_LIFE = 24 * 3_600_000;

/**
 * @param own the lease of this gateway (ms), which is noted before it renews anything
 * @param longest the longest lease that a configuration may name (ms)
 * @throws Error for a lease that no gateway can have: then it is not known for how long the old tokens are used
 */
export function checkLease(lease: number, own: number, longest: number, where: string): number {
  if (lease >= own && lease <= Math.max(own, longest)) return lease;
  throw new Error(
    `${where} holds a length that no lease can have: the longest is ${lease}, not between ${own} and ${longest} ms`,
  );
}
