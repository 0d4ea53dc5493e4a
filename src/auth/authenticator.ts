import type { Clock } from '../common/clock.ts';
import type { Emit } from '../common/events.ts';
import { parseBasicCredentials, type Credentials } from './basic-credentials.ts';
import { clientNetwork } from './client-network.ts';
import {
  admittedBy,
  createLoginThrottle,
  UNCHARGED,
  type LoginAdmission,
} from './login-throttle.ts';
import { createVerifiedCredentials } from './verified-credentials.ts';

/**
 * A client whose credentials were checked. `name` is the exact spelling of the users file, or, where the engine
 * checks logins, of the credentials.
 */
export interface Principal {
  readonly name: string;
}

/**
 * Why a login was refused. Clients are told the same text for all of them but the last two, so that no
 * client learns which user names exist; the word itself is for the log and the metrics. `unavailable` says nothing of
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

/** Checks who sends a request. */
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
   * The login of a header `Authorization` that was verified a short time ago, for callers that see the same header many
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

/**
 * What a check of a password says: `unavailable` when the one who knows the users cannot be asked, `failed` when the
 * check itself failed. Neither says anything of the credentials.
 */
export type CheckOutcome = 'right' | 'wrong' | 'unavailable' | 'failed';

/** Port: where passwords are checked. */
export interface PasswordCheck {
  /** How many checks may run at one time. */
  readonly atOnce: number;
  /** False for a password that cannot be checked for certain; such a login is malformed. */
  mayCheck(password: string): boolean;
  /** Compares with what {@link PasswordCheck.proofOf} tells at the call. Never rejects. */
  check(credentials: Credentials): Promise<CheckOutcome>;
  /**
   * What right credentials of this name are compared with now; undefined when no user has the name. Credentials
   * that were verified count only while it is the same value, by identity.
   */
  proofOf(name: string): unknown;
  /** Whether there is a user of this name, as far as is known here: only such a name may be told to an operator. */
  isKnown(name: string): boolean;
  /** See {@link Authenticator.isLookAlike}. */
  isLookAlike(name: string): boolean;
  /** Stops watching, and ends what is still under way where that is possible. */
  close(): void;
}

/** What an authenticator needs, wherever passwords are checked. */
export interface LoginOptions {
  /** For how long verified credentials are believed without another check, in milliseconds; 0: never. */
  readonly verifiedFor: number;
  readonly clock: Pick<Clock, 'now'>;
  /** Gives that many random bytes, fit for keys. */
  readonly random: (bytes: number) => Uint8Array;
  /** Told what an operator should know; no event holds a password or a hash. Must not throw. */
  readonly emit: Emit;
  /** Slows guessing. Default: a throttle of its own. */
  readonly admission?: LoginAdmission | undefined;
}

/** After a full line, room comes within a second or so. */
const RETRY_WHEN_LINE_IS_FULL = 1;

/** A password that changes twice during its check is refused; the client asks again. */
const ATTEMPTS_WHEN_PROOF_CHANGES = 2;

interface Attempt extends Credentials {
  /** Of the exact header value. */
  readonly digest: string;
  readonly clientAddress: string;
}

/**
 * Checks HTTP Basic logins (RFC 7617), wherever passwords are checked: refuses what is malformed, remembers for
 * a short time what was right, and slows guessing. Requests that come at once with the same header from the same
 * client share one check and count as one attempt.
 */
