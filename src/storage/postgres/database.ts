import { Client, Pool } from 'pg';
import type { PoolClient } from 'pg';
import type { PostgresConfig } from '../../config/config.ts';
import { StorageUnavailable } from '../../errors.ts';
import type { Dialect, SqlDatabase } from '../sql-storage.ts';
import { OperatorError } from '../storage.ts';
import { clientSettings } from './client-settings.ts';
import { connectionProblem, ConnectionLost, hasCode, isPassing } from './failures.ts';
import type { Budget, PostgresSession } from './session.ts';
import { ask, createBudget, createSession, within } from './session.ts';

type Kind = 'read' | 'snapshot' | 'write';

const BEGIN: Readonly<Record<Exclude<Kind, 'read'>, string>> = {
  snapshot: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY',
  // A server may be told to acknowledge what it has not yet written; what is told to a client is kept.
  write: `BEGIN ISOLATION LEVEL READ COMMITTED;
    SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'`,
};

/** SQLSTATE of a table or schema that is not there: it was dropped, or another one was put in its place. */
const SCHEMA_GONE = ['42P01', '3F000'];

/** An idle connection is closed after this long (ms). */
const IDLE = 30_000;
/** For how long the reader or the source of long work may stand still (ms). */
const LONG_IDLE = 600_000;
/** What the end of long work may take (ms). */
const LONG_COMMIT = 30_000;
/** What a connection may take to close (ms). */
const FAREWELL = 200;

/**
 * Connections to one PostgreSQL. Each operation has `timeout` for all: to get a connection, and for all its statements
 * but those that carry pieces of documents. Before the first one, the schema is brought up to date. Long work has a
 * connection of its own, on which each statement has the time of an operation.
 * @param prepare brings the schema up to date, in a transaction
 * @param onError told of idle connections that were lost
 * @throws Error when a PEM file cannot be read
 */
