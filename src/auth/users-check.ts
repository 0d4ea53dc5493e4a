import type { Clock } from '../clock.ts';
import { createCheckLine } from './check-line.ts';
import type { CheckOutcome, Credentials, PasswordCheck } from './password-check.ts';
import { createDecoyHash, isComparable, type ComparePassword } from './password-hash.ts';
import { openUsers, type Repeat, type UsersEvent } from './users-source.ts';

export type UsersCheckEvent =
  | UsersEvent
  /** The comparison itself failed; the login was refused. */
  | { readonly type: 'comparison-failed'; readonly error: unknown };

export interface UsersCheckOptions {
  /** Path of the users file, lines of `name:hash` as written by `htpasswd -B`. */
  readonly file: string;
  readonly clock: Pick<Clock, 'now'>;
  readonly random: (bytes: number) => Uint8Array;
  /** Must not throw. */
  readonly onEvent: (event: UsersCheckEvent) => void;
  readonly compare: ComparePassword;
  readonly read: (file: string) => Promise<Uint8Array>;
  readonly repeat: Repeat;
}

export interface UsersCheck extends PasswordCheck {
  /**
   * Reads the users file now.
   * @throws {UsersFileError} when it cannot be used; the users that were read before stay.
   */
  reload(): Promise<void>;
}

/** Half of the default thread pool of libuv: files and DNS names need the other half. */
const COMPARISONS_AT_ONCE = 2;

/** A password that changes twice during its comparison is refused; the client asks again. */
const ATTEMPTS_WHEN_USERS_CHANGE = 2;

/**
 * Checks passwords against a users file that it follows. The proof of a user is the hash. An unknown user costs
 * one comparison, like a wrong password.
 *
 * @throws {UsersFileError} when the users file cannot be used at the start.
 */
export async function openUsersCheck({
  file,
  clock,
  random,
  onEvent,
  compare,
  read,
  repeat,
}: UsersCheckOptions): Promise<UsersCheck> {
  const line = createCheckLine({ atOnce: COMPARISONS_AT_ONCE });
  const listeners: (() => void)[] = [];
  let hashes: ReadonlyMap<string, string> = new Map();
  let lookAlikes: ReadonlySet<string> = new Set();
  let decoy = '';
  let closed = false;

  const users = await openUsers({
    file,
    read,
    repeat,
    onEvent,
    onUsers(next) {
      hashes = next.hashes;
      lookAlikes = next.lookAlikes;
      decoy = createDecoyHash(next.commonCost, random);
      for (const listener of listeners) listener();
    },
  });

  /** The users file may change while this waits: what counts is the hash that the user has at the end. */
  const check = async ({ name, password }: Credentials, known: boolean): Promise<CheckOutcome> => {
    for (let attempt = 0; attempt < ATTEMPTS_WHEN_USERS_CHANGE; attempt += 1) {
      if (closed) return { kind: 'failed' };
      const hash = hashes.get(name);
      const compared = line.run(() => compare(password, hash ?? decoy), known);
      if (compared === undefined) return { kind: 'full' };
      try {
        const isRight = await compared;
        if (hashes.get(name) !== hash) continue;
        if (hash === undefined || !isRight) return { kind: 'wrong' };
        return { kind: 'right', proof: hash, at: clock.now() };
      } catch (error) {
        onEvent({ type: 'comparison-failed', error });
        return { kind: 'failed' };
      }
    }
    return { kind: 'failed' };
  };

  return {
    // bcrypt would not look at what is behind its 72 bytes.
    mayCheck: isComparable,
    check,
    proofOf: (name) => hashes.get(name),
    onChange: (listener) => void listeners.push(listener),
    isKnown: (name) => hashes.has(name),
    isLookAlike: (name) => lookAlikes.has(name),
    reload: () => users.reload(),
    close() {
      closed = true;
      users.close();
      hashes = new Map();
    },
  };
}
