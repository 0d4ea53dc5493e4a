/** What is known of one session of the engine. */
export interface SessionRecord {
  /** Who began it, as the gateway knows him. */
  readonly principal: string;
  /**
   * What went before in the session and may shape its later answers (properties and catalog of its beginning),
   * as a digest; '' where the engine keeps nothing. Equal profiles of clean sessions mean equal answers.
   */
  readonly profile: string;
  /** The catalog in which it works where a request names none; null when none was named yet. */
  readonly catalog: string | null;
  /** The replica of the engine on which it lives (its URL). */
  readonly replica: string;
  /** Something outside the allow-list was sent in it, so that nobody knows what its answers depend on. */
  readonly dirty: boolean;
  /** Place and id exactly as they were when it began, as a digest: other spellings lead to it too. */
  readonly spelling: string;
  /** A random token, new with every change but that of `forwardedAt`. */
  readonly version: string;
  /** Wall clock (ms) when a request of it was last forwarded. */
  readonly forwardedAt: number;
}

export interface SessionReading {
  /** Undefined when the store does not know it, or knows it from before a loss (another Redis incarnation). */
  readonly record: SessionRecord | undefined;
}

/** How long after a change somebody else may still use what he read before. */
export interface ChangeReceipt {
  /** What the record is after the change; undefined when there is none. */
  readonly record: SessionRecord | undefined;
  /**
   * The longest lease (ms) under which another replica may hold what was; 0 when none has read it. Without a record
   * nobody knows who has read it: then the longest lease of any other replica.
   */
  readonly lease: number;
}

/**
 * Port: where sessions are noted. A session is named by a `name` that the caller makes of its id (`sessionName`).
 * Every method rejects when the store cannot be reached or does not answer within its deadline; then nothing is
 * known of what it did. Records that nobody asked for within `SESSION_LIFE` are dropped.
 */
export interface SessionStore {
  /** Reads it, and notes that this replica holds what it read for `lease` milliseconds. */
  read(name: string): Promise<SessionReading>;
  /**
   * Writes a new record, whatever was there; but a name that is dirty stays so until it is ended, since an engine
   * may name a session of before again. When it rejects, a late success is no danger: what was made dirty in the
   * meantime is dirty then too.
   * @returns the record as it stands now, which this replica holds for its lease
   */
  begin(name: string, record: SessionRecord): Promise<SessionRecord>;
  /** Makes it dirty, if it is there. A dirty session never becomes clean again. */
  markDirty(name: string, version: string): Promise<ChangeReceipt>;
  /**
   * Makes every session dirty that any replica has begun before.
   * @returns the longest lease of any other replica
   */
  markAllDirty(): Promise<number>;
  /**
   * Sets catalog and profile if the record still has this version, and leaves one that is clean and has them
   * already; else it makes the record dirty. This replica holds what it returns for its lease.
   */
  setCatalog(
    name: string,
    expected: string,
    next: Pick<SessionRecord, 'catalog' | 'profile' | 'version'>,
  ): Promise<ChangeReceipt>;
  /** Notes when a request of it was last forwarded. */
  touch(name: string, forwardedAt: number): Promise<void>;
  end(name: string): Promise<void>;
  close(): Promise<void>;
}

/** How long a record is kept that nobody asks for (ms). */
export const SESSION_LIFE = 24 * 3_600_000;
