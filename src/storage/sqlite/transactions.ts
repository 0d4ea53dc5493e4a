import type { DatabaseSync } from 'node:sqlite';
import { StorageUnavailable } from '../../errors.ts';
import { isBeforeCommit, toldAs } from './failures.ts';

/**
 * Runs a change as one transaction, which holds the write lock from its beginning.
 * @throws StorageUnavailable when the storage failed; what `work` throws otherwise, after the change was undone
 */
export function writing<T>(database: DatabaseSync, work: () => T): T {
  const result = attempt(database, 'BEGIN IMMEDIATE', work);
  commit(database);
  return result;
}

/** Runs reads that see one moment. */
export function reading<T>(database: DatabaseSync, work: () => T): T {
  const result = attempt(database, 'BEGIN', work);
  undo(database);
  return result;
}

/** Begins a transaction that is ended by {@link commit}, or by the end of the connection. */
export function begin(database: DatabaseSync, how: 'BEGIN' | 'BEGIN IMMEDIATE'): void {
  try {
    database.exec(how);
  } catch (error) {
    throw toldAs('nothing-done', error);
  }
}

/** @throws StorageUnavailable with outcome `unknown` when a crash might bring the change back */
export function commit(database: DatabaseSync): void {
  try {
    database.exec('COMMIT');
  } catch (error) {
    undo(database);
    throw toldAs(isBeforeCommit(error) ? 'nothing-done' : 'unknown', error);
  }
}

/** Runs one step of a transaction; when it fails, the transaction is undone. Without one nothing is done. */
export function step<T>(database: DatabaseSync, work: () => T): T {
  if (!database.isTransaction) {
    throw new StorageUnavailable('nothing-done', new Error('the transaction has ended before'));
  }
  try {
    return work();
  } catch (error) {
    undo(database);
    throw toldAs('nothing-done', error);
  }
}

function attempt<T>(database: DatabaseSync, how: 'BEGIN' | 'BEGIN IMMEDIATE', work: () => T): T {
  begin(database, how);
  return step(database, work);
}

/** Some failures end the transaction by themselves. One that cannot be undone ends with its connection. */
function undo(database: DatabaseSync): void {
  if (!database.isTransaction) return;
  try {
    database.exec('ROLLBACK');
  } catch {
    database.close();
  }
}
