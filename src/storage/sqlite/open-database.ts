import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { StorageUnavailable } from '../../errors.ts';
import { OperatorError } from '../storage.ts';
import { isBusy, isNoDatabase, isUnopenable, toldAs } from './failures.ts';
import { migrate, MIGRATIONS, versionOf, type InitialState } from './schema.ts';

/** Between two attempts where SQLite itself does not wait (ms). */
const PAUSE = 10;

/** What the WAL keeps of the disk after a large document went through it (bytes). */
const KEPT_OF_WAL = 16 * 1024 * 1024;

/** Failures of the disk, or of the process, that may pass. Others are about the path. */
const PASSING = new Set([
  'ENOSPC',
  'EDQUOT',
  'EIO',
  'EMFILE',
  'ENFILE',
  'ENOMEM',
  'EINTR',
  'EAGAIN',
]);

/**
 * Opens the file, makes it and its folder when they are not there, and brings the schema up to date.
 * A file that is of no use is left as it is.
 * @param patience how long to wait for the lock of another process (ms)
 * @throws StorageUnavailable when it may succeed later
 * @throws OperatorError when only an operator can mend it
 */
export function openDatabase(path: string, initial: InitialState, patience: number): DatabaseSync {
  try {
    prepareFolder(path);
    const made = !existsSync(path);
    const database = new DatabaseSync(path, {
      timeout: patience,
      enableForeignKeyConstraints: true,
      enableDoubleQuotedStringLiterals: false,
    });
    try {
      if (made) protect(path);
      accessSync(path, constants.R_OK | constants.W_OK);
      makeReady(database, initial, patience);
    } catch (error) {
      database.close();
      throw error;
    }
    return database;
  } catch (error) {
    throw explained(path, error);
  }
}

function prepareFolder(path: string): void {
  const folder = dirname(path);
  makeFolder(folder);
  // The WAL and its index stand beside the file.
  accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
}

/** Not by `recursive`, which tries for ever where a folder is there but takes no other, as /proc. */
function makeFolder(path: string): void {
  try {
    mkdirSync(path, 0o700);
  } catch (error) {
    const code = systemCodeOf(error);
    if (code === 'EEXIST') return;
    if (code !== 'ENOENT' || existsSync(dirname(path))) throw error;
    makeFolder(dirname(path));
    makeFolder(path);
  }
}

/**
 * For the eyes of this user only; the files beside it get the same mode. Not by opening the file: to close it
 * again would drop the locks that SQLite holds for this process.
 */
function protect(path: string): void {
  chmodSync(path, 0o600);
  const folder = openSync(dirname(path), 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

function makeReady(database: DatabaseSync, initial: InitialState, patience: number): void {
  // Before anything is written: a file of another program stays as it is.
  versionOf(database, MIGRATIONS.length);
  switchToWal(database, patience);
  database.exec(`
    PRAGMA synchronous = FULL;
    PRAGMA trusted_schema = OFF;
    PRAGMA journal_size_limit = ${KEPT_OF_WAL};
  `);
  migrate(database, MIGRATIONS, initial);
}

/** SQLite does not wait here for another process that does the same. */
function switchToWal(database: DatabaseSync, patience: number): void {
  for (let left = patience; ; left -= PAUSE) {
    try {
      const mode = Object.values(database.prepare('PRAGMA journal_mode = WAL').get() ?? {})[0];
      if (mode === 'wal') return;
      throw new OperatorError('is on a file system without shared memory; it must be a local one');
    } catch (error) {
      if (!isBusy(error) || left <= 0) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE);
    }
  }
}

function explained(path: string, error: unknown): unknown {
  const named = (what: string) => new OperatorError(`storage.path: ${path} ${what}`);
  if (error instanceof OperatorError) return named(error.message);
  const cause = error instanceof StorageUnavailable ? error.cause : error;
  if (isNoDatabase(cause)) return named('is no SQLite database; it must be one, or not be there');
  if (isUnopenable(cause)) {
    return named('cannot be opened; it must be a file in a folder that this user may write to');
  }
  const code = systemCodeOf(error);
  if (code === undefined) return toldAs('nothing-done', error);
  if (PASSING.has(code)) return new StorageUnavailable('nothing-done', error);
  return named(
    `cannot be used (${code}); file and folder must be readable and writable, or possible to make`,
  );
}

function systemCodeOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('syscall' in error) || !('code' in error)) return undefined;
  return String(error.code);
}
