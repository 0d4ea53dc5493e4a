import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { connect, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { StorageUnavailable } from '../../../src/common/errors.ts';
import type { Authority } from '../../support/certificates.ts';
import { makeAuthority } from '../../support/certificates.ts';
import type { PostgresServer } from '../../support/postgres-server.ts';
import { startPostgres } from '../../support/postgres-server.ts';
import { sizes } from '../../support/sizes.ts';
import { storageAt } from './postgres-house.ts';

const WRITER = fileURLToPath(new URL('postgres-writer.ts', import.meta.url));

let authority: Authority;
let server: PostgresServer;
let tlsServer: PostgresServer;

beforeAll(async () => {
  authority = makeAuthority();
  [server, tlsServer] = await Promise.all([
    startPostgres(),
    startPostgres({ tls: authority.issue('server') }),
  ]);
});
afterAll(async () => {
  authority.remove();
  await server.close();
  await tlsServer.close();
});

/** The one line that tells an operator why there is no start. */
async function refusal(...args: Parameters<typeof storageAt>): Promise<string> {
  const storage = storageAt(...args);
  const error = await storage.open().then(
    () => undefined,
    (error: unknown) => error,
  );
  await storage.close();
  expect(error).toBeInstanceOf(Error);
  expect(error).not.toBeInstanceOf(StorageUnavailable);
  const { message } = error as Error;
  expect(message).not.toContain('\n');
  return message;
}

function changed(url: string, change: (url: URL) => void): string {
  const made = new URL(url);
  change(made);
  return made.href;
}

describe('gateways that start at one time on an empty database', () => {
  test('make one storage, in one process', async () => {
    for (let round = 0; round < sizes.startRounds; round += 1) {
      const house = await server.house();
      const storages = Array.from({ length: 8 }, () => storageAt(house.url));
      await Promise.all(storages.map((storage) => storage.open()));
      const ids = await Promise.all(storages.map((storage) => storage.id()));
      expect(new Set(ids).size).toBe(1);
      const roles = { offset: 0, limit: 10, nameContains: '' };
      expect(await storages[0]?.roles.list(roles)).toMatchObject({ total: 1 });
      await Promise.all(storages.map((storage) => storage.close()));
    }
  });

  test('make one storage, in processes of their own', async () => {
    const house = await server.house();
    const processes = Array.from({ length: sizes.startProcesses }, () =>
      spawn(process.execPath, [WRITER, house.url, '0'], { stdio: ['ignore', 'ignore', 'inherit'] }),
    );
    const ends = await Promise.all(processes.map((child) => once(child, 'exit')));
    expect(ends).toEqual(processes.map(() => [0, null]));
    expect(await server.ask(`SELECT count(*) FROM ${house.name}.mdx_gateway_storage`)).toEqual([
      { count: '1' },
    ]);
  });
});

describe('what only an operator can mend is told in one line, and nothing is changed', () => {
  test('a schema of a newer program', async () => {
    const house = await server.house();
    const storage = storageAt(house.url);
    await storage.open();
    await storage.close();
    await server.ask(`UPDATE ${house.name}.mdx_gateway_storage SET version = 1000`);
    expect(await refusal(house.url)).toMatch(/newer .* version 1000, this program knows \d+\./);
    expect(await server.ask(`SELECT version FROM ${house.name}.mdx_gateway_storage`)).toEqual([
      { version: 1_000 },
    ]);
    // Neither does a gateway that did not call open go to work on it.
    const other = storageAt(house.url);
    await expectLater(other.roles.read(1), /newer/);
    await other.close();
  });

  test('a user who may not make tables', async () => {
    const house = await server.house();
    await server.ask(`ALTER SCHEMA ${house.name} OWNER TO tester`);
    expect(await refusal(house.url)).toMatch(/needs the right to make .*: permission denied/);
    await server.ask(`GRANT USAGE ON SCHEMA ${house.name} TO ${house.name}`);
    expect(await refusal(house.url)).toMatch(/needs the right to make .*: permission denied/);
    await server.ask(`GRANT CREATE ON SCHEMA ${house.name} TO ${house.name}`);
    const storage = storageAt(house.url);
    await storage.open();
    await storage.close();
  });

  test('a wrong password, which is not told', async () => {
    const house = await server.house();
    const url = changed(house.url, (url) => (url.password = 'the-wrong-one'));
    const message = await refusal(url);
    expect(message).toMatch(
      new RegExp(`^PostgreSQL at 127.0.0.1:${server.port}: .*authentication failed`),
    );
    expect(message).not.toContain('the-wrong-one');
  });

  test('a missing password', async () => {
    const url = changed((await server.house()).url, (url) => (url.password = ''));
    expect(await refusal(url)).toMatch(/password/);
  });

  test('a database that is not there', async () => {
    const url = changed((await server.house()).url, (url) => (url.pathname = '/no%20such'));
    expect(await refusal(url)).toMatch(/database "no such" does not exist/);
  });

  test('a server without encryption where it is wanted', async () => {
    const { url } = await server.house();
    expect(await refusal(url, { tls: true })).toMatch(/does not support SSL/);
  });
});

test('a login that is refused later makes operations fail as when the server is away', async () => {
  const house = await server.house();
  const storage = storageAt(house.url);
  await storage.open();
  await server.ask(
    `ALTER ROLE ${house.name} PASSWORD 'changed';
     SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${house.name}'`,
  );
  await expect(storage.roles.read(1)).rejects.toMatchObject({ outcome: 'nothing-done' });
  await server.ask(`ALTER ROLE ${house.name} PASSWORD '${house.password}'`);
  expect(await storage.roles.read(1)).toMatchObject({ name: 'Admin' });
  await storage.close();
});

describe('a schema that is changed under a gateway that serves', () => {
  const drop = (name: string) =>
    server.ask(
      `DO $$ DECLARE one record; BEGIN
         FOR one IN SELECT tablename FROM pg_tables WHERE schemaname = '${name}' LOOP
           EXECUTE format('DROP TABLE ${name}.%I CASCADE', one.tablename);
         END LOOP;
       END $$;
       DROP SEQUENCE ${name}.mdx_gateway_documents`,
    );

  test('by dropping its tables fails one request, and then the gateway begins anew', async () => {
    const house = await server.house();
    const storage = storageAt(house.url);
    await storage.open();
    const id = await storage.id();
    for (const request of [
      () => storage.roles.read(1),
      () => storage.roles.create({ name: 'a', description: '', contains: [] }),
      () => storage.datasets.list('p'),
    ]) {
      await drop(house.name);
      await expectLater(request(), /does not exist/);
      await request();
    }
    expect(await storage.roles.read(1)).toMatchObject({ name: 'Admin' });
    expect(await storage.id()).not.toBe(id);
    await storage.close();
  });

  test('by dropping it whole fails requests until it is there again', async () => {
    const house = await server.house();
    const storage = storageAt(house.url);
    await storage.open();
    await server.ask(`DROP SCHEMA ${house.name} CASCADE`);
    await expectLater(storage.roles.read(1), /does not exist/);
    await expectLater(storage.roles.read(1), /needs the right to make and use tables/);
    await server.ask(`CREATE SCHEMA ${house.name} AUTHORIZATION ${house.name}`);
    expect(await storage.roles.read(1)).toMatchObject({ name: 'Admin' });
    await storage.close();
  });

  test('by a newer program fails requests with the words of a start', async () => {
    const house = await server.house();
    const storage = storageAt(house.url);
    await storage.open();
    await server.ask(`
      UPDATE ${house.name}.mdx_gateway_storage SET version = 1000;
      ALTER TABLE ${house.name}.mdx_gateway_roles RENAME TO mdx_gateway_groups`);
    await expectLater(storage.roles.read(1), /does not exist/);
    for (let again = 0; again < 2; again += 1) await expectLater(storage.roles.read(1), /newer/);
    await storage.close();
  });
});

/** The operation of a gateway that has started fails for a while, and the log is told why. */
async function expectLater(operation: Promise<unknown>, cause: RegExp): Promise<void> {
  const error = await operation.then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(error).toBeInstanceOf(StorageUnavailable);
  expect(error).toMatchObject({
    outcome: 'nothing-done',
    cause: { message: expect.stringMatching(cause) },
  });
}

describe('encryption', () => {
  test('with the authority of the server is used', async () => {
    const house = await tlsServer.house();
    const storage = storageAt(house.url, { tls: true, ca: authority.certificate });
    await storage.open();
    expect(
      await tlsServer.ask(
        `SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = '${house.name}'`,
      ),
    ).toEqual([{ ssl: true }]);
    await storage.close();
  });

  test('with another authority, or with those of Node.js, is refused', async () => {
    const { url } = await tlsServer.house();
    const other = makeAuthority();
    expect(await refusal(url, { tls: true, ca: other.certificate })).toMatch(/certificate/);
    expect(await refusal(url, { tls: true })).toMatch(/certificate/);
    other.remove();
  });

  test('goes by certificates that were read again', async () => {
    const { url } = await tlsServer.house();
    const other = makeAuthority();
    const ca = join(mkdtempSync(join(tmpdir(), 'postgres-ca-')), 'ca.pem');
    copyFileSync(authority.certificate, ca);
    const storage = storageAt(url, { tls: true, ca });
    await storage.open();
    copyFileSync(other.certificate, ca);
    storage.renewCertificates();
    await expect(Array.fromAsync(storage.dump())).rejects.toMatchObject({
      cause: { message: expect.stringMatching(/certificate/) },
    });
    copyFileSync(authority.certificate, ca);
    storage.renewCertificates();
    expect(await Array.fromAsync(storage.dump())).toHaveLength(2);
    await storage.close();
    other.remove();
    rmSync(dirname(ca), { recursive: true });
  });

  test('is needed where the server insists on it', async () => {
    expect(await refusal((await tlsServer.house()).url)).toMatch(/no encryption/);
  });

  test('takes no certificate of another host', async () => {
    const house = await tlsServer.house();
    const front = createServer((client) => {
      const behind = connect(tlsServer.port, '127.0.0.1');
      for (const socket of [client, behind]) socket.on('error', () => socket.destroy());
      client.pipe(behind).pipe(client);
    });
    front.listen(0, '127.0.0.2');
    await once(front, 'listening');
    const { port } = front.address() as AddressInfo;
    const url = changed(house.url, (url) => (url.host = `127.0.0.2:${port}`));
    expect(await refusal(url, { tls: true, ca: authority.certificate })).toMatch(/127\.0\.0\.2/);
    front.close();
  });
});
