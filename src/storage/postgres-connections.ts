import { readFileSync } from 'node:fs';
import { Client, DatabaseError, Pool, type ClientConfig, type PoolClient } from 'pg';
import type { PostgresConfig } from '../config/config.ts';
import { StorageUnavailable } from '../common/errors.ts';
import { inTime } from '../common/clock.ts';
import {
  perform,
  type Dialect,
  type Kind,
  type Row,
  type Session,
  type SqlDatabase,
  type Value,
} from './sql-database.ts';
import { OperatorError } from './storage.ts';

/** What a statement that carries a piece of a document gets beside `timeout` (ms). */
const PIECE_TIME = 1_000;
/** A connection that says nothing is asked by the kernel whether it lives, first after this long (ms). */
const KEEP_ALIVE = 10_000;
/** An idle connection is closed after this long (ms). */
const IDLE = 30_000;
/** For how long the reader or the source of long work may stand still (ms). */
const LONG_IDLE = 600_000;
/** What the end of long work may take (ms). */
const LONG_COMMIT = 30_000;
/** What connections may take to close (ms). */
const FAREWELL = 200;

/** SQLSTATE of a table or schema that is not there: it was dropped, or another one was put in its place. */
const SCHEMA_GONE = /^(?:42P01|3F000)$/;

/**
 * Classes and codes of SQLSTATE (PostgreSQL manual, appendix A) that may be gone at the next try: connection,
 * read-only (a standby, or maintenance), idle in a transaction, rolled back, out of resources, a lock that was not
 * free in time, cancelled or shutting down, system error.
 */
const PASSING = /^(?:08|25006|25P03|40|53|55P03|57|58)/;
/** With these the server says that it ends the connection. The severity does not tell: it may be translated. */
const LAST_WORDS = /^(?:08|57P|25P03)/;

const TLS_PROBLEM = /^(?:CERT_|ERR_TLS_|ERR_SSL_|ERR_OSSL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_)/;

/** The SQLSTATE that PostgreSQL answered with; '' for every other error. */
export const sqlState = (error: unknown): string =>
  error instanceof DatabaseError ? (error.code ?? '') : '';

/** The connection broke, or its end was announced: nothing more can be asked on it. */
class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost';
}

/** No answer came in time; the connection must not be used again. */
class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
}

const noAnswer = () => new NoAnswer('PostgreSQL did not answer in time.');

type Budget = ReturnType<typeof createBudget>;

/** The time that is left to an operation. @param timeout milliseconds */
function createBudget(timeout: number) {
  let deadline = performance.now() + timeout;
  return {
    left: (): number => deadline - performance.now(),
    renew: () => void (deadline = performance.now() + timeout),
  };
}

/**
 * Connections to one PostgreSQL. Each operation has `timeout` for all: to get a connection, and for all its statements
 * but those that carry pieces of documents. Before the first one, the schema is brought up to date. Long work has a
 * connection of its own, on which each statement has the time of an operation.
 * @param options.prepare brings the schema up to date, in a transaction
 * @param options.onError told of idle connections that were lost
 * @throws Error when a PEM file cannot be read
 */
