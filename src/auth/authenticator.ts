/**
 * Somebody whose credentials were checked. `name` is the exact spelling of the users file, or, where the engine
 * checks logins, of the credentials.
 */
export interface Principal {
  readonly name: string;
}

/**
 * Why a login was refused. Clients are told the same text for all of them but the last two, so that nobody
 * learns which user names exist; the word itself is for the log and the metrics. `unavailable` says nothing of
 * the credentials: who knows the users could not be asked.
 */
export type LoginRefusal =
  | 'missing'
  | 'scheme'
  | 'malformed'
  | 'rejected'
  | 'throttled'
  | 'unavailable';

export type Authentication =
  | { readonly ok: true; readonly principal: Principal }
  | {
      readonly ok: false;
      readonly reason: LoginRefusal;
      /** Seconds after which a throttled client may try again; 0 for the other reasons. */
      readonly retryAfter: number;
    };

/** A login that was checked a short time ago. */
export interface RememberedLogin {
  readonly principal: Principal;
  /**
   * Whether it still stands for the header that it was remembered for: only as long as
   * {@link Authenticator.authenticate} would answer that header with this principal and without a promise.
   */
  counts(): boolean;
}

/** The port behind which credentials are checked. */
export interface Authenticator {
  /**
   * Checks the value of a request header `Authorization` (undefined when there is none).
   * Never rejects: a failing back end is a login that is refused or could not be checked. Answers without a promise when the credentials
   * were verified a short time ago, because this stands on the path of every request.
   */
  authenticate(
    authorization: string | undefined,
    clientAddress: string,
  ): Authentication | Promise<Authentication>;
  /**
   * The login of a header `Authorization` that was verified a short time ago, for whoever sees the same header many
   * times: it costs a digest once, and then a look at the clock each time. Undefined when the header must be checked.
   */
  remembered(authorization: string): RememberedLogin | undefined;
  /**
   * Whether another user's name may differ from this one in letter case or Unicode form only. What compares names
   * without regard to these, as roles do, cannot tell the two apart.
   */
  isLookAlike(name: string): boolean;
  /** Stops watching and forgets everything. */
  close(): Promise<void>;
}
