import { once } from 'node:events';
import { extname } from 'node:path';
import { setImmediate, setTimeout } from 'node:timers/promises';
import { Worker, type WorkerOptions } from 'node:worker_threads';
import { inTime } from '../common/clock.ts';
import { ADMIN_ROLE } from '../roles/role.ts';
import { createSemaphore } from '../common/semaphore.ts';
import { StorageUnavailable } from '../common/errors.ts';
import {
  bytesOf,
  type Dialect,
  only,
  OperatorError,
  perform,
  type Row,
  type Session,
  type SqlDatabase,
  type StorageParts,
  type Value,
  type Work,
} from './sql-database.ts';
import { bringUpToDate, createSqlStorage, type Storage } from './sql-storage.ts';
import type { Call, Failure, Reply, WorkerSetup } from './sqlite-worker.ts';

export interface SqliteStorageOptions extends StorageParts {
  readonly path: string;
  readonly start?: (file: URL, options: WorkerOptions) => Worker;
}

const PATIENCE_MS = 1_500;
/** Pause between two attempts where SQLite itself does not wait. */
const PAUSE_MS = 10;
/** Only a disk that hangs takes so long. */
const LONGEST_STATEMENT_MS = 60_000;
const diskHangs = () => new Error('the disk hangs');
/** Disk space that the WAL keeps after a large document. */
const KEPT_OF_WAL_BYTES = 16 * 1024 * 1024;
/** TypeScript in the source tree, JavaScript where it was built. */
const WORKER = new URL(`./sqlite-worker${extname(import.meta.url)}`, import.meta.url);

/**
 * Stores roles and datasets in a file of SQLite. One thread writes while another one reads, so that
 * questions about roles never wait for a document. A dump or restore has a thread for itself.
 */
export function createSqliteStorage(options: SqliteStorageOptions): Storage {
  const dialect = sqliteDialect(options.path, options.wallClock);
  const begin = () => connect(options, dialect);
  const writer = createLine(begin);
  const reader = createLine(begin);
  const long = new Set<Connection>();
  const database: SqlDatabase = {
    dialect,
    longestCheck: PATIENCE_MS,
    open: () => writer.use(async () => {}),
    run: (kind, work) => {
      const line = kind === 'write' || !writer.isBusy() ? writer : reader;
      return line.use((session) => perform(session, kind, work)).catch(unavailable);
    },
    async long() {
      const connection = await begin().catch(unavailable);
      long.add(connection);
      const end = () => {
        long.delete(connection);
        return connection.close();
      };
      return { session: connection.session, [Symbol.asyncDispose]: end };
    },
    async close() {
      for (const one of [...long, reader, writer]) await one.close();
    },
  };
  return createSqlStorage(database, options);
}

async function connect(options: SqliteStorageOptions, dialect: Dialect): Promise<Connection> {
  const { path, onError, start = (file, setup) => new Worker(file, setup) } = options;
  const workerData: WorkerSetup = { path, patience: PATIENCE_MS };
  const worker = start(WORKER, { name: 'sqlite', workerData });
  const connection = startConnection(worker, path, dialect, onError);
  const latest = dialect.migrations.length;
  const { session } = connection;
  try {
    // Checked before anything is written, so that a file of another program stays as it is.
    const version = await dialect.version(session);
    if (version > latest) throw new OperatorError(dialect.newer(version, latest));
    await switchToWal(session, path);
    await session.script(`PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF;
      PRAGMA journal_size_limit = ${KEPT_OF_WAL_BYTES}`);
    if (version < latest) await perform(session, 'write', () => bringUpToDate(session, options));
    return connection;
  } catch (error) {
    // A hanging thread does not end.
    if (!connection.hasEnded()) await connection.close();
    throw error;
  }
}

/** Retries: SQLite does not wait here for another process that does the same. */
async function switchToWal({ rows }: Session, path: string): Promise<void> {
  for (let left = PATIENCE_MS; ; left -= PAUSE_MS) {
    try {
      const { journal_mode: mode } = only(await rows('PRAGMA journal_mode = WAL'));
      if (mode === 'wal') return;
      const what = 'is on a file system without shared memory; it must be a local one';
      throw new OperatorError(`storage.path: ${path} ${what}`);
    } catch (error) {
      if (!(error instanceof Busy) || left <= 0) throw error;
      await setTimeout(PAUSE_MS);
    }
  }
}

