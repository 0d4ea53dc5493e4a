import { Client, DatabaseError, Pool, type PoolClient, type PoolConfig } from 'pg';
import { inTime } from '../common/clock.ts';
import { StorageUnavailable, unknownAuthority } from '../common/errors.ts';
import { readPemFiles } from '../common/pem-files.ts';
import { ADMIN_ROLE } from '../roles/role.ts';
import type { PostgresConfig } from './config.ts';
import {
  bytesOf,
  type Dialect,
  type Kind,
  only,
  OperatorError,
  perform,
  type Session,
  type SqlDatabase,
  type StorageParts,
  type Work,
} from './sql-database.ts';
import { bringUpToDate, createSqlStorage, type Storage } from './sql-storage.ts';

const PIECE_TIME_MS = 1_000;
/** The kernel probes a silent connection after this time. */
const KEEP_ALIVE_MS = 10_000;
/** How long the reader or the source of long work may pause. */
const LONG_IDLE_MS = 600_000;
const LONG_COMMIT_MS = 30_000;
const FAREWELL_MS = 200;
const SCHEMA_GONE = /^(?:42P01|3F000)$/;

/**
 * SQLSTATE classes and codes (PostgreSQL manual, appendix A) that the next try may not meet:
 * connection, read-only (a standby, or maintenance), idle in a transaction, rolled back, out of
 * resources, lock timeout, cancelled or shutting down, system error.
 */
const PASSING = /^(?:08|25006|25P03|40|53|55P03|57|58)/;
/** Codes with which the server ends the connection. It may translate the severity. */
const LAST_WORDS = /^(?:08|57P|25P03)/;
const TLS_PROBLEM = /^(?:CERT_|ERR_TLS_|ERR_SSL_|ERR_OSSL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_)/;
const sqlState = (error: unknown) => (error instanceof DatabaseError && error.code) || '';

const noAnswer = () => new Error('PostgreSQL did not answer in time.');

const isLost = (error: unknown): boolean =>
  !(error instanceof DatabaseError) || LAST_WORDS.test(sqlState(error));

function createBudget(timeoutMs: number) {
  let deadline = performance.now() + timeoutMs;
  return {
    left: (): number => deadline - performance.now(),
    renew: () => void (deadline = performance.now() + timeoutMs),
  };
}

type Budget = ReturnType<typeof createBudget>;

/**
 * Stores roles and datasets in a PostgreSQL that several gateways share, in tables `mdx_gateway_…`
 * of the search path's first schema. `timeout` limits each operation: getting a connection, and all
 * statements but those with pieces of documents. Of long work it limits each statement.
 */
