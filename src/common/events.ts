import type * as words from './reasons.ts';

/** How an XMLA request ended, in the words of the header Cache-Status. */
export type Outcome =
  | { readonly kind: 'hit'; readonly detail: words.HitSource }
  /** `detail` is set when the answer was not stored, `stored` when that was known. */
  | { readonly kind: 'miss'; readonly detail?: words.RefusalReason; readonly stored?: boolean }
  | { readonly kind: 'bypass'; readonly detail: words.BypassReason }
  | { readonly kind: 'gateway'; readonly detail: words.GatewayReason };

/** For one request (ms). */
export interface EngineTimes {
  readonly waited: number;
  /** From when it was asked to the head of its answer; undefined where none came. */
  readonly first: number | undefined;
  /** And to the end of the answer, or until it failed or was given up; undefined where it was not asked. */
  readonly last: number | undefined;
}

/** What a change made stale in the query cache. */
export type Stale = { readonly project: string } | 'everything';
/** Whether a change will be made, was made, or may be one of the two. */
export type ChangeState = 'before' | 'after' | 'unknown';

/** Of a purge that a request to the engine makes: the id of the request, and what of it counts as a change, for the log. */
export type StatementCause = Readonly<{ cause: 'statement'; call: string; why: string }>;
/**
 * Port: drops what the cache holds of it and waits, as a purge does, unless the change is still to come. What is
 * unknown is dropped again later. No cause: `change`, of a dataset. @returns false when that stays owed
 */
export type Invalidate = (
  stale: Stale,
  principal: string,
  state: ChangeState,
  by?: StatementCause,
) => Promise<boolean>;

