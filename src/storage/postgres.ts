import { Client, DatabaseError, Pool, type PoolClient, type PoolConfig } from 'pg';
import { inTime } from '../common/clock.ts';
import { StorageUnavailable, unknownAuthority } from '../common/errors.ts';
import { readPemFiles } from '../common/pem-files.ts';
import type { PostgresConfig } from './config.ts';
import { POSTGRES } from './postgres-dialect.ts';
import {
  type Kind,
  OperatorError,
  perform,
  type Session,
  type SqlDatabase,
  type StorageParts,
  type Work,
} from './sql-database.ts';
import { bringUpToDate, createSqlStorage, type Storage } from './sql-storage.ts';

/** How much longer than an operation a statement may take that carries a piece of a document. */
const PIECE_TIME_MS = 1_000;
/** A connection that says nothing is asked by the kernel whether it lives, first after this time. */
const KEEP_ALIVE_MS = 10_000;
/** An idle connection is closed after this time. */
const IDLE_MS = 30_000;
/** How long the reader or the source of long work may stand still. */
const LONG_IDLE_MS = 600_000;
/** How long the end of long work may take. */
const LONG_COMMIT_MS = 30_000;
/** How long connections may take to close. */
const FAREWELL_MS = 200;
/** SQLSTATE of a table or schema that is not there: it was dropped, or another one was put in its place. */
const SCHEMA_GONE = /^(?:42P01|3F000)$/;

/**
 * Classes and codes of SQLSTATE (PostgreSQL manual, appendix A) that may be gone at the next try: connection,
 * read-only (a standby, or maintenance), idle in a transaction, rolled back, out of resources, a lock that was not
 * free in time, cancelled or shutting down, system error.
 */
const PASSING = /^(?:08|25006|25P03|40|53|55P03|57|58)/;
/** Codes by which the server says that it ends the connection. The severity does not tell: it may be translated. */
const LAST_WORDS = /^(?:08|57P|25P03)/;
const TLS_PROBLEM = /^(?:CERT_|ERR_TLS_|ERR_SSL_|ERR_OSSL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_)/;
/** The SQLSTATE that PostgreSQL answered with; '' for every other error. */
const sqlState = (error: unknown) => (error instanceof DatabaseError && error.code) || '';

const noAnswer = () => new Error('PostgreSQL did not answer in time.');

/** Whether the connection broke, or its end was announced: nothing more can be asked on it. */
const isLost = (error: unknown): boolean =>
  !(error instanceof DatabaseError) || LAST_WORDS.test(sqlState(error));

/** The time that is left to an operation. */
function createBudget(timeoutMs: number) {
  let deadline = performance.now() + timeoutMs;
  return {
    left: (): number => deadline - performance.now(),
    renew: () => void (deadline = performance.now() + timeoutMs),
  };
}

type Budget = ReturnType<typeof createBudget>;

/**
 * Roles and datasets in a PostgreSQL that several gateways share, in tables `mdx_gateway_…` of the first schema of the
 * search path. Each operation has `timeout` for all: to get a connection, and for all its statements but those that
 * carry pieces of documents. Before the first one, the schema is brought up to date. Long work has a connection of its
 * own, on which each statement has the time of an operation.
 * @throws Error when a PEM file cannot be read
 */
export function createPostgresStorage({
  config,
  ...parts
}: { readonly config: PostgresConfig } & StorageParts): Storage {
  const { timeout } = config;
  const settings = clientSettings(config);
  const pools = createPools(settings, config.connections, timeout, parts.onError);
  let preparation: Promise<unknown> | undefined;
  const upgrade = (session: Session) => bringUpToDate(session, parts);

  /** Concurrent callers share the running preparation, which began earlier and so ends in time. */
  async function prepare(): Promise<void> {
    preparation ??= pools
      .attempt('write', createBudget(timeout), upgrade)
      .catch((error: unknown) => {
        preparation = undefined;
        const problem = operatorProblem(error, settings);
        throw problem === undefined ? error : new OperatorError(problem, { cause: error });
      });
    await preparation;
  }

  /** Waits for the schema before an operation. */
  async function operate<T>(run: (budget: Budget) => Promise<T>): Promise<T> {
    const budget = createBudget(timeout);
    await prepare().catch((error: unknown) => {
      // Whatever became of the schema: the operation itself was not begun.
      const cause = error instanceof StorageUnavailable ? error.cause : error;
      throw new StorageUnavailable('nothing-done', cause);
    });
    try {
      return await run(budget);
    } catch (error) {
      if (!SCHEMA_GONE.test(sqlState(error))) throw error;
      preparation = undefined;
      throw new StorageUnavailable('nothing-done', error);
    }
  }

  const database: SqlDatabase = {
    dialect: POSTGRES,
    longestCheck: timeout,
    open: prepare,
    run: (kind, work) => operate((budget) => pools.attempt(kind, budget, work)),
    long: () => operate(pools.long),
    renewCertificates() {
      // The connections to come are made with this very object.
      if (typeof settings.ssl === 'object') Object.assign(settings.ssl, readPemFiles(config));
    },
    close: pools.close,
  };
  return createSqlStorage(database, parts);
}

