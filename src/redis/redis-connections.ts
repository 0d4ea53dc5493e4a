import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { ConnectionOptions } from 'node:tls';

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
  /** For `rediss://`. It is looked at for each connection that is made. */
  readonly tls?: Pick<ConnectionOptions, 'ca' | 'cert' | 'key'>;
}

/** Why a connection failed, where the error of the client says too little. */
export class ConnectionProblem extends Error {
  override readonly name = 'ConnectionProblem';
}

/** What a look-up may wait for Redis (ms). */
const READ_DEADLINE = 100;
/** What a write, an epoch renewal or an announcement may wait (ms). */
const WRITE_DEADLINE = 500;
/** A connection on which nothing comes back for so long (ms), while an answer is due, is torn down. */
const SILENCE = 5_000;
const CONNECT_DEADLINE = 2_000;
const MAX_RECONNECT_DELAY = 1_000;
/** What a connection may take to close; ioredis waits so long also for one that is closed already. */
const FAREWELL = 200;
/** How often the connection of the subscriber is tried: nothing else would notice that it is silent. */
const HEARTBEAT = 2_000;
/** What a sentinel, or a node that is asked for the slots, may take to answer. */
const DISCOVERY_DEADLINE = 1_000;
/** Between two looks whether connections are ready. */
const POLL = 5;
/** Servers that want TLS, or a certificate, say nothing else. */
const ENDED = 'the connection was ended before it was ready';
const NO_SLOTS = 'the node knows of no slots; is it of a cluster that is made?';
const CLUSTER_DOWN = 'the cluster says that it is down (cluster_state:fail)';
const CUT_OFF: ReadonlySet<unknown> = new Set(['ECONNRESET', 'EPIPE']);
const retryDelay = (times: number) => Math.min(times * 100, MAX_RECONNECT_DELAY);
export type RedisConnections = ReturnType<typeof connectRedis>;

/**
 * The connections of one gateway, apart so that a large body never delays a look-up, and because a connection that
 * subscribes can do nothing else. Connects in the background and for ever; a command that finds none fails at once.
 * @param onError told of every failed try to connect and every lost connection; `partial`: whether another node or
 *   sentinel may serve in the place of the one that failed
 */
