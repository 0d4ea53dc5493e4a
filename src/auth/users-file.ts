import { isUtf8 } from 'node:buffer';
import { hash } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import type { Emit } from '../common/events.ts';
import { foldCase } from '../common/fold-case.ts';
import { bcryptCost, MAX_COST, MIN_COST } from './password-hash.ts';

/** Largest users file, in bytes: over ten thousand users. */
const MAX_FILE_BYTES = 1024 * 1024;

/** htpasswd takes no longer names. */
const MAX_NAME_BYTES = 255;

const PROBLEMS_SHOWN = 10;

/** How often the file is read, in milliseconds. A change counts when two readings in a row show it. */
const POLL_INTERVAL = 1000;

/** A user with one password: another object as soon as the password changes, or the user was gone in between. */
export interface Account {
  /** Of bcrypt. */
  readonly hash: string;
}

export interface Users {
  /** By the exact spelling of the name. */
  readonly accounts: ReadonlyMap<string, Account>;
  /** The cost that most hashes have; of two equally frequent ones the higher. */
  readonly commonCost: number;
  /** Names that differ from another one in letter case or Unicode form only. */
  readonly lookAlikes: ReadonlySet<string>;
  /** What is allowed but likely a mistake, by line number. */
  readonly warnings: readonly string[];
}

/** A users file that cannot be used. The message names file and lines, never a hash or any other content. */
export class UsersFileError extends Error {
  override readonly name = 'UsersFileError';
}

/**
 * Reads lines `name:hash` as `htpasswd -B` writes them. UTF-8, with or without a byte order mark; line ends
 * are LF or CRLF; blank lines and lines that begin with `#` are skipped. Names are kept as spelt: letter
 * case and the Unicode form count.
 *
 * The file is taken as a whole or not at all.
 *
 * @param file - its path, for messages.
 * @param before - the accounts so far: one whose line says the same stays the object that it is.
 * @throws {UsersFileError} with every problem, up to ten, that was found.
 */
