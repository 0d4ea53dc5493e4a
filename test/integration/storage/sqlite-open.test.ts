import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { sizes } from '../../support/sizes.ts';
import { runChild, sqliteHouse, type SqliteHouse } from './sqlite-house.ts';

let house: SqliteHouse;
beforeEach(() => {
  house = sqliteHouse();
});
afterEach(() => house.close());

const refusal = (path: string) =>
  house
    .storage({ path })
    .open()
    .then(
      () => 'opened',
      (error: Error) => error,
    );
const run = (sql: string) => {
  const database = new DatabaseSync(house.path);
  database.exec(sql);
  database.close();
};
/** Runs it and returns what it resolves to, and the names and bytes of all files before and after. */
async function untouched(work: () => Promise<unknown>): Promise<unknown> {
  const files = () =>
    readdirSync(house.folder).map(
      (name) => [name, readFileSync(join(house.folder, name))] as const,
    );
  const before = files();
  const result = await work();
  expect(files()).toEqual(before);
  return result;
}

describe('an empty place', () => {
  test('becomes one storage, though several processes begin it at one time', async () => {
    const path = join(house.folder, 'one', 'two', 'gateway.sqlite');
    const results = await Promise.all(
      Array.from({ length: sizes.storageProcesses }, () => runChild('id', path)),
    );
    expect(results.map(({ exit, stderr }) => [exit, stderr])).toEqual(results.map(() => [0, '']));
    const ids = new Set(results.flatMap(({ lines }) => lines));
    expect([...ids]).toEqual([await house.storage({ path }).id()]);
    expect(
      await house.storage({ path }).roles.list({ offset: 0, limit: 9, nameContains: '' }),
    ).toMatchObject({ total: 1 });
  });

  test('becomes files that only their owner reads, in a folder that only he enters', async () => {
    const path = join(house.folder, 'one', 'two', 'gateway.sqlite');
    await house.storage({ path }).open();
    const mode = (name: string) => (statSync(join(house.folder, name)).mode & 0o777).toString(8);
    expect([mode('one'), mode('one/two')]).toEqual(['700', '700']);
    expect(
      readdirSync(join(house.folder, 'one/two')).map((name) => mode(`one/two/${name}`)),
    ).toEqual(['600', '600', '600']);
  });

  test('that an empty file holds is used, with the mode that it has', async () => {
    writeFileSync(house.path, '');
    chmodSync(house.path, 0o640);
    await house.storage().open();
    expect(statSync(house.path).mode & 0o777).toBe(0o640);
  });
});

describe('a place that cannot be used is named, and left as it is:', () => {
  const named = (path: string, why: RegExp | string) =>
    expect.objectContaining({
      name: 'OperatorError',
      message: expect.stringMatching(
        new RegExp(
          `^storage\\.path: ${path} ${typeof why === 'string' ? why : why.source}[^\\n]*$`,
        ),
      ),
    });

  test('a schema of a newer program', async () => {
    await house.storage().open();
    await house.storage().close();
    run('PRAGMA user_version = 4711');
    expect(await refusal(house.path)).toEqual(
      named(house.path, 'has schema version 4711, made by a newer program; this one reads'),
    );
  });

  test('a newer file that nobody has open', async () => {
    const first = house.storage();
    await first.open();
    await first.close();
    run('PRAGMA journal_mode = DELETE; PRAGMA user_version = 2');
    expect(await untouched(() => refusal(house.path))).toEqual(
      named(house.path, /has schema version 2,/),
    );
  });

  test('a database of another program', async () => {
    run('CREATE TABLE theirs (a)');
    expect(await untouched(() => refusal(house.path))).toEqual(
      named(house.path, 'is a database of another program'),
    );
  });

  test('an empty database that another program marked', async () => {
    run('PRAGMA application_id = 1');
    expect(await untouched(() => refusal(house.path))).toEqual(
      named(house.path, 'is a database of another program'),
    );
  });

  test('a file that is no database', async () => {
    writeFileSync(house.path, 'ADMIN:$2y$05$'.repeat(100));
    expect(await untouched(() => refusal(house.path))).toEqual(
      named(house.path, 'is no SQLite database'),
    );
  });

  test('a folder', async () => {
    mkdirSync(house.path);
    expect(await refusal(house.path)).toEqual(named(house.path, 'cannot be opened'));
    expect(readdirSync(house.path)).toEqual([]);
  });

  test('a folder that is a file', async () => {
    writeFileSync(join(house.folder, 'file'), '');
    const path = join(house.folder, 'file', 'gateway.sqlite');
    expect(await untouched(() => refusal(path))).toEqual(named(path, /cannot be used \(E[A-Z]+\)/));
  });

  test('a folder that nobody can make', async () => {
    const path = '/proc/gateway/gateway.sqlite';
    expect(await refusal(path)).toEqual(named(path, /cannot be used \(E[A-Z]+\)/));
  });

  test.each([
    ['a folder that this user may not write to', 0o555, 0o666],
    ['a file that this user may not write to', 0o777, 0o444],
  ])('%s', async (_, folderMode, fileMode) => {
    const first = house.storage();
    await first.open();
    await first.close();
    chmodSync(house.path, fileMode);
    chmodSync(house.folder, folderMode);
    const { lines, stderr } = await runChild('id as nobody', house.path);
    chmodSync(house.folder, 0o777);
    expect([lines.join('\n'), stderr]).toEqual([
      expect.stringMatching(/^OperatorError: storage\.path: \S+ cannot be used \(EACCES\)[^\n]*$/),
      '',
    ]);
  });

  test('and whoever calls without opening is told that the storage is not there', async () => {
    writeFileSync(house.path, 'no database, but long enough to be taken for one'.repeat(10));
    const storage = house.storage();
    const { roles, datasets } = storage;
    for (const call of [
      () => roles.read(1),
      () => roles.remove(2),
      () => datasets.list('p'),
      () => datasets.create({ project: 'p', name: 'd', type: 'MDX', document: Buffer.from('{}') }),
      () => storage.id(),
    ]) {
      await expect(call()).rejects.toMatchObject({
        reason: 'storage-unavailable',
        outcome: 'nothing-done',
        cause: named(house.path, 'is no SQLite database'),
      });
    }
    expect(await storage.reachable()).toBe(false);
    // Mended, it serves without a restart.
    writeFileSync(house.path, '');
    expect((await roles.read(1))?.name).toBe('Admin');
    expect(await storage.reachable()).toBe(true);
  });
});

test('a file that is taken away while it is in use takes no more writes, which would be lost', async () => {
  const storage = house.storage();
  await storage.open();
  renameSync(house.path, `${house.path}.away`);
  await expect(storage.roles.remove(2)).rejects.toMatchObject({ outcome: 'nothing-done' });
  expect(await storage.reachable()).toBe(false);
  expect(existsSync(house.path)).toBe(false);
  renameSync(`${house.path}.away`, house.path);
  expect(await storage.roles.remove(2)).toBe('no-such-role');
});
