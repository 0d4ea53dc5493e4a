import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { freePort } from './free-port.ts';
import { certain, onConnection } from './redis-client.ts';
import { launchRedis, type Running } from './redis-process.ts';
import { askRedis, startRedis, type RedisServer } from './redis-server.ts';
import { onAnyPort } from './taken-port.ts';

export interface SentinelOptions {
  /** Milliseconds after which a master that is silent counts as down; 1000 unless given. */
  readonly downAfter?: number;
  /** Of the servers (user `default`), and of the sentinels. */
  readonly passwords?: { readonly servers: string; readonly sentinels: string };
  readonly users?: Readonly<Record<string, readonly string[]>>;
  /** Further arguments of the servers; with them they need one replica that is at most a second behind. */
  readonly args?: readonly string[];
}

/** A master with two replicas, watched by three sentinels of which two must agree. */
export interface RedisSentinels {
  /** The name of the master. */
  readonly master: string;
  /** Of the sentinels, with their password. */
  readonly urls: readonly string[];
  readonly servers: readonly RedisServer[];
  /** Processes of the sentinels, for tests that end some. */
  readonly sentinels: readonly Running[];
  /** The server that the sentinels take for the master. */
  masterNow(): Promise<RedisServer>;
  /** Resolves with the new master when all sentinels name another one than this. */
  failedOver(old: RedisServer): Promise<RedisServer>;
  /** Resolves when every server that runs is the master or one of its replicas, and writes are accepted. */
  settled(): Promise<void>;
  close(): Promise<void>;
}

const MASTER = 'mdx-cache';

export async function startRedisSentinels(options: SentinelOptions = {}): Promise<RedisSentinels> {
  const { downAfter = 1_000, passwords, users = {}, args = [] } = options;
  const password =
    passwords === undefined
      ? []
      : ['--requirepass', passwords.servers, '--masterauth', passwords.servers];
  const common = ['--min-replicas-to-write', '1', '--min-replicas-max-lag', '1'].concat(
    ['--repl-diskless-sync-delay', '0', '--repl-timeout', '5'],
    password,
    args,
  );
  const servers: RedisServer[] = [];
  const sentinels: { readonly port: number; readonly running: Running }[] = [];
  const folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-sentinels-'));

  async function close(): Promise<void> {
    await Promise.all(sentinels.map(({ running }) => running.stop('SIGKILL')));
    await Promise.all(servers.map((server) => server.close()));
    rmSync(folder, { recursive: true, force: true });
  }

  function startSentinel(number: number, masterPort: number) {
    return onAnyPort(freePort, (port) => {
      const file = join(folder, `sentinel-${number}.conf`);
      const lines = [
        `port ${port}`,
        'bind 127.0.0.1',
        `dir ${folder}`,
        ...(passwords === undefined
          ? []
          : [
              `requirepass ${passwords.sentinels}`,
              `sentinel sentinel-pass ${passwords.sentinels}`,
            ]),
        `sentinel monitor ${MASTER} 127.0.0.1 ${masterPort} 2`,
        `sentinel down-after-milliseconds ${MASTER} ${downAfter}`,
        `sentinel failover-timeout ${MASTER} 3000`,
        ...(passwords === undefined ? [] : [`sentinel auth-pass ${MASTER} ${passwords.servers}`]),
      ];
      writeFileSync(file, `${lines.join('\n')}\n`);
      const answers = async () => /^[+]PONG|^-NOAUTH/u.test(await askRedis(port, 'PING'));
      return launchRedis(port, [file, '--sentinel'], 'Sentinel ID is', answers);
    });
  }

  const ask = <T>(port: number, secret: string | undefined, work: (redis: Redis) => Promise<T>) =>
    onConnection(port, { password: secret }, work);

  /** The ports that the sentinels that run name, each once. */
  async function namedPorts(): Promise<readonly number[]> {
    const named = await Promise.all(
      sentinels.map(({ port }) =>
        ask(port, passwords?.sentinels, async (redis) => {
          const address = await redis.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', MASTER);
          return Array.isArray(address) ? Number(address[1]) : undefined;
        }).catch(() => undefined),
      ),
    );
    return [...new Set(named.filter((port) => port !== undefined))];
  }

  const serverAt = (port: number) => servers.find((server) => server.port === port);

  /** Every sentinel has heard of both others and of both replicas. */
  async function areAcquainted(): Promise<boolean> {
    const texts = await Promise.all(
      sentinels.map(({ port }) =>
        ask(port, passwords?.sentinels, (redis) => redis.info('sentinel')),
      ),
    );
    return texts.every((text) => text.includes('slaves=2,sentinels=3'));
  }

  async function isSettled(): Promise<boolean> {
    const [port, ...others] = await namedPorts();
    if (port === undefined || others.length > 0) return false;
    const running = await Promise.all(
      servers.map((server) => askRedis(server.port, 'PING').then(Boolean, () => false)),
    );
    const replicas = running.filter(Boolean).length - 1;
    return await ask(port, passwords?.servers, async (redis) => {
      const text = await redis.info('replication');
      return text.includes('role:master') && text.includes(`min_slaves_good_slaves:${replicas}`);
    });
  }

  try {
    const first = await startRedis({ users, args: common });
    servers.push(first);
    const replicaArgs = [...common, '--replicaof', '127.0.0.1', String(first.port)];
    const replicas = await Promise.all([1, 2].map(() => startRedis({ users, args: replicaArgs })));
    servers.push(...replicas);
    sentinels.push(...(await Promise.all([1, 2, 3].map((n) => startSentinel(n, first.port)))));
    await certain(areAcquainted, 'the sentinels do not know each other');
    await certain(isSettled, 'the replicas do not follow the master');
  } catch (error) {
    await close();
    throw error;
  }

  const login = passwords === undefined ? '' : `:${encodeURIComponent(passwords.sentinels)}@`;
  return {
    master: MASTER,
    urls: sentinels.map(({ port }) => `redis://${login}127.0.0.1:${port}`),
    servers,
    sentinels: sentinels.map(({ running }) => running),
    async masterNow() {
      for (;;) {
        const [port, ...others] = await namedPorts();
        const server = port === undefined ? undefined : serverAt(port);
        if (server !== undefined && others.length === 0) return server;
        await delay(20);
      }
    },
    async failedOver(old) {
      let found: RedisServer | undefined;
      const hasFailedOver = async () => {
        const [port, ...others] = await namedPorts();
        found = port === undefined || others.length > 0 ? undefined : serverAt(port);
        return found !== undefined && found !== old;
      };
      await certain(hasFailedOver, 'the sentinels name no other master');
      return found as RedisServer;
    },
    settled: () => certain(isSettled, 'the servers do not settle'),
    close,
  };
}
