import {
  createPasswordAuthenticator,
  type Authenticator,
  type LoginOptions,
  type PasswordCheck,
} from './authenticator.ts';
import {
  comparePassword,
  createDecoyHash,
  isComparable,
  type ComparePassword,
} from './password-hash.ts';
import { followUsers, readUsersFile, repeatByTimer, type Repeat } from './users-file.ts';

/** Half of the default thread pool of libuv: files and DNS names need the other half. */
const COMPARISONS_AT_ONCE = 2;

export interface FileAuthenticatorOptions extends LoginOptions {
  /** Path of the users file, lines of `name:hash` as written by `htpasswd -B`. */
  readonly file: string;
  /** Default: bcrypt, on the thread pool. */
  readonly compare?: ComparePassword;
  /** Default: from the file system. */
  readonly read?: (file: string) => Promise<Uint8Array>;
  /** Default: a timer that does not keep the process alive. */
  readonly repeat?: Repeat;
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
  compare = comparePassword,
  read = readUsersFile,
  repeat = repeatByTimer,
  ...login
}: FileAuthenticatorOptions): Promise<Authenticator> {
  const { emit, random } = login;
  const followed = await followUsers({ file, read, repeat, emit });
  const accountOf = (name: string) => followed.users().accounts.get(name);

  const check: PasswordCheck = {
    atOnce: COMPARISONS_AT_ONCE,
    mayCheck: isComparable,
    async check({ name, password }) {
      const account = accountOf(name);
      // Made for every login, so that no time tells whether it is used.
      const decoy = createDecoyHash(followed.users().commonCost, random);
      try {
        const isRight = await compare(password, account?.hash ?? decoy);
        return isRight && account !== undefined ? 'right' : 'wrong';
      } catch (error) {
        emit({ type: 'warning', message: 'a login could not be checked', error });
        return 'failed';
      }
    },
    proofOf: accountOf,
    isKnown: (name) => accountOf(name) !== undefined,
    isLookAlike: (name) => followed.users().lookAlikes.has(name),
    close: followed.close,
  };
  return createPasswordAuthenticator(check, login);
}
