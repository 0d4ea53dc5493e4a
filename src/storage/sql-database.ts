import { foldCase } from '../common/fold-case.ts';
import type { Dataset } from '../datasets/dataset.ts';
import type { Role } from '../roles/role.ts';

/** A failure that only an operator can mend. The message is one line. */
export class OperatorError extends Error {
  override readonly name = 'OperatorError';
}

/** One piece of a dump. `lastModified` is in whole seconds since 1970 (UTC). */
export type StorageRecord = Readonly<
  | { kind: 'head'; roles: number; datasets: number; nextRoleId: number; nextDatasetId: number }
  | { kind: 'role'; role: Role }
  | { kind: 'dataset'; id: number; lastModified: number; dataset: Dataset }
>;

export interface StorageParts {
  readonly firstMembers: readonly string[];
  /** Milliseconds since 1970. */
  readonly wallClock: () => number;
  readonly randomBytes: (count: number) => Buffer;
  /** Gets failures that no caller sees, such as a lost idle connection. */
  readonly onError: (error: unknown) => void;
}

/** Text of users is the bytes of its UTF-8. */
export type Value = string | number | Uint8Array;
/** Columns by name. Drivers differ in their numbers and bytes. */
export type Row = Readonly<Record<string, unknown>>;

export interface Session {
  readonly dialect: Dialect;
  /**
   * Runs one statement, whose values stand as `?1`, `?2` … in its text.
   * @param carries a piece of a document, which gets more time and restarts the operation's time
   * @throws StorageUnavailable `nothing-done`: the transaction is undone
   */
  rows(text: string, values?: readonly Value[], carries?: boolean): Promise<readonly Row[]>;
  /** @throws StorageUnavailable `unknown` too: a `COMMIT` was sent */
  script(text: string): Promise<void>;
}

/**
 * `read`: one statement that changes nothing. `snapshot`: several, which see one moment. `write`: a
 * transaction, rolled back when its result {@link isRefusal} or its work throws.
 */
export type Kind = 'read' | 'snapshot' | 'write';
export type Work<T> = (session: Session) => Promise<T>;

/** Port: a database. Methods reject with StorageUnavailable when it cannot be used. */
export interface SqlDatabase {
  readonly dialect: Dialect;
  /** Limit for the answer whether it can be reached (ms). */
  readonly longestCheck: number;
  /** Brings the schema up to date. @throws OperatorError if an operator must act first */
  open(): Promise<void>;
  run<T>(kind: Kind, work: Work<T>): Promise<T>;
  /** Opens a connection for long work, whose end undoes what is not committed. */
  long(): Promise<AsyncDisposable & { readonly session: Session }>;
  renewCertificates?(): void;
  close(): Promise<void>;
}

export type QueriedDatabase = SqlDatabase & { readonly query: Session['rows'] };

export interface Dialect {
  /** Statements that make each schema version from the last one. Released ones never change. */
  readonly migrations: readonly string[];
  /** Begins a snapshot, a transaction that writes, or one during which no other one makes ids. */
  readonly begin: Readonly<Record<'snapshot' | 'write' | 'alone', string>>;
  /** The schema version, 0 for none. @throws OperatorError for a database of another program */
  version(session: Session): Promise<number>;
  setVersion(version: number): string;
  /** The message about a schema of a newer program. @param latest version that this one knows */
  newer(version: number, latest: number): string;
  /** Makes the first rows of an empty schema: ?1 is the id of the storage, ?2 its roles token. */
  readonly firstRows: string;
  readonly tables: Readonly<Record<'storage' | 'roles' | 'members' | 'datasets', string>>;
  readonly roleOfMember: string;
  readonly forUpdate: string;
  readonly forShare: string;
  /** Waits until no other transaction names a role; undefined where writes are serial anyway. */
  readonly lockNames: string | undefined;
  readonly takeId: Readonly<Record<'role' | 'dataset', string>>;
  /** Counts `roles` and `datasets`, and reads the next ids, `role` and `dataset`. */
  readonly head: string;
  readonly advanceIds: string;
  readonly contains: string;
  /** The moment after so many milliseconds, as `roles_shared_until` stores it. */
  moment(milliseconds: number): string;
  /** Adds new members at the end of role ?1, a row for each; ?2 as `membersJson` writes it. */
  readonly insertMembers: string;
  readonly documents: {
    readonly columns: readonly string[];
    /** Keeps a document without a dataset. @returns the values of the columns */
    keep(session: Session, document: Buffer): Promise<readonly Value[]>;
    load(session: Session, row: Row): Promise<Buffer>;
    /** Removes the document of dataset `id` before a new one replaces it. */
    drop(session: Session, id: number): Promise<void>;
  };
}

/** True for a word other than `done`: nothing is kept. */
export const isRefusal = (result: unknown) => typeof result === 'string' && result !== 'done';

export async function perform<T>(session: Session, kind: Kind, work: Work<T>): Promise<T> {
  if (kind === 'read') return await work(session);
  await session.script(session.dialect.begin[kind]);
  const result = await work(session);
  await session.script(kind === 'write' && !isRefusal(result) ? 'COMMIT' : 'ROLLBACK');
  return result;
}

export function bytesOf(value: unknown): Buffer {
  const { buffer, byteOffset, byteLength } = value as Uint8Array<ArrayBuffer>;
  return Buffer.from(buffer, byteOffset, byteLength);
}

export function only(rows: readonly Row[]): Row {
  const [row] = rows;
  if (row === undefined) throw new Error('The storage has lost the row of its own.');
  return row;
}

/** Bytes of UTF-8 compare exactly, whatever the collation, and may hold NUL. */
export const toBytes = (text: string): Buffer => Buffer.from(text);
export const foldedBytes = (name: string): Buffer => toBytes(foldCase(name));

export const textOf = (value: unknown): string => bytesOf(value).toString();

export const newToken = ({ randomBytes }: Pick<StorageParts, 'randomBytes'>): string =>
  randomBytes(16).toString('base64url');
