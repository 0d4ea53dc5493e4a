import { setImmediate, setTimeout } from 'node:timers/promises';
import { Worker, type WorkerOptions } from 'node:worker_threads';
import { StorageUnavailable } from '../common/errors.ts';
import { createGate } from '../common/body-account.ts';
import { inTime } from '../common/clock.ts';
import { ADMIN_ROLE } from '../roles/role.ts';
import {
  bringUpToDate,
  bytesOf,
  only,
  perform,
  type Dialect,
  type Row,
  type Session,
  type SqlDatabase,
} from './sql-database.ts';
import { createSqlStorage } from './sql-storage.ts';
import type { Call, Failure, Reply, WorkerSetup } from './sqlite-worker.ts';
import { OperatorError, type Storage, type StorageParts } from './storage.ts';

export interface SqliteStorageOptions extends StorageParts {
  /** The file; it is made, with its folder, when it is not there. */
  readonly path: string;
  /** Starts the threads. */
  readonly start?: (file: URL, options: WorkerOptions) => Worker;
}

/** For how long a statement waits for the lock of another process (ms). */
const PATIENCE = 1_500;
/** Between two attempts where SQLite itself does not wait (ms). */
const PAUSE = 10;
/** How long a statement may take (ms). Only a disk that hangs takes so long. */
const LONGEST_STATEMENT = 60_000;
/** How much of a document is copied in one turn of the event loop (bytes). */
const COPIED_AT_ONCE = 2 * 1024 * 1024;
/** What the WAL keeps of the disk after a large document went through it (bytes). */
const KEPT_OF_WAL = 16 * 1024 * 1024;
/** Marks a file as one of ours: the bytes `mdxg`. */
const APPLICATION_ID = 0x6d647867;

/** TypeScript in the source tree, JavaScript where it was built. */
const WORKER = new URL(
  `./sqlite-worker${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`,
  import.meta.url,
);

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

/** @param documents copies of documents, which are handed over to the thread */
function sqliteDialect(
  { path, wallClock }: SqliteStorageOptions,
  documents: WeakSet<Uint8Array>,
): Dialect {
  const migrations = [FIRST_MIGRATION];
  return {
    migrations,
    begin: { snapshot: 'BEGIN', write: 'BEGIN IMMEDIATE' },
    async version({ rows }) {
      const version = Number(only(await rows('PRAGMA user_version'))['user_version']);
      const application = Number(only(await rows('PRAGMA application_id'))['application_id']);
      const tables = Number(only(await rows('SELECT count(*) AS n FROM sqlite_schema'))['n']);
      const empty = application === 0 && version === 0 && tables === 0;
      if (application === APPLICATION_ID || empty) return version;
      const what = 'is a database of another program; it must be one of this program';
      throw new OperatorError(`storage.path: ${path} ${what}`);
    },
    setVersion: (version) =>
      `PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${version}`,
    newer: (version) =>
      `storage.path: ${path} has schema version ${version}, made by a newer program; this one reads versions up to ${migrations.length}`,
    firstRows: `INSERT INTO storage (only_row, id, roles_token, next_role_id, next_dataset_id)
      VALUES (1, ?1, ?2, ${ADMIN_ROLE.id + 1}, 1)`,
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
      /** A copy, since its owner keeps it; never so much is copied in one turn that others wait. */
      async keep(_session, document) {
        const copy = new Uint8Array(document.length);
        for (let from = 0; from < document.length; from += COPIED_AT_ONCE) {
          if (from > 0) await setImmediate();
          copy.set(document.subarray(from, from + COPIED_AT_ONCE), from);
        }
        documents.add(copy);
        return [copy];
      },
      load: async (_session, { document }) => bytesOf(document),
      drop: async () => {},
    },
  };
}

/** A connection to the file in a thread of its own. Its statements are run one after another. */
interface Connection extends Session {
  /** Whether it can no longer be used; what was not committed is undone. */
  readonly ended: boolean;
  close(): Promise<void>;
}

/**
 * Roles and datasets in a file of SQLite. While one thread writes another one reads, so that a question about
 * roles never waits for a document that is being written; a dump or restore has a thread for itself.
 */
