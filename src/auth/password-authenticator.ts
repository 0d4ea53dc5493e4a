import type { Clock } from '../clock.ts';
import type { Authentication, Authenticator, LoginRefusal } from './authenticator.ts';
import { parseBasicCredentials } from './basic-credentials.ts';
import { clientNetwork } from './client-network.ts';
import { ownAdmission, UNCHARGED, type LoginAdmission } from './login-admission.ts';
import { createLoginThrottle } from './login-throttle.ts';
import type { CheckOutcome, Credentials, PasswordCheck } from './password-check.ts';
import { createVerifiedCredentials } from './verified-credentials.ts';

/**
 * A login with well-formed credentials was refused. `user` is undefined when there is no such user: a name
 * that nobody has may be a password typed into the wrong field.
 */
export interface LoginRefused {
  readonly type: 'login-refused';
  readonly reason: Extract<LoginRefusal, 'malformed' | 'rejected' | 'throttled'>;
  readonly user: string | undefined;
  readonly address: string;
}

export interface PasswordAuthenticatorOptions {
  readonly check: PasswordCheck;
  /** For how long verified credentials are believed without another check, in milliseconds; 0: never. */
  readonly verifiedFor: number;
  readonly clock: Pick<Clock, 'now'>;
  /** Gives that many random bytes, fit for keys. */
  readonly random: (bytes: number) => Uint8Array;
  /** Must not throw. */
  readonly onEvent: (event: LoginRefused) => void;
  /** Slows guessing. Default: a throttle of its own. */
  readonly admission?: LoginAdmission | undefined;
}

/** After a full line, room comes within a second or so. */
const RETRY_WHEN_LINE_IS_FULL = 1;

/**
 * Checks HTTP Basic logins (RFC 7617), wherever passwords are checked: refuses what is malformed, remembers for
 * a short time what was right, and slows guessing. Requests that come at once with the same header from the same
 * client share one check and count as one attempt.
 */
export function createPasswordAuthenticator({
  check,
  verifiedFor,
  clock,
  random,
  onEvent,
  admission = ownAdmission(createLoginThrottle({ clock })),
}: PasswordAuthenticatorOptions): Authenticator {
  const verified = createVerifiedCredentials({ secret: random(32), verifiedFor, clock });
  const flights = new Map<string, Promise<Authentication>>();
  let closed = false;

  const proofOf = (name: string): string | undefined => check.proofOf(name);
  check.onChange(() => verified.forgetChanged(proofOf));

  const login = async (attempt: Attempt): Promise<Authentication> => {
    const { name, digest, clientAddress } = attempt;
    // Credentials that were right before are no guess, and must work while others guess.
    const wasRight = verified.wasRight(digest, proofOf);
    const leave = wasRight ? UNCHARGED : await admission.admit(name, clientAddress);
    if (leave.wait > 0) return refuse(attempt, 'throttled', leave.wait);

    const outcome = await check.check(attempt, wasRight);
    if (outcome.kind === 'right' && counts(outcome, name)) {
      verified.remember(digest, name, outcome.proof, outcome.at);
      leave.succeeded();
      return { ok: true, principal: { name } };
    }
    if (outcome.kind === 'wrong') {
      // From now on they are a guess like any other.
      verified.forget(digest);
      return refuse(attempt, 'rejected');
    }
    leave.abandoned();
    if (outcome.kind === 'full') return refuse(attempt, 'throttled', RETRY_WHEN_LINE_IS_FULL);
    // Nothing was refused, so that nothing is told as a refusal.
    if (outcome.kind === 'unavailable' && !closed) return refusal('unavailable');
    return refuse(attempt, 'rejected');
  };

  /** The proof may have changed since it was used, and the authenticator may have been closed. */
  const counts = ({ proof }: Extract<CheckOutcome, { kind: 'right' }>, name: string): boolean =>
    !closed && proofOf(name) === proof;

  const refuse = (
    { name, clientAddress }: Attempt,
    reason: LoginRefused['reason'],
    retryAfter = 0,
  ): Authentication => {
    const user = check.isKnown(name) ? name : undefined;
    onEvent({ type: 'login-refused', reason, user, address: clientAddress });
    return { ok: false, reason, retryAfter };
  };

  return {
    authenticate(authorization, clientAddress) {
      if (closed) return refusal('rejected');
      if (authorization === undefined) return refusal('missing');
      const digest = verified.digest(authorization);
      const remembered = verified.find(digest, proofOf);
      if (remembered !== undefined) return remembered;

      const credentials = parseBasicCredentials(authorization);
      if (!credentials.ok) return refusal(credentials.reason);
      const { name, password } = credentials;
      const attempt: Attempt = { name, password, digest, clientAddress };
      if (!check.mayCheck(password)) return refuse(attempt, 'malformed');

      const key = `${digest} ${clientNetwork(clientAddress)}`;
      const underWay = flights.get(key);
      if (underWay !== undefined) return underWay;
      const flight = login(attempt).finally(() => flights.delete(key));
      flights.set(key, flight);
      return flight;
    },

    remembered: (authorization) =>
      closed ? undefined : verified.remembered(verified.digest(authorization), proofOf),

    isLookAlike: (name) => check.isLookAlike(name),

    async close() {
      closed = true;
      check.close();
      verified.clear();
      admission.close();
    },
  };
}

interface Attempt extends Credentials {
  /** Of the exact header value. */
  readonly digest: string;
  readonly clientAddress: string;
}

function refusal(reason: LoginRefusal): Authentication {
  return { ok: false, reason, retryAfter: 0 };
}