function createLine(connect: () => Promise<Connection>) {
  const turn = createSemaphore(1);
  let connection: Connection | undefined;
  let patience = new AbortController();
  return {
    isBusy: () => turn.usage().held > 0,
    async use<T>(work: Work<T>): Promise<T> {
      const leave = await turn.acquire(patience.signal);
      try {
        if (connection?.hasEnded() !== false) connection = await connect();
        return await work(connection.session);
      } catch (error) {
        // If the rollback fails, the connection ends.
        await connection?.session.script('ROLLBACK').catch(() => void connection?.close());
        if (error instanceof Busy) {
          // Operations that waited behind this one have waited long enough.
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

class Busy extends StorageUnavailable {}

type Connection = ReturnType<typeof startConnection>;

/** Opens the file in a thread. An idle thread does not keep the process alive. */
function startConnection(
  worker: Worker,
  path: string,
  dialect: Dialect,
  onError: (error: unknown) => void,
) {
  let waits = false;
  let closing = false;
  const end = new AbortController();
  const fail = (error: unknown) => {
    if (!end.signal.aborted && !waits && !closing) onError(error);
    end.abort(error);
  };
  worker.on('error', fail);
  const exit = new Promise<void>((resolve) => {
    worker.once('exit', (code) => {
      fail(new Error(`the thread of the storage ended with code ${code}`));
      resolve();
    });
  });

  async function ask(text: string, values?: readonly Value[]): Promise<readonly Row[]> {
    if (end.signal.aborted) throw new StorageUnavailable('nothing-done', end.signal.reason);
    const answer = once(worker, 'message', { signal: end.signal });
    waits = true;
    worker.ref();
    worker.postMessage({ text, values } as Call, (values ?? []).flatMap(givenAway));
    let reply: Reply;
    try {
      [reply] = (await inTime(answer, LONGEST_STATEMENT_MS, diskHangs)) as [Reply];
    } catch (error) {
      end.abort(error);
      void worker.terminate();
      const outcome = text === 'COMMIT' ? 'unknown' : 'nothing-done';
      throw new StorageUnavailable(outcome, end.signal.reason);
    } finally {
      waits = false;
      if (!closing) worker.unref();
    }
    if ('failure' in reply) throw errorOf(reply, path);
    return reply.rows;
  }

  const rows: Session['rows'] = (text, values = []) => ask(text, values);
  const script = async (text: string) => void (await ask(text));
  return {
    session: { dialect, rows, script } satisfies Session,
    /** True once it can no longer be used; what was not committed is undone. */
    hasEnded: () => closing || end.signal.aborted,
    close() {
      closing = true;
      worker.ref();
      worker.postMessage({} satisfies Call, []);
      return exit;
    },
  };
}

function errorOf({ failure, cause }: Failure, path: string): unknown {
  if (failure === 'bug') return cause;
  if (failure === 'busy') return new Busy('nothing-done', cause);
  if (failure !== 'operator') return new StorageUnavailable(failure, cause);
  return new OperatorError(`storage.path: ${path} ${(cause as Error).message}`);
}

/** Hands over a document, which is a copy; all other bytes are buffers of Node.js. */
const givenAway = (value: Value): ArrayBuffer[] =>
  value instanceof Uint8Array && !Buffer.isBuffer(value) ? [value.buffer as ArrayBuffer] : [];

/** Clients hear of a storage that cannot be opened as one that cannot be reached. */
function unavailable(error: unknown): never {
  throw error instanceof OperatorError ? new StorageUnavailable('nothing-done', error) : error;
}

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

const sqliteDialect = (path: string, wallClock: () => number): Dialect => ({
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
  // A transaction that writes holds the only lock from its beginning.
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
    /** Copies, since the owner keeps the document, in steps that keep others from waiting. */
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