export function createPostgresStorage({
  config,
  ...parts
}: { readonly config: PostgresConfig } & StorageParts): Storage {
  const { timeout } = config;
  const settings = clientSettings(config);
  const pools = createPools(settings, config.connections, timeout, parts.onError);
  let preparation: Promise<unknown> | undefined;

  async function prepare(): Promise<void> {
    preparation ??= pools
      .attempt('write', createBudget(timeout), (session) => bringUpToDate(session, parts))
      .catch((error: unknown) => {
        preparation = undefined;
        const problem = operatorProblem(error, settings);
        throw problem === undefined ? error : new OperatorError(problem, { cause: error });
      });
    await preparation;
  }

  async function operate<T>(run: (budget: Budget) => Promise<T>): Promise<T> {
    const budget = createBudget(timeout);
    await prepare().catch((error: unknown) => {
      // Whatever became of the schema, the operation did not begin.
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
      // Later connections use this object.
      if (typeof settings.ssl === 'object') Object.assign(settings.ssl, readPemFiles(config));
    },
    close: pools.close,
  };
  return createSqlStorage(database, parts);
}

function createPools(
  settings: PoolConfig,
  connections: number,
  timeoutMs: number,
  onError: (error: unknown) => void,
) {
  const open = new Set<Client>();
  /** Connections that served before; the server may have closed them unnoticed. */
  const used = new WeakSet<Client>();
  function createPool(max: number, idleInTransactionMs: number): Pool {
    const pool = new Pool({
      ...settings,
      max,
      idleTimeoutMillis: 30_000,
      idle_in_transaction_session_timeout: idleInTransactionMs,
    });
    pool.on('connect', (client) => {
      // An error on a busy connection fails its statement too; the pool reports idle ones.
      client.on('error', () => {});
      open.add(client);
      client.once('end', () => open.delete(client));
    });
    return pool.on('error', ({ message }) =>
      onError(new Error(`an idle connection to PostgreSQL was lost: ${message}`)),
    );
  }
  const ordinary = createPool(connections, timeoutMs);
  const long = createPool(Infinity, LONG_IDLE_MS);

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
      // A connection lost before COMMIT has done nothing.
      if (first || !inVain || !isLost(error.cause)) throw error;
    }
    return await attempt(kind, budget, work);
  }

  return {
    attempt,
    async long(budget: Budget) {
      const client = await connection(long, budget);
      const session = createSession(client, budget, true);
      // A statement may still be under way, so no farewell.
      return { session, [Symbol.asyncDispose]: async () => client.release(true) };
    },
    async close() {
      const ends = [...open].map((client) => new Promise((end) => client.once('end', end)));
      for (const one of [ordinary, long]) void one.end();
      await inTime(Promise.all(ends), FAREWELL_MS, noAnswer).catch(() => {});
      // A silent server would not hear a farewell.
      for (const client of open) client.connection.stream.destroy();
    },
  };
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

/** @param patient gives each statement the time of a whole operation */
function createSession(client: Client, budget: Budget, patient = false): Session {
  const rows: Session['rows'] = async (text, values, carries = false) => {
    if (patient || carries) budget.renew();
    const commits = text === 'COMMIT';
    const time =
      patient && commits ? LONG_COMMIT_MS : budget.left() + (carries ? PIECE_TIME_MS : 0);
    // A statement sent too late could still be done.
    if (time <= 0) throw new StorageUnavailable('nothing-done', noAnswer());
    try {
      const answer = client.query(text.replaceAll(/\?(?=\d)/g, '$'), values as unknown[]);
      const { rows } = await inTime(answer, time, noAnswer);
      if (carries) budget.renew();
      return rows;
    } catch (error) {
      // Other errors say that the statement was wrong.
      if (!isLost(error) && !PASSING.test(sqlState(error))) throw error;
      throw new StorageUnavailable(commits ? 'unknown' : 'nothing-done', error);
    }
  };
  return { dialect: POSTGRES, rows, script: async (text) => void (await rows(text)) };
}

