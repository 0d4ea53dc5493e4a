import type * as words from './reasons.ts';

/** How an XMLA request ended, in the words of the header Cache-Status. */
export type Outcome =
  | { readonly kind: 'hit'; readonly detail: words.HitSource }
  /** `detail` is set when the answer was not stored, `stored` when that was known. */
  | { readonly kind: 'miss'; readonly detail?: words.RefusalReason; readonly stored?: boolean }
  | { readonly kind: 'bypass'; readonly detail: words.BypassReason }
  | { readonly kind: 'gateway'; readonly detail: words.GatewayReason };

export interface EngineTimes {
  readonly waited: number;
  /** Until the head of its answer; undefined where none came. */
  readonly first: number | undefined;
  /** Until its end, failure or abort; undefined where the engine was not asked. */
  readonly last: number | undefined;
}

export type Stale = { readonly project: string } | 'everything';

/** `call`: id of the request; `why`: what of it counts as a change, for the log. */
export type StatementCause = Readonly<{ cause: 'statement'; call: string; why: string }>;
/**
 * Port: drops what the cache holds of it and waits as a purge does, unless the change is still to
 * come. What is unknown is dropped again later. Without `by` a dataset changed.
 * @returns false when that stays owed
 */
export type Invalidate = (
  stale: Stale,
  principal: string,
  state: 'before' | 'after' | 'unknown',
  by?: StatementCause,
) => Promise<boolean>;

/** Causes of purges. `clears`: engines clear their caches too; `isCall`: a client called for it. */
export const CAUSES = {
  'clear-cache': { clears: true, isCall: true },
  repeat: { clears: true, isCall: false },
  change: { clears: false, isCall: false },
  statement: { clears: false, isCall: false },
  hook: { clears: true, isCall: true },
  watch: { clears: true, isCall: false },
} as const;
export type PurgeCause = keyof typeof CAUSES;
export const PURGE_CAUSES = Object.keys(CAUSES) as readonly PurgeCause[];
export type PurgeResult = (typeof PURGE_RESULTS)[number];
/** `engine-failed`: an engine did not clear its own cache; `owed`: Redis did not confirm it. */
export const PURGE_RESULTS = ['cleared', 'engine-failed', 'owed'] as const;

export type ConnectionClosing = (typeof CONNECTION_CLOSINGS)[number];
/**
 * `limit`, `stalled`, `busy`: at limits.connections, unused, waiting for its client, new.
 * `address`: too many unfinished heads. `pipelined`: too many unanswered requests.
 */
export const CONNECTION_CLOSINGS = ['limit', 'stalled', 'address', 'busy', 'pipelined'] as const;

export const FLIGHT_ENDS = ['led', 'joined', 'gave-up'] as const;

/** It cannot be read, is wrong, or one of too many. */
export const LOGIN_REFUSALS = ['malformed', 'rejected', 'throttled'] as const;

export type EntryFlaw = (typeof ENTRY_FLAWS)[number];
export const ENTRY_FLAWS = [
  'too short',
  'not an entry of this gateway',
  'another version',
  'too many epochs',
  'another key',
  'sealed',
  'not sealed',
  'sealed otherwise',
  'wrong checksum',
  'unreadable description',
  'unreadable body',
  'larger than cache.max_entry',
] as const;

export const REDIS_OPERATIONS = [
  'connect',
  'get',
  'set',
  'epochs',
  'renew',
  'sessions',
  'flights',
  'purges',
  'reports',
  'warm-up',
  'sweep',
  'watches',
] as const;

/** State of a replica, by its configured URL; `why` holds no credentials. */
export type ReplicaState = Readonly<{ url: string; state: 'up' | 'down'; why: string }>;

/** A server to which no connection can be made, since then (ISO 8601). */
export type EngineAway = Readonly<Record<'url' | 'since', string>>;

export interface RedisFacts {
  readonly state: 'up' | 'down' | 'off';
  readonly why: string | undefined;
  readonly conditions: readonly string[];
}

/** A query that timed out a short time ago: `since` is the first time (ISO 8601). */
export type TimedOutQuery = Readonly<Record<'digest' | 'project' | 'since', string>> & {
  refused: number;
};

/**
 * All events by type. Times are milliseconds, sizes bytes; `project` is the name in the request
 * path, '' without one. Features add theirs (src/features).
 */
