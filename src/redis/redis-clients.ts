import { Cluster, Redis, type RedisOptions } from 'ioredis';
import type { ConnectionOptions } from 'node:tls';
import { holdToDeadline } from './cluster-deadline.ts';
import { tellFailures, type OnConnectionError } from './connection-failures.ts';
import { gatherWrites } from './gathered-writes.ts';
import { shareDeadline } from './shared-deadline.ts';

/** A connection to one server, or to the masters of a cluster. */
export type RedisClient = Redis | Cluster;

/** Where Redis is, and how to get in. */
export interface RedisTarget {
  /** `redis://` or `rediss://`: of the server, of the sentinels, or of some nodes of the cluster. Never empty. */
  readonly url: readonly string[];
  readonly mode: 'standalone' | 'sentinel' | 'cluster';
  /** With `sentinel`, the name under which the sentinels watch the master. */
  readonly master?: string | undefined;
  /** Of the servers; those of the URL are of the sentinels with `sentinel`, and count where these are left out. */
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** For `rediss://`. */
  readonly tls?: Pick<ConnectionOptions, 'ca' | 'cert' | 'key'>;
}

/** Makes clients that connect in the background and for ever, that is until they are closed. */
export interface RedisClients {
  /** For commands, each of which is rejected when it takes longer than so many milliseconds. */
  client(name: string, deadline: number): RedisClient;
  /** For messages. With a cluster, of any of its nodes: they hand messages on to each other. */
  subscriber(name: string): Redis;
  /** Disconnects all of them, for good. */
  close(): void;
}

/** Where clients are made, and ended. */
interface Making {
  readonly isClosed: () => boolean;
  readonly atClose: (end: () => void) => void;
}

/** A connection on which nothing comes back for so long, while something is owed, is torn down (ms). */
const SILENCE = 5_000;
const CONNECT_DEADLINE = 2_000;
const MAX_RECONNECT_DELAY = 1_000;
/** What a connection may take to close; ioredis waits so long also for one that is closed already (ms). */
const FAREWELL = 200;
/** How often the connection of the subscriber is tried, since nobody else would miss it (ms). */
const HEARTBEAT = 2_000;
/** What a sentinel, or a node that is asked for the slots, may take to answer (ms). */
const DISCOVERY_DEADLINE = 1_000;
/** How often a command may be sent on to another node. */
const MAX_REDIRECTIONS = 4;
const SENTINEL_PORT = 26_379;
/** What happens to a connection that somebody waits for. */
const SIGNS = ['ready', 'end'] as const;

type Settings = Omit<RedisOptions, 'replyMapping'>;

const retryDelay = (times: number) => Math.min(times * 100, MAX_RECONNECT_DELAY);

export function redisClients(target: RedisTarget, onError: OnConnectionError): RedisClients {
  const addresses = target.url.map(readAddress);
  const [first] = addresses;
  if (first === undefined) throw new Error('there is no address of Redis');
  const { username, password } =
    target.mode === 'sentinel' || target.password !== undefined ? target : first;
  const { secure } = first;
  const tls = secure ? { tls: { ...target.tls } } : {};
  const ends: (() => void)[] = [];
  let closed = false;
  const making: Making = { isClosed: () => closed, atClose: (end) => void ends.push(end) };
  const close = () => {
    closed = true;
    for (const end of ends) end();
  };

  const common = (name: string) => ({
    connectionName: `mdx-gateway-${name}`,
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...tls,
    connectTimeout: CONNECT_DEADLINE,
    socketTimeout: SILENCE,
    disconnectTimeout: FAREWELL,
    autoResendUnfulfilledCommands: false,
    // ioredis lets nobody catch it when that fails, and the process would end. Who subscribes does so at each 'ready'.
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
  });

  function oneServer(name: string, deadline: number | undefined, where: Settings): Redis {
    const options: Settings = {
      ...common(name),
      ...where,
      enableOfflineQueue: false,
      // A master that became a replica refuses to write; its name may lead to the new master by now.
      // (Redis 6 tells it in the middle of the error of a script.)
      reconnectOnError(error) {
        const isReadOnly = error.message.includes('READONLY');
        if (isReadOnly) onError(error, true);
        return isReadOnly;
      },
      retryStrategy: retryDelay,
    };
    const redis = new Redis(options);
    reviveUntilClosed(redis, making);
    if (deadline !== undefined) {
      gatherWrites(redis);
      shareDeadline(redis, deadline);
    }
    tellFailures(redis, target, secure, onError);
    return redis;
  }

  switch (target.mode) {
    case 'standalone': {
      const where = { host: first.host, port: first.port };
      return { ...withHeartbeat(making, (...named) => oneServer(...named, where)), close };
    }
    case 'sentinel': {
      const where: Settings = {
        sentinels: sentinelAddresses(target).map(({ host, port }) => ({ host, port })),
        name: target.master ?? '',
        ...(first.username !== undefined && { sentinelUsername: first.username }),
        ...(first.password !== undefined && { sentinelPassword: first.password }),
        ...(first.secure && { enableTLSForSentinelMode: true, sentinelTLS: tls.tls }),
        sentinelCommandTimeout: DISCOVERY_DEADLINE,
        sentinelRetryStrategy: retryDelay,
        sentinelReconnectStrategy: retryDelay,
        // Without it nobody would notice that a master was replaced that still answers.
        failoverDetector: true,
      };
      return { ...withHeartbeat(making, (...named) => oneServer(...named, where)), close };
    }
    case 'cluster': {
      const members: Cluster[] = [];
      const known = () => [
        ...members.flatMap((cluster) => cluster.nodes().map(({ options }) => options)),
        ...addresses,
      ];
      const { subscriber } = withHeartbeat(making, (name) => {
        const redis = oneServer(name, undefined, { host: first.host, port: first.port });
        // Its node may be gone for good: each try goes to another one.
        let tries = 0;
        redis.on('close', () => {
          tries += 1;
          const nodes = known();
          const next = nodes[tries % nodes.length] ?? first;
          Object.assign(redis.options, { host: next.host, port: next.port });
        });
        return redis;
      });
      return {
        subscriber,
        close,
        client(name, deadline) {
          const cluster = new Cluster(
            addresses.map(({ host, port }) => ({ host, port })),
            {
              redisOptions: { ...common(name), commandTimeout: deadline },
              enableOfflineQueue: false,
              // Names are resolved by whoever connects, so that certificates can be held against them.
              dnsLookup: (address, callback) => callback(null, address),
              clusterRetryStrategy: retryDelay,
              slotsRefreshTimeout: DISCOVERY_DEADLINE,
              maxRedirections: MAX_REDIRECTIONS,
              // Whoever waits for a node that is away waits in vain: the caller has a way past Redis.
              retryDelayOnFailover: 0,
              retryDelayOnClusterDown: 0,
              retryDelayOnTryAgain: 20,
            },
          );
          // Before somebody needs it: the time of a command is too short to connect, too.
          cluster.on('+node', (node: Redis) => {
            if (node.status === 'wait' && !node.options.readOnly) node.connect().catch(() => {});
          });
          cluster.on('error', (error) => onError(error, false));
          // Until the client is ready it goes on to the next node; later this one may serve some of the keys alone.
          cluster.on('node error', (error) => onError(error, cluster.status !== 'ready'));
          holdToDeadline(cluster, deadline);
          making.atClose(() => cluster.disconnect());
          members.push(cluster);
          return cluster;
        },
      };
    }
  }
}

