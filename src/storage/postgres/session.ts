import type { ClientBase } from 'pg';
import { StorageUnavailable } from '../../errors.ts';
import type { Row, Session, Value } from '../sql-storage.ts';
import { PIECE_TIME } from './client-settings.ts';
import { isPassing, NoAnswer, statementFailure } from './failures.ts';

/** A session whose statements may carry a piece of a document. */
export interface PostgresSession extends Session {
  /**
   * Runs a statement that carries a piece of a document. It gets more time, and the time of the operation
   * begins anew after it: the connection has proved alive.
   */
  carry(text: string, values: readonly Value[]): Promise<readonly Row[]>;
}

/** The time that is left to an operation. */
export interface Budget {
  /** Milliseconds. */
  left(): number;
  renew(): void;
}

/** @param timeout milliseconds */
export function createBudget(timeout: number): Budget {
  let deadline = performance.now() + timeout;
  return {
    left: () => deadline - performance.now(),
    renew() {
      deadline = performance.now() + timeout;
    },
  };
}

/** @throws NoAnswer when the promise does not settle in time; what becomes of it then is not looked at */
export async function within<T>(milliseconds: number, promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined);
  if (milliseconds <= 0) throw new NoAnswer();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    // One more turn for an answer that came while this process was busy.
    timer = setTimeout(() => setImmediate(() => reject(new NoAnswer())), milliseconds);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Runs one statement on the connection.
 * @throws ConnectionLost, NoAnswer (then the connection must not be used again), or what PostgreSQL answered
 */
export async function ask(
  client: ClientBase,
  milliseconds: number,
  text: string,
  values?: readonly Value[],
): Promise<readonly Row[]> {
  // A statement that is sent after its time could still be done.
  if (milliseconds <= 0) throw new NoAnswer();
  const statement = text.replaceAll(/\?(?=\d)/g, '$');
  const answer = client.query(statement, values as Value[]).catch((error: unknown) => {
    throw statementFailure(error);
  });
  return (await within(milliseconds, answer)).rows as readonly Row[];
}

/** @param patient whether each statement has the time of a whole operation */
export function createSession(
  client: ClientBase,
  budget: Budget,
  patient = false,
): PostgresSession {
  async function run(
    extra: number,
    text: string,
    values?: readonly Value[],
  ): Promise<readonly Row[]> {
    if (patient) budget.renew();
    try {
      return await ask(client, budget.left() + extra, text, values);
    } catch (error) {
      throw isPassing(error) ? new StorageUnavailable('nothing-done', error) : error;
    }
  }
  return {
    rows: (text, values) => run(0, text, values),
    async carry(text, values) {
      budget.renew();
      const found = await run(PIECE_TIME, text, values);
      budget.renew();
      return found;
    },
  };
}
