import type { Redis } from 'ioredis';
import { freePort } from './free-port.ts';
import { certain, onConnection } from './redis-client.ts';
import { until } from './redis-process.ts';
import { startRedis, type RedisServer, type RedisTls } from './redis-server.ts';
import { onAnyPort } from './taken-port.ts';

export interface ClusterOptions {
  /** Milliseconds after which a node that is silent counts as down; 1500 unless given. */
  readonly nodeTimeout?: number;
  /** Of all nodes (user `default`). */
  readonly password?: string;
  readonly users?: Readonly<Record<string, readonly string[]>>;
  readonly tls?: RedisTls;
  /** Further arguments of the nodes. */
  readonly args?: readonly string[];
}

/**
 * Three masters, each with a replica. They take writes without one: otherwise a replica that took the place of its
 * master would take none, since it has none itself.
 */
export interface RedisCluster {
  readonly urls: readonly string[];
  readonly nodes: readonly RedisServer[];
  /** The master that holds the key now, as the nodes that run say. */
  masterOf(key: string): Promise<RedisServer>;
  /** Resolves with the new master of the key when all nodes that run name another one than this. */
  failedOver(key: string, old: RedisServer): Promise<RedisServer>;
  /** Resolves when all nodes that run find all slots served, and no master of theirs lacks its replica. */
  settled(): Promise<void>;
  close(): Promise<void>;
}

const SLOTS = 16_384;
const TELLING_MS = 30_000;
const MEETING_MS = 15_000;

export async function startRedisCluster(options: ClusterOptions = {}): Promise<RedisCluster> {
  const { nodeTimeout = 1_500, password, users, tls, args = [] } = options;
  const nodes: RedisServer[] = [];
  const close = async () => void (await Promise.all(nodes.map((node) => node.close())));

  async function startNode(): Promise<void> {
    const login =
      password === undefined ? [] : ['--requirepass', password, '--masterauth', password];
    // The usual one, 10000 higher, may lie where Linux chooses ports by itself. One that somebody takes meanwhile is taken
    // for good: another is tried.
    const { running: node } = await onAnyPort(freePort, (clusterPort) =>
      startRedis({
        ...(users !== undefined && { users }),
        ...(tls !== undefined && { tls }),
        args: [
          ...['--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf'],
          ...['--cluster-port', String(clusterPort)],
          ...['--cluster-node-timeout', String(nodeTimeout)],
          ...['--repl-diskless-sync-delay', '0'],
          ...login,
          ...args,
        ],
      }),
    );
    nodes.push(node);
  }

  const ask = <T>(node: RedisServer, work: (redis: Redis) => Promise<T>, patience?: number) =>
    onConnection(node.port, { password, tls, patience }, work);

  /** What each node that runs tells; a paused one tells nothing. */
  async function told<T>(work: (redis: Redis) => Promise<T>): Promise<readonly T[]> {
    const all = await Promise.all(
      nodes.map((node) =>
        ask(node, work).then(
          (value) => [value],
          () => [],
        ),
      ),
    );
    return all.flat();
  }

  async function masterPort(slot: number): Promise<number | undefined> {
    const ports = await told(async (redis) => {
      const ranges = await redis.cluster('SLOTS');
      return ranges.find(([from, to]) => from <= slot && slot <= to)?.[2]?.[1];
    });
    const [port, ...others] = new Set(ports);
    return others.length === 0 ? port : undefined;
  }

  async function findMaster(key: string, other?: RedisServer): Promise<RedisServer> {
    const [slot] = await told((redis) => redis.cluster('KEYSLOT', key));
    let found: RedisServer | undefined;
    await certain(
      async () => {
        const port = await masterPort(Number(slot));
        found = nodes.find((node) => node.port === port);
        return found !== undefined && found !== other;
      },
      `the nodes name no ${other === undefined ? '' : 'other '}master of ${key}`,
    );
    return found as RedisServer;
  }

  async function isSettled(): Promise<boolean> {
    const states = await told(async (redis) => ({
      cluster: await redis.cluster('INFO'),
      replication: await redis.info('replication'),
    }));
    const running = states.length;
    const masters = states.filter(({ replication }) => replication.includes('role:master'));
    const follow = masters.filter(({ replication }) => /state=online/u.test(replication));
    return (
      states.every(({ cluster }) => cluster.includes('cluster_state:ok')) &&
      masters.length === 3 &&
      follow.length === running - 3
    );
  }

  try {
    await Promise.all(Array.from({ length: 6 }, startNode));
    await meet();
  } catch (error) {
    await close();
    throw error;
  }

  async function meet(): Promise<void> {
    // What cannot be done twice must not be given up because a node stands still.
    const tell = <T>(node: RedisServer, work: (redis: Redis) => Promise<T>) =>
      ask(node, work, TELLING_MS);
    const ids = await Promise.all(
      nodes.map((node) => tell(node, async (redis) => String(await redis.cluster('MYID')))),
    );
    const busPorts = await Promise.all(
      nodes.map((node) =>
        tell(node, async (redis) =>
          String(((await redis.config('GET', 'cluster-port')) as string[])[1]),
        ),
      ),
    );
    const masters = nodes.slice(0, 3);
    await Promise.all(
      masters.map((node, i) =>
        tell(node, async (redis) => {
          const from = Math.floor((SLOTS * i) / 3);
          const to = Math.floor((SLOTS * (i + 1)) / 3) - 1;
          await redis.call('CLUSTER', 'ADDSLOTSRANGE', from, to);
          // Equal epochs would be sorted out later, with changes of masters on the way.
          await redis.call('CLUSTER', 'SET-CONFIG-EPOCH', i + 1);
        }),
      ),
    );
    const [first, ...others] = nodes as [RedisServer, ...RedisServer[]];
    const introduce = () =>
      tell(first, async (redis) => {
        for (const [i, node] of others.entries()) {
          await redis.call('CLUSTER', 'MEET', '127.0.0.1', node.port, busPorts[i + 1] ?? '');
        }
      });
    const areAcquainted = async () => {
      const texts = await told((redis) => redis.cluster('INFO'));
      return texts.filter((text) => text.includes('cluster_known_nodes:6')).length === 6;
    };
    // A node that stands still for longer than its timeout is forgotten again.
    await introduce();
    if (!(await until(areAcquainted, MEETING_MS))) await introduce();
    await certain(areAcquainted, 'the nodes do not know each other');
    await Promise.all(
      nodes.slice(3).map((node, i) =>
        certain(
          () =>
            ask(node, async (redis) => {
              await redis.call('CLUSTER', 'REPLICATE', ids[i] ?? '');
              return true;
            }),
          'a node does not become a replica',
        ),
      ),
    );
    await certain(isSettled, 'the cluster does not settle');
  }

  return {
    urls: nodes.map(({ url }) => url),
    nodes,
    masterOf: (key) => findMaster(key),
    failedOver: (key, old) => findMaster(key, old),
    settled: () => certain(isSettled, 'the cluster does not settle'),
    close,
  };
}
