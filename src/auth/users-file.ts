import { compare as compareByBcrypt, genSaltSync } from 'bcrypt';
import { isUtf8 } from 'node:buffer';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Emit } from '../common/events.ts';
import { foldCase } from '../common/fold-case.ts';
import { inTurns } from '../common/in-turn.ts';
import { inLatin1, principalOf } from '../common/principal.ts';
import {
  createPasswordAuthenticator,
  type LoginOptions,
  type PasswordCheck,
} from './authenticator.ts';

/** bcrypt reads this many bytes of a password and no more. */
export const MAX_PASSWORD_BYTES = 72;
/** Below 4 there is no bcrypt; one comparison of cost 15 already takes seconds. */
const MIN_COST = 4;
const MAX_COST = 15;
/** More than 100,000 lines of the usual length. */
const MAX_FILE_BYTES = 16 * 1024 * 1024;
const BYTE_ORDER_MARK = Buffer.from('\ufeff');
/** htpasswd takes no longer names. */
const MAX_NAME_BYTES = 255;
/** In one turn of the event loop; they take a few milliseconds. */
const LINES_AT_ONCE = 500;
const PROBLEMS_SHOWN = 10;
const POLL_INTERVAL = 1000;
/** A file whose state was the same so often is read again with every so many looks only. */
const LOOKS = { untilAtRest: 5, whileAtRest: 60 };

interface UsersFile {
  /** Its path; lines of `name:hash` as written by `htpasswd -B`. */
  readonly file: string;
  /** Its content so far: see {@link parseUsers}. */
  readonly before?: Accounts | undefined;
  /** Undefined: it is what it was the last time. */
  readonly read?: (file: string) => Promise<Uint8Array | undefined>;
  readonly pause?: (signal: AbortSignal) => Promise<void>;
}

/** Checks by a password file. An unknown user costs one comparison, like a wrong password. @throws {UsersFileError} */
export async function createFileAuthenticator(
  options: LoginOptions &
    UsersFile & {
      /** ms; undefined: until the line of the user changes */
      readonly verifiedFor: number | undefined;
      readonly compare?: typeof comparePassword;
      readonly comparisons?: number | undefined;
    },
) {
  const { compare = comparePassword, comparisons = 1, verifiedFor = Infinity } = options;
  const { users, close } = await followUsers(options);
  const check: PasswordCheck = {
    atOnce: comparisons,
    trust: { verifiedFor, since: 'use', believedFor: 0 },
    principalOf: ({ name, encoding }) =>
      principalOf(name, encoding === 'utf-8' ? name : inLatin1(name)),
    mayCheck: isComparable,
    async check({ name, password }) {
      const account = users.accounts.get(name);
      // Made for every login, so that no time tells whether it is used.
      const decoy = createDecoyHash(users.commonCost);
      const isRight = await compare(password, account?.hash ?? decoy);
      return isRight && account !== undefined ? 'right' : 'wrong';
    },
    users,
    close,
  };
  const authenticator = createPasswordAuthenticator(check, options);
  return {
    ...authenticator,
    kept: () => ({ ...authenticator.kept(), before: users.accounts }),
  };
}

/**
 * Reads the users file and follows its changes by its content: notifications are lost when an editor renames over it,
 * when Kubernetes swaps a symlink, and on network file systems. Two readings in a row must agree.
 * @returns one object, whose parts are replaced; @throws {UsersFileError} at the start
 */
export async function followUsers({
  file,
  before,
  read = createUsersReader(),
  pause = betweenReadings,
  emit,
}: UsersFile & { readonly emit: Emit }) {
  const observe = () =>
    read(file).then(
      (bytes) => bytes && { bytes, cause: undefined },
      (cause: unknown) => ({ bytes: undefined, cause }),
    );
  type Reading = Awaited<ReturnType<typeof observe>>;
  async function usersOf(reading: Reading, before?: Accounts) {
    if (reading?.bytes === undefined) throw unreadable(file, reading?.cause);
    const found = await parseUsers(reading.bytes, file, before);
    emit({ type: 'users-loaded', count: found.accounts.size });
    for (const message of found.warnings) emit({ type: 'warning', message });
    return found;
  }
  /** Content, or the same failure. Not by digests, which take the event loop for longer. */
  const isSame = (one: Reading, other: Reading) =>
    one?.bytes && other?.bytes
      ? Buffer.compare(one.bytes, other.bytes) === 0
      : String(one?.cause) === String(other?.cause) && one?.bytes === other?.bytes;

  /** The reading that was acted upon last, and the one that differs from it and was seen once. */
  let settled = await observe();
  let unconfirmed: Reading;
  const users = await usersOf(settled, before);
  const closing = new AbortController();
  const { signal } = closing;

  /** One after the other: a file system that hangs must not gather readings. */
  async function follow(): Promise<never> {
    while (true) {
      await pause(signal);
      const reading = await observe();
      signal.throwIfAborted();
      if (reading === undefined) continue;
      const isConfirmed = isSame(reading, unconfirmed) && !isSame(reading, settled);
      unconfirmed = reading;
      if (!isConfirmed) continue;
      settled = reading;
      try {
        const found = await usersOf(reading, users.accounts);
        if (!signal.aborted) Object.assign(users, found);
      } catch (error) {
        const { message } = error as UsersFileError;
        emit({ type: 'warning', message: `keeping the current users: ${message}` });
      }
    }
  }
  follow().catch(() => {});

  return { users, close: () => closing.abort() };
}

