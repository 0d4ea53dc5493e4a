import { expect, test } from '@jest/globals';
import { readFileSync, writeFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { fromLines, toLines } from '../../../src/storage/dump.ts';
import type { Storage } from '../../../src/storage/sql-storage.ts';
import { startPostgres } from '../../support/postgres-server.ts';
import { storageAt } from './postgres-house.ts';
import { sqliteHouse } from './sqlite-house.ts';
import { shared } from '../../support/opened.ts';

/** What 0.1.0 left: a file of SQLite, the tables of a PostgreSQL, and the export that both gave. */
const left = (name: string) =>
  gunzipSync(readFileSync(new URL(`../../fixtures/0.1.0/${name}.gz`, import.meta.url)));
const EXPORT = left('store.jsonl');

async function exported(storage: Storage): Promise<Buffer> {
  const lines: Buffer[] = [];
  for await (const line of toLines(storage.dump())) lines.push(line);
  return Buffer.concat(lines);
}

const server = shared(() => startPostgres());

test('a SQLite file of 0.1.0 opens and comes back byte for byte', async () => {
  const house = sqliteHouse();
  writeFileSync(house.path, left('gateway.sqlite'));
  const storage = house.storage();
  expect((await exported(storage)).equals(EXPORT)).toBe(true);
  expect(await storage.roles.create({ name: 'next', description: '', contains: [] })).toEqual({
    id: 6,
  });
  await house.close();
});

test('the tables of a PostgreSQL of 0.1.0 open and come back byte for byte', async () => {
  const house = await server.house();
  await server.ask(
    `SET ROLE ${house.name}; SET search_path = ${house.name};\n${left('postgres.sql').toString()}`,
  );
  const storage = storageAt(house.url);
  await storage.open();
  expect((await exported(storage)).equals(EXPORT)).toBe(true);
  expect(await storage.roles.create({ name: 'next', description: '', contains: [] })).toEqual({
    id: 6,
  });
  await storage.close();
});

test('an export of 0.1.0 is imported and comes back byte for byte', async () => {
  const sqlite = sqliteHouse();
  const storages = [sqlite.storage(), storageAt((await server.house()).url)];
  async function* chunks() {
    yield EXPORT;
  }
  for (const storage of storages) {
    await storage.restore(fromLines(chunks()));
    expect((await exported(storage)).equals(EXPORT)).toBe(true);
    await storage.close();
  }
  await sqlite.close();
});
