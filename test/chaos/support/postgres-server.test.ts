import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { afterEach, describe, expect, test } from '@jest/globals';
import { Client } from 'pg';
import { makeAuthority } from '../../support/certificates.ts';
import { freePort } from '../../support/free-port.ts';
import { processState } from '../../support/redis-server.ts';
import type { PostgresServer } from '../../support/postgres-server.ts';
import { startPostgres } from '../../support/postgres-server.ts';
import { shared } from '../../support/opened.ts';

const REFUSED = { code: 'ECONNREFUSED' };
const server = shared(() => startPostgres({ fsync: true }));
const started: PostgresServer[] = [];

async function postgres(...args: Parameters<typeof startPostgres>): Promise<PostgresServer> {
  const made = await startPostgres(...args);
  started.push(made);
  return made;
}

afterEach(async () => {
  for (const made of started.splice(0)) await made.close();
});

async function askAs(url: string, statement: string): Promise<unknown> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(statement)).rows;
  } finally {
    await client.end();
  }
}

describe('a PostgreSQL of the test’s own', () => {
  test('answers under its url, from its own folder', async () => {
    expect(server.url).toContain(`@127.0.0.1:${server.port}/`);
    expect(await askAs(server.url, 'SHOW data_directory')).toEqual([
      { data_directory: `${server.dir}/data` },
    ]);
  });

  test('takes no login without its password', async () => {
    const url = new URL(server.url);
    url.password = 'wrong';
    await expect(askAs(url.href, 'SELECT 1')).rejects.toMatchObject({ code: '28P01' });
  });

  test('keeps what was acknowledged over a SIGKILL of all its processes', async () => {
    const { port, dir, pid } = server;
    await server.ask('CREATE TABLE kept (id integer); INSERT INTO kept VALUES (7)');
    await server.restart('SIGKILL');
    expect({ port: server.port, dir: server.dir }).toEqual({ port, dir });
    expect(server.pid).not.toBe(pid);
    expect(server.log()).toContain('not properly shut down');
    expect(await server.ask('SELECT id FROM kept')).toEqual([{ id: 7 }]);
  });

  test('is silent while paused and answers afterwards what it was asked', async () => {
    await server.pause();
    expect(processState(server.pid)).toBe('T');
    const reply = server.ask('SELECT 1 AS one');
    server.resume();
    expect(await reply).toEqual([{ one: 1 }]);
  });

  test.each(['SIGINT', 'SIGQUIT', 'SIGKILL'] as const)(
    'can be stopped by %s while paused and with connections open, and started again',
    async (signal) => {
      const client = new Client({ connectionString: server.url });
      client.on('error', () => undefined);
      await client.connect();
      await server.pause();
      await server.stop(signal);
      await server.stop(signal);
      await expect(server.ask('SELECT 1')).rejects.toMatchObject(REFUSED);
      await server.restart();
      expect(await server.ask('SELECT 1 AS one')).toEqual([{ one: 1 }]);
      await client.end();
    },
  );

  test('has houses that do not see each other', async () => {
    const [one, other] = [await server.house(), await server.house()];
    await askAs(one.url, 'CREATE TABLE mine (id integer)');
    await expect(askAs(other.url, 'SELECT * FROM mine')).rejects.toMatchObject({ code: '42P01' });
    await expect(askAs(other.url, `SELECT * FROM ${one.name}.mine`)).rejects.toMatchObject({
      code: '42501',
    });
  });

  test('takes another port when somebody else was faster, settings, and a certificate', async () => {
    const authority = makeAuthority();
    const free = await freePort();
    const ports = [server.port, free];
    const made = await postgres(
      { tls: authority.issue('server'), settings: { max_connections: '17' } },
      () => Promise.resolve(ports.shift() ?? free),
    );
    authority.remove();
    expect(made.port).toBe(free);
    expect(await made.ask('SHOW max_connections')).toEqual([{ max_connections: '17' }]);
    const [row] = await made.ask('SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()');
    expect(row).toEqual({ ssl: true });
    await expect(askAs(made.url, 'SELECT 1')).rejects.toThrow(/no encryption/u);

    await made.close();
    await made.close();
    expect(existsSync(made.dir)).toBe(false);
    expect(existsSync(`/proc/${made.pid}`)).toBe(false);
    await expect(made.ask('SELECT 1')).rejects.toMatchObject(REFUSED);
    expect(await server.ask('SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  test('tells its output when it does not come up', async () => {
    await expect(postgres({ settings: { no_such_setting: '1' } })).rejects.toThrow(
      /did not come up[^]*no_such_setting/u,
    );
  });

  test('does not outlive the process that started it, even when that is killed', async () => {
    const support = new URL('../../support/postgres-server.ts', import.meta.url).href;
    const program = `const { startPostgres } = await import(${JSON.stringify(support)});
      const { url, port, dir } = await startPostgres();
      console.log(JSON.stringify({ url, port, dir }));
      process.stdin.resume();`;
    const owner = spawn(process.execPath, ['--input-type=module', '--eval', program], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const [line] = (await once(owner.stdout, 'data')) as [Buffer];
    const { url, port, dir } = JSON.parse(line.toString()) as {
      url: string;
      port: number;
      dir: string;
    };
    const client = new Client({ connectionString: url });
    const broken = new Promise<void>((resolve) => client.once('end', () => resolve()));
    client.on('error', () => undefined);
    await client.connect();
    owner.kill('SIGKILL');
    await broken;
    // Its main process ends last.
    const connected = async () => {
      const socket = connect(port, '127.0.0.1');
      await once(socket, 'connect');
      socket.destroy();
    };
    let code: unknown;
    while (code !== REFUSED.code) {
      code = await connected().then(
        () => undefined,
        (error: NodeJS.ErrnoException) => error.code,
      );
    }
    rmSync(dir, { recursive: true, force: true });
  });
});
