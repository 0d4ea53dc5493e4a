import type { ChildProcess } from 'node:child_process';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import type { Certificate } from './certificates.ts';
import { freePort } from './free-port.ts';
import { onAnyPort, onSamePort, PortTaken } from './taken-port.ts';

export interface PostgresOptions {
  /** Have what is acknowledged on the disk. Without it, starts and writes are quicker, and a SIGKILL harms neither. */
  readonly fsync?: boolean;
  /** With it the server takes encrypted connections only. */
  readonly tls?: Certificate;
  /** Further settings, for example `{ max_connections: '20' }`. */
  readonly settings?: Readonly<Record<string, string>>;
}

/** How a server ends: SIGINT breaks connections off in order, SIGQUIT at once, SIGKILL kills all processes. */
export type PostgresSignal = 'SIGINT' | 'SIGQUIT' | 'SIGKILL';

/** A part of a server where nobody else is: a login, and an empty schema that is found first under it. */
export interface PostgresHouse {
  readonly url: string;
  /** The name of both the login and the schema. */
  readonly name: string;
  readonly password: string;
}

/** A PostgreSQL of this test's own. Logins need their passwords. */
export interface PostgresServer {
  readonly port: number;
  readonly dir: string;
  /** Of the main process that runs now, or ran last. */
  readonly pid: number;
  /** With the login of the superuser. */
  readonly url: string;
  /** What the server that runs now, or ran last, has printed. */
  log(): string;
  /** Runs statements as the superuser on a connection of its own. Resolves to the rows of the last one. */
  ask(statements: string): Promise<Record<string, unknown>[]>;
  house(): Promise<PostgresHouse>;
  /** Ends the server (a paused one too) and waits for its end. Does nothing when it has ended. */
  stop(signal?: PostgresSignal): Promise<void>;
  /** Stops the server if it runs, and starts one on the same port and folder. */
  restart(signal?: PostgresSignal): Promise<void>;
  /**
   * SIGSTOP of all its processes: connections stay open and new ones are accepted by the kernel, but nothing
   * is answered. Resolves when they stand still.
   */
  pause(): Promise<void>;
  /** SIGCONT. */
  resume(): void;
  /** Ends the server and removes its folder. May be called twice. */
  close(): Promise<void>;
}

const SUPERUSER = 'tester';
const PASSWORD = 'correct horse: battery/staple';
const READY_MS = 30_000;
const STOP_MS = 20_000;
const VERSIONS = '/usr/lib/postgresql';

/** The path of a program of the newest PostgreSQL here; where it would be, if there is none. */
export function postgresProgram(name: string): string {
  const versions = existsSync(VERSIONS) ? readdirSync(VERSIONS) : [];
  const paths = versions
    .toSorted((one, other) => Number(other) - Number(one))
    .map((version) => join(VERSIONS, version, 'bin', name));
  return paths.find((path) => existsSync(path)) ?? join(VERSIONS, '*', 'bin', name);
}

/**
 * Starts a PostgreSQL on 127.0.0.1 and resolves when it takes connections. Rejects with the output of the
 * process when it does not come up. Since PostgreSQL refuses to run as root, root starts it as the user
 * `postgres`. It dies with the process that started it (where setpriv(1) can see to that).
 */