/** Keeps no process alive. */
const betweenReadings = (signal: AbortSignal): Promise<void> =>
  sleep(POLL_INTERVAL, undefined, { ref: false, signal });

/**
 * Reads a file as long as it changes, and a few times more: two changes may have one time. Then mostly its state alone, which
 * takes the same with 100,000 lines; but not only that, since some file systems do not tell every change in it.
 */
export function createUsersReader() {
  let known: string | undefined;
  let looks = 0;
  return async (file: string): Promise<Uint8Array | undefined> => {
    // A pipe or a device could wait for ever. Network file systems ask their server for the state of what is opened.
    const handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const state = await handle.stat({ bigint: true });
      const { dev, ino, size, mtimeNs, ctimeNs } = state;
      if (!state.isFile()) throw new Error('it is not a regular file');
      if (size > MAX_FILE_BYTES) throw new Error(`it is larger than ${MAX_FILE_BYTES} bytes`);
      const now = [dev, ino, size, mtimeNs, ctimeNs].join(' ');
      looks = now === known ? looks + 1 : 0;
      known = now;
      const isAtRest = looks >= LOOKS.untilAtRest && looks % LOOKS.whileAtRest > 0;
      return isAtRest ? undefined : await handle.readFile();
    } finally {
      await handle.close();
    }
  };
}

/** Accounts by exact spelling: another object as soon as the password changes, or the user was gone in between. */
type Accounts = ReadonlyMap<string, { readonly hash: string }>;

/** The message names file and lines, never a hash or any other content. */
export class UsersFileError extends Error {}

/**
 * Reads lines `name:hash` as `htpasswd -B` writes them, in UTF-8, as a whole; or @throws {UsersFileError}.
 * @param before the accounts so far: one whose line says the same stays the object that it is
 */
