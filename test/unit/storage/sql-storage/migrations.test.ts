import { expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import type { Dialect, Session } from '../../../../src/storage/sql-database.ts';
import { bringUpToDate } from '../../../../src/storage/sql-storage.ts';

const PARTS = { firstMembers: [], wallClock: Date.now, randomBytes, onError: () => {} };

function house() {
  const database = new DatabaseSync(':memory:');
  const rows: Session['rows'] = async (text, values = []) =>
    database.prepare(text).all(...(values as readonly SQLInputValue[]));
  const session: Omit<Session, 'dialect'> = {
    rows,
    script: async (text) => database.exec(text),
  };
  const ran: string[] = [];
  const version = () =>
    Number(Object.values(database.prepare('PRAGMA user_version').get() ?? {})[0]);
  const upgrade = (...migrations: readonly string[]) => {
    const dialect = {
      migrations,
      version: async () => version(),
      setVersion: (number: number) => `PRAGMA user_version = ${number}`,
      newer: (number: number) => `version ${number} is newer`,
      firstRows: 'INSERT INTO first VALUES (?1, ?2)',
      tables: { roles: 'roles' },
      insertMembers: 'SELECT 1 WHERE ?1 = ?2',
    } as unknown as Dialect;
    const watched: Session = {
      ...session,
      dialect,
      script: async (text) => {
        if (migrations.includes(text)) ran.push(text);
        await session.script(text);
      },
    };
    return bringUpToDate(watched, PARTS);
  };
  return { database, ran, version, upgrade };
}

const FIRST =
  'CREATE TABLE first (a, b); CREATE TABLE t (c); CREATE TABLE roles (id, name, folded UNIQUE, description)';
const SECOND = 'INSERT INTO t VALUES (7)';

test('migrations run once each and in their order, and the first rows are made once', async () => {
  const { database, ran, version, upgrade } = house();
  await upgrade(FIRST);
  await upgrade(FIRST);
  await upgrade(FIRST, SECOND);
  await upgrade(FIRST, SECOND);
  expect([ran, version()]).toEqual([[FIRST, SECOND], 2]);
  expect(database.prepare('SELECT c FROM t').all()).toEqual([{ c: 7 }]);
  expect(database.prepare('SELECT id, description FROM roles').all()).toMatchObject([{ id: 1 }]);
});

test('an empty place gets all of them', async () => {
  const { ran, version, upgrade } = house();
  await upgrade(FIRST, SECOND);
  expect([ran, version()]).toEqual([[FIRST, SECOND], 2]);
});

test('a schema of a newer program is refused', async () => {
  const { ran, version, upgrade } = house();
  await upgrade(FIRST, SECOND);
  await expect(upgrade(FIRST)).rejects.toMatchObject({
    name: 'OperatorError',
    message: 'version 2 is newer',
  });
  expect([ran, version()]).toEqual([[FIRST, SECOND], 2]);
});