/** All connections of one storage: those for operations, and those of long work, each of which is used once. */
function createPools(
  settings: PoolConfig,
  connections: number,
  timeoutMs: number,
  onError: (error: unknown) => void,
) {
  const open = new Set<Client>();
  /** Connections that have served before, so that the server may have closed them unnoticed. */
  const used = new WeakSet<Client>();
  const noteOpen = (client: Client) => {
    open.add(client);
    client.once('end', () => open.delete(client));
  };
  const ordinary = createPool(settings, connections, timeoutMs, onError).on('connect', noteOpen);
  const long = createPool(settings, Infinity, LONG_IDLE_MS, onError).on('connect', noteOpen);

  /** Does the work, once more on each connection that was lost unnoticed. */
  async function attempt<T>(kind: Kind, budget: Budget, work: Work<T>): Promise<T> {
    const client = await connection(ordinary, budget);
    const first = !used.has(client);
    used.add(client);
    try {
      const result = await perform(createSession(client, budget), kind, work);
      client.release();
      return result;
    } catch (error) {
      client.release(true);
      const inVain = error instanceof StorageUnavailable && error.outcome === 'nothing-done';
      // Nothing can have been done on a connection that was lost before its transaction was to be committed.
      if (first || !inVain || !isLost(error.cause)) throw error;
    }
    return await attempt(kind, budget, work);
  }

  return {
    attempt,
    async long(budget: Budget) {
      const client = await connection(long, budget);
      const session = createSession(client, budget, true);
      // Without a farewell where a statement is still under way.
      return { session, [Symbol.asyncDispose]: async () => client.release(true) };
    },
    async close() {
      const ends = [...open].map((client) => new Promise((end) => client.once('end', end)));
      for (const one of [ordinary, long]) void one.end();
      await inTime(Promise.all(ends), FAREWELL_MS, noAnswer).catch(() => {});
      // Without a farewell, which a silent server would not hear.
      for (const client of open) client.connection.stream.destroy();
    },
  };
}

function createPool(
  settings: PoolConfig,
  max: number,
  idleInTransactionMs: number,
  onError: (error: unknown) => void,
): Pool {
  const pool = new Pool({
    ...settings,
    max,
    idleTimeoutMillis: IDLE_MS,
    idle_in_transaction_session_timeout: idleInTransactionMs,
  });
  // An error on a connection that works fails the statement too, and the pool hears of an idle one.
  pool.on('connect', (client) => client.on('error', () => {}));
  pool.on('error', ({ message }) =>
    onError(new Error(`an idle connection to PostgreSQL was lost: ${message}`)),
  );
  return pool;
}

async function connection(from: Pool, budget: Budget): Promise<PoolClient> {
  const wanted = from.connect();
  try {
    return await inTime(wanted, budget.left(), noAnswer);
  } catch (error) {
    wanted.then((client) => client.release()).catch(() => {});
    throw new StorageUnavailable('nothing-done', error);
  }
}

/** @param patient whether each statement has the time of a whole operation */
function createSession(client: Client, budget: Budget, patient = false): Session {
  const rows: Session['rows'] = async (text, values, carries = false) => {
    if (patient || carries) budget.renew();
    const commits = text === 'COMMIT';
    const time =
      patient && commits ? LONG_COMMIT_MS : budget.left() + (carries ? PIECE_TIME_MS : 0);
    // A statement that is sent after its time could still be done.
    if (time <= 0) throw new StorageUnavailable('nothing-done', noAnswer());
    try {
      const answer = client.query(text.replaceAll(/\?(?=\d)/g, '$'), values as unknown[]);
      const { rows } = await inTime(answer, time, noAnswer);
      if (carries) budget.renew();
      return rows;
    } catch (error) {
      // Rather than asked something wrong, it cannot be used now.
      if (!isLost(error) && !PASSING.test(sqlState(error))) throw error;
      throw new StorageUnavailable(commits ? 'unknown' : 'nothing-done', error);
    }
  };
  return { dialect: POSTGRES, rows, script: async (text) => void (await rows(text)) };
}

