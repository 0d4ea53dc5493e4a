import { hash } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { MAX_FILE_BYTES, parseUsers, UsersFileError } from './users-file.ts';
import type { Users } from './users-file.ts';

/** How often the file is read, in milliseconds. A change counts when two readings in a row show it. */
const POLL_INTERVAL = 1000;

/** Calls back again and again, that many milliseconds apart; answers the function that ends it. */
export type Repeat = (callback: () => Promise<void>, interval: number) => () => void;

export type UsersEvent =
  /** The users of the file are now those that may log in. */
  | { readonly type: 'users-loaded'; readonly count: number; readonly warnings: readonly string[] }
  /** The file went missing or turned wrong; the users that were read before stay. */
  | { readonly type: 'users-kept'; readonly problem: string };

export interface UsersSourceOptions {
  readonly file: string;
  /** Reads the whole file; rejects when it cannot. */
  readonly read: (file: string) => Promise<Uint8Array>;
  readonly repeat: Repeat;
  /** Called in the same turn in which the users change; the first time before `openUsers` resolves. */
  readonly onUsers: (users: Users) => void;
  /** Must not throw. */
  readonly onEvent: (event: UsersEvent) => void;
}

export interface UsersSource {
  /**
   * Reads the file now, without waiting for a second reading to agree.
   * @throws {UsersFileError} when it cannot be used; the users that were read before stay.
   */
  reload(): Promise<void>;
  /** Stops reading. A reading that is under way changes nothing any more. */
  close(): void;
}

/** One reading: `print` is equal for equal content, or for the same failure. */
type Reading =
  | { readonly print: string; readonly bytes: Uint8Array }
  | { readonly print: string; readonly error: UsersFileError };

/**
 * Reads the users file and follows its changes.
 *
 * It reads the content each time instead of asking the system to watch. File notifications are lost when an
 * editor renames over the file, when Kubernetes swaps the symlink of a secret, and on network file systems;
 * size and times can be equal after a change, since all bcrypt lines of one user have one length. The file
 * is small. Two readings in a row must agree before a change counts, so neither a half-written file nor a
 * moment without one is taken for the operator's will.
 *
 * @throws {UsersFileError} when the file cannot be used at the start.
 */
export async function openUsers({
  file,
  read,
  repeat,
  onUsers,
  onEvent,
}: UsersSourceOptions): Promise<UsersSource> {
  let closed = false;
  /** The reading that was acted upon last. */
  let settled = '';
  /** A different one, seen once. */
  let unconfirmed: string | undefined;
  let last: Promise<unknown> = Promise.resolve();
  let polling = false;

  const observe = (): Promise<Reading> =>
    read(file).then(
      (bytes) => ({ print: `bytes ${hash('sha256', bytes)}`, bytes }),
      (cause: unknown) => ({ print: `error ${String(cause)}`, error: unreadable(file, cause) }),
    );

  const adopt = (reading: Reading): void => {
    settled = reading.print;
    unconfirmed = undefined;
    if ('error' in reading) throw reading.error;
    const users = parseUsers(reading.bytes, file);
    onUsers(users);
    onEvent({ type: 'users-loaded', count: users.hashes.size, warnings: users.warnings });
  };

  /** Readings follow one another, so an older one is never acted upon after a newer one. */
  const inTurn = (act: (reading: Reading) => void): Promise<void> => {
    const result = last.then(observe).then((reading) => {
      if (!closed) act(reading);
    });
    last = result.catch(() => undefined);
    return result;
  };

  const follow = (reading: Reading): void => {
    if (reading.print === settled) {
      unconfirmed = undefined;
    } else if (reading.print !== unconfirmed) {
      unconfirmed = reading.print;
    } else {
      try {
        adopt(reading);
      } catch (error) {
        onEvent({
          type: 'users-kept',
          problem: error instanceof Error ? error.message : String(error),
        });
      }
    }
  };

  const poll = async (): Promise<void> => {
    // A file system that hangs must not gather readings.
    if (polling) return;
    polling = true;
    await inTurn(follow).finally(() => {
      polling = false;
    });
  };

  await inTurn(adopt);
  const stop = repeat(poll, POLL_INTERVAL);

  return {
    reload: () => inTurn(adopt),
    close() {
      closed = true;
      stop();
    },
  };
}

/** Reads a regular file of bounded size. A pipe or a device is refused: opening it could wait for ever. */
export async function readUsersFile(file: string): Promise<Uint8Array> {
  const state = await stat(file);
  if (!state.isFile()) throw new Error('it is not a regular file');
  if (state.size > MAX_FILE_BYTES) throw new Error(`it is larger than ${MAX_FILE_BYTES} bytes`);
  return readFile(file);
}

/** The timer does not keep the process alive. */
export const repeatByTimer: Repeat = (callback, interval) => {
  const timer = setInterval(() => void callback(), interval).unref();
  return () => clearInterval(timer);
};

function unreadable(file: string, cause: unknown): UsersFileError {
  const { code, message = String(cause) } = cause as { code?: string; message?: string };
  const problem =
    code === 'ENOENT'
      ? `there is no such file. It is made by: htpasswd -c -B -C 10 ${file} NAME`
      : `it cannot be read (${message})`;
  return new UsersFileError(`users file ${file}: ${problem}`, { cause });
}