export function createSqliteStorage(options: SqliteStorageOptions): Storage {
  const { path, onError, start = (file, setup) => new Worker(file, setup) } = options;
  const documents = new WeakSet<Uint8Array>();
  const dialect = sqliteDialect(options, documents);
  const latest = dialect.migrations.length;

  /** While no statement waits for it, the thread does not keep the process. */
  function createConnection(): Connection {
    const setup: WorkerSetup = { path, patience: PATIENCE };
    const worker = start(WORKER, { name: 'sqlite', workerData: setup });
    let waiting: PromiseWithResolvers<Reply> | undefined;
    let ended: unknown;
    let closing = false;
    const end = new Promise<void>((resolve) => {
      worker.once('exit', (code) => {
        ended ??= new Error(`the thread of the storage ended with code ${code}`);
        waiting?.reject(ended);
        if (waiting === undefined && !closing) onError(ended);
        resolve();
      });
    });
    worker.on('error', (error) => (ended = error));
    worker.on('message', (reply: Reply) => waiting?.resolve(reply));

    async function ask(call: Call): Promise<readonly Row[]> {
      const { text, values = [] } = call;
      if (ended !== undefined) throw new StorageUnavailable('nothing-done', ended);
      const given = values.filter((value) => documents.has(value as Uint8Array)) as Uint8Array[];
      waiting = Promise.withResolvers();
      worker.ref();
      worker.postMessage(call, given.map(({ buffer }) => buffer) as ArrayBuffer[]);
      let reply: Reply;
      try {
        reply = await inTime(waiting.promise, LONGEST_STATEMENT, diskHangs);
      } catch (error) {
        ended ??= error;
        void worker.terminate();
        throw new StorageUnavailable(text === 'COMMIT' ? 'unknown' : 'nothing-done', error);
      } finally {
        waiting = undefined;
        if (!closing) worker.unref();
      }
      if ('failure' in reply) throw errorOf(reply);
      return reply.rows;
    }

    const rows: Session['rows'] = (text, values = []) =>
      ask({ text, values: values as Call['values'] });
    return {
      get ended() {
        return closing || ended !== undefined;
      },
      rows,
      carry: rows,
      script: async (text) => void (await ask({ text })),
      commit: async () => void (await ask({ text: 'COMMIT' })),
      close() {
        closing = true;
        worker.ref();
        worker.postMessage(END, []);
        return end;
      },
    };
  }

  function errorOf(reply: Failure): unknown {
    if (reply.failure === 'operator') {
      return new OperatorError(`storage.path: ${path} ${reply.message}`);
    }
    if (reply.failure === 'bug') return reply.cause;
    const error = new StorageUnavailable(reply.outcome, reply.cause);
    return reply.busy ? Object.assign(error, { busy: true }) : error;
  }

  /** Makes a connection that can be used. @throws OperatorError for a file that is left as it is */
  async function connect(): Promise<Connection> {
    const connection = createConnection();
    try {
      // Before anything is written: a file of another program stays as it is.
      const version = await perform(dialect, connection, 'snapshot', dialect.version);
      if (version > latest) throw new OperatorError(dialect.newer(version));
      await switchToWal(connection);
      await connection.script(`
        PRAGMA synchronous = FULL;
        PRAGMA trusted_schema = OFF;
        PRAGMA journal_size_limit = ${KEPT_OF_WAL};
      `);
      if (version < latest) {
        await perform(dialect, connection, 'write', (session) =>
          bringUpToDate(session, dialect, options),
        );
      }
      return connection;
    } catch (error) {
      // A thread that hangs does not end.
      if (!connection.ended) await connection.close();
      throw error;
    }
  }

  /** SQLite does not wait here for another process that does the same. */
  async function switchToWal({ rows }: Session): Promise<void> {
    for (let left = PATIENCE; ; left -= PAUSE) {
      try {
        const { journal_mode: mode } = only(await rows('PRAGMA journal_mode = WAL'));
        if (mode === 'wal') return;
        const what = 'is on a file system without shared memory; it must be a local one';
        throw new OperatorError(`storage.path: ${path} ${what}`);
      } catch (error) {
        if (!isBusy(error) || left <= 0) throw error;
        await setTimeout(PAUSE);
      }
    }
  }

  /** A connection that is made when it is needed, and used for one operation at a time. */
  function createLine() {
    const turn = createGate(1);
    let connection: Connection | undefined;
    let patience = new AbortController();
    return {
      isBusy: () => turn.usage().inside > 0,
      async use<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
        const leave = await turn.enter(patience.signal);
        try {
          if (connection?.ended !== false) connection = await connect();
          return await work(connection);
        } catch (error) {
          // One that cannot be undone ends with its connection.
          await connection?.script('ROLLBACK').catch(() => void connection?.close());
          if (isBusy(error)) {
            // What came while this operation waited for the lock has waited already.
            patience.abort(error);
            patience = new AbortController();
          }
          throw error;
        } finally {
          leave();
        }
      },
      close: async () => connection?.close(),
    };
  }

  const writer = createLine();
  const reader = createLine();
  const long = new Set<Connection>();
  const database: SqlDatabase = {
    dialect,
    longestCheck: PATIENCE,
    open: () => writer.use(async () => {}),
    run: (kind, work) => {
      const line = kind === 'write' || !writer.isBusy() ? writer : reader;
      return line.use((connection) => perform(dialect, connection, kind, work)).catch(unavailable);
    },
    async long(kind) {
      const session = await connect().catch(unavailable);
      long.add(session);
      const end = async () => {
        long.delete(session);
        await session.close();
      };
      try {
        await session.script(dialect.begin[kind]);
      } catch (error) {
        await end();
        throw error;
      }
      return { session, end };
    },
    async close() {
      for (const connection of long) await connection.close();
      await reader.close();
      await writer.close();
    },
  };
  return createSqlStorage(database, options);
}

const END: Call = {};
const diskHangs = () => new Error('the disk hangs');

const isBusy = (error: unknown): boolean => error instanceof StorageUnavailable && 'busy' in error;

/** A storage that cannot be opened is told to clients as one that cannot be reached. */
function unavailable(error: unknown): never {
  throw error instanceof OperatorError ? new StorageUnavailable('nothing-done', error) : error;
}