export function connectPostgres(options: {
  readonly config: PostgresConfig;
  readonly dialect: Dialect;
  readonly prepare: (session: Session) => Promise<'done'>;
  readonly onError: (error: unknown) => void;
}): SqlDatabase {
  const { config } = options;
  const settings = clientSettings(config);
  const pool = new Pool({ ...settings, max: config.connections, idleTimeoutMillis: IDLE });
  /** Connections that are open, and those of them that long work has. */
  const open = new Set<Client>();
  const long = new Set<Client>();
  /** Those that have served before, so that the server may have closed them unnoticed. */
  const used = new WeakSet<Client>();
  let preparation: Promise<unknown> | undefined;
  let prepared = false;

  function watch(client: Client): void {
    open.add(client);
    client.once('end', () => open.delete(client));
    // An error on a connection that works fails the statement too, and the pool hears of an idle one.
    client.on('error', () => {});
  }
  pool.on('connect', watch);
  pool.on('error', ({ message }) =>
    options.onError(new Error(`an idle connection to PostgreSQL was lost: ${message}`)),
  );

  async function connection(budget: Budget): Promise<PoolClient> {
    const wanted = pool.connect();
    try {
      return await inTime(wanted, budget.left(), noAnswer);
    } catch (error) {
      wanted.then((client) => client.release()).catch(() => {});
      throw new StorageUnavailable('nothing-done', error);
    }
  }

  async function attempt<T>(
    kind: Kind,
    budget: Budget,
    work: (session: Session) => Promise<T>,
  ): Promise<T> {
    const client = await connection(budget);
    const first = !used.has(client);
    used.add(client);
    try {
      const result = await perform(options.dialect, createSession(client, budget), kind, work);
      client.release();
      return result;
    } catch (error) {
      client.release(true);
      if (first || !isLostInVain(error)) throw error;
    }
    return await attempt(kind, budget, work);
  }

  /** Waits for the schema before an operation. */
  async function operate<T>(run: (budget: Budget) => Promise<T>): Promise<T> {
    const budget = createBudget(config.timeout);
    try {
      await prepareOnce();
    } catch (error) {
      // Whatever became of the schema: the operation itself was not begun.
      const cause = error instanceof StorageUnavailable ? error.cause : error;
      throw new StorageUnavailable('nothing-done', cause);
    }
    try {
      return await run(budget);
    } catch (error) {
      if (!SCHEMA_GONE.test(sqlState(error))) throw error;
      prepared = false;
      throw new StorageUnavailable('nothing-done', error);
    }
  }

  /** Concurrent callers share the running preparation, which began earlier and so ends in time. */
  async function prepareOnce(): Promise<void> {
    if (prepared) return;
    preparation ??= attempt('write', createBudget(config.timeout), options.prepare).finally(() => {
      preparation = undefined;
    });
    await preparation;
    prepared = true;
  }

  return {
    dialect: options.dialect,
    longestCheck: config.timeout,
    async open() {
      try {
        await prepareOnce();
      } catch (error) {
        if (!(error instanceof StorageUnavailable)) throw error;
        const problem = connectionProblem(error.cause);
        if (problem === undefined) throw new StorageUnavailable('nothing-done', error.cause);
        const { host, port } = settings;
        throw new OperatorError(`PostgreSQL at ${host}:${port}: ${problem}`, { cause: error });
      }
    },
    run: (kind, work) => operate((budget) => attempt(kind, budget, work)),
    long: (kind) =>
      operate(async (budget) => {
        const client = new Client({ ...settings, idle_in_transaction_session_timeout: LONG_IDLE });
        watch(client);
        long.add(client);
        client.once('end', () => long.delete(client));
        // Without a farewell where a statement is still under way.
        const end = async () => void client.end().catch(() => {});
        try {
          await inTime(client.connect(), config.timeout, noAnswer);
        } catch (error) {
          discard(client);
          throw new StorageUnavailable('nothing-done', error);
        }
        try {
          const session = createSession(client, budget, true);
          await session.script(options.dialect.begin[kind]);
          return { session, end };
        } catch (error) {
          await end();
          throw error;
        }
      }),
    renewCertificates() {
      // The connections to come are made with this very object.
      if (typeof settings.ssl === 'object') Object.assign(settings.ssl, readCertificates(config));
    },
    async close() {
      for (const client of long) discard(client);
      const ends = [...open].map((client) => new Promise((resolve) => client.once('end', resolve)));
      await pool.end();
      await inTime(Promise.all(ends), FAREWELL, noAnswer).catch(() => {});
      for (const client of open) discard(client);
    },
  };
}