export function connectRedis(
  target: RedisTarget,
  onError: (error: unknown, partial: boolean) => void,
) {
  const addresses = target.url.map((text) => readAddress(text, 6379));
  const [first] = addresses;
  if (first === undefined) throw new Error('there is no address of Redis');
  const { host, port, secure } = first;
  const own = target.mode === 'sentinel' || target.password !== undefined;
  const { username, password } = own ? target : first;
  /** Clusters that have said so since they were connected to. */
  const working = new WeakSet<RedisClient>();
  let closed = false;

  const common = (name: string) => ({
    connectionName: `mdx-gateway-${name}`,
    username,
    password,
    tls: tlsOf(target, secure),
    connectTimeout: CONNECT_DEADLINE,
    socketTimeout: SILENCE,
    disconnectTimeout: FAREWELL,
    autoResendUnfulfilledCommands: false,
    // Where that failed the process would end. A subscriber subscribes at each 'ready'.
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
  });

  /** Of one server: that of the URL, or the master that the sentinels name. */
  function server(name: string, deadline?: number): Redis {
    const options: Omit<RedisOptions, 'replyMapping'> = {
      ...common(name),
      ...(target.mode === 'sentinel' ? sentinelOptions(target) : { host, port }),
      commandTimeout: deadline,
      enableOfflineQueue: false,
      // A master that became a replica refuses to write (Redis 6 says so in the middle of the error of a script); its
      // name may lead to the new master by now.
      reconnectOnError(error) {
        const isReadOnly = error.message.includes('READONLY');
        if (isReadOnly) onError(error, true);
        return isReadOnly;
      },
      retryStrategy: retryDelay,
    };
    const redis = new Redis(options);
    // When a sentinel tells of a new master while ioredis asks where the master is, it gives up for ever.
    let revivals = 0;
    redis.on('ready', () => (revivals = 0));
    redis.on('end', () => {
      revivals += 1;
      const again = () => closed || redis.connect().catch(() => {});
      if (!closed) setTimeout(again, retryDelay(revivals)).unref();
    });
    tellFailures(redis);
    return redis;
  }

  /** Tells what goes wrong with one connection, with a hint where the error itself says too little. */
  function tellFailures(redis: Redis): void {
    const ended = `${ENDED}; does Redis want ${secure ? 'a client certificate' : 'TLS'}?`;
    // Between the connection and the word that it can be used, or that it cannot.
    let beginning = false;
    redis.on('connect', () => (beginning = true));
    redis.on('ready', () => (beginning = false));
    redis.on('error', (error: NodeJS.ErrnoException) => {
      const { code, message } = error;
      let why: string | undefined;
      if (secure && code === 'ETIMEDOUT') why = `${message}; does Redis speak TLS there?`;
      else if (beginning && CUT_OFF.has(code)) why = ended;
      beginning = false;
      const problem = () => Object.assign(new ConnectionProblem(why, { cause: error }), { code });
      onError(why === undefined ? error : problem(), false);
    });
    redis.on('close', () => {
      if (beginning) onError(new ConnectionProblem(ended), false);
      beginning = false;
    });
    redis.on('sentinelError', ({ message }: Error) => {
      // What it answers when it is asked for the master, and when it is asked for the other sentinels.
      const unknown = /invalid reply: null$|No such master/u.test(message);
      const sentinel = /sentinel \S+/u.exec(message)?.[0] ?? 'a sentinel';
      const why = unknown ? `${sentinel} knows no master ${target.master}` : message;
      onError(new ConnectionProblem(why), true);
    });
  }

  function cluster(name: string, deadline: number): Cluster {
    /** Since it was there last. */
    let tries = 0;
    let connection = 0;
    const nodes = addresses.map(({ host, port }) => ({ host, port }));
    const client = new Cluster(nodes, {
      redisOptions: { ...common(name), commandTimeout: deadline },
      enableOfflineQueue: false,
      // That of ioredis asks a random node, which may be connecting still, and then leaves all nodes without a word.
      enableReadyCheck: false,
      // Names are resolved where the connection is made, so that certificates can be held against them.
      dnsLookup: (address, callback) => callback(null, address),
      clusterRetryStrategy: () => retryDelay((tries += 1)),
      slotsRefreshTimeout: DISCOVERY_DEADLINE,
      maxRedirections: 4,
      // Waiting for a node that is away is in vain: the caller has a way past Redis.
      retryDelayOnFailover: 0,
      retryDelayOnClusterDown: 0,
      retryDelayOnTryAgain: 20,
    });
    // Before the first command: its time is too short to connect, too.
    client.on('+node', (node: Redis) => {
      if (node.status === 'wait' && !node.options.readOnly) node.connect().catch(() => {});
    });
    client.on('ready', () => void check());
    client.on('close', () => {
      connection += 1;
      working.delete(client);
    });
    client.on('error', (error) => onError(error, false));
    // Until the client is ready it goes on to the next node; later this one may serve some of the keys alone.
    client.on('node error', (error) => onError(error, client.status !== 'ready'));

    /** Leaves a cluster that says of itself that it does not work, or of which nothing is left: a node that knows of no slots. */
    async function check(): Promise<void> {
      const mine = connection;
      try {
        const masters = nodesOf(client);
        if (masters.length === 0) throw new ConnectionProblem(NO_SLOTS);
        // Behind the connection: its own time is too short for both.
        const node = await Promise.any(masters.map(connected));
        const told = String(await node.cluster('INFO'));
        if (!told.includes('cluster_state:ok')) throw new ConnectionProblem(CLUSTER_DOWN);
        if (mine !== connection) return;
        tries = 0;
        working.add(client);
      } catch (error) {
        if (closed || mine !== connection) return;
        // Of connections that failed all is told.
        if (!(error instanceof AggregateError)) onError(error, false);
        client.disconnect(true);
      }
    }
    return client;
  }

  const client = (name: string, deadline: number): RedisClient =>
    target.mode === 'cluster' ? cluster(name, deadline) : server(name, deadline);
  const clients = {
    /** Look-ups and epoch reads. */
    reader: client('reader', READ_DEADLINE),
    /** Bodies. */
    writer: client('writer', WRITE_DEADLINE),
    /** Renewals of epochs and their announcements. */
    epochs: client('epochs', WRITE_DEADLINE),
  };
  /** With a cluster, of any of its nodes: they hand messages on to each other. */
  const subscriber = server('subscriber');
  const heartbeat = setInterval(() => {
    if (subscriber.status === 'ready') subscriber.ping().catch(() => {});
  }, HEARTBEAT).unref();
  // Its node may be gone for good: each try goes to another one.
  let tries = 0;
  subscriber.on('close', () => {
    if (target.mode !== 'cluster') return;
    const known = Object.values(clients).flatMap((one) => nodesOf(one, 'all'));
    const nodes = [...known.map(({ options }) => options), ...addresses];
    tries += 1;
    const next = nodes[tries % nodes.length] ?? first;
    Object.assign(subscriber.options, { host: next.host, port: next.port });
  });

  const all: readonly RedisClient[] = [...Object.values(clients), subscriber];
  const ready = () =>
    all.every((one) => isReady(one) && (one instanceof Redis || working.has(one)));
  return {
    ...clients,
    subscriber,
    ready,
    /** Resolves when all are ready, or after so many milliseconds. */
    async settled(milliseconds: number): Promise<void> {
      const late = AbortSignal.timeout(milliseconds);
      while (!ready() && !late.aborted) await delay(POLL);
    },
    async close(): Promise<void> {
      closed = true;
      clearInterval(heartbeat);
      for (const one of all) one.disconnect();
    },
  };
}

