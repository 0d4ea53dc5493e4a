import { setImmediate } from 'node:timers/promises';
import { ADMIN_ROLE } from '../roles/role.ts';
import { bytesOf, type Dialect, only, OperatorError } from './sql-database.ts';

/** How much of a document is copied in one turn of the event loop. */
const COPIED_AT_ONCE_BYTES = 2 * 1024 * 1024;
/** Marks a file as one of ours: the bytes `mdxg`. */
const APPLICATION_ID = 0x6d647867;

const FIRST_MIGRATION = `
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
`;

const takeId = (column: string) =>
  `UPDATE storage SET ${column} = ${column} + 1 RETURNING ${column} - 1 AS id`;

export const sqliteDialect = (path: string, wallClock: () => number): Dialect => ({
  migrations: [FIRST_MIGRATION],
  begin: { snapshot: 'BEGIN', write: 'BEGIN IMMEDIATE', alone: 'BEGIN IMMEDIATE' },
  async version({ rows }) {
    const asked = `SELECT application_id AS application, user_version AS version,
      (SELECT count(*) FROM sqlite_schema) AS tables FROM pragma_application_id, pragma_user_version`;
    const { application, version, tables } = only(await rows(asked));
    const empty = application === 0 && version === 0 && tables === 0;
    if (application === APPLICATION_ID || empty) return Number(version);
    const what = 'is a database of another program; it must be one of this program';
    throw new OperatorError(`storage.path: ${path} ${what}`);
  },
  setVersion: (version) =>
    `PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${version}`,
  newer: (version, latest) =>
    `storage.path: ${path} has schema version ${version}, made by a newer program; this one reads versions up to ${latest}`,
  firstRows: `INSERT INTO storage (only_row, id, roles_token, next_role_id, next_dataset_id)
    VALUES (1, ?1, ?2, ${ADMIN_ROLE.id + 1}, 1)`,
  tables: { storage: 'storage', roles: 'role', members: 'member', datasets: 'dataset' },
  roleOfMember: 'role_id',
  // A transaction that writes holds the only lock there is from its beginning.
  forUpdate: '',
  forShare: '',
  lockNames: undefined,
  takeId: { role: takeId('next_role_id'), dataset: takeId('next_dataset_id') },
  head: `SELECT (SELECT count(*) FROM role) AS roles, (SELECT count(*) FROM dataset) AS datasets,
    next_role_id AS role, next_dataset_id AS dataset FROM storage`,
  advanceIds: `UPDATE storage
    SET next_role_id = max(next_role_id, ?1), next_dataset_id = max(next_dataset_id, ?2)`,
  contains: 'instr(folded, ?1) > 0',
  moment: (milliseconds) => String(Math.floor(wallClock()) + milliseconds),
  insertMembers: `INSERT INTO member (role_id, position, name, folded)
    SELECT ?1, key + 1 + (SELECT coalesce(max(position), 0) FROM member WHERE role_id = ?1),
      unhex(value ->> 0), unhex(value ->> 1)
    FROM json_each(?2) WHERE true
    ON CONFLICT (folded, role_id) DO NOTHING RETURNING 1`,
  documents: {
    columns: ['document'],
    /** A copy, since its owner keeps it; never so much is copied in one turn that others wait. */
    async keep(_session, document) {
      const copy = new Uint8Array(document.length);
      for (let from = 0; from < document.length; from += COPIED_AT_ONCE_BYTES) {
        if (from > 0) await setImmediate();
        copy.set(document.subarray(from, from + COPIED_AT_ONCE_BYTES), from);
      }
      return [copy];
    },
    load: async (_session, { document }) => bytesOf(document),
    drop: async () => {},
  },
});
