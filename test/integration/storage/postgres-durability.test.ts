import { expect, test } from '@jest/globals';
import { startPostgres } from '../../support/postgres-server.ts';
import { storageAt } from './postgres-house.ts';

test('what is acknowledged was written to the disk, also where the server is told not to wait', async () => {
  const server = await startPostgres({ settings: { synchronous_commit: 'off' } });
  try {
    const { url, name } = await server.house();
    const storage = storageAt(url);
    await storage.open();
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
    await storage.close();
    expect(await server.ask(`SELECT setting FROM ${name}.seen`)).toEqual([
      { setting: 'on' },
      { setting: 'on' },
    ]);
  } finally {
    await server.close();
  }
});
