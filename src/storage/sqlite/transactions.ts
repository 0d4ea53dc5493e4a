import type { DatabaseSync } from 'node:sqlite';
import { isBeforeCommit, toldAs } from './failures.ts';

/** @throws StorageUnavailable `nothing-done` */
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

/** Some failures end the transaction by themselves. One that cannot be undone ends with its connection. */
export function undo(database: DatabaseSync): void {
  if (!database.isOpen || !database.isTransaction) return;
  try {
    database.exec('ROLLBACK');
  } catch {
    database.close();
  }
}