/** Rejects when it cannot be connected to. It is a node of a cluster, which is tried once. */
function connected(node: Redis): Promise<Redis> {
  if (node.status === 'ready') return Promise.resolve(node);
  return new Promise((resolve, reject) => {
    node.once('ready', () => resolve(node));
    node.once('end', () => reject(new Error(ENDED)));
  });
}

/** The servers behind a client. */
export const nodesOf = (client: RedisClient, role: 'master' | 'all' = 'master'): readonly Redis[] =>
  'nodes' in client ? client.nodes(role) : [client];

/** Whether commands can be sent now, to whatever server they may go. */
function isReady(client: RedisClient): boolean {
  if (client.status !== 'ready') return false;
  // A node that waits connects for the first command, which waits as well.
  return nodesOf(client).every(({ status }) => status === 'ready' || status === 'wait');
}

/** Whether a command failed because nothing came back in its time. ioredis has neither a class nor a code for it. */
export const isDeadline = (error: unknown): boolean =>
  error instanceof Error && error.message === 'Command timed out';

const sentinelAddresses = ({ url }: RedisTarget) => url.map((text) => readAddress(text, 26_379));

function sentinelOptions(target: RedisTarget) {
  const addresses = sentinelAddresses(target);
  const { username, password, secure = false } = addresses[0] ?? {};
  return {
    sentinels: addresses.map(({ host, port }) => ({ host, port })),
    name: target.master ?? '',
    sentinelUsername: username,
    sentinelPassword: password,
    enableTLSForSentinelMode: secure,
    sentinelTLS: tlsOf(target, secure),
    sentinelCommandTimeout: DISCOVERY_DEADLINE,
    sentinelRetryStrategy: retryDelay,
    sentinelReconnectStrategy: retryDelay,
    // Without it a master that was replaced and still answers would not be left.
    failoverDetector: true,
  };
}

/** A client of each sentinel, which connects when it is asked. The caller disconnects it. */
export function sentinelClients(target: RedisTarget, deadline: number): Redis[] {
  return sentinelAddresses(target).map(({ secure, ...address }) => {
    const sentinel = new Redis({
      ...address,
      tls: tlsOf(target, secure),
      lazyConnect: true,
      retryStrategy: null,
      connectTimeout: deadline,
      commandTimeout: deadline,
      disconnectTimeout: FAREWELL,
      enableReadyCheck: false,
    });
    sentinel.on('error', () => {});
    return sentinel;
  });
}

function readAddress(text: string, usualPort: number) {
  const { hostname, port, username, password, protocol } = new URL(text);
  return {
    host: hostname.replace(/^\[(.*)\]$/u, '$1'),
    port: port === '' ? usualPort : Number(port),
    username: decoded(username),
    password: decoded(password),
    secure: protocol === 'rediss:',
  };
}

const tlsOf = ({ tls = {} }: RedisTarget, secure: boolean) => (secure ? tls : undefined);

/** Undefined where there is none. What is not percent-encoded by the rules stands for itself. */
function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text) || undefined;
  } catch {
    return text;
  }
}

/** A Lua script, sent whole only when the server does not know it yet. Safe to run twice. */
export function redisScript(source: string) {
  const sha = createHash('sha1').update(source).digest('hex');
  type Arguments = readonly (string | number | Buffer)[];
  return async (redis: RedisClient, keys: readonly string[], args: Arguments): Promise<unknown> => {
    try {
      return await redis.evalsha(sha, keys.length, ...keys, ...args);
    } catch (error) {
      if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
      return await redis.eval(source, keys.length, ...keys, ...args);
    }
  };
}
