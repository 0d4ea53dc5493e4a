import { foldCase } from '../common/fold-case.ts';
import type { Dataset } from '../datasets/dataset.ts';
import { ADMIN_ROLE, type Member, type Role, type RoleSummary } from '../roles/role.ts';

/** What only an operator can mend. The message is one line. */
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

/** What a driver needs. */
export interface StorageParts {
  /** Members of the built-in role when the storage is made. */
  readonly firstMembers: readonly string[];
  /** Milliseconds since 1970. */
  readonly wallClock: () => number;
  /** That many random bytes. */
  readonly randomBytes: (count: number) => Buffer;
  /** Told of failures that no caller is told of, such as a lost idle connection. */
  readonly onError: (error: unknown) => void;
}

/** What a statement can be given. Text of users is kept as bytes, see {@link toBytes}. */
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
  /** As {@link Storage.renewCertificates}; left out where there are none. */
  renewCertificates?(): void;
  /** Called when no operation is under way. Ends long work. */
  close(): Promise<void>;
}

/** What the SQL of two databases differs in. */
export interface Dialect {
  /** What makes each version of the schema from the one before. One that was released is never changed. */
  readonly migrations: readonly string[];
  /** Begins what sees one moment, a transaction that writes, and one while which no other one makes ids. */
  readonly begin: Readonly<Record<'snapshot' | 'write' | 'alone', string>>;
  /** The version of the schema, 0 when there is nothing yet. @throws OperatorError for a database of another program */
  version(session: Session): Promise<number>;
  setVersion(version: number): string;
  /** What an operator is told of a schema of a newer program. */
  newer(version: number): string;
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
  /** Adds members at the end of role ?1, each once, and returns a row for each that was not there: ?2 as by {@link membersJson}. */
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

/** Text is kept as the bytes of its UTF-8: compared exactly, whatever the collation, and with NUL. */
export const toBytes = (text: string): Buffer => Buffer.from(text);
export const foldedBytes = (name: string): Buffer => toBytes(foldCase(name));

/** Names and folded names in hexadecimal, for statements that take a list of them. */
export const membersJson = (members: readonly Member[]): string =>
  JSON.stringify(
    members.map(({ name }) => [toBytes(name), foldedBytes(name)].map((b) => b.toString('hex'))),
  );

/** @param value a column of bytes */
export function bytesOf(value: unknown): Buffer {
  const { buffer, byteOffset, byteLength } = value as Uint8Array<ArrayBuffer>;
  return Buffer.from(buffer, byteOffset, byteLength);
}
export const textOf = (value: unknown): string => bytesOf(value).toString();

/** A random token, or id of a storage. */
export const newToken = ({ randomBytes }: Pick<StorageParts, 'randomBytes'>): string =>
  randomBytes(16).toString('base64url');

/** @throws Error when there is no row where there always is one */
export function only(rows: readonly Row[]): Row {
  const [row] = rows;
  if (row === undefined) throw new Error('The storage has lost the row of its own.');
  return row;
}

/** Brings the schema up to date, and makes the built-in role in an empty one. @throws OperatorError */
export async function bringUpToDate(session: Session, parts: StorageParts): Promise<'done'> {
  const { dialect } = session;
  const latest = dialect.migrations.length;
  const version = await dialect.version(session);
  if (version === latest) return 'done';
  if (version > latest) throw new OperatorError(dialect.newer(version));
  for (const migration of dialect.migrations.slice(version)) await session.script(migration);
  if (version === 0) {
    await session.rows(dialect.firstRows, [newToken(parts), newToken(parts)]);
    const contains = parts.firstMembers.map((name) => ({ type: 'user' as const, name }));
    await insertRole(session, { ...ADMIN_ROLE, contains });
  }
  await session.script(dialect.setVersion(latest));
  return 'done';
}

/** Adds a role with its members, each once. */
export async function insertRole(session: Session, role: Role): Promise<'done' | 'name-taken'> {
  const { id, name, description, contains } = role;
  const { tables, insertMembers } = session.dialect;
  const rows = await session.rows(
    `INSERT INTO ${tables.roles} (id, name, folded, description) VALUES (?1, ?2, ?3, ?4)
     ON CONFLICT (folded) DO NOTHING RETURNING id`,
    [id, toBytes(name), foldedBytes(name), toBytes(description)],
  );
  if (rows.length === 0) return 'name-taken';
  await session.rows(insertMembers, [id, membersJson(contains)]);
  return 'done';
}

/** @param document the values of the columns of its document */
export async function insertDataset(
  session: Session,
  { id, lastModified, dataset }: Omit<Extract<StorageRecord, { kind: 'dataset' }>, 'kind'>,
  document: readonly Value[],
): Promise<'done' | 'exists'> {
  const { columns } = session.dialect.documents;
  const { datasets } = session.dialect.tables;
  const slots = columns.map((_, i) => `?${i + 6}`).join(', ');
  const texts = [dataset.project, dataset.name, dataset.type].map(toBytes);
  const rows = await session.rows(
    `INSERT INTO ${datasets} (id, project, name, type, last_modified, ${columns.join(', ')})
     VALUES (?1, ?2, ?3, ?4, ?5, ${slots}) ON CONFLICT (project, name) DO NOTHING RETURNING id`,
    [id, ...texts, lastModified, ...document],
  );
  return rows.length === 0 ? 'exists' : 'done';
}

/**
 * Gives the roles a new token. The last statement of every change of a role: it locks the row until its transaction ends,
 * so that changes are committed one after the other, and what a token stands for is of one moment.
 */
export async function setRolesToken(session: Session, token: string): Promise<void> {
  await session.rows(`UPDATE ${session.dialect.tables.storage} SET roles_token = ?1`, [token]);
}

/** Reads roles with their members. @param which conditions, order, limit */
export async function readRoles(session: Session, which: string, values: readonly Value[]) {
  const { tables, roleOfMember } = session.dialect;
  const rows = await session.rows(
    `SELECT r.id, r.name, r.description, m.name AS member
     FROM (SELECT id, name, description FROM ${tables.roles} ${which}) r
     LEFT JOIN ${tables.members} m ON m.${roleOfMember} = r.id
     ORDER BY r.id, m.position`,
    values,
  );
  return [...Map.groupBy(rows, ({ id }) => Number(id)).values()].map((ofRole) => {
    // A role without members has one row, without a member.
    const named = ofRole.filter(({ member }) => member !== null);
    const contains = named.map(({ member }): Member => ({ type: 'user', name: textOf(member) }));
    return Object.assign(summaryOf(only(ofRole)), { contains });
  });
}

export const summaryOf = ({ id, name, description }: Row): RoleSummary => ({
  id: Number(id),
  name: textOf(name),
  description: textOf(description),
});
