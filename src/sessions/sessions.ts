import type { SessionRecord } from '../freshness/freshness-store.ts';

/** Names one session: the engine it belongs to, and its id there. */
export interface SessionName {
  /** The engine, and the project where its URL names one: the same id may stand for another session elsewhere. */
  readonly place: string;
  readonly id: string;
}

/**
 * A session as it was found: a record, none under this very spelling, or it cannot be told (the store is away).
 * `otherwise` is a session of another place or spelling that the engine could take for it. `last` is what this
 * gateway knew last, however old: good for where a request goes, never for what it is answered.
 */
export type FoundSession =
  | { readonly kind: 'known'; readonly record: SessionRecord }
  | { readonly kind: 'unknown'; readonly otherwise?: SessionRecord }
  | { readonly kind: 'unavailable'; readonly last: SessionRecord | undefined };

/** A session that is asked for again and again: its name was digested once. */
export interface SessionHandle {
  /** What {@link Sessions.find} answers without a promise; undefined where the store must be asked. */
  find(): FoundSession | undefined;
}

/**
 * What the gateway knows of the engine's sessions (protocol: "Sessions"). Clean is a claim to be proved, dirty
 * is the default: a record counts as clean only while it was read less than a lease ago, and is read again
 * before anything that ran in it is kept. Nothing here rejects.
 */
export interface Sessions {
  /**
   * What is known now; without a promise where it is known already. A session that was begun in another place, or
   * whose id was spelt otherwise, is unknown.
   */
  find(name: SessionName): FoundSession | Promise<FoundSession>;
  /** The same, without a trace: no life is renewed. For what only explains. */
  peek(name: SessionName): Promise<FoundSession>;
  /** For a session that is asked for many times. */
  handle(name: SessionName): SessionHandle;
  /**
   * Notes a session that the engine has begun; dirty from the first when what began it left something in it. False when it could not be noted: then it stays unknown.
   * Resolves before its id may reach the client.
   */
  begin(
    name: SessionName,
    record: Pick<SessionRecord, 'principal' | 'profile' | 'catalog' | 'replica'> & {
      readonly dirty?: boolean;
    },
  ): Promise<boolean>;
  /**
   * Makes sessions dirty, under whatever spelling and in whatever place they are named. When it resolves to true, no replica takes any of them for clean; only then may the
   * statement go to the engine. False when that could not be brought about: the statement must not be sent.
   */
  dirty(names: readonly SessionName[]): Promise<boolean>;
  /** The same for all sessions of all engines: for a request of which it cannot be told in which session it is. */
  dirtyAll(): Promise<boolean>;
  /**
   * A request names its first catalog in a session that was begun without one.
   * @returns what is known afterwards, when no replica uses what was; dirty when another request was quicker
   * or it is not known whether it was noted; unavailable when the request must not be sent, as with `dirty`
   */
  takeCatalog(
    name: SessionName,
    record: SessionRecord,
    next: Pick<SessionRecord, 'catalog' | 'profile'>,
  ): Promise<FoundSession>;
  /** Whether the session is still the same and clean, read anew from the store. */
  confirm(name: SessionName, record: SessionRecord): boolean | Promise<boolean>;
  /** Notes that a request of it is being forwarded now. */
  forwarded(name: SessionName, record: SessionRecord): void;
  /**
   * Forgets it; one that was begun under another spelling is made dirty instead. Resolves also when the store
   * cannot be reached: this replica then takes it for unknown.
   */
  end(name: SessionName): Promise<void>;
}