/** Whether commands can be sent now, to whatever server they may go. */
export function isReady(client: RedisClient): boolean {
  return client.status === 'ready' && unready(client).length === 0;
}

/** Masters to which nothing can be sent. One that waits connects for the first command, which waits as well. */
const unready = (client: RedisClient) =>
  'nodes' in client
    ? client.nodes('master').filter(({ status }) => status !== 'ready' && status !== 'wait')
    : [];

/** Resolves when it is ready, or when the signal comes. */
export async function whenReady(client: RedisClient, signal: AbortSignal): Promise<void> {
  while (!isReady(client) && !signal.aborted) {
    await nextOf(client.status === 'ready' ? unready(client) : [client], signal);
  }
}

/** Resolves when something happens to one of the connections. */
function nextOf(clients: readonly RedisClient[], signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      for (const client of clients) for (const sign of SIGNS) client.off(sign, done);
      signal.removeEventListener('abort', done);
      resolve();
    };
    for (const client of clients) for (const sign of SIGNS) client.on(sign, done);
    signal.addEventListener('abort', done);
  });
}

/** A client of each sentinel, made when it is its turn, which connects when it is asked. The caller disconnects it. */
export function* sentinelClients(target: RedisTarget, deadline: number): Generator<Redis> {
  for (const { host, port, username, password, secure } of sentinelAddresses(target)) {
    const sentinel = new Redis({
      host,
      port,
      ...(username !== undefined && { username }),
      ...(password !== undefined && { password }),
      ...(secure && { tls: { ...target.tls } }),
      lazyConnect: true,
      retryStrategy: null,
      connectTimeout: deadline,
      commandTimeout: deadline,
      disconnectTimeout: FAREWELL,
      enableReadyCheck: false,
    });
    sentinel.on('error', () => {});
    yield sentinel;
  }
}

const sentinelAddresses = ({ url }: RedisTarget) =>
  url.map((text) => readAddress(text, SENTINEL_PORT));

function withHeartbeat(
  { atClose }: Making,
  connect: (name: string, deadline: number | undefined) => Redis,
): Omit<RedisClients, 'close'> {
  return {
    client: connect,
    subscriber(name) {
      const redis = connect(name, undefined);
      const heartbeat = setInterval(() => {
        if (redis.status === 'ready') redis.ping().catch(() => {});
      }, HEARTBEAT).unref();
      atClose(() => clearInterval(heartbeat));
      return redis;
    },
  };
}

/**
 * Connects again what gave up: when a sentinel tells of a new master in the moment in which ioredis asks where the
 * master is, it drops the answer and never tries again.
 */
function reviveUntilClosed(redis: Redis, { isClosed, atClose }: Making): void {
  let revival: NodeJS.Timeout | undefined;
  let revivals = 0;
  redis.on('ready', () => (revivals = 0));
  redis.on('end', () => {
    if (isClosed()) return;
    revivals += 1;
    revival = setTimeout(() => redis.connect().catch(() => {}), retryDelay(revivals));
  });
  atClose(() => {
    clearTimeout(revival);
    redis.disconnect();
  });
}

function readAddress(text: string, usualPort = 6379) {
  const url = new URL(text);
  return {
    host: url.hostname.replace(/^\[(.*)\]$/u, '$1'),
    port: url.port === '' ? usualPort : Number(url.port),
    username: url.username === '' ? undefined : decoded(url.username),
    password: url.password === '' ? undefined : decoded(url.password),
    secure: url.protocol === 'rediss:',
  };
}

/** What is not percent-encoded by the rules stands for itself. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