export async function startPostgres(
  options: PostgresOptions = {},
  pickPort: () => Promise<number> = freePort,
): Promise<PostgresServer> {
  const dir = makeFolder();
  const removeDir = (): void => rmSync(dir, { recursive: true, force: true });
  const launch = (port: number) => launchPostgres(join(dir, 'data'), port);
  let port: number;
  let current: Running;
  try {
    initialise(dir, options);
    ({ port, running: current } = await onAnyPort(pickPort, launch));
  } catch (error) {
    removeDir();
    throw error;
  }

  const urlOf = (user: string, password: string) =>
    `postgres://${user}:${encodeURIComponent(password)}@127.0.0.1:${port}/postgres`;
  let houses = 0;

  async function ask(statements: string): Promise<Record<string, unknown>[]> {
    const client = new Client({
      ...{ host: '127.0.0.1', port, user: SUPERUSER, password: PASSWORD, database: 'postgres' },
      ssl: options.tls !== undefined && { rejectUnauthorized: false },
    });
    await client.connect();
    try {
      const results: unknown = await client.query(statements);
      const last: unknown = Array.isArray(results) ? results.at(-1) : results;
      return (last as { rows: Record<string, unknown>[] }).rows;
    } finally {
      await client.end();
    }
  }

  return {
    port,
    dir,
    get pid() {
      return current.pid;
    },
    url: urlOf(SUPERUSER, PASSWORD),
    log: () => current.log(),
    ask,
    async house() {
      houses += 1;
      const name = `house_${houses}`;
      const password = `password of ${name}`;
      await ask(
        `CREATE ROLE ${name} LOGIN PASSWORD '${password}'; CREATE SCHEMA AUTHORIZATION ${name}`,
      );
      return {
        name,
        password,
        url: urlOf(name, password),
      };
    },
    stop: (signal) => current.stop(signal),
    async restart(signal) {
      await current.stop(signal);
      current = await onSamePort(() => launch(port));
    },
    pause: () => current.pause(),
    resume: () => current.resume(),
    async close() {
      await current.stop('SIGQUIT');
      removeDir();
    },
  };
}

interface Identity {
  readonly uid: number;
  readonly gid: number;
}

/** Whom the server runs as; undefined: as this process does. */
function serverIdentity(): Identity | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const ask = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { stdio: 'pipe' }));
  return { uid: ask('-u'), gid: ask('-g') };
}

/** The command line that runs a program as the server's user. */
function asServer(...command: readonly string[]): [string, string[]] {
  const identity = serverIdentity();
  const change = ['setpriv', `--reuid=${identity?.uid}`, `--regid=${identity?.gid}`];
  const [program = '', ...args] =
    identity === undefined ? command : [...change, '--clear-groups', '--', ...command];
  return [program, args];
}

const ENVIRONMENT = { PATH: process.env['PATH'], LC_ALL: 'C' };

function makeFolder(): string {
  const dir = mkdtempSync(join(tmpdir(), 'mdx-gateway-postgres-'));
  giveToServer(dir);
  return dir;
}

function giveToServer(path: string): void {
  const identity = serverIdentity();
  if (identity !== undefined) chownSync(path, identity.uid, identity.gid);
}

function initialise(dir: string, { fsync = false, tls, settings }: PostgresOptions): void {
  const data = join(dir, 'data');
  const secret = join(dir, 'password');
  writeFileSync(secret, PASSWORD, { mode: 0o600 });
  giveToServer(secret);
  const [program, args] = asServer(
    ...[postgresProgram('initdb'), '-D', data, '-U', SUPERUSER, `--pwfile=${secret}`, '--no-sync'],
    ...['--auth=scram-sha-256', '--encoding=UTF8', '--locale=C', '--no-instructions'],
  );
  execFileSync(program, args, { cwd: dir, env: ENVIRONMENT, stdio: 'pipe' });
  const durable = fsync ? {} : { fsync: 'off', full_page_writes: 'off' };
  const all: Record<string, string> = { shared_buffers: '16MB', ...durable, ...settings };
  if (tls !== undefined) {
    for (const [name, path] of [
      ['server.pem', tls.certificate],
      ['server.key', tls.key],
    ] as const) {
      const copy = join(data, name);
      copyFileSync(path, copy);
      chmodSync(copy, 0o600);
      giveToServer(copy);
    }
    Object.assign(all, { ssl: 'on', ssl_cert_file: 'server.pem', ssl_key_file: 'server.key' });
    writeFileSync(join(data, 'pg_hba.conf'), 'hostssl all all 127.0.0.1/32 scram-sha-256\n');
  }
  const lines = Object.entries(all).map(([name, value]) => `${name} = '${value}'\n`);
  writeFileSync(join(data, 'postgresql.auto.conf'), lines.join(''));
}

interface Running {
  readonly pid: number;
  log(): string;
  pause(): Promise<void>;
  resume(): void;
  stop(name?: PostgresSignal): Promise<void>;
}

