import type { Authentication, Authenticator, LoginRefusal } from './authenticator.ts';
import { parseBasicCredentials } from './basic-credentials.ts';
import { clientNetwork } from './client-network.ts';
import { createComparisonLine } from './comparison-line.ts';
import { createLoginThrottle } from './login-throttle.ts';
import { comparePassword, createDecoyHash, isComparable } from './password-hash.ts';
import type { ComparePassword } from './password-hash.ts';
import { openUsers, readUsersFile, repeatByTimer } from './users-source.ts';
import type { Repeat, UsersEvent } from './users-source.ts';
import { createVerifiedCredentials } from './verified-credentials.ts';
import type { Clock } from '../clock.ts';

/** What an operator should know. Events hold no password and no hash. */
export type AuthEvent =
  | UsersEvent
  /**
   * A login with well-formed credentials was refused. `user` is undefined when there is no such user: a name
   * that nobody has may be a password typed into the wrong field.
   */
  | {
      readonly type: 'login-refused';
      readonly reason: Extract<LoginRefusal, 'malformed' | 'rejected' | 'throttled'>;
      readonly user: string | undefined;
      readonly address: string;
    }
  /** The comparison itself failed; the login was refused. */
  | { readonly type: 'comparison-failed'; readonly error: unknown };

export interface FileAuthenticatorOptions {
  /** Path of the users file, lines of `name:hash` as written by `htpasswd -B`. */
  readonly file: string;
  /** For how long verified credentials are believed without hashing again, in milliseconds; 0: never. */
  readonly verifiedFor: number;
  readonly clock: Pick<Clock, 'now'>;
  /** Gives that many random bytes, fit for keys. */
  readonly random: (bytes: number) => Uint8Array;
  /** Called for every event. What it throws is lost: a login does not fail for it. */
  readonly onEvent?: (event: AuthEvent) => void;
  /** Default: bcrypt, on the thread pool. */
  readonly compare?: ComparePassword;
  /** Default: from the file system. */
  readonly read?: (file: string) => Promise<Uint8Array>;
  /** Default: a timer that does not keep the process alive. */
  readonly repeat?: Repeat;
}

export interface FileAuthenticator extends Authenticator {
  /**
   * Reads the users file now.
   * @throws {UsersFileError} when it cannot be used; the users that were read before stay.
   */
  reload(): Promise<void>;
  /**
   * Whether another user's name differs from this one in letter case or Unicode form only. What compares names
   * without regard to these, as roles do, cannot tell the two apart.
   */
  isLookAlike(name: string): boolean;
}

/** After a full line, room comes within a second or so. */
const RETRY_WHEN_LINE_IS_FULL = 1;

/** A password that changes twice during its comparison is refused; the client asks again. */
const ATTEMPTS_WHEN_USERS_CHANGE = 2;

/**
 * Checks HTTP Basic logins (RFC 7617) against a password file that it follows.
 *
 * An unknown user costs one comparison, like a wrong password, and gets the same answer. Requests that come
 * at once with the same header from the same client share one comparison and count as one attempt.
 * Passwords of more than 72 bytes are refused as malformed: bcrypt would not look at the rest.
 *
 * @throws {UsersFileError} when the users file cannot be used at the start.
 */
