/** The port behind which a name and a password are checked, and what the check may say. */

/** Well-formed credentials, exactly as they were sent. */
export interface Credentials {
  readonly name: string;
  readonly password: string;
}

export type CheckOutcome =
  /**
   * They are right. `proof` is what they were compared with, see {@link PasswordCheck.proofOf}; `at` is a moment,
   * by the clock, at which that was certainly so.
   */
  | { readonly kind: 'right'; readonly proof: string; readonly at: number }
  | { readonly kind: 'wrong' }
  /** Too many wait to be checked already; nothing was checked. */
  | { readonly kind: 'full' }
  /** Who would know cannot be asked. Says nothing of the credentials. */
  | { readonly kind: 'unavailable' }
  /** The check itself failed, or it was closed. Says nothing of the credentials. */
  | { readonly kind: 'failed' };

/** Port: where passwords are checked. */
export interface PasswordCheck {
  /** False for a password that cannot be checked for certain; such a login is malformed. */
  mayCheck(password: string): boolean;
  /**
   * @param known - these credentials were right before: they go before all others, so that a flood of guesses
   * does not put out those who work.
   * Never rejects.
   */
  check(credentials: Credentials, known: boolean): Promise<CheckOutcome>;
  /**
   * What right credentials of this name are compared with now; undefined when nobody has the name. Credentials
   * that were verified count only while it is the same.
   */
  proofOf(name: string): string | undefined;
  /** Calls back in the turn in which proofs change. */
  onChange(listener: () => void): void;
  /** Whether there is a user of this name, as far as is known here: only such a name may be told to an operator. */
  isKnown(name: string): boolean;
  /**
   * Whether another user's name may differ from this one in letter case or Unicode form only. What compares names
   * without regard to these, as roles do, cannot tell the two apart.
   */
  isLookAlike(name: string): boolean;
  /** Stops watching; what is still under way fails. */
  close(): void;
}