export function parseUsers(
  bytes: Uint8Array,
  file: string,
  before: Users['accounts'] = new Map(),
): Users {
  if (!isUtf8(bytes)) throw unusable(file, ['it is not UTF-8 text']);

  const accounts = new Map<string, Account>();
  const lineOf = new Map<string, number>();
  const problems: string[] = [];
  for (const [index, line] of new TextDecoder().decode(bytes).split(/\r?\n/).entries()) {
    if (/^[ \t]*(?:#|$)/.test(line)) continue;
    const [, name = '', text] = /^([^:]*):(.*)$/su.exec(line) ?? [];
    const hash = text?.trimEnd() ?? '';
    const earlier = lineOf.get(name);
    const problem =
      (text === undefined ? 'there is no colon' : (nameProblem(name) ?? hashProblem(hash))) ??
      (earlier === undefined ? undefined : `the user of line ${earlier} again`);
    if (problem === undefined) {
      const known = before.get(name);
      accounts.set(name, known?.hash === hash ? known : { hash });
      lineOf.set(name, index + 1);
    } else {
      problems.push(`line ${index + 1}: ${problem}`);
    }
  }
  if (problems.length === 0 && accounts.size === 0) problems.push('it holds no user');
  if (problems.length > 0) throw unusable(file, problems);

  const costs = [...Map.groupBy(accounts.values(), ({ hash }) => bcryptCost(hash) ?? MAX_COST)];
  const [[commonCost] = [MAX_COST]] = costs.toSorted(
    ([cost, alike], [other, others]) => others.length - alike.length || other - cost,
  );
  // Each is a principal of its own; the author of the lines likely meant one.
  const twins = [...Map.groupBy(accounts.keys(), formOf).values()].filter(
    ({ length }) => length > 1,
  );
  const warnings = twins.map(
    (names) =>
      `lines ${names.map((name) => lineOf.get(name)).join(' and ')}: users whose names differ only in letter case or Unicode form`,
  );
  if (costs.length > 1) {
    // An unknown name costs a comparison of the common cost.
    const list = costs.map(([cost]) => cost).toSorted((a, b) => a - b);
    warnings.push(
      `the hashes have different costs (${list.join(', ')}): the time of a refusal tells which users exist`,
    );
  }
  return { accounts, commonCost, lookAlikes: new Set(twins.flat()), warnings };
}

function nameProblem(name: string): string | undefined {
  if (name === '') return 'the user name is empty';
  if (/\p{Cc}/u.test(name)) return 'the user name holds a control character';
  if (name.trim() !== name) return 'the user name begins or ends with white space';
  if (Buffer.byteLength(name) > MAX_NAME_BYTES) {
    return `the user name is longer than ${MAX_NAME_BYTES} bytes`;
  }
  return undefined;
}

function hashProblem(hash: string): string | undefined {
  if (!/^\$2[aby]\$/.test(hash)) return 'the hash is not bcrypt ($2a$, $2b$ or $2y$)';
  const cost = bcryptCost(hash);
  if (cost === undefined) return 'the bcrypt hash is damaged';
  if (cost < MIN_COST) return `the cost of the hash is below ${MIN_COST}`;
  if (cost > MAX_COST)
    return `the cost of the hash is above ${MAX_COST}: each login would take seconds`;
  return undefined;
}

/** A form that also takes letters of other widths and styles for the same. */
function formOf(name: string): string {
  return foldCase(foldCase(name).normalize('NFKC'));
}

function unusable(file: string, problems: readonly string[]): UsersFileError {
  const shown = problems.slice(0, PROBLEMS_SHOWN);
  const more = problems.length - shown.length;
  if (more > 0) shown.push(`and ${more} more`);
  return new UsersFileError(
    `users file ${file}: ${shown.join('; ')}. A right line is made by: htpasswd -B -C 10 ${file} NAME`,
  );
}

/** Calls back again and again, that many milliseconds apart; answers the function that ends it. */
export type Repeat = (callback: () => Promise<void>, interval: number) => () => void;

export interface FollowedUsers {
  /** Those that may log in now. */
  users(): Users;
  /** Stops reading. A reading that is under way changes nothing any more. */
  close(): void;
}

/**
 * Reads the users file and follows its changes.
 *
 * It reads the content each time instead of asking the system to watch. File notifications are lost when an
 * editor renames over the file, when Kubernetes swaps the symlink of a secret, and on network file systems;
 * size and times can be equal after a change, since all bcrypt lines of one user have one length. The file
 * is small. Two readings in a row must agree before a change counts, so neither a half-written file nor a
 * moment without one is taken for the operator's will.
 *
 * @param read - reads the whole file; rejects when it cannot.
 * @param emit - told of every change, and of a file that went missing or turned wrong; must not throw.
 * @throws {UsersFileError} when the file cannot be used at the start.
 */
export async function followUsers({
  file,
  read,
  repeat,
  emit,
}: {
  readonly file: string;
  readonly read: (file: string) => Promise<Uint8Array>;
  readonly repeat: Repeat;
  readonly emit: Emit;
}): Promise<FollowedUsers> {
  /** One reading: `print` is equal for equal content, or for the same failure. */
  const observe = async () => {
    try {
      const bytes = await read(file);
      return { print: `bytes ${hash('sha256', bytes)}`, bytes };
    } catch (cause) {
      return { print: `error ${String(cause)}`, error: unreadable(file, cause) };
    }
  };
  const usersOf = ({ bytes, error }: Awaited<ReturnType<typeof observe>>, before?: Users) => {
    if (bytes === undefined) throw error;
    const found = parseUsers(bytes, file, before?.accounts);
    emit({ type: 'users-loaded', count: found.accounts.size });
    for (const message of found.warnings) emit({ type: 'warning', message });
    return found;
  };

  const first = await observe();
  let users = usersOf(first);
  /** The reading that was acted upon last, and one that differs from it and was seen once. */
  let settled = first.print;
  let unconfirmed: string | undefined;
  let closed = false;
  let polling = false;

  const stop = repeat(async () => {
    // A file system that hangs must not gather readings.
    if (polling) return;
    polling = true;
    const reading = await observe();
    polling = false;
    if (closed) return;
    const { print } = reading;
    const isConfirmed = print === unconfirmed && print !== settled;
    unconfirmed = print;
    if (!isConfirmed) return;
    settled = print;
    try {
      users = usersOf(reading, users);
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      emit({ type: 'warning', message: `keeping the current users: ${problem}` });
    }
  }, POLL_INTERVAL);

  return {
    users: () => users,
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
