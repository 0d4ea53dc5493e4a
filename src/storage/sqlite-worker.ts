/** Thread of one connection to a file of SQLite: node:sqlite blocks it while the disk works. */
import * as fs from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';

export interface WorkerSetup {
  readonly path: string;
  /** How long a statement waits for another process's lock (ms). */
  readonly patience: number;
}

export interface Call {
  readonly text?: string;
  readonly values?: readonly SQLInputValue[] | undefined;
}

export type Reply = { readonly rows: readonly Readonly<Record<string, unknown>>[] } | Failure;

export interface Failure {
  /**
   * `operator`: an operator must mend it; the message continues the name of the file. `busy`:
   * another process held its lock too long. `nothing-done`, `unknown`: the outcome of the statement
   * when the file, its disk or its other users are in the way. `bug`: a fault of this program.
   */
  readonly failure: 'operator' | 'busy' | 'nothing-done' | 'unknown' | 'bug';
  readonly cause: unknown;
}

/** Primary result codes, https://sqlite.org/rescode.html. */
const [BUSY, FULL, CANTOPEN, NOTADB] = [5, 13, 14, 26] as const;
/** Codes about the file, its disk or its users, such as LOCKED, READONLY, IOERR or CORRUPT. */
const OF_THE_STORAGE = new Set<number | undefined>([5, 6, 7, 8, 9, 10, 11, 13, 15]);

/** Failures without a usable file; each text continues the file's name for an operator. */
const NO_FILE: ReadonlyMap<number | undefined, string> = new Map([
  [CANTOPEN, 'cannot be opened; it must be a file in a folder that this user may write to'],
  [NOTADB, 'is no SQLite database; it must be one, or not be there'],
]);

/** Failures of disk or process that may pass. Others are about the path. */
const PASSING = new Set('ENOSPC EDQUOT EIO EMFILE ENFILE ENOMEM EINTR EAGAIN'.split(' '));
const { path, patience } = workerData as WorkerSetup;
let opened: { readonly database: DatabaseSync; readonly file: string } | undefined;

parentPort?.on('message', ({ text, values }: Call) => {
  if (text === undefined) {
    // The last connection to close writes everything from the WAL into the file.
    opened?.database.close();
    parentPort?.close();
    return;
  }
  let reply: Reply;
  try {
    reply = { rows: run(text, values) };
  } catch (error) {
    reply = failureOf(error, text);
  }
  parentPort?.postMessage(reply, 'rows' in reply ? documentsIn(reply.rows) : []);
});

function run(text: string, values: Call['values']): readonly Record<string, unknown>[] {
  opened ??= { database: openDatabase(), file: fileAt() };
  const { database, file } = opened;
  if (!database.isTransaction) {
    // Some failures end the transaction.
    if (text === 'ROLLBACK') return [];
    // Data written to a file without a name are lost with this process.
    if (fileAt() !== file) throw new PathProblem(MOVED);
  }
  if (values !== undefined) return database.prepare(text).all(...values);
  database.exec(text);
  return [];
}

class PathProblem extends Error {}

const MOVED =
  'was moved, removed or replaced while it was in use; it must stay, or this program be started again';

function fileAt(): string {
  const found = fs.statSync(path, { bigint: true, throwIfNoEntry: false });
  return found === undefined ? 'none' : `${found.dev}:${found.ino}`;
}

/** Makes a missing file and folder, for this user only. */
function openDatabase(): DatabaseSync {
  const folder = dirname(path);
  makeFolder(folder);
  // The WAL and its index stand beside the file.
  fs.accessSync(folder, fs.constants.R_OK | fs.constants.W_OK | fs.constants.X_OK);
  const isNew = !fs.existsSync(path);
  const database = new DatabaseSync(path, {
    timeout: patience,
    enableForeignKeyConstraints: true,
    enableDoubleQuotedStringLiterals: false,
  });
  try {
    // Opening and closing the file would drop the locks that SQLite holds for this process.
    if (isNew) fs.chmodSync(path, 0o600);
    fs.accessSync(path, fs.constants.R_OK | fs.constants.W_OK);
  } catch (error) {
    database.close();
    throw error;
  }
  return database;
}

/** Avoids `recursive`, which loops forever in a folder that takes no folders, such as /proc. */
function makeFolder(folder: string): void {
  if (fs.existsSync(folder)) return;
  makeFolder(dirname(folder));
  try {
    fs.mkdirSync(folder, 0o700);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

const documentsIn = (rows: readonly Readonly<Record<string, unknown>>[]): ArrayBuffer[] =>
  rows.flatMap(({ document: it }) => (it instanceof Uint8Array ? [it.buffer as ArrayBuffer] : []));

function failureOf(error: unknown, text: string): Failure {
  const { syscall, code: system, errcode } = error as NodeJS.ErrnoException & { errcode?: number };
  const code = errcode === undefined ? undefined : errcode & 0xff;
  const passes = syscall === undefined ? OF_THE_STORAGE.has(code) : PASSING.has(system ?? '');
  let problem = NO_FILE.get(code);
  if (error instanceof PathProblem) problem = error.message;
  else if (syscall !== undefined && !passes) {
    problem = `cannot be used (${system}); file and folder must be readable and writable, or possible to make`;
  }
  if (problem !== undefined) return { failure: 'operator', cause: new Error(problem) };
  // The message crosses to another thread, other properties of the error do not.
  if (code !== undefined && error instanceof Error) error.message += ` (SQLite ${code})`;
  if (!passes) return { failure: 'bug', cause: error };
  if (code === BUSY) return { failure: 'busy', cause: error };
  // With FULL, COMMIT certainly did not write its last frame, so no crash can bring it back.
  const isKnown = text !== 'COMMIT' || code === FULL;
  return { failure: isKnown ? 'nothing-done' : 'unknown', cause: error };
}