export interface EventMap {
  'xmla-answered': {
    readonly id: string;
    readonly principal: string;
    readonly address: string;
    /** `other` where it is not known, '' where it is not named. */
    readonly program: string;
    readonly project: string;
    readonly catalogs: readonly string[];
    /** `?`: its answer may hold data of cubes that it does not name. */
    readonly cubes: readonly string[] | '?';
    /** Digest of the question, for any user; '' when not understood. */
    readonly digest: string;
    /** MDX, maybe with personal data; '' for a Discover. */
    readonly statement: string;
    /** Discover request type (at most 255 characters), or `Execute`. */
    readonly subject: string;
    /** Part that was not understood (at most 255 characters); may hold names of the client. */
    readonly why: string;
    readonly outcome: Outcome;
    readonly status: number;
    readonly bytes: number;
    readonly milliseconds: number;
    /** Undefined where no engine was needed. */
    readonly engine: EngineTimes | undefined;
    /** For a hit, the time of the engine for this answer. */
    readonly saved: number;
    readonly trace: string;
    /** False when the client went away or the engine broke off before the end. */
    readonly complete: boolean;
  };
  'engine-answered': { readonly project: string; readonly milliseconds: number };
  'engine-failed': {
    readonly project: string;
    readonly replica?: string;
    readonly reason: words.GatewayReason;
    readonly error: unknown;
  };
  'engine-state': ReplicaState;
  /** A connection to a server could not be made, or it answers again after so long (`ms`). */
  'engine-away': ReplicaState & { readonly ms: number };
  stored: { readonly project: string; readonly bytes: number };
  'shared-flight': { readonly end: (typeof FLIGHT_ENDS)[number] };
  'not-stored': { readonly project: string; readonly reason: words.RefusalReason };
  /** One for each caller, and one when an owed purge is done. */
  purged: {
    readonly id: string;
    readonly scope: Stale;
    readonly principal: string;
    readonly cause: PurgeCause;
    readonly result: PurgeResult;
    /** False for a project neither configured nor asked for at any gateway. */
    readonly known: boolean;
    /** Gateways known to have forgotten the old epochs, this one included. */
    readonly replicas: number;
    /** Until no replica could use the old epochs. */
    readonly waited: number;
    readonly engine_calls: number;
    /** Id of the request of a hook or a statement. */
    readonly call?: string;
    /** Part of the statement that counts as a change. */
    readonly why?: string;
    readonly milliseconds: number;
  };
  'api-answered': {
    readonly id: string;
    /** '' for a refused login. */
    readonly principal: string;
    /** Word of the table of operations; '' when the request asks for none. */
    readonly operation: string;
    /** Role or dataset, and users (at most 255 characters). */
    readonly subject: string;
    readonly changes: boolean;
    readonly status: number;
    readonly reason: words.ApiReason | words.GatewayReason | undefined;
    /** Cause, unless emitted as `internal-error`. */
    readonly error: unknown;
    readonly milliseconds: number;
  };
  'purge-refused': { readonly principal: string; readonly why: string };
  explained: {
    readonly id: string;
    readonly principal: string;
    readonly user: string;
    readonly project: string;
  };
  'diagnosis-saved': { readonly principal: string };
  'redis-failed': {
    readonly operation: (typeof REDIS_OPERATIONS)[number];
    readonly error: unknown;
  };
  'redis-state':
    | { readonly state: 'up' }
    | {
        readonly state: 'down';
        /** In one sentence without secrets. */
        readonly why: string;
        readonly code: string | undefined;
      };
  swept: { readonly scanned: number; readonly unlinked: number };
  'entry-rejected': { readonly why: EntryFlaw };
  'login-refused': {
    readonly id: string;
    readonly reason: (typeof LOGIN_REFUSALS)[number];
    readonly why: string | undefined;
    /** A known user only: another name may be a password typed into the wrong field. */
    readonly user: string | undefined;
    readonly address: string;
  };
  'connection-closed': { readonly why: ConnectionClosing };
  'users-loaded': { readonly count: number };
  warning: { readonly message: string; readonly error?: unknown };
  'internal-error': { readonly id: string; readonly error: unknown };
}

export type EventType = keyof EventMap;
export type EventOf<T extends EventType> = {
  readonly [K in T]: { readonly type: K } & EventMap[K];
}[T];
export type GatewayEvent = EventOf<EventType>;

export type Emit = (event: GatewayEvent) => void;