export function createPasswordAuthenticator(
  check: PasswordCheck,
  { verifiedFor, clock, random, emit, ...given }: LoginOptions,
): Authenticator {
  const { proofOf } = check;
  const throttle = createLoginThrottle({ clock });
  const admission = given.admission ?? {
    admit: async (...attempt: [string, string]) => admittedBy(throttle, ...attempt),
  };
  const verified = createVerifiedCredentials({ secret: random(32), verifiedFor, proofOf, clock });
  const line = createCheckLine(check.atOnce);
  const flights = new Map<string, Promise<Authentication>>();
  let closed = false;

  /** The proof may change during a check: what counts is the one that the user has at the end. */
  async function verify(attempt: Attempt): Promise<CheckOutcome> {
    const { name, digest } = attempt;
    for (let count = 0; count < ATTEMPTS_WHEN_PROOF_CHANGES; count += 1) {
      if (closed) break;
      const proof = proofOf(name);
      // An engine may look at its users as soon as it is asked; what it knew later is not proved.
      const at = clock.now();
      const outcome = await check.check(attempt);
      if (closed || proofOf(name) !== proof) continue;
      if (outcome === 'right') verified.remember(digest, name, proof, at);
      // From now on they are a guess like any other.
      if (outcome === 'wrong') verified.forget(digest);
      return outcome;
    }
    return 'failed';
  }

  async function login(attempt: Attempt): Promise<Authentication> {
    const { name, digest, clientAddress } = attempt;
    // Credentials that were right before are no guess, and must work while others guess.
    const wasRight = verified.wasRight(digest);
    const leave = wasRight ? UNCHARGED : await admission.admit(name, clientAddress);
    if (leave.wait > 0) return refuse(attempt, 'throttled', leave.wait);

    const outcome = await line.run(() => verify(attempt), wasRight);
    if (outcome === 'right') {
      leave.succeeded();
      return { ok: true, principal: { name } };
    }
    if (outcome === 'wrong') return refuse(attempt, 'rejected');
    leave.abandoned();
    if (outcome === undefined) return refuse(attempt, 'throttled', RETRY_WHEN_LINE_IS_FULL);
    // Nothing was refused, so that nothing is told as a refusal.
    return outcome === 'unavailable' ? refusal('unavailable') : refuse(attempt, 'rejected');
  }

  /** Tells a name only when there is such a user: another may be a password typed into the wrong field. */
  function refuse(
    { name, clientAddress: address }: Attempt,
    reason: LoginRefusal,
    retryAfter = 0,
  ): Authentication {
    const user = check.isKnown(name) ? name : undefined;
    emit({ type: 'login-refused', reason, user, address });
    return refusal(reason, retryAfter);
  }

  return {
    authenticate(authorization, clientAddress) {
      if (closed) return refusal('rejected');
      if (authorization === undefined) return refusal('missing');
      const digest = verified.digest(authorization);
      const remembered = verified.find(digest);
      if (remembered !== undefined) return { ok: true, principal: remembered.principal };

      const credentials = parseBasicCredentials(authorization);
      if (typeof credentials === 'string') return refusal(credentials);
      const attempt: Attempt = { ...credentials, digest, clientAddress };
      if (!check.mayCheck(attempt.password)) return refuse(attempt, 'malformed');

      const key = `${digest} ${clientNetwork(clientAddress)}`;
      const underWay = flights.get(key);
      if (underWay !== undefined) return underWay;
      const flight = login(attempt).finally(() => flights.delete(key));
      flights.set(key, flight);
      return flight;
    },

    remembered: (authorization) => verified.find(verified.digest(authorization)),

    isLookAlike: check.isLookAlike,

    async close() {
      closed = true;
      check.close();
      verified.clear();
    },
  };
}

function refusal(reason: LoginRefusal, retryAfter = 0): Authentication {
  return { ok: false, reason, retryAfter };
}

/** How many wait by default. Comparisons of cost 10, two at one time: the last of them waits about two seconds. */
const CHECKS_WAITING = 64;

/**
 * Keeps a flood of logins from taking every thread, or every place at an engine.
 * @param atOnce checks that run at one time
 * @param waiting checks that may wait
 */
export function createCheckLine(atOnce: number, waiting = CHECKS_WAITING) {
  const preferredLine: (() => void)[] = [];
  const commonLine: (() => void)[] = [];
  let running = 0;

  const callNext = (): void => {
    const next = preferredLine.shift() ?? commonLine.shift();
    if (next === undefined) running -= 1;
    else next();
  };

  return {
    /**
     * Runs a check when it is its turn.
     * @param preferred goes before all that are not, and finds room in a full line: for credentials that
     * were right before, so that a flood of guesses does not put out those who work.
     * @returns undefined, at once, when the line is full; otherwise what the check says.
     */
    run<T>(check: () => Promise<T>, preferred: boolean): Promise<T> | undefined {
      const isFull = running >= atOnce;
      if (isFull && !preferred && commonLine.length >= waiting) return undefined;
      if (!isFull) running += 1;
      const turn = isFull
        ? new Promise<void>((go) => void (preferred ? preferredLine : commonLine).push(go))
        : Promise.resolve();
      return turn.then(check).finally(callNext);
    },
  };
}
