import type { DatabaseSync } from 'node:sqlite';
import { foldCase } from '../../fold-case.ts';
import { ADMIN_ROLE } from '../../roles/role.ts';
import { toBytes } from '../sql-storage.ts';
import { OperatorError } from '../storage.ts';
import { toldAs } from './failures.ts';
import { begin, commit, undo } from './transactions.ts';

/** What a new storage is made of. */
export interface InitialState {
  /** Its random id. */
  readonly id: string;
  /** The first token of its roles. */
  readonly rolesToken: string;
  readonly firstMembers: readonly string[];
}

/** Brings a schema to the next version. Runs within a transaction. */
export type Migration = (database: DatabaseSync, initial: InitialState) => void;

/** Marks a file as one of ours: the bytes `mdxg`. */
const APPLICATION_ID = 0x6d647867;

/**
 * The first one makes version 1, and so on; the version is kept in `user_version`. One that was released is
 * never changed again.
 */
export const MIGRATIONS: readonly Migration[] = [makeTables];

function makeTables(database: DatabaseSync, { id, rolesToken, firstMembers }: InitialState): void {
  database.exec(`
    CREATE TABLE storage (
      only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
      id TEXT NOT NULL,
      next_role_id INTEGER NOT NULL,
      next_dataset_id INTEGER NOT NULL,
      roles_token TEXT NOT NULL,
      roles_shared_until INTEGER NOT NULL DEFAULT 0,
      roles_lease INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE role (
      id INTEGER PRIMARY KEY,
      name BLOB NOT NULL,
      folded BLOB NOT NULL UNIQUE,
      description BLOB NOT NULL
    ) STRICT;
    CREATE TABLE member (
      role_id INTEGER NOT NULL REFERENCES role (id) ON DELETE CASCADE,
      position INTEGER NOT NULL,
      name BLOB NOT NULL,
      folded BLOB NOT NULL,
      PRIMARY KEY (role_id, position),
      UNIQUE (folded, role_id)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE dataset (
      id INTEGER PRIMARY KEY,
      project BLOB NOT NULL,
      name BLOB NOT NULL,
      type BLOB NOT NULL,
      last_modified INTEGER NOT NULL,
      document BLOB NOT NULL,
      UNIQUE (project, name)
    ) STRICT;
  `);
  database
    .prepare(
      'INSERT INTO storage (only_row, id, next_role_id, next_dataset_id, roles_token) VALUES (1, ?, ?, 1, ?)',
    )
    .run(id, ADMIN_ROLE.id + 1, rolesToken);
  database
    .prepare('INSERT INTO role (id, name, folded, description) VALUES (?, ?, ?, ?)')
    .run(
      ADMIN_ROLE.id,
      toBytes(ADMIN_ROLE.name),
      toBytes(foldCase(ADMIN_ROLE.name)),
      toBytes(ADMIN_ROLE.description),
    );
  const insert = database.prepare(
    'INSERT INTO member (role_id, position, name, folded) VALUES (?, ?, ?, ?)',
  );
  const seen = new Set<string>();
  for (const name of firstMembers) {
    const folded = foldCase(name);
    if (seen.has(folded)) continue;
    seen.add(folded);
    insert.run(ADMIN_ROLE.id, seen.size, toBytes(name), toBytes(folded));
  }
}

/**
 * The version of the schema; 0 of an empty file.
 * @param latest the newest version that this program knows
 * @throws OperatorError when the file is of a newer program, or of another one
 */
export function versionOf(database: DatabaseSync, latest: number): number {
  const number = (sql: string) => Number(Object.values(database.prepare(sql).get() ?? {})[0]);
  const look = () => ({
    version: number('PRAGMA user_version'),
    application: number('PRAGMA application_id'),
    tables: number('SELECT count(*) FROM sqlite_schema'),
  });
  // Of one moment: another process may be making the tables.
  const { version, application, tables } = database.isTransaction
    ? look()
    : atOneMoment(database, look);
  const empty = application === 0 && version === 0 && tables === 0;
  if (application !== APPLICATION_ID && !empty) {
    throw new OperatorError('is a database of another program; it must be one of this program');
  }
  if (version > latest) {
    throw new OperatorError(
      `has schema version ${version}, made by a newer program; this one reads versions up to ${latest}`,
    );
  }
  return version;
}

/**
 * Brings the schema up to date, each migration in one transaction. Several processes may do so at one time.
 * @throws StorageUnavailable, OperatorError as {@link versionOf}
 */
export function migrate(
  database: DatabaseSync,
  migrations: readonly Migration[],
  initial: InitialState,
): void {
  const latest = migrations.length;
  while (versionOf(database, latest) < latest) {
    begin(database, 'BEGIN IMMEDIATE');
    try {
      const version = versionOf(database, latest);
      migrations[version]?.(database, initial);
      const next = Math.min(version + 1, latest);
      database.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${next}`);
    } catch (error) {
      undo(database);
      throw toldAs('nothing-done', error);
    }
    commit(database);
  }
}

function atOneMoment<T>(database: DatabaseSync, look: () => T): T {
  begin(database, 'BEGIN');
  try {
    return look();
  } catch (error) {
    throw toldAs('nothing-done', error);
  } finally {
    undo(database);
  }
}
