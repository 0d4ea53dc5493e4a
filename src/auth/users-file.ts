import { compare as compareByBcrypt, genSaltSync } from 'bcrypt';
import { isUtf8 } from 'node:buffer';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Emit } from '../common/events.ts';
import { foldCase } from '../common/fold-case.ts';
import { inTurns } from '../common/in-turn.ts';
import { inLatin1, type Principal, principalOf } from '../common/principal.ts';
import { createPasswordAuthenticator, type LoginOptions } from './authenticator.ts';

/** bcrypt ignores further bytes of a password. */
export const MAX_PASSWORD_BYTES = 72;
/** bcrypt begins at 4; one comparison of cost 15 already takes seconds. */
const MIN_COST = 4;
const MAX_COST = 15;
const MAX_FILE_BYTES = 16 * 1024 * 1024;
const BYTE_ORDER_MARK = Buffer.from('\ufeff');
const MAX_NAME_BYTES = 255;
/** A few milliseconds for one turn of the event loop. */
const LINES_AT_ONCE = 500;
const PROBLEMS_SHOWN = 10;
const POLL_INTERVAL = 1000;
/** A file unchanged for `untilAtRest` looks is read again only at each `whileAtRest`-th. */
const LOOKS = { untilAtRest: 5, whileAtRest: 60 };

interface UsersFile {
  /** Path of a file with lines `name:hash` as `htpasswd -B` writes them. */
  readonly file: string;
  readonly before?: Accounts | undefined;
  readonly read?: (file: string) => Promise<Uint8Array | undefined>;
  readonly pause?: (signal: AbortSignal) => Promise<void>;
}

/** Checks by a password file; an unknown user costs a comparison too. @throws UsersFileError */
export async function createFileAuthenticator(
  options: LoginOptions &
    UsersFile & {
      /** ms; by default until the user's line changes */
      readonly verifiedFor: number | undefined;
      readonly compare?: typeof comparePassword;
      readonly comparisons?: number | undefined;
    },
) {
  const { compare = comparePassword, comparisons = 1, verifiedFor = Infinity } = options;
  const { users, close } = await followUsers(options);
  const authenticator = createPasswordAuthenticator(options, {
    atOnce: comparisons,
    trust: { verifiedFor, since: 'use', believedFor: 0 },
    principalOf: ({ name, encoding }) =>
      principalOf(name, encoding === 'utf-8' ? name : inLatin1(name)),
    mayCheck: isComparable,
    async check({ name, password }) {
      const account = users.accounts.get(name);
      // Made for every login, so that the time does not reveal users.
      const decoy = createDecoyHash(users.commonCost);
      const isRight = await compare(password, account?.hash ?? decoy);
      return isRight && account !== undefined ? 'right' : 'wrong';
    },
    users,
    close,
  });
  return {
    ...authenticator,
    /** A login that was right is right while this is the same. */
    proofOf: ({ name }: Principal): unknown => users.accounts.get(name),
    kept: () => ({ ...authenticator.kept(), before: users.accounts }),
  };
}

/**
 * Follows the users file by its content: notifications get lost when an editor renames over it,
 * when Kubernetes swaps a symlink, and on network file systems. Two readings in a row must agree.
 * @returns one object, whose parts are replaced
 * @throws UsersFileError at the start
 */
export async function followUsers({
  file,
  before,
  read = createUsersReader(),
  pause = (signal) => sleep(POLL_INTERVAL, undefined, { ref: false, signal }),
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
  /** Compares bytes: digests would block the event loop for longer. */
  const isSame = (one: Reading, other: Reading) =>
    one?.bytes && other?.bytes
      ? Buffer.compare(one.bytes, other.bytes) === 0
      : String(one?.cause) === String(other?.cause) && one?.bytes === other?.bytes;

  /** The last effective reading; `unconfirmed` differs from it and was seen once. */
  let settled = await observe();
  let unconfirmed: Reading;
  const users = await usersOf(settled, before);
  const closing = new AbortController();
  const { signal } = closing;

  /** Reads one at a time: a hanging file system must not gather readings. */
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

/**
 * Reads a file while it changes, and a few times more, since two changes may have one time; later
 * mostly only its state, which some file systems do not always update.
 */
export function createUsersReader() {
  let known: string | undefined;
  let looks = 0;
  return async (file: string): Promise<Uint8Array | undefined> => {
    // A pipe or device could wait forever. Opening refreshes the state of network files.
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

/** Accounts by exact spelling; a new object when the password changes or the user returns. */
type Accounts = ReadonlyMap<string, { readonly hash: string }>;

/** The message names file and lines, but shows no content. */
export class UsersFileError extends Error {}

/**
 * Reads lines `name:hash` as `htpasswd -B` writes them, in UTF-8.
 * @param before earlier accounts, of which unchanged ones stay the same objects
 * @throws UsersFileError
 */
export async function parseUsers(bytes: Uint8Array, file: string, before: Accounts = new Map()) {
  if (!isUtf8(bytes)) throw unusable(file, ['it is not UTF-8 text'], 1);

  const accounts = new Map<string, { readonly hash: string }>();
  const lineOf = new Map<string, number>();
  const problems: string[] = [];
  let problemCount = 0;
  const costs = new Map<number, number>();
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
    const form = foldCase(foldCase(name).normalize('NFKC'));
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
  // Each name is a principal, but the author of the lines likely meant one user.
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
  return { accounts, commonCost, lookAlikes: new Set([...twins].flat()), warnings };
}

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

/** Cost, salt, digest. Their last characters carry 2 and 4 bits; others never match. */
const BCRYPT = /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{30}[.CGKOSWaeimquy26]$/;

/** Undefined for what is no bcrypt hash. The cost may exceed the limits. */
export function bcryptCost(text: string): number | undefined {
  const cost = BCRYPT.exec(text)?.[1];
  return cost === undefined ? undefined : Number(cost);
}

/** False for passwords that bcrypt cannot tell apart: some programs stop at a NUL. */
export const isComparable = (password: string): boolean =>
  Buffer.byteLength(password) <= MAX_PASSWORD_BYTES && !password.includes('\0');

/** Uses the thread pool of libuv. The library calls `$2y$` of htpasswd and PHP `$2b$`. */
export const comparePassword = (password: string, given: string): Promise<boolean> =>
  compareByBcrypt(password, given.replace(/^\$2y/, '$$2b'));

export const createDecoyHash = (cost: number): string => genSaltSync(cost) + '.'.repeat(31);
