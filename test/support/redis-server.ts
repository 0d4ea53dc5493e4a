import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from './free-port.ts';
import { onAnyPort, onSamePort, PortTaken } from './taken-port.ts';

export interface RedisOptions {
  /** A port that must be used; otherwise a free one is found. */
  readonly port?: number;
  /** A folder for the data, which stays; otherwise a temporary one, which `close` removes. */
  readonly dir?: string;
  /** Keep every write on disk before it is acknowledged, so that it outlives a SIGKILL. */
  readonly appendonly?: boolean;
  /** Further arguments of redis-server, for example `['--maxmemory', '1mb']`. */
  readonly args?: readonly string[];
}

export interface RestartOptions {
  /** How the running process ends; SIGTERM unless given. */
  readonly signal?: 'SIGTERM' | 'SIGKILL';
  /** Instead of the arguments of the first start. */
  readonly args?: readonly string[];
}

/** A Redis of this test's own. */
export interface RedisServer {
  readonly url: string;
  readonly port: number;
  readonly dir: string;
  /** Of the process that runs now, or ran last. */
  readonly pid: number;
  /** What the process that runs now, or ran last, has printed. */
  log(): string;
  /** Ends the process (a paused one too) and waits for its end. Does nothing when it has ended. */
  stop(signal?: 'SIGTERM' | 'SIGKILL'): Promise<void>;
  /** Stops the process if it runs, and starts one on the same port and folder. */
  restart(options?: RestartOptions): Promise<void>;
  /**
   * SIGSTOP: connections stay open and new ones are accepted by the kernel, but nothing is answered.
   * Resolves when the process stands still.
   */
  pause(): Promise<void>;
  /** SIGCONT. */
  resume(): void;
  /** Ends the process and removes the temporary folder. May be called twice. */
  close(): Promise<void>;
}

const READY_MS = 20_000;
const STOP_MS = 10_000;

/**
 * Starts a redis-server on 127.0.0.1, without persistence unless asked for, and resolves when it has answered.
 * Rejects with the output of the process when it does not come up. The process dies with the one that
 * started it (where setpriv(1) can see to that).
 */
export async function startRedis(
  options: RedisOptions = {},
  pickPort: () => Promise<number> = freePort,
): Promise<RedisServer> {
  const dir = options.dir ?? mkdtempSync(join(tmpdir(), 'mdx-gateway-redis-'));
  const removeDir = (): void => {
    if (options.dir === undefined) rmSync(dir, { recursive: true, force: true });
  };
  const base = ['--bind', '127.0.0.1', '--dir', dir, '--daemonize', 'no', '--save', ''];
  const durable = ['--appendonly', 'yes', '--appendfsync', 'always'];
  const launch = (port: number, args = options.args ?? []): Promise<Running> => {
    const persistence = options.appendonly === true ? durable : [];
    return launchRedis(port, [...base, '--port', String(port), ...persistence, ...args]);
  };

  let port: number;
  let current: Running;
  try {
    ({ port, running: current } =
      options.port === undefined
        ? await onAnyPort(pickPort, launch)
        : { port: options.port, running: await launch(options.port) });
  } catch (error) {
    removeDir();
    throw error;
  }

  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    dir,
    get pid() {
      return current.pid;
    },
    log: () => current.log(),
    stop: (signal) => current.stop(signal),
    async restart({ signal, args } = {}) {
      await current.stop(signal);
      current = await onSamePort(() => launch(port, args));
    },
    async pause() {
      current.signal('SIGSTOP');
      while (processState(current.pid) !== 'T') await delay(1);
    },
    resume: () => current.signal('SIGCONT'),
    async close() {
      await current.stop('SIGKILL');
      removeDir();
    },
  };
}

interface Running {
  readonly pid: number;
  log(): string;
  signal(name: NodeJS.Signals): void;
  stop(name?: 'SIGTERM' | 'SIGKILL'): Promise<void>;
}

async function launchRedis(port: number, args: readonly string[]): Promise<Running> {
  const child = spawnWithParent('redis-server', args);
  const exited = new Promise<void>((resolve) => child.once('close', () => resolve()));
  let output = '';
  const printed = new Promise<void>((resolve) => {
    const collect = (text: string): void => {
      output = `${output}${text}`.slice(-65_536);
      if (output.includes('Ready to accept connections')) resolve();
    };
    child.stdout?.setEncoding('utf8').on('data', collect);
    child.stderr?.setEncoding('utf8').on('data', collect);
  });
  try {
    await once(child, 'spawn');
  } catch (error) {
    throw new Error('redis-server cannot be started. Is the package redis-server installed?', {
      cause: error,
    });
  }

  const running: Running = {
    pid: child.pid ?? -1,
    log: () => output,
    signal: (name) => void child.kill(name),
    async stop(name = 'SIGTERM') {
      child.kill(name);
      // A stopped process sees no signal but SIGKILL until it goes on.
      child.kill('SIGCONT');
      if (await within(STOP_MS, exited)) return;
      child.kill('SIGKILL');
      await exited;
      throw new Error(`redis-server did not obey ${name} within ${STOP_MS} ms.\n${output}`);
    },
  };

  // Only its own log proves that it is this process that has the port: another one's PONG is no proof.
  const ended = await within(
    READY_MS,
    Promise.race([printed.then(() => false), exited.then(() => true)]),
  );
  if (ended?.value === false && (await answers(port, READY_MS))) return running;
  await running.stop('SIGKILL');
  const text = `redis-server did not come up on port ${port}.\n${output}`;
  throw /address already in use|failed listening on port/iu.test(output)
    ? new PortTaken(text)
    : new Error(text);
}

/** The process ends with this one, even if this one is killed. */
function spawnWithParent(command: string, args: readonly string[]): ChildProcess {
  const bound = process.platform === 'linux' && existsSync('/usr/bin/setpriv');
  return bound
    ? spawn('/usr/bin/setpriv', ['--pdeathsig', 'KILL', command, ...args], {
        stdio: ['ignore', 'pipe', 'pipe'],
      })
    : spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
}

/** The kernel's letter for the state of a process, for example T: stopped. See proc_pid_stat(5). */
export function processState(pid: number): string | undefined {
  return /\) (\w)/u.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1];
}

async function within<T>(
  milliseconds: number,
  promise: Promise<T>,
): Promise<{ readonly value: T } | undefined> {
  const timer = new AbortController();
  const late = delay(milliseconds, undefined, { signal: timer.signal }).catch(() => undefined);
  try {
    return await Promise.race([promise.then((value) => ({ value })), late]);
  } finally {
    timer.abort();
  }
}

async function answers(port: number, milliseconds: number): Promise<boolean> {
  const deadline = performance.now() + milliseconds;
  while (performance.now() < deadline) {
    const reply = await askRedis(port, 'PING').catch(() => '');
    // With a password it refuses to be asked, which is an answer too.
    if (reply.startsWith('+PONG') || reply.startsWith('-NOAUTH')) return true;
    await delay(20);
  }
  return false;
}

/**
 * Sends one inline command on a connection of its own and resolves with the first bytes of the reply, as the
 * protocol has them (`+PONG`). Rejects when the connection fails or ends before a reply.
 */
export async function askRedis(port: number, command: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  socket.setEncoding('utf8');
  try {
    return await new Promise<string>((resolve, reject) => {
      socket.once('data', (text) => resolve(String(text)));
      socket.once('error', reject);
      socket.once('close', () => reject(new Error('The connection ended without a reply.')));
      socket.write(`${command}\r\n`);
    });
  } finally {
    socket.destroy();
  }
}