async function launchPostgres(data: string, port: number): Promise<Running> {
  const child = spawnWithParent(
    ...[postgresProgram('postgres'), '-D', data, '-p', String(port)],
    ...['-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories='],
  );
  let output = '';
  const printed = new Promise<boolean>((resolve) => {
    const collect = (text: string): void => {
      output = `${output}${text}`.slice(-65_536);
      if (output.includes('database system is ready to accept connections')) resolve(true);
    };
    child.stdout?.setEncoding('utf8').on('data', collect);
    child.stderr?.setEncoding('utf8').on('data', collect);
  });
  // Not `close`: processes of the server that outlive a SIGKILL for a moment hold its output open.
  const exited = new Promise<false>((resolve) => child.once('exit', () => resolve(false)));
  try {
    await once(child, 'spawn');
  } catch (error) {
    throw new Error('PostgreSQL cannot be started. Is the package postgresql installed?', {
      cause: error,
    });
  }
  const pid = child.pid ?? -1;
  const all = (): number[] => [pid, ...childrenOf(pid)];
  const resume = (): void => all().forEach((one) => signalTo(one, 'SIGCONT'));

  const running: Running = {
    pid,
    log: () => output,
    resume,
    async pause() {
      for (;;) {
        // The main process first: it then makes no more of the others, but for one that it was making.
        for (const one of all()) signalTo(one, 'SIGSTOP');
        if (all().every((one) => ['T', 'Z', undefined].includes(stateOf(one)))) return;
        await delay(1);
      }
    },
    async stop(name = 'SIGINT') {
      // One that it made meanwhile would outlive it, and hold the memory that the next start needs.
      if (name === 'SIGKILL') await running.pause();
      const processes = all();
      for (const one of name === 'SIGKILL' ? processes : [pid]) signalTo(one, name);
      // A stopped process sees no signal but SIGKILL until it goes on.
      for (const one of processes) signalTo(one, 'SIGCONT');
      if (await gone(processes)) {
        await exited;
        return;
      }
      for (const one of processes) signalTo(one, 'SIGKILL');
      throw new Error(`PostgreSQL did not obey ${name} within ${STOP_MS} ms.\n${output}`);
    },
  };

  const late = delay(READY_MS, false, { ref: false });
  if (await Promise.race([printed, exited, late])) return running;
  await running.stop('SIGKILL');
  const text = `PostgreSQL did not come up on port ${port}.\n${output}`;
  throw /could not bind|could not create any TCP/iu.test(output)
    ? new PortTaken(text)
    : new Error(text);
}

/**
 * The server ends with this process, even if this one is killed: by SIGQUIT, upon which it also gives back its
 * shared memory. A change of the user clears that wish, so the wish comes after it.
 */
function spawnWithParent(...command: readonly string[]): ChildProcess {
  const bound = process.platform === 'linux' && existsSync('/usr/bin/setpriv');
  const wish = bound ? ['setpriv', '--pdeathsig', 'QUIT', '--'] : [];
  const [program, args] = asServer(...wish, ...command);
  return spawn(program, args, { cwd: '/', env: ENVIRONMENT, stdio: ['ignore', 'pipe', 'pipe'] });
}

async function gone(processes: readonly number[]): Promise<boolean> {
  const deadline = performance.now() + STOP_MS;
  const isGone = (pid: number) => ['Z', undefined].includes(stateOf(pid));
  while (!processes.every(isGone)) {
    if (performance.now() > deadline) return false;
    await delay(5);
  }
  return true;
}

function signalTo(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    // It has ended in the meantime.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** State and parent of a process, see proc_pid_stat(5); undefined when there is none. */
function statOf(pid: number | string): { state: string; parent: number } | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return undefined;
  }
  const [, state = '', parent] = /\) (\w) (\d+)/u.exec(text) ?? [];
  return { state, parent: Number(parent) };
}

const stateOf = (pid: number): string | undefined => statOf(pid)?.state;

function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/u.test(name) && statOf(name)?.parent === pid)
    .map(Number);
}
