import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connect as connectTls, type ConnectionOptions } from 'node:tls';
import type { Certificate } from './certificates.ts';
import { freePort } from './free-port.ts';
import { launchRedis, processState, type Running } from './redis-process.ts';
import { onAnyPort, onSamePort } from './taken-port.ts';

export { processState } from './redis-process.ts';

/** Who is served over TLS, which is then the only way. */
export interface RedisTls {
  /** Of the authority that signed all certificates. */
  readonly ca: Certificate;
  readonly server: Certificate;
  /** What clients must show; without it they need none. */
  readonly client?: Certificate;
}

export interface RedisOptions {
  /** A port that must be used; otherwise a free one is found. */
  readonly port?: number;
  /** A folder for the data, which stays; otherwise a temporary one, which `close` removes. */
  readonly dir?: string;
  /** Keep every write on disk before it is acknowledged, so that it outlives a SIGKILL. */
  readonly appendonly?: boolean;
  /** Further arguments of redis-server, for example `['--maxmemory', '1mb']`. */
  readonly args?: readonly string[];
  /**
   * ACL users by name, with their rules (`['on', '>password', '~*', '+@all']`). The user `default` keeps all its
   * rights and needs no password unless it is named here.
   */
  readonly users?: Readonly<Record<string, readonly string[]>>;
  readonly tls?: RedisTls;
}

export interface RestartOptions {
  /** How the running process ends; SIGTERM unless given. */
  readonly signal?: 'SIGTERM' | 'SIGKILL';
  /** Instead of the arguments of the first start. */
  readonly args?: readonly string[];
}

/** A Redis of this test's own. */
export interface RedisServer {
  /** `rediss://` with TLS. */
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
  const { tls } = options;
  const users = Object.entries(options.users ?? {}).flatMap(([name, rules]) =>
    ['--user', name].concat(rules),
  );
  const launch = (port: number, args = options.args ?? []): Promise<Running> => {
    const persistence = options.appendonly === true ? durable : [];
    return launchRedis(
      port,
      [...base, ...portArguments(port, tls), ...persistence, ...users, ...args],
      'Ready to accept connections',
      () => answers(port, tls),
    );
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
    url: `${tls === undefined ? 'redis' : 'rediss'}://127.0.0.1:${port}`,
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

function portArguments(port: number, tls: RedisTls | undefined): readonly string[] {
  if (tls === undefined) return ['--port', String(port)];
  return [
    ...['--port', '0', '--tls-port', String(port), '--tls-ca-cert-file', tls.ca.certificate],
    ...['--tls-cert-file', tls.server.certificate, '--tls-key-file', tls.server.key],
    ...['--tls-auth-clients', tls.client === undefined ? 'no' : 'yes'],
    ...['--tls-replication', 'yes', '--tls-cluster', 'yes'],
  ];
}

async function answers(port: number, tls: RedisTls | undefined): Promise<boolean> {
  const reply = await askRedis(port, 'PING', tls);
  // With a password it refuses to be asked, which is an answer too.
  return reply.startsWith('+PONG') || reply.startsWith('-NOAUTH');
}

/**
 * Sends one inline command on a connection of its own and resolves with the first bytes of the reply, as the
 * protocol has them (`+PONG`). Rejects when the connection fails or ends before a reply.
 */
export async function askRedis(port: number, command: string, tls?: RedisTls): Promise<string> {
  const socket = tls === undefined ? connect(port, '127.0.0.1') : connectSecurely(port, tls);
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

function connectSecurely(port: number, tls: RedisTls): Socket {
  return connectTls({ port, host: '127.0.0.1', ...tlsOptions(tls) });
}

/** What a client of this server needs. */
export function tlsOptions({ ca, client }: RedisTls): ConnectionOptions {
  if (client === undefined) return { ca: ca.pem };
  return { ca: ca.pem, cert: client.pem, key: readFileSync(client.key, 'utf8') };
}