export async function parseUsers(bytes: Uint8Array, file: string, before: Accounts = new Map()) {
  if (!isUtf8(bytes)) throw unusable(file, ['it is not UTF-8 text'], 1);

  const accounts = new Map<string, { readonly hash: string }>();
  const lineOf = new Map<string, number>();
  /** The first ones; a wrong file has one for each line. */
  const problems: string[] = [];
  let problemCount = 0;
  const costs = new Map<number, number>();
  /** Names by their form, and those that share one. */
  const forms = new Map<string, string[]>();
  const twins = new Set<readonly string[]>();
  let count = 0;

  function take(line: string): void {
    count += 1;
    if (/^[ \t]*(?:#|$)/.test(line)) return;
    const [, name = '', text] = /^([^:]*):(.*)$/su.exec(line) ?? [];
    const given = text?.trimEnd();
    const earlier = lineOf.get(name);
    const problem = problemOf(name, given) ?? (earlier && `the user of line ${earlier} again`);
    if (given === undefined || problem !== undefined) {
      problemCount += 1;
      if (problems.length < PROBLEMS_SHOWN) problems.push(`line ${count}: ${problem}`);
      return;
    }
    const known = before.get(name);
    accounts.set(name, known?.hash === given ? known : { hash: given });
    lineOf.set(name, count);
    const cost = bcryptCost(given) ?? 0;
    costs.set(cost, (costs.get(cost) ?? 0) + 1);
    const form = formOf(name);
    const alike = forms.get(form) ?? [];
    forms.set(form, alike);
    if (alike.push(name) > 1) twins.add(alike);
  }

  await inTurns(linesOf(bytes), LINES_AT_ONCE, take);
  if (problemCount === 0 && accounts.size === 0) problems.push('it holds no user');
  if (problems.length > 0) throw unusable(file, problems, problemCount);

  const [[commonCost] = [MAX_COST]] = [...costs].toSorted(
    ([cost, alike], [other, others]) => others - alike || other - cost,
  );
  // Each is a principal of its own; the author of the lines likely meant one.
  const warnings = [...twins].slice(0, PROBLEMS_SHOWN).map((names) => {
    const lines = names.map((name) => lineOf.get(name)).join(' and ');
    return `lines ${lines}: users whose names differ only in letter case or Unicode form`;
  });
  const more = twins.size - warnings.length;
  if (more > 0) warnings.push(`and ${more} more groups of users with such names`);
  if (costs.size > 1) {
    const list = [...costs.keys()].toSorted((a, b) => a - b);
    const told = 'the time of a refusal tells which users exist';
    warnings.push(`the hashes have different costs (${list.join(', ')}): ${told}`);
  }
  // An unknown name costs a comparison of the cost that most have.
  return { accounts, commonCost, lookAlikes: new Set([...twins].flat()), warnings };
}

/** Without a byte order mark and line ends. */
function* linesOf(bytes: Uint8Array): Generator<string> {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  let from = text.subarray(0, 3).equals(BYTE_ORDER_MARK) ? 3 : 0;
  while (from < text.length) {
    const found = text.indexOf('\n', from);
    const end = found < 0 ? text.length : found;
    yield text.toString('utf8', from, end).replace(/\r$/, '');
    from = end + 1;
  }
}

function problemOf(name: string, given: string | undefined): string | undefined {
  if (given === undefined) return 'there is no colon';
  if (name === '') return 'the user name is empty';
  if (/\p{Cc}/u.test(name)) return 'the user name holds a control character';
  if (name.trim() !== name) return 'the user name begins or ends with white space';
  if (Buffer.byteLength(name) > MAX_NAME_BYTES) {
    return `the user name is longer than ${MAX_NAME_BYTES} bytes`;
  }
  if (!/^\$2[aby]\$/.test(given)) return 'the hash is not bcrypt ($2a$, $2b$ or $2y$)';
  const cost = bcryptCost(given);
  if (cost === undefined) return 'the bcrypt hash is damaged';
  if (cost < MIN_COST) return `the cost of the hash is below ${MIN_COST}`;
  if (cost <= MAX_COST) return undefined;
  return `the cost of the hash is above ${MAX_COST}: each login would take seconds`;
}

/** Also letters of other widths and styles are the same. */
const formOf = (name: string): string => foldCase(foldCase(name).normalize('NFKC'));

function unusable(file: string, problems: readonly string[], count: number): UsersFileError {
  const more = count > problems.length ? [`and ${count - problems.length} more`] : [];
  const shown = [...problems, ...more];
  const advice = `A right line is made by: htpasswd -B -C 10 ${file} NAME`;
  return new UsersFileError(`users file ${file}: ${shown.join('; ')}. ${advice}`);
}

function unreadable(file: string, cause: unknown): UsersFileError {
  const { code, message = String(cause) } = cause as { code?: string; message?: string };
  const problem =
    code === 'ENOENT'
      ? `there is no such file. It is made by: htpasswd -c -B -C 10 ${file} NAME`
      : `it cannot be read (${message})`;
  return new UsersFileError(`users file ${file}: ${problem}`, { cause });
}

/** Cost, salt and digest, whose last characters carry 2 and 4 bits: with others there no comparison succeeds. */
const BCRYPT = /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{30}[.CGKOSWaeimquy26]$/;

/** Undefined where the text is no bcrypt hash. The cost may lie outside of the limits. */
export function bcryptCost(text: string): number | undefined {
  const cost = BCRYPT.exec(text)?.[1];
  return cost === undefined ? undefined : Number(cost);
}

/** Whether bcrypt can tell this password from every other: some programs stop at a NUL. */
export const isComparable = (password: string): boolean =>
  Buffer.byteLength(password) <= MAX_PASSWORD_BYTES && !password.includes('\0');

/** On the thread pool of libuv. `$2y$`, of htpasswd and PHP, is what the library calls `$2b$`. */
export const comparePassword = (password: string, given: string): Promise<boolean> =>
  compareByBcrypt(password, given.replace(/^\$2y/, '$$2b'));

/** A hash that no known password has, for the comparison that an unknown user name must cost. */
export const createDecoyHash = (cost: number): string => genSaltSync(cost) + '.'.repeat(31);
