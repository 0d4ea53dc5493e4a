import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { DatabaseSync } from 'node:sqlite';
import {
  migrate,
  MIGRATIONS,
  versionOf,
  type Migration,
} from '../../../src/storage/sqlite/schema.ts';
import { sqliteHouse, type SqliteHouse } from './sqlite-house.ts';

let house: SqliteHouse;
beforeEach(() => {
  house = sqliteHouse();
});
afterEach(() => house.close());

const BEGINNING = { id: 'an id', rolesToken: 'a token', firstMembers: ['ADMIN'] };
const opened = () => new DatabaseSync(house.path);

/** Files as older programs left them are made by the first migrations, which never change. */
test.each(MIGRATIONS.map((_, i) => i + 1))(
  'a file of version %i, with its roles and datasets, is brought up to date',
  async (version) => {
    const old = opened();
    migrate(old, MIGRATIONS.slice(0, version), BEGINNING);
    old.exec(`
      INSERT INTO role (id, name, folded, description) VALUES (2, x'416E6E', x'616E6E', x'');
      INSERT INTO member (role_id, position, name, folded) VALUES (2, 1, x'42', x'62');
      INSERT INTO dataset (id, project, name, type, last_modified, document)
      VALUES (1, x'70', x'64', x'4D4458', 5, x'7B7D');
      UPDATE storage SET next_role_id = 9, next_dataset_id = 8;
    `);
    old.close();
    const storage = house.storage();
    expect(await storage.id()).toBe('an id');
    expect((await storage.roles.roleSet('B')).ids).toEqual([2]);
    expect(await storage.roles.read(2)).toMatchObject({ name: 'Ann', description: '' });
    expect((await storage.datasets.read('p', 'd'))?.document.toString()).toBe('{}');
    expect(await storage.datasets.list('p')).toMatchObject([{ id: 1, lastModified: 5 }]);
    expect(await storage.roles.create({ name: 'next', description: '', contains: [] })).toEqual({
      id: 9,
    });
    await storage.close();
    const now = opened();
    expect(versionOf(now, MIGRATIONS.length)).toBe(MIGRATIONS.length);
    now.close();
  },
);

test('migrations run once each and in their order', () => {
  const ran: string[] = [];
  const first: Migration = (database) => {
    ran.push('first');
    database.exec('CREATE TABLE t (a)');
  };
  const second: Migration = (database) => {
    ran.push('second');
    database.exec('ALTER TABLE t ADD COLUMN b; INSERT INTO t VALUES (1, 2)');
  };
  const database = opened();
  migrate(database, [first], BEGINNING);
  migrate(database, [first], BEGINNING);
  migrate(database, [first, second], BEGINNING);
  migrate(database, [first, second], BEGINNING);
  expect(ran).toEqual(['first', 'second']);
  expect(versionOf(database, 2)).toBe(2);
  expect(() => migrate(database, [first], BEGINNING)).toThrow('has schema version 2');
  database.close();
});

test('a migration that fails leaves the version before it, whole', () => {
  const first: Migration = (database) => database.exec('CREATE TABLE t (a)');
  const failing: Migration = (database) => {
    database.exec('DROP TABLE t; CREATE TABLE u (a)');
    throw new Error('half-way');
  };
  const database = opened();
  expect(() => migrate(database, [first, failing], BEGINNING)).toThrow('half-way');
  expect(versionOf(database, 2)).toBe(1);
  expect(database.prepare('SELECT name FROM sqlite_schema').all()).toEqual([{ name: 't' }]);
  expect(database.isTransaction).toBe(false);
  database.close();
});

/** The same connection; `first` runs before each call of one method. */
function meeting(
  database: DatabaseSync,
  method: 'exec' | 'prepare',
  first: (sql: string) => void,
): DatabaseSync {
  return new Proxy(database, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        if (name === method) first(String(args[0]));
        return value.apply(target, args) as unknown;
      };
    },
  });
}

test('a file in which another process makes the tables meanwhile is not taken for a foreign one', () => {
  const [one, other] = [opened(), opened()];
  one.exec('PRAGMA journal_mode = WAL');
  const looking = meeting(one, 'prepare', (sql) => {
    if (sql.includes('sqlite_schema')) migrate(other, MIGRATIONS, BEGINNING);
  });
  expect(versionOf(looking, MIGRATIONS.length)).toBe(0);
  expect(versionOf(one, MIGRATIONS.length)).toBe(MIGRATIONS.length);
  one.close();
  other.close();
});

test('a migration that another process did meanwhile is not done again', () => {
  const [one, other] = [opened(), opened()];
  let ran = 0;
  const first: Migration = (database) => {
    ran += 1;
    database.exec('CREATE TABLE t (a)');
  };
  const second: Migration = (database) => database.exec('CREATE TABLE u (a)');
  // The version is looked at, and before the lock is taken somebody else is there.
  const late = meeting(one, 'exec', (sql) => {
    if (sql.startsWith('BEGIN IMMEDIATE') && ran === 0) migrate(other, [first, second], BEGINNING);
  });
  migrate(late, [first, second], BEGINNING);
  expect([ran, versionOf(one, 2)]).toEqual([1, 2]);
  one.close();
  other.close();
});
