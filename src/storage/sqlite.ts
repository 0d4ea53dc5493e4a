import { once } from 'node:events';
import { extname } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { Worker, type WorkerOptions } from 'node:worker_threads';
import { inTime } from '../common/clock.ts';
import { createSemaphore } from '../common/semaphore.ts';
import { StorageUnavailable } from '../common/errors.ts';
import {
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
import { sqliteDialect } from './sqlite-dialect.ts';
import type { Call, Failure, Reply, WorkerSetup } from './sqlite-worker.ts';

export interface SqliteStorageOptions extends StorageParts {
  /** The file; it is made, with its folder, when it is not there. */
  readonly path: string;
  /** Starts the threads. */
  readonly start?: (file: URL, options: WorkerOptions) => Worker;
}

/** How long a statement waits for the lock of another process. */
const PATIENCE_MS = 1_500;
/** Between two attempts where SQLite itself does not wait. */
const PAUSE_MS = 10;
/** How long a statement may take. Only a disk that hangs takes so long. */
const LONGEST_STATEMENT_MS = 60_000;
/** How much of the disk the WAL keeps after a large document went through it. */
const KEPT_OF_WAL_BYTES = 16 * 1024 * 1024;
/** TypeScript in the source tree, JavaScript where it was built. */
const WORKER = new URL(`./sqlite-worker${extname(import.meta.url)}`, import.meta.url);

/**
 * Roles and datasets in a file of SQLite. While one thread writes another one reads, so that a question about
 * roles never waits for a document that is being written; a dump or restore has a thread for itself.
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

/** Makes a connection that can be used. @throws OperatorError for a file that is left as it is */
async function connect(options: SqliteStorageOptions, dialect: Dialect): Promise<Connection> {
  const { path, onError, start = (file, setup) => new Worker(file, setup) } = options;
  const workerData: WorkerSetup = { path, patience: PATIENCE_MS };
  const worker = start(WORKER, { name: 'sqlite', workerData });
  const connection = startConnection(worker, path, dialect, onError);
  const latest = dialect.migrations.length;
  const { session } = connection;
  try {
    // Before anything is written: a file of another program stays as it is.
    const version = await dialect.version(session);
    if (version > latest) throw new OperatorError(dialect.newer(version, latest));
    await switchToWal(session, path);
    await session.script(`PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF;
      PRAGMA journal_size_limit = ${KEPT_OF_WAL_BYTES}`);
    if (version < latest) await perform(session, 'write', () => bringUpToDate(session, options));
    return connection;
  } catch (error) {
    // A thread that hangs does not end.
    if (!connection.hasEnded()) await connection.close();
    throw error;
  }
}

/** SQLite does not wait here for another process that does the same. */
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

/** A connection that is made when it is needed, and used for one operation at a time. */
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
        // One that cannot be undone ends with its connection.
        await connection?.session.script('ROLLBACK').catch(() => void connection?.close());
        if (error instanceof Busy) {
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

/** Another process held its lock too long. */
class Busy extends StorageUnavailable {}

type Connection = ReturnType<typeof startConnection>;

/**
 * A connection to the file in a thread of its own. Its statements are run one after another. While none waits for it,
 * the thread does not keep the process.
 */
function startConnection(
  worker: Worker,
  path: string,
  dialect: Dialect,
  onError: (error: unknown) => void,
) {
  let waits = false;
  let closing = false;
  /** Aborted when the thread has broken down. */
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
    /** Whether it can no longer be used; what was not committed is undone. */
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

/** A document, which is copied for the thread; all other bytes are buffers of Node.js. */
const givenAway = (value: Value): ArrayBuffer[] =>
  value instanceof Uint8Array && !Buffer.isBuffer(value) ? [value.buffer as ArrayBuffer] : [];

const diskHangs = () => new Error('the disk hangs');

/** A storage that cannot be opened is told to clients as one that cannot be reached. */
function unavailable(error: unknown): never {
  throw error instanceof OperatorError ? new StorageUnavailable('nothing-done', error) : error;
}
