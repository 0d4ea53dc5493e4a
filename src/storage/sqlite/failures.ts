import { StorageUnavailable } from '../../errors.ts';

/** Primary result codes of SQLite, https://sqlite.org/rescode.html. */
const BUSY = 5;
const FULL = 13;
const CANTOPEN = 14;
const NOTADB = 26;
/** Those that tell of the file, its disk or its other users. Any other is a mistake of this program. */
const OF_THE_STORAGE: ReadonlySet<number | undefined> = new Set([
  BUSY,
  6, // LOCKED
  7, // NOMEM
  8, // READONLY
  9, // INTERRUPT
  10, // IOERR
  11, // CORRUPT
  FULL,
  CANTOPEN,
  15, // PROTOCOL
  NOTADB,
]);

/** The primary result code of an error of node:sqlite. */
function codeOf(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('errcode' in error)) return undefined;
  return typeof error.errcode === 'number' ? error.errcode & 0xff : undefined;
}

/** Whether another connection held its lock for longer than the busy timeout. */
export const isBusy = (error: unknown): boolean => codeOf(error) === BUSY;

/** Whether it is certain that a COMMIT that failed so did not write its last frame. */
export const isBeforeCommit = (error: unknown): boolean => {
  const code = codeOf(error);
  return code === BUSY || code === FULL;
};

/** Whether it is certain that a file is not one that SQLite can read. */
export const isNoDatabase = (error: unknown): boolean => codeOf(error) === NOTADB;

export const isUnopenable = (error: unknown): boolean => codeOf(error) === CANTOPEN;

/** What the caller is told: the failure of the storage as such, any other error as it is. */
export function toldAs(outcome: StorageUnavailable['outcome'], error: unknown): unknown {
  return OF_THE_STORAGE.has(codeOf(error)) ? new StorageUnavailable(outcome, error) : error;
}
