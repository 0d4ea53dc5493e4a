import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { Client } from 'pg';
import type { Storage } from '../../../src/storage/sql-storage.ts';
import { type PostgresHouse, startPostgres } from '../../support/postgres-server.ts';
import { sizes } from '../../support/sizes.ts';
import { storageAt } from './postgres-house.ts';
import { shared } from '../../support/opened.ts';

const server = shared(() => startPostgres());
let house: PostgresHouse;
let storage: Storage;

beforeEach(async () => {
  house = await server.house();
  // No test here is about time: a busy machine may take some.
  storage = storageAt(house.url, { timeout: 10_000 });
  await storage.open();
});
afterEach(async () => {
  await storage.close();
});

const dataset = (name: string, bytes: number, fill = 0) => {
  return { project: 'p', name, type: 'MDX', document: Buffer.alloc(bytes, fill) };
};

/** Keeps a table from being written until the function that it resolves to is called. */
async function hold(table: 'pieces' | 'members'): Promise<() => Promise<void>> {
  const client = new Client({ connectionString: house.url });
  await client.connect();
  await client.query(`BEGIN; LOCK TABLE mdx_gateway_${table} IN SHARE MODE`);
  return () => client.end();
}

/** Resolves when so many operations wait for a lock. */
async function waiting(count: number): Promise<void> {
  const locked = `SELECT 1 FROM pg_stat_activity WHERE usename = '${house.name}' AND wait_event_type = 'Lock'`;
  while ((await server.ask(locked)).length < count);
}

test('a document on its way holds up no other dataset, not even one of its name', async () => {
  const release = await hold('pieces');
  const slow = storage.datasets.create(dataset('slow', 10));
  const late = storage.datasets.create(dataset('taken', 10));
  await waiting(2);
  expect(await storage.datasets.create(dataset('empty', 0))).toEqual({ id: 1 });
  expect(await storage.datasets.create(dataset('taken', 0))).toEqual({ id: 2 });
  await release();
  expect(await slow).toEqual({ id: 3 });
  expect(await late).toBe('exists');
  expect((await storage.datasets.read('p', 'taken'))?.document).toHaveLength(0);
});

test('a role neither goes nor changes its name while a member is being added', async () => {
  const name = 'role';
  for (const id of [2, 3]) {
    await storage.roles.create({ name: `${name} ${id}`, description: '', contains: [] });
  }
  const release = await hold('members');
  const adds = [2, 3].map((id) =>
    storage.roles.addMember(id, `${name} ${id}`, { type: 'user', name: 'ann' }),
  );
  await waiting(2);
  const removal = storage.roles.remove(2);
  const update = storage.roles.update(3, { name: 'other', description: '', contains: [] });
  await waiting(4);
  await release();
  expect(await Promise.all([...adds, removal, update])).toEqual(['done', 'done', 'done', 'done']);
  expect((await storage.roles.roleSet('ann')).ids).toEqual([]);
});

/** A change of the roles that is not committed before the function that it resolves to is called. */
async function changeOfRoles(): Promise<() => Promise<void>> {
  const client = new Client({ connectionString: house.url });
  await client.connect();
  await client.query(`BEGIN; UPDATE mdx_gateway_storage SET roles_token = 'changed'`);
  return async () => {
    await client.query('COMMIT');
    await client.end();
  };
}

test('who is the first to ask for the token waits for a change that is being made, and gets its token', async () => {
  const commit = await changeOfRoles();
  const token = storage.roles.token(500);
  await waiting(1);
  await commit();
  expect(await token).toBe('changed');
});

test('who gets the token of before a change that is being made is known when it is made', async () => {
  const before = await storage.roles.token(500);
  const commit = await changeOfRoles();
  expect(await storage.roles.token(500)).toBe(before);
  await commit();
  expect(await storage.roles.lease()).toBe(500);
  expect(await storage.roles.token(500)).toBe('changed');
});

test('one name that many roles are to get at one time is given once', async () => {
  const input = (name: string) => ({ name, description: '', contains: [] });
  const ids = Array.from({ length: 9 }, (_, i) => i + 2);
  for (const id of ids) await storage.roles.create(input(`role ${id}`));
  // The first one stands still with the name in its hand until all others want it.
  const release = await hold('members');
  const asked = [
    ...ids.map((id) => storage.roles.update(id, input('same'))),
    storage.roles.create(input('SAME')),
  ];
  await waiting(asked.length);
  await release();
  const results = await Promise.all(asked);
  expect(results.filter((result) => result !== 'name-taken')).toHaveLength(1);
});

test('a document that is replaced again and again is always read whole, and leaves nothing behind', async () => {
  await storage.datasets.create(dataset('d', 2_500_000));
  const state = { done: false };
  const replacing = (async () => {
    for (let fill = 1; fill <= sizes.replacements; fill += 1) {
      await storage.datasets.update(dataset('d', 1_500_000 + fill * 200_000, fill));
    }
    state.done = true;
  })();
  const reading = async () => {
    while (!state.done) {
      const document = (await storage.datasets.read('p', 'd'))?.document ?? Buffer.alloc(0);
      const fill = document[0] ?? -1;
      const length = fill === 0 ? 2_500_000 : 1_500_000 + fill * 200_000;
      expect(document.equals(Buffer.alloc(length, fill))).toBe(true);
    }
  };
  await Promise.all([replacing, reading(), reading()]);
  const pieces = `SELECT count(*), count(DISTINCT document) AS documents FROM ${house.name}.mdx_gateway_pieces`;
  const count = Math.ceil((1_500_000 + sizes.replacements * 200_000) / 1024 / 1024);
  expect(await server.ask(pieces)).toEqual([{ count: `${count}`, documents: '1' }]);
});

test('each piece of a document has time of its own, beside that of the operation', async () => {
  const { name } = house;
  await server.ask(`CREATE FUNCTION ${name}.slowly() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_sleep(0.4); RETURN NEW; END'`);
  await server.ask(`CREATE TRIGGER slowly BEFORE INSERT ON ${name}.mdx_gateway_pieces
    FOR EACH ROW EXECUTE FUNCTION ${name}.slowly()`);
  await storage.close();
  storage = storageAt(house.url, { timeout: 1_000 });
  await storage.open();
  expect(await storage.datasets.create(dataset('long', 4_000_000))).toEqual({ id: 1 });
});

test('what is acknowledged was written to the disk, also where the server is told not to wait', async () => {
  const { name } = house;
  await server.ask(`ALTER ROLE ${name} SET synchronous_commit = 'off'`);
  await storage.close();
  storage = storageAt(house.url);
  await server.ask(`
    CREATE TABLE ${name}.seen (setting text);
    CREATE FUNCTION ${name}.note() RETURNS trigger SECURITY DEFINER LANGUAGE plpgsql AS $$
      BEGIN
        INSERT INTO ${name}.seen VALUES (current_setting('synchronous_commit'));
        RETURN NEW;
      END $$;
    CREATE TRIGGER note AFTER INSERT OR UPDATE ON ${name}.mdx_gateway_roles
      FOR EACH ROW EXECUTE FUNCTION ${name}.note()`);
  await storage.roles.create({ name: 'a', description: '', contains: [] });
  await storage.roles.update(2, { name: 'b', description: '', contains: [] });
  expect(await server.ask(`SELECT setting FROM ${name}.seen`)).toEqual([
    { setting: 'on' },
    { setting: 'on' },
  ]);
});