/** @param patient whether each statement has the time of a whole operation */
function createSession(client: Client, budget: Budget, patient = false): Session {
  async function run(text: string, values?: readonly Value[], more = 0): Promise<readonly Row[]> {
    if (patient) budget.renew();
    try {
      return await ask(client, budget.left() + more, text, values);
    } catch (error) {
      throw isPassing(error) ? new StorageUnavailable('nothing-done', error) : error;
    }
  }
  return {
    rows: (text, values) => run(text, values),
    script: async (text) => void (await run(text)),
    async carry(text, values) {
      budget.renew();
      const found = await run(text, values, PIECE_TIME);
      budget.renew();
      return found;
    },
    async commit() {
      const left = patient ? LONG_COMMIT : budget.left();
      try {
        await ask(client, left, 'COMMIT');
      } catch (error) {
        if (!isPassing(error)) throw error;
        throw new StorageUnavailable(left > 0 ? 'unknown' : 'nothing-done', error);
      }
    },
  };
}

/**
 * Runs one statement on the connection.
 * @throws ConnectionLost, NoAnswer (then the connection must not be used again), or what PostgreSQL answered
 */
async function ask(
  client: Client,
  milliseconds: number,
  text: string,
  values?: readonly Value[],
): Promise<readonly Row[]> {
  // A statement that is sent after its time could still be done.
  if (milliseconds <= 0) throw noAnswer();
  const statement = text.replaceAll(/\?(?=\d)/g, '$');
  const answer = client.query(statement, values as Value[]).catch((error: unknown) => {
    if (error instanceof DatabaseError && !LAST_WORDS.test(sqlState(error))) throw error;
    throw new ConnectionLost('The connection to PostgreSQL was lost.', { cause: error });
  });
  return (await inTime(answer, milliseconds, noAnswer)).rows as readonly Row[];
}

/** Whether the storage cannot be used now, rather than was asked something wrong. */
function isPassing(error: unknown): boolean {
  if (error instanceof ConnectionLost || error instanceof NoAnswer) return true;
  return PASSING.test(sqlState(error));
}

/** Nothing can have been done on a connection that was lost before its transaction was to be committed. */
function isLostInVain(error: unknown): boolean {
  if (!(error instanceof StorageUnavailable) || error.outcome !== 'nothing-done') return false;
  return error.cause instanceof ConnectionLost;
}

/** Without a farewell, which a silent server would not hear. */
function discard(client: Client): void {
  client.connection.stream.destroy();
}

/**
 * Why only an operator can make connections possible, in one line; undefined when they may become possible by
 * themselves. Never holds the password.
 */
function connectionProblem(error: unknown): string | undefined {
  if (!Error.isError(error)) return undefined;
  const code = 'code' in error ? String(error.code) : '';
  const text = oneLine(error.message);
  // 28: login refused, 3D000: no such database, 42501: no right to connect to it
  if (/^28|^3D000$|^42501$/.test(code)) return `it refuses the login: ${text}`;
  if (TLS_PROBLEM.test(code)) return `its certificate or the encryption does not fit: ${text}`;
  return /\bSSL\b|\bSASL\b/.test(text) ? text : undefined;
}

export function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim();
}

/**
 * How connections are made. Nothing is left to the environment variables of libpq where the URL is silent. What
 * the server is told to end by itself is what this side has given up before: it frees locks and memory when this
 * process stands still or is gone without a farewell.
 * @throws Error when a PEM file cannot be read
 */
function clientSettings(config: PostgresConfig): ClientConfig {
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
    ssl: config.tls && { rejectUnauthorized: true, ...readCertificates(config) },
    sslnegotiation: 'postgres',
    client_encoding: 'UTF8',
    application_name: 'mdx-gateway',
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE,
    connectionTimeoutMillis: timeout,
    statement_timeout: timeout + PIECE_TIME,
    lock_timeout: timeout,
    idle_in_transaction_session_timeout: timeout,
  };
}

function readCertificates({ ca, certificate, key }: PostgresConfig) {
  return {
    ...(ca !== undefined && { ca: readFileSync(ca) }),
    ...(certificate !== undefined && { cert: readFileSync(certificate) }),
    ...(key !== undefined && { key: readFileSync(key) }),
  };
}