export function createDatabase(options: {
  readonly config: PostgresConfig;
  readonly dialect: Dialect<PostgresSession>;
  readonly prepare: (session: PostgresSession) => Promise<'done'>;
  readonly onError: (error: unknown) => void;
}): SqlDatabase<PostgresSession> {
  const { config } = options;
  const settings = clientSettings(config);
  const pool = new Pool({ ...settings, max: config.connections, idleTimeoutMillis: IDLE });
  /** Connections of the pool that are open. */
  const open = new Set<PoolClient>();
  /** Those that have served before, so that the server may have closed them unnoticed. */
  const used = new WeakSet<PoolClient>();
  const long = new Set<Client>();
  const underWay = new Set<Promise<unknown>>();
  let preparation: Promise<void> | undefined;
  let prepared = false;
  let closed: Promise<void> | undefined;

  pool.on('connect', (client) => {
    open.add(client);
    // An error on a connection that works fails the statement too, and the pool hears of an idle one.
    client.on('error', () => {});
  });
  pool.on('remove', (client) => open.delete(client));
  pool.on('error', (error) => {
    const { message } = error;
    options.onError(new Error(`an idle connection to PostgreSQL was lost: ${message}`));
  });

  async function connection(budget: Budget): Promise<PoolClient> {
    const wanted = pool.connect();
    try {
      return await within(budget.left(), wanted);
    } catch (error) {
      wanted.then((client) => client.release()).catch(() => {});
      throw new StorageUnavailable('nothing-done', error);
    }
  }

  async function attempt<T>(
    kind: Kind,
    budget: Budget,
    work: (session: PostgresSession) => Promise<T>,
  ): Promise<T> {
    const client = await connection(budget);
    const first = !used.has(client);
    used.add(client);
    try {
      const session = createSession(client, budget);
      const result = await perform(kind, session, work, () => commit(client, budget.left()));
      client.release();
      return result;
    } catch (error) {
      client.release(true);
      if (first || !isLostInVain(error)) throw error;
    }
    return await attempt(kind, budget, work);
  }

  /**
   * Waits for its schema, and lets `close` wait for it.
   * @param opening whether what only an operator can mend is told as such: a start ends by it
   */
  async function operate<T>(run: (budget: Budget) => Promise<T>, opening = false): Promise<T> {
    if (closed !== undefined) throw new StorageUnavailable('nothing-done', new Error('closed'));
    const operation = (async () => {
      const budget = createBudget(config.timeout);
      if (!prepared) await prepareOnce(opening);
      try {
        return await run(budget);
      } catch (error) {
        if (!hasCode(error, ...SCHEMA_GONE)) throw error;
        prepared = false;
        throw new StorageUnavailable('nothing-done', error);
      }
    })();
    underWay.add(operation);
    try {
      return await operation;
    } finally {
      underWay.delete(operation);
    }
  }

  /** Concurrent callers share the running preparation, which began earlier and so ends in time. */
  async function prepareOnce(opening: boolean): Promise<void> {
    preparation ??= prepare();
    try {
      await preparation;
    } catch (error) {
      // Whatever became of the schema: the operation itself was not begun.
      if (error instanceof StorageUnavailable) {
        throw new StorageUnavailable('nothing-done', error.cause);
      }
      throw opening ? error : new StorageUnavailable('nothing-done', error);
    }
  }

  async function prepare(): Promise<void> {
    try {
      await attempt('write', createBudget(config.timeout), options.prepare);
      prepared = true;
    } finally {
      preparation = undefined;
    }
  }

  async function longClient(): Promise<Client> {
    const client = new Client({ ...settings, idle_in_transaction_session_timeout: LONG_IDLE });
    client.on('error', () => {});
    long.add(client);
    client.once('end', () => long.delete(client));
    try {
      await within(config.timeout, client.connect());
    } catch (error) {
      discard(client);
      throw new StorageUnavailable('nothing-done', error);
    }
    return client;
  }

  return {
    dialect: options.dialect,
    async open() {
      try {
        await operate(async () => {}, true);
      } catch (error) {
        if (!(error instanceof StorageUnavailable)) throw error;
        const problem = connectionProblem(error.cause);
        if (problem === undefined) throw error;
        const { host, port } = settings;
        throw new OperatorError(`PostgreSQL at ${host}:${port}: ${problem}`, { cause: error });
      }
    },
    read: (work) => operate((budget) => attempt('read', budget, work)),
    snapshot: (work) => operate((budget) => attempt('snapshot', budget, work)),
    write: (work) => operate((budget) => attempt('write', budget, work)),
    longSnapshot: () =>
      operate(async (budget) => {
        const client = await longClient();
        const session = createSession(client, budget, true);
        try {
          await session.rows(BEGIN.snapshot);
        } catch (error) {
          leave(client);
          throw error;
        }
        return { session, end: () => leave(client) };
      }),
    longWrite: (work) =>
      operate(async (budget) => {
        const client = await longClient();
        try {
          const session = createSession(client, budget, true);
          return await perform('write', session, work, () => commit(client, LONG_COMMIT));
        } finally {
          leave(client);
        }
      }),
    async answers() {
      if (closed !== undefined) return false;
      try {
        await attempt('read', createBudget(config.timeout), (session) => session.rows('SELECT 1'));
        return true;
      } catch {
        return false;
      }
    },
    close() {
      closed ??= (async () => {
        await Promise.allSettled(underWay);
        for (const client of long) discard(client);
        const farewell = Promise.all([...open].map(ended));
        await pool.end();
        await within(FAREWELL, farewell).catch(() => {});
        for (const client of open) discard(client);
      })();
      return closed;
    },
  };
}

/** @throws StorageUnavailable, or what the work throws; then the connection must not be used again */
async function perform<T>(
  kind: Kind,
  session: PostgresSession,
  work: (session: PostgresSession) => Promise<T>,
  commit: () => Promise<void>,
): Promise<T> {
  if (kind === 'read') return await work(session);
  await session.rows(BEGIN[kind]);
  const result = await work(session);
  if (typeof result === 'string' && result !== 'done') await session.rows('ROLLBACK');
  else if (kind === 'snapshot') await session.rows('COMMIT');
  else await commit();
  return result;
}

/** @throws StorageUnavailable `unknown` when it was sent, and nobody can tell what became of it */
async function commit(client: Client, milliseconds: number): Promise<void> {
  try {
    await ask(client, milliseconds, 'COMMIT');
  } catch (error) {
    if (!isPassing(error)) throw error;
    throw new StorageUnavailable(milliseconds > 0 ? 'unknown' : 'nothing-done', error);
  }
}

/** Nothing can have been done on a connection that was lost before its transaction was to be committed. */
function isLostInVain(error: unknown): boolean {
  if (!(error instanceof StorageUnavailable) || error.outcome !== 'nothing-done') return false;
  return error.cause instanceof ConnectionLost;
}

/** With a farewell, unless a statement is still under way on it. */
function leave(client: Client): void {
  client.end().catch(() => {});
}

/** Without a farewell, which a silent server would not hear. */
function discard(client: Client): void {
  client.connection.stream.destroy();
}

function ended(client: Client): Promise<void> {
  return new Promise((resolve) => client.once('end', () => resolve()));
}
