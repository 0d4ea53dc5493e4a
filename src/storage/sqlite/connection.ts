import { statSync } from 'node:fs';
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import { StorageUnavailable } from '../../errors.ts';
import { bytesOf, type Dialect, type Session, type SqlDatabase } from '../sql-storage.ts';
import { OperatorError } from '../storage.ts';
import { toldAs } from './failures.ts';
import { openDatabase } from './open-database.ts';
import type { InitialState } from './schema.ts';
import { begin, commit, undo } from './transactions.ts';

/**
 * The SQL of SQLite, for the tables of schema.ts.
 * @param wallClock milliseconds since 1970
 */
function sqliteDialect(wallClock: () => number): Dialect<Session> {
  return {
    tables: { storage: 'storage', roles: 'role', members: 'member', datasets: 'dataset' },
    roleOfMember: 'role_id',
    // A transaction that writes holds the only lock there is from its beginning.
    forUpdate: '',
    forShare: '',
    lockNames: undefined,
    lockIds: undefined,
    takeId: { role: takeId('next_role_id'), dataset: takeId('next_dataset_id') },
    head: `SELECT (SELECT count(*) FROM role) AS roles, (SELECT count(*) FROM dataset) AS datasets,
      next_role_id AS role, next_dataset_id AS dataset FROM storage`,
    advanceIds: `UPDATE storage
      SET next_role_id = max(next_role_id, ?1), next_dataset_id = max(next_dataset_id, ?2)`,
    contains: 'instr(folded, ?1) > 0',
    greatest: 'max',
    moment: (milliseconds) => String(Math.floor(wallClock()) + milliseconds),
    insertMembers: `INSERT INTO member (role_id, position, name, folded)
      SELECT ?1, key + 1 + (SELECT coalesce(max(position), 0) FROM member WHERE role_id = ?1),
        unhex(value ->> 0), unhex(value ->> 1)
      FROM json_each(?2) WHERE true
      ON CONFLICT (folded, role_id) DO NOTHING RETURNING 1`,
    documents: {
      columns: ['document'],
      dropped: [],
      keep: async (_session, document) => [document],
      load: async (_session, { document }) => bytesOf(document),
      drop: async () => {},
    },
  };
}

function takeId(column: string): string {
  return `UPDATE storage SET ${column} = ${column} + 1 RETURNING ${column} - 1 AS id`;
}

interface Opened {
  readonly database: DatabaseSync;
  readonly session: Session;
  /** Which file it is, whatever its name. */
  readonly file: string;
}

/**
 * One connection to the file. It waits for the disk: to be used in a thread of its own. Nothing of what it is asked
 * settles later than in the turn in which it was asked, so one transaction ends before another one can begin.
 * @param options.patience for how long to wait for the lock of another process (ms)
 */
export function createConnection(options: {
  readonly path: string;
  readonly initial: InitialState;
  readonly wallClock: () => number;
  readonly patience: () => number;
}): SqlDatabase<Session> {
  const { path, initial, patience } = options;
  let opened: Opened | undefined;

  function open(): Opened {
    if (opened?.database.isOpen !== true) {
      const database = openDatabase(path, initial, patience());
      opened = { database, session: createSession(database), file: fileAt(path) };
    } else if (fileAt(path) !== opened.file) {
      // What is written to a file that has no name any more is lost with this process.
      throw new OperatorError(
        `storage.path: ${path} was moved, removed or replaced while it was in use; it must stay, or this program be started again`,
      );
    }
    opened.database.exec(`PRAGMA busy_timeout = ${patience()}`);
    return opened;
  }

  async function reading<T>(work: (session: Session) => Promise<T>): Promise<T> {
    const { database, session } = open();
    begin(database, 'BEGIN');
    try {
      return await work(session);
    } finally {
      undo(database);
    }
  }

  async function writing<T>(work: (session: Session) => Promise<T>): Promise<T> {
    const { database, session } = open();
    begin(database, 'BEGIN IMMEDIATE');
    try {
      const result = await work(session);
      if (typeof result !== 'string' || result === 'done') commit(database);
      return result;
    } finally {
      undo(database);
    }
  }

  return {
    dialect: sqliteDialect(options.wallClock),
    open: async () => void open(),
    read: reading,
    snapshot: reading,
    write: writing,
    longWrite: writing,
    async longSnapshot() {
      const { database, session } = open();
      begin(database, 'BEGIN');
      return { session, end: () => undo(database) };
    },
    async answers() {
      await reading((session) => session.rows('SELECT id FROM storage'));
      return true;
    },
    async close() {
      // The last connection to close writes everything from the WAL into the file.
      if (opened?.database.isOpen === true) opened.database.close();
    },
  };
}

/** Statements are prepared once. */
function createSession(database: DatabaseSync): Session {
  const prepared = new Map<string, StatementSync>();
  return {
    async rows(text, values = []) {
      if (!database.isTransaction) {
        throw new StorageUnavailable('nothing-done', new Error('the transaction has ended before'));
      }
      try {
        const statement = prepared.get(text) ?? database.prepare(text);
        if (prepared.size < MOST_PREPARED) prepared.set(text, statement);
        return statement.all(...(values as SQLInputValue[]));
      } catch (error) {
        undo(database);
        throw toldAs('nothing-done', error);
      }
    },
  };
}

/** Moments stand in the text of statements, so that there is no end of them. */
const MOST_PREPARED = 50;

function fileAt(path: string): string {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found === undefined ? 'none' : `${found.dev}:${found.ino}`;
}
