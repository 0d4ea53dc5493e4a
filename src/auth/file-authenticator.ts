import type { Clock } from '../clock.ts';
import type { Authenticator } from './authenticator.ts';
import type { LoginAdmission } from './login-admission.ts';
import { createPasswordAuthenticator, type LoginRefused } from './password-authenticator.ts';
import { comparePassword, type ComparePassword } from './password-hash.ts';
import { openUsersCheck, type UsersCheckEvent } from './users-check.ts';
import { readUsersFile, repeatByTimer, type Repeat } from './users-source.ts';

/** What an operator should know. Events hold no password and no hash. */
export type AuthEvent = UsersCheckEvent | LoginRefused;

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
  /** Default: a throttle of its own. */
  readonly admission?: LoginAdmission | undefined;
}

export interface FileAuthenticator extends Authenticator {
  /**
   * Reads the users file now.
   * @throws {UsersFileError} when it cannot be used; the users that were read before stay.
   */
  reload(): Promise<void>;
}

/**
 * Checks HTTP Basic logins (RFC 7617) against a password file that it follows.
 *
 * An unknown user costs one comparison, like a wrong password, and gets the same answer. Passwords of more than
 * 72 bytes are refused as malformed: bcrypt would not look at the rest.
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
  admission,
}: FileAuthenticatorOptions): Promise<FileAuthenticator> {
  const emit = (event: AuthEvent): void => {
    try {
      onEvent(event);
    } catch {
      // A listener's fault is not the client's.
    }
  };
  const check = await openUsersCheck({
    file,
    clock,
    random,
    onEvent: emit,
    compare,
    read,
    repeat,
  });
  const authenticator = createPasswordAuthenticator({
    check,
    verifiedFor,
    clock,
    random,
    onEvent: emit,
    admission,
  });
  return { ...authenticator, reload: () => check.reload() };
}