/** Why only an operator can make the storage ready; undefined when that may come by itself. Never holds the password. */
function operatorProblem(error: unknown, { host, port }: PoolConfig): string | undefined {
  const away = error instanceof StorageUnavailable;
  const { code = '', message } = (away ? error.cause : error) as DatabaseError;
  const text = (unknownAuthority(code, 'storage.ca') ?? message).replaceAll(/\s+/g, ' ').trim();
  const server = `PostgreSQL at ${host}:${port}`;
  // No right, or no schema in the search path.
  if (!away && /^(?:42501|3F000)$/.test(code)) {
    return `The PostgreSQL user of storage.url needs the right to make and use tables in its schema: ${text}`;
  }
  if (!away) return undefined;
  // 28: login refused, 3D000: no such database, 42501: no right to connect to it
  if (/^28|^3D000$|^42501$/.test(code)) return `${server}: it refuses the login: ${text}`;
  const ofTls = 'its certificate or the encryption does not fit';
  if (TLS_PROBLEM.test(code)) return `${server}: ${ofTls}: ${text}`;
  return /\bSSL\b|\bSASL\b/.test(text) ? `${server}: ${text}` : undefined;
}

type Server = Omit<PostgresConfig, 'driver' | 'connections'>;

/**
 * Nothing is left to the environment variables of libpq where the URL is silent. What the server is told to end by itself
 * this side has given up before: it frees locks and memory when this process stands still or is gone.
 * @throws Error when a PEM file cannot be read
 */
function clientSettings(config: Server): PoolConfig {
  const url = new URL(config.url);
  const password = decodeURIComponent(url.password);
  const { timeout } = config;
  return {
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: Number(url.port === '' ? '5432' : url.port),
    user: decodeURIComponent(url.username),
    // As a function, since an empty text would be taken for none.
    password: () => password,
    database: decodeURIComponent(url.pathname.slice(1)),
    ssl: config.tls && { rejectUnauthorized: true, ...readPemFiles(config) },
    sslnegotiation: 'postgres',
    client_encoding: 'UTF8',
    application_name: 'mdx-gateway',
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    connectionTimeoutMillis: timeout,
    statement_timeout: timeout + PIECE_TIME_MS,
    lock_timeout: timeout,
  };
}

/** The rows of a watcher's query, as text; on the way they may take some more. */
const LONGEST_ROWS_BYTES = 64 * 1024;
const TOO_LONG = 'its rows take more than 64KiB; have the query return fewer';

/**
 * All rows of one statement as JSON, each value as the server writes it, in an order of their own: on a connection of its own,
 * in a transaction that cannot write.
 * @param signal of this question alone
 * @throws Error also where the rows take more than 64 KiB, or the signal says so
 */
export async function readRows(server: Server, text: string, signal: AbortSignal) {
  const client = new Client(clientSettings(server));
  const { stream } = client.connection;
  let failure: unknown;
  const end = (why: unknown) => {
    failure ??= why;
    stream.destroy();
  };
  let size = 0;
  stream.on('data', (piece: Buffer) => {
    size += piece.length;
    if (size > 2 * LONGEST_ROWS_BYTES) end(new Error(TOO_LONG));
  });
  client.on('error', () => {});
  signal.addEventListener('abort', () => end(signal.reason));
  try {
    await client.connect();
    await client.query('BEGIN READ ONLY');
    const types = { getTypeParser: () => (value: unknown) => value };
    // Not as a simple query, which may hold several statements, and so the end of the transaction.
    const query = { text, types, rowMode: 'array', queryMode: 'extended' } as const;
    const { rows } = await client.query<unknown[]>(query);
    const found = JSON.stringify(rows.map((row) => JSON.stringify(row)).sort());
    if (found.length > LONGEST_ROWS_BYTES) throw new Error(TOO_LONG);
    return found;
  } catch (error) {
    throw failure ?? error;
  } finally {
    // Without a farewell: nothing was changed.
    stream.destroy();
  }
}
