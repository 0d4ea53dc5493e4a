import { foldCase } from '../common/fold-case.ts';
import type { Dataset } from '../datasets/dataset.ts';
import type { Role } from '../roles/role.ts';

/** A failure that only an operator can mend. The message is one line. */
export class OperatorError extends Error {
  override readonly name = 'OperatorError';
}

/**
 * One piece of a dump. A head has the ids that the next role and dataset get; `lastModified` is in whole seconds since
 * 1970 (UTC).
 */
export type StorageRecord = Readonly<
  | { kind: 'head'; roles: number; datasets: number; nextRoleId: number; nextDatasetId: number }
  | { kind: 'role'; role: Role }
  | { kind: 'dataset'; id: number; lastModified: number; dataset: Dataset }
>;

/** Parts that a driver is built on. */
export interface StorageParts {
  /** Members of the built-in role when the storage is made. */
  readonly firstMembers: readonly string[];
  /** Milliseconds since 1970. */
  readonly wallClock: () => number;
  /** Makes random bytes. */
  readonly randomBytes: (count: number) => Buffer;
  /** Told of failures that no caller is told of, such as a lost idle connection. */
  readonly onError: (error: unknown) => void;
}

/** A value of a statement. Text of users is kept as the bytes of its UTF-8. */
export type Value = string | number | Uint8Array;
/** One row, by the names of its columns. Drivers differ in how they hand out numbers and bytes. */
export type Row = Readonly<Record<string, unknown>>;

/** One connection, for the time of one operation. */
export interface Session {
  readonly dialect: Dialect;
  /**
   * Runs one statement, whose values stand as `?1`, `?2` … in its text.
   * @param carries a piece of a document: it gets more time, and the time of the operation begins anew after it
   * @throws StorageUnavailable `nothing-done`: what it is part of is undone
   */
  rows(text: string, values?: readonly Value[], carries?: boolean): Promise<readonly Row[]>;
  /** Runs statements that give nothing back. @throws StorageUnavailable also `unknown`, of a `COMMIT` that was sent */
  script(text: string): Promise<void>;
}

/**
 * How statements are run: one that changes nothing (`read`), several that see one moment and change nothing, or a
 * transaction. A transaction is rolled back when its result {@link isRefusal}, and when its work throws.
 */
export type Kind = 'read' | 'snapshot' | 'write';
export type Work<T> = (session: Session) => Promise<T>;

/** Port: a database that runs statements. Methods reject with StorageUnavailable when it cannot be used. */
export interface SqlDatabase {
  readonly dialect: Dialect;
  /** Within how many milliseconds it says that it can be reached. */
  readonly longestCheck: number;
  /** Brings the schema up to date. @throws OperatorError when only an operator can make that possible */
  open(): Promise<void>;
  /** The work may be done twice, if the first time was in vain. */
  run<T>(kind: Kind, work: Work<T>): Promise<T>;
  /** A connection of its own for long work. What is not committed when it ends is undone. */
  long(): Promise<AsyncDisposable & { readonly session: Session }>;
  /** See {@link Storage.renewCertificates}; left out where there are none. */
  renewCertificates?(): void;
  /** Called when no operation is under way. Ends long work. */
  close(): Promise<void>;
}

/** A database in operation. `query` runs one statement, so that all that it gives is of one moment. */
export type QueriedDatabase = SqlDatabase & { readonly query: Session['rows'] };

/** Port: everything in which the SQL of two databases differs. */
export interface Dialect {
  /** Statements that make each version of the schema from the one before. Those that were released are never changed. */
  readonly migrations: readonly string[];
  /** Begins what sees one moment, a transaction that writes, and one while which no other one makes ids. */
  readonly begin: Readonly<Record<'snapshot' | 'write' | 'alone', string>>;
  /** The version of the schema, 0 when there is nothing yet. @throws OperatorError for a database of another program */
  version(session: Session): Promise<number>;
  setVersion(version: number): string;
  /** Tells an operator of a schema of a newer program. @param latest version that this one knows */
  newer(version: number, latest: number): string;
  /** Makes the first rows of an empty schema: with the id ?1 of the storage and the token ?2 of its roles. */
  readonly firstRows: string;
  readonly tables: Readonly<Record<'storage' | 'roles' | 'members' | 'datasets', string>>;
  /** The column of a member that names its role. */
  readonly roleOfMember: string;
  /** Locks the rows that a SELECT finds, against every change and against changes of the row itself. */
  readonly forUpdate: string;
  readonly forShare: string;
  /** Waits until no other transaction gives a role a name; undefined where writes come one by one anyway. */
  readonly lockNames: string | undefined;
  /** Gives the next id away, as `id`. */
  readonly takeId: Readonly<Record<'role' | 'dataset', string>>;
  /** How many `roles` and `datasets` there are, and the ids that come next, `role` and `dataset`. */
  readonly head: string;
  /** Sees to it that the next ids are at least ?1 for roles and ?2 for datasets. */
  readonly advanceIds: string;
  /** Whether the bytes ?1 stand in the column `folded`. */
  readonly contains: string;
  /** The moment that many milliseconds from now, as `roles_shared_until` has it. */
  moment(milliseconds: number): string;
  /** Adds members at the end of role ?1, each once, and returns a row for each that was not there: ?2 holds names and folded names in hexadecimal. */
  readonly insertMembers: string;
  /** Where documents are: the columns of a dataset that lead to its document. */
  readonly documents: {
    readonly columns: readonly string[];
    /** Keeps a document that belongs to nothing yet. @returns the values of the columns */
    keep(session: Session, document: Buffer): Promise<readonly Value[]>;
    /** @param row with the columns */
    load(session: Session, row: Row): Promise<Buffer>;
    /** Removes what dataset `id` has, before it gets another one. */
    drop(session: Session, id: number): Promise<void>;
  };
}

/** Whether a result says that nothing is to be kept: a word other than `done`. */
export const isRefusal = (result: unknown) => typeof result === 'string' && result !== 'done';

/** Runs statements as {@link Kind} says. When it throws, the caller undoes what was begun. */
export async function perform<T>(session: Session, kind: Kind, work: Work<T>): Promise<T> {
  if (kind === 'read') return await work(session);
  await session.script(session.dialect.begin[kind]);
  const result = await work(session);
  await session.script(kind === 'write' && !isRefusal(result) ? 'COMMIT' : 'ROLLBACK');
  return result;
}

/** @param value a column of bytes */
export function bytesOf(value: unknown): Buffer {
  const { buffer, byteOffset, byteLength } = value as Uint8Array<ArrayBuffer>;
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** @throws Error when there is no row where there always is one */
export function only(rows: readonly Row[]): Row {
  const [row] = rows;
  if (row === undefined) throw new Error('The storage has lost the row of its own.');
  return row;
}

/** Text is kept as the bytes of its UTF-8: compared exactly, whatever the collation, and with NUL. */
export const toBytes = (text: string): Buffer => Buffer.from(text);
export const foldedBytes = (name: string): Buffer => toBytes(foldCase(name));

export const textOf = (value: unknown): string => bytesOf(value).toString();

/** A random token, or id of a storage. */
export const newToken = ({ randomBytes }: Pick<StorageParts, 'randomBytes'>): string =>
  randomBytes(16).toString('base64url');
