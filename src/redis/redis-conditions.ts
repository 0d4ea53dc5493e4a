import type { Redis } from 'ioredis';
import {
  isReady,
  redisClients,
  sentinelClients,
  whenReady,
  type RedisTarget,
} from './redis-clients.ts';
import type { RedisConnections } from './redis-connections.ts';
import { missingRights } from './redis-rights.ts';

/** What an answer to a look may take (ms). No request waits for one. */
const DEADLINE = 2_000;
/** How often it is looked again at what may have been set otherwise meanwhile (ms). */
const INTERVAL = 60_000;
/** After a look that failed (ms). */
const RETRY = 2_000;
/**
 * By how much a master may be late in refusing writes (ms): it counts whole seconds since it heard of its replicas, and
 * does so once a second.
 */
const LATENESS = 2_000;

/** What is not as the promises of docs/PURGE.md need it. */
export interface RedisConditions {
  /** In short sentences, as of the last look; none before the first one. */
  list(): readonly string[];
  close(): void;
}

/**
 * Looks whenever a connection was made, which may lead to another server than before, and now and then.
 * @param onProblem is told each sentence when it begins to be true
 */
export function watchRedisConditions(options: {
  target: RedisTarget;
  namespace: string;
  connections: Pick<RedisConnections, 'epochs'>;
  onProblem: (problem: string) => void;
}): RedisConditions {
  const { connections, onProblem } = options;
  let problems: readonly string[] = [];
  let looking = false;
  let again = false;
  let closed = false;

  async function look(): Promise<void> {
    if (closed) return;
    again = looking;
    if (looking) return;
    looking = true;
    try {
      const found = await readConditions(options.target, options.namespace);
      if (closed) return;
      const news = found.filter((problem) => !problems.includes(problem));
      problems = found;
      for (const problem of news) onProblem(problem);
    } catch {
      // Whoever needs Redis tells that it is away.
      setTimeout(onConnected, RETRY).unref();
    } finally {
      looking = false;
    }
    if (again) await look();
  }

  const onConnected = () => {
    if (connections.epochs.status === 'ready') void look();
  };
  onConnected();
  // The last two are of clusters, whose client stays ready while nodes come and go.
  const signs = ['ready', '+node', '-node'] as const;
  for (const sign of signs) connections.epochs.on(sign, onConnected);
  const timer = setInterval(onConnected, INTERVAL).unref();

  return {
    list: () => problems,
    close() {
      closed = true;
      clearInterval(timer);
      for (const sign of signs) connections.epochs.off(sign, onConnected);
    },
  };
}

/** Looks once, on connections of its own. Rejects when a server does not answer. */
async function readConditions(target: RedisTarget, namespace: string): Promise<readonly string[]> {
  const client = redisClients(target, () => {}).client('conditions', DEADLINE);
  try {
    await whenReady(client, AbortSignal.timeout(DEADLINE));
    if (!isReady(client)) throw new Error('Redis is not ready');
    const nodes = 'nodes' in client ? client.nodes('master') : [client];
    const [first] = nodes;
    if (first === undefined) return [];
    const servers = await Promise.all(nodes.map((node) => readServer(node, target)));
    const rights = await missingRights(client, first, namespace);
    return [
      ...rights.map(
        (right) => `the user of the gateway lacks a right at Redis (docs/PURGE.md): ${right}`,
      ),
      ...servers.flat(),
    ];
  } finally {
    client.disconnect();
  }
}

async function readServer(server: Redis, target: RedisTarget): Promise<readonly string[]> {
  const memory = await server.info('memory');
  const { remoteAddress = '?', remotePort = '?' } = server.stream;
  const at = `Redis at ${remoteAddress}:${remotePort}`;
  const problems = memoryProblems(at, memory);
  if (target.mode === 'standalone') return problems;
  return [...problems, ...(await replicationProblems(at, server, target))];
}

function memoryProblems(at: string, info: string): readonly string[] {
  // Services that do not say it have set it themselves.
  if (fieldOf(info, 'maxmemory') === '0') {
    return [
      `${at} has no maxmemory: it may take all memory of its machine; set maxmemory, and a maxmemory-policy such as volatile-lru`,
    ];
  }
  if (fieldOf(info, 'maxmemory_policy') !== 'noeviction') return [];
  return [
    `${at} has maxmemory-policy noeviction: when it is full it refuses writes, so that purges answer 503 and queries go past the cache; set another one, such as volatile-lru`,
  ];
}

function fieldOf(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\\r?$`, 'mu').exec(info)?.[1];
}

/** Two masters must never take writes at one time, since a purge would reach one of them only. */
async function replicationProblems(
  at: string,
  server: Redis,
  target: RedisTarget,
): Promise<readonly string[]> {
  const problems: string[] = [];
  const replication = await server.info('replication');
  if (fieldOf(replication, 'connected_slaves') === '0') {
    problems.push(`${at} has no replica: when it fails, nobody takes its place`);
  }
  const [setting, failover] =
    target.mode === 'sentinel'
      ? (['down-after-milliseconds', await downAfter(target)] as const)
      : (['cluster-node-timeout', await configured(server, 'cluster-node-timeout')] as const);
  const replicas = await configured(server, 'min-replicas-to-write');
  const lag = await configured(server, 'min-replicas-max-lag');
  if (replicas === undefined || lag === undefined) {
    problems.push(
      `${at} does not tell min-replicas-to-write and min-replicas-max-lag (CONFIG GET): not checked`,
    );
    return problems;
  }
  if (replicas < 1 || lag < 1) {
    problems.push(
      `${at} has min-replicas-to-write ${replicas} and min-replicas-max-lag ${lag}: when it is cut off it may take a purge that its successor never sees; set both to at least 1`,
    );
    return problems;
  }
  if (failover === undefined) {
    problems.push(`${setting} cannot be read: not checked`);
  } else if (lag * 1_000 + LATENESS > failover) {
    problems.push(
      `${at} has min-replicas-max-lag ${lag}, and ${setting} is ${failover}: when it is cut off it may take a purge after another server took its place; set ${setting} to at least ${lag * 1_000 + LATENESS}`,
    );
  }
  return problems;
}

/** A number of CONFIG GET; undefined where it is not told. Rejects when the server does not answer. */
async function configured(server: Redis, name: string): Promise<number | undefined> {
  try {
    const [, value] = (await server.config('GET', name)) as string[];
    return value === undefined ? undefined : Number(value);
  } catch (error) {
    if (!(error instanceof Error) || error.message === 'Command timed out') throw error;
    return undefined;
  }
}

/** How long the sentinels wait before they take the master for dead (ms), as the first one that answers tells. */
async function downAfter(target: RedisTarget): Promise<number | undefined> {
  for (const sentinel of sentinelClients(target, DEADLINE)) {
    try {
      const fields = await sentinel.call('SENTINEL', 'MASTER', target.master ?? '');
      if (!Array.isArray(fields)) continue;
      const at = fields.indexOf('down-after-milliseconds');
      if (at >= 0) return Number(fields[at + 1]);
    } catch {
      // The next one may answer.
    } finally {
      sentinel.disconnect();
    }
  }
  return undefined;
}