/** Why only an operator can make the storage ready; undefined if it may recover. No password. */
function operatorProblem(error: unknown, { host, port }: PoolConfig): string | undefined {
  const away = error instanceof StorageUnavailable;
  const { code = '', message } = (away ? error.cause : error) as DatabaseError;
  const text = (unknownAuthority(code, 'storage.ca') ?? message).replaceAll(/\s+/g, ' ').trim();
  const server = `PostgreSQL at ${host}:${port}`;
  // No right, or no schema in the search path
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
 * Leaves nothing to libpq's environment variables. The server's own limits come after ours: they
 * free locks and memory if this process hangs or dies.
 */
function clientSettings(config: Server): PoolConfig {
  const url = new URL(config.url);
  const password = decodeURIComponent(url.password);
  const { timeout } = config;
  return {
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: Number(url.port === '' ? '5432' : url.port),
    user: decodeURIComponent(url.username),
    // A function, since the client takes an empty text for none.
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

/** Copying and decoding one piece keeps no other request waiting. */
const PIECE_BYTES = 1024 * 1024;
/** Any number, equal in all gateways: those that start together wait for each other. */
const LOCK = 7_268_153_904;

/** Documents are not compressed: that costs more than it saves. `folded` is `foldCase(name)`. */
const FIRST_MIGRATION = `
  CREATE TABLE mdx_gateway_storage (
    version integer NOT NULL,
    id text NOT NULL,
    roles_token text NOT NULL,
    roles_shared_until timestamptz NOT NULL DEFAULT '-infinity',
    roles_lease integer NOT NULL DEFAULT 0
  );
  CREATE TABLE mdx_gateway_counters (kind text PRIMARY KEY, next bigint NOT NULL);
  CREATE TABLE mdx_gateway_roles (
    id bigint PRIMARY KEY,
    name bytea NOT NULL,
    folded bytea NOT NULL UNIQUE,
    description bytea NOT NULL
  );
  CREATE TABLE mdx_gateway_members (
    role bigint NOT NULL REFERENCES mdx_gateway_roles ON DELETE CASCADE,
    position bigint GENERATED BY DEFAULT AS IDENTITY,
    name bytea NOT NULL,
    folded bytea NOT NULL,
    PRIMARY KEY (role, position),
    UNIQUE (folded, role)
  );
  CREATE SEQUENCE mdx_gateway_documents;
  CREATE TABLE mdx_gateway_datasets (
    id bigint PRIMARY KEY,
    project bytea NOT NULL,
    name bytea NOT NULL,
    type bytea NOT NULL,
    last_modified bigint NOT NULL,
    document bigint NOT NULL,
    octets bigint NOT NULL,
    UNIQUE (project, name)
  );
  CREATE TABLE mdx_gateway_pieces (
    document bigint,
    number integer,
    bytes bytea NOT NULL,
    PRIMARY KEY (document, number)
  );
  ALTER TABLE mdx_gateway_pieces ALTER bytes SET STORAGE EXTERNAL;
`;

/** Locks the counter's row until the transaction ends, so ids are taken one at a time. */
const takeId = (kind: 'role' | 'dataset') =>
  `UPDATE mdx_gateway_counters SET next = next + 1 WHERE kind = '${kind}' RETURNING next - 1 AS id`;

// A server may be set to acknowledge unwritten data; what a client is told must be kept.
const BEGIN = `BEGIN ISOLATION LEVEL READ COMMITTED;
  SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'`;

const POSTGRES: Dialect = {
  migrations: [FIRST_MIGRATION],
  begin: {
    snapshot: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY',
    write: BEGIN,
    alone: `${BEGIN}; SELECT FROM mdx_gateway_counters ORDER BY kind FOR UPDATE`,
  },
  async version({ rows }) {
    // The lock comes before any look-up: PostgreSQL would remember that a table is missing.
    await rows(`SELECT pg_advisory_xact_lock(${LOCK})`);
    const found = await rows(`SELECT to_regclass('mdx_gateway_storage') IS NOT NULL AS there`);
    if (only(found)['there'] !== true) return 0;
    return Number((await rows('SELECT version FROM mdx_gateway_storage'))[0]?.['version'] ?? 0);
  },
  setVersion: (version) => `UPDATE mdx_gateway_storage SET version = ${version}`,
  newer: (version, latest) =>
    `The PostgreSQL database of storage.url was made by a newer mdx-gateway: its schema has version ${version}, ` +
    `this program knows ${latest}. Nothing was changed.`,
  firstRows: `WITH counters AS (
      INSERT INTO mdx_gateway_counters VALUES ('role', ${ADMIN_ROLE.id + 1}), ('dataset', 1)
    )
    INSERT INTO mdx_gateway_storage (version, id, roles_token) VALUES (0, ?1, ?2)`,
  tables: {
    storage: 'mdx_gateway_storage',
    roles: 'mdx_gateway_roles',
    members: 'mdx_gateway_members',
    datasets: 'mdx_gateway_datasets',
  },
  roleOfMember: 'role',
  forUpdate: ' FOR UPDATE',
  forShare: ' FOR SHARE',
  lockNames: `SELECT FROM mdx_gateway_counters WHERE kind = 'role' FOR UPDATE`,
  takeId: { role: takeId('role'), dataset: takeId('dataset') },
  head: `SELECT (SELECT count(*) FROM mdx_gateway_roles) AS roles,
    (SELECT count(*) FROM mdx_gateway_datasets) AS datasets,
    (SELECT next FROM mdx_gateway_counters WHERE kind = 'role') AS role,
    (SELECT next FROM mdx_gateway_counters WHERE kind = 'dataset') AS dataset`,
  advanceIds: `UPDATE mdx_gateway_counters
    SET next = greatest(next, CASE kind WHEN 'role' THEN ?1::bigint ELSE ?2::bigint END)`,
  // Valid: a match of UTF-8 bytes is always a match of whole characters.
  contains: 'position(?1::bytea IN folded) > 0',
  moment: (milliseconds) => `clock_timestamp() + interval '${milliseconds} milliseconds'`,
  insertMembers: `INSERT INTO mdx_gateway_members (role, name, folded)
    SELECT ?1, decode(member ->> 0, 'hex'), decode(member ->> 1, 'hex')
    FROM jsonb_array_elements(?2::jsonb) WITH ORDINALITY AS given(member, place) ORDER BY place
    ON CONFLICT (folded, role) DO NOTHING RETURNING 1`,
  // Pieces, so that neither side holds a document more than once in memory.
  documents: {
    columns: ['document', 'octets'],
    async keep(session, document) {
      const [row] = await session.rows(`SELECT nextval('mdx_gateway_documents') AS id`);
      const id = String(row?.['id']);
      for (let from = 0; from < document.length; from += PIECE_BYTES) {
        const piece = document.subarray(from, from + PIECE_BYTES);
        const insert = 'INSERT INTO mdx_gateway_pieces VALUES (?1, ?2, ?3)';
        await session.rows(insert, [id, from / PIECE_BYTES, piece], true);
      }
      return [id, document.length];
    },
    async load(session, { document, octets }) {
      const whole = Buffer.allocUnsafe(Number(octets));
      for (let from = 0; from < whole.length; from += PIECE_BYTES) {
        // The result is hexadecimal text: pg misreads binary results as text.
        const asked = 'SELECT bytes FROM mdx_gateway_pieces WHERE document = ?1 AND number = ?2';
        const [row] = await session.rows(asked, [String(document), from / PIECE_BYTES], true);
        const piece = row && bytesOf(row['bytes']);
        if (piece?.length !== Math.min(PIECE_BYTES, whole.length - from)) {
          throw new Error(`Document ${String(document)} is damaged at byte ${from}.`);
        }
        piece.copy(whole, from);
      }
      return whole;
    },
    async drop(session, id) {
      const old = 'SELECT document FROM mdx_gateway_datasets WHERE id = ?1';
      await session.rows(`DELETE FROM mdx_gateway_pieces WHERE document = (${old})`, [id]);
    },
  },
};

const LONGEST_ROWS_BYTES = 64 * 1024;
const TOO_LONG = 'its rows take more than 64KiB; have the query return fewer';

/**
 * Reads all rows of one statement as sorted JSON, with the server's spelling of each value, on a
 * connection of its own and in a transaction that cannot write.
 * @throws Error also if the rows take more than 64 KiB, or when the signal aborts
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
    // A simple query may hold several statements, and so the end of the transaction.
    const query = { text, types, rowMode: 'array', queryMode: 'extended' } as const;
    const { rows } = await client.query<unknown[]>(query);
    const found = JSON.stringify(rows.map((row) => JSON.stringify(row)).sort());
    if (found.length > LONGEST_ROWS_BYTES) throw new Error(TOO_LONG);
    return found;
  } catch (error) {
    throw failure ?? error;
  } finally {
    stream.destroy();
  }
}