export async function createFileAuthenticator({
  file,
  verifiedFor,
  clock,
  random,
  onEvent = () => {},
  compare = comparePassword,
  read = readUsersFile,
  repeat = repeatByTimer,
}: FileAuthenticatorOptions): Promise<FileAuthenticator> {
  const verified = createVerifiedCredentials({ secret: random(32), verifiedFor, clock });
  const throttle = createLoginThrottle({ clock });
  const line = createComparisonLine({ compare });
  const flights = new Map<string, Promise<Authentication>>();
  let hashes: ReadonlyMap<string, string> = new Map();
  let lookAlikes: ReadonlySet<string> = new Set();
  let decoy = '';
  let closed = false;

  const hashOf = (name: string): string | undefined => hashes.get(name);
  const emit = (event: AuthEvent): void => {
    try {
      onEvent(event);
    } catch {
      // A listener's fault is not the client's.
    }
  };

  const users = await openUsers({
    file,
    read,
    repeat,
    onEvent: emit,
    onUsers(next) {
      hashes = next.hashes;
      lookAlikes = next.lookAlikes;
      decoy = createDecoyHash(next.commonCost, random);
      verified.forgetChanged(hashOf);
    },
  });

  const login = async (attempt: Attempt): Promise<Authentication> => {
    const { name, digest, clientAddress } = attempt;
    // Credentials that were right before are no guess, and must work while others guess.
    const wasRight = verified.wasRight(digest, hashOf);
    const wait = wasRight ? 0 : throttle.admit(name, clientAddress);
    if (wait > 0) return refuse(attempt, 'throttled', wait);

    const outcome = await comparison(attempt, wasRight);
    if (outcome === 'right') {
      // What was not charged must not be given back.
      if (!wasRight) throttle.succeeded(name, clientAddress);
      return { ok: true, principal: { name } };
    }
    if (outcome === 'wrong') return refuse(attempt, 'rejected');
    if (!wasRight) throttle.abandoned(name, clientAddress);
    return outcome === 'full'
      ? refuse(attempt, 'throttled', RETRY_WHEN_LINE_IS_FULL)
      : refuse(attempt, 'rejected');
  };

  /** The users file may change while this waits: what counts is the hash that the user has at the end. */
  const comparison = async (
    { name, password, digest }: Attempt,
    preferred: boolean,
  ): Promise<'right' | 'wrong' | 'full' | 'failed'> => {
    for (let attempt = 0; attempt < ATTEMPTS_WHEN_USERS_CHANGE; attempt += 1) {
      if (closed) return 'failed';
      const hash = hashOf(name);
      const compared = line.compare(password, hash ?? decoy, preferred);
      if (compared === undefined) return 'full';
      try {
        const isRight = await compared;
        if (hashOf(name) !== hash) continue;
        if (hash === undefined || !isRight) return 'wrong';
        verified.remember(digest, name, hash);
        return 'right';
      } catch (error) {
        emit({ type: 'comparison-failed', error });
        return 'failed';
      }
    }
    return 'failed';
  };

  const refuse = (
    { name, clientAddress }: Attempt,
    reason: 'malformed' | 'rejected' | 'throttled',
    retryAfter = 0,
  ): Authentication => {
    const user = hashes.has(name) ? name : undefined;
    emit({ type: 'login-refused', reason, user, address: clientAddress });
    return { ok: false, reason, retryAfter };
  };

  return {
    authenticate(authorization, clientAddress) {
      if (closed) return refusal('rejected');
      if (authorization === undefined) return refusal('missing');
      const digest = verified.digest(authorization);
      const remembered = verified.find(digest, hashOf);
      if (remembered !== undefined) return remembered;

      const credentials = parseBasicCredentials(authorization);
      if (!credentials.ok) return refusal(credentials.reason);
      const { name, password } = credentials;
      const attempt: Attempt = { name, password, digest, clientAddress };
      if (!isComparable(password)) return refuse(attempt, 'malformed');

      const key = `${digest} ${clientNetwork(clientAddress)}`;
      const underWay = flights.get(key);
      if (underWay !== undefined) return underWay;
      const flight = login(attempt).finally(() => flights.delete(key));
      flights.set(key, flight);
      return flight;
    },

    reload: () => users.reload(),
    isLookAlike: (name) => lookAlikes.has(name),

    async close() {
      closed = true;
      users.close();
      hashes = new Map();
      verified.clear();
      throttle.clear();
    },
  };
}

interface Attempt {
  readonly name: string;
  readonly password: string;
  /** Of the exact header value. */
  readonly digest: string;
  readonly clientAddress: string;
}

function refusal(reason: LoginRefusal): Authentication {
  return { ok: false, reason, retryAfter: 0 };
}