/** Causes of purges. `clears`: engines clear their caches too; `isCall`: a client called for it. */
export const CAUSES = {
  'clear-cache': { clears: true, isCall: true },
  /** A call is repeated after a while. */
  repeat: { clears: true, isCall: false },
  /** A dataset was changed. */
  change: { clears: false, isCall: false },
  /** A statement changed data at the engine. */
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
 * At limits.connections: unused; waits for its client; new. `address`: its address has too many unfinished heads;
 * `pipelined`: too many requests on it were not answered yet.
 */
export const CONNECTION_CLOSINGS = ['limit', 'stalled', 'address', 'busy', 'pipelined'] as const;

/** How waiting for others that ask for the same slow query ended. */
export const FLIGHT_ENDS = ['led', 'joined', 'gave-up'] as const;

/** Why a login was refused: it cannot be read, is wrong, or one of too many. */
export const LOGIN_REFUSALS = ['malformed', 'rejected', 'throttled'] as const;

export type EntryFlaw = (typeof ENTRY_FLAWS)[number];
/** Why a value in Redis does not check out. */
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

/** What Redis is asked for. */
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

/** Whether a replica of an engine, by its URL as configured, answers as XMLA; `why` holds no credentials. */
export type ReplicaState = Readonly<{ url: string; state: 'up' | 'down'; why: string }>;

/** Whether Redis can be used, as GET /health/ready tells it. */
export interface RedisFacts {
  readonly state: 'up' | 'down' | 'off';
  readonly why: string | undefined;
  readonly conditions: readonly string[];
}

/** A query that timed out a short time ago. `project`: '' without one; `since`: when it did so first (ISO 8601). */
export type TimedOutQuery = Readonly<Record<'digest' | 'project' | 'since', string>> & {
  /** Requests that were told so since then, without asking the engine. */
  refused: number;
};

/**
 * Everything that the gateway has to tell, by its type. Times are milliseconds, sizes bytes. `project` is the name in the
 * request path, '' without one. A feature adds its events to it (src/features).
 */
export interface EventMap {
  'xmla-answered': {
    readonly id: string;
    readonly principal: string;
    readonly address: string;
    /** Its class; `other` for one that is not known, '' where it names none. */
    readonly program: string;
    readonly project: string;
    readonly catalogs: readonly string[];
    /** `?`: its answer may hold data of cubes that it does not name. */
    readonly cubes: readonly string[] | '?';
    /** Names what is asked, by any user in any session; '' when the body was not understood. */
    readonly digest: string;
    /** MDX, in which personal data may stand; '' of a Discover and of what was not understood. */
    readonly statement: string;
    /** Discover request type, at most 255 characters of it; `Execute`; or '' when the body was not understood. */
    readonly subject: string;
    /** What of the request was not understood, at most 255 characters; may hold names of the client's; '' for none. */
    readonly why: string;
    readonly outcome: Outcome;
    readonly status: number;
    readonly bytes: number;
    readonly milliseconds: number;
    /** Where the engine was to be asked. */
    readonly engine: EngineTimes | undefined;
    /** For a hit: what the engine needed for this answer when it was asked. */
    readonly saved: number;
    /** The header traceparent (W3C Trace Context); '' without one. */
    readonly trace: string;
    /** False when the client went away or the engine broke off before the end. */
    readonly complete: boolean;
  };
  'engine-answered': { readonly project: string; readonly milliseconds: number };
  'engine-failed': {
    readonly project: string;
    /** Its URL as configured, where a replica was called by itself. */
    readonly replica?: string;
    readonly reason: words.GatewayReason;
    readonly error: unknown;
  };
  'engine-state': ReplicaState;
  stored: { readonly project: string; readonly bytes: number };
  /** With others that ask for the same slow query; `gave-up` waiting for them. */
  'shared-flight': { readonly end: (typeof FLIGHT_ENDS)[number] };
  'not-stored': { readonly project: string; readonly reason: words.RefusalReason };
  /** One for each who asked; one more when a purge that was owed was done at last. */
  purged: {
    readonly id: string;
    readonly scope: Stale;
    readonly principal: string;
    readonly cause: PurgeCause;
    readonly result: PurgeResult;
    /** False for a project that is neither in the configuration nor was asked for at any gateway. */
    readonly known: boolean;
    /** Gateways that told that they forgot the old epochs, this one included. */
    readonly replicas: number;
    /** Until no replica could use the old epochs. */
    readonly waited: number;
    readonly engine_calls: number;
    /** By a hook or a statement: the id of the request. */
    readonly call?: string;
    /** By a statement: what of the request counts as a change. */
    readonly why?: string;
    readonly milliseconds: number;
  };
  /** One for each request below /api, when it is over. */
  'api-answered': {
    readonly id: string;
    /** '' for a refused login. */
    readonly principal: string;
    /** In the words of the table of operations; '' when the request asks for none. */
    readonly operation: string;
    /** The role or dataset, and users, that it names, at most 255 characters; '' where that was not understood. */
    readonly subject: string;
    readonly changes: boolean;
    readonly status: number;
    readonly reason: words.ApiReason | words.GatewayReason | undefined;
    /** What is behind the reason, unless it was told as `internal-error`. */
    readonly error: unknown;
    readonly milliseconds: number;
  };
  'purge-refused': { readonly principal: string; readonly why: string };
  /** By POST /admin/explain; `user` is whose request it was taken for. */
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
  /** A value in Redis that does not check out; it was taken for a miss. */
  'entry-rejected': { readonly why: EntryFlaw };
  'login-refused': {
    /** Of the request. */
    readonly id: string;
    readonly reason: (typeof LOGIN_REFUSALS)[number];
    /** Of one that cannot be read, in words that hold nothing of it. */
    readonly why: string | undefined;
    /** Only the name of a known user: another may be a password typed into the wrong field. */
    readonly user: string | undefined;
    readonly address: string;
  };
  'connection-closed': { readonly why: ConnectionClosing };
  'users-loaded': { readonly count: number };
  warning: { readonly message: string; readonly error?: unknown };
  'internal-error': { readonly id: string; readonly error: unknown };
}

export type EventType = keyof EventMap;
/** Each of these events, with its type. */
export type EventOf<T extends EventType> = {
  readonly [K in T]: { readonly type: K } & EventMap[K];
}[T];
export type GatewayEvent = EventOf<EventType>;

export type Emit = (event: GatewayEvent) => void;
