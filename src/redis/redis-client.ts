import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { createHash } from 'node:crypto';
import type { ConnectionOptions } from 'node:tls';

/** A connection to one server, or to the masters of a cluster. */
export type RedisClient = Redis | Cluster;

/** Where Redis is, and how to get in. */
export interface RedisTarget {
  /** `redis://` or `rediss://`: of the server, of the sentinels, or of some nodes of the cluster. Never empty. */
  readonly url: readonly string[];
  readonly mode: 'standalone' | 'sentinel' | 'cluster';
  /** The name under which the sentinels watch the master, with `sentinel`. */
  readonly master?: string | undefined;
  /** Login at the servers. The URL has that at the sentinels with `sentinel`, and counts where these are left out. */
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** For `rediss://`. It is looked at for each connection that is made. */
  readonly tls?: Pick<ConnectionOptions, 'ca' | 'cert' | 'key'>;
}

/** Why a connection failed, where the error of the client says too little. */
export class ConnectionProblem extends Error {
  override readonly name = 'ConnectionProblem';
}

/** Hears every failed try to connect and every lost connection. @param partial: another node or sentinel may serve instead */
export type OnConnectionError = (error: unknown, partial: boolean) => void;

/** Parts that all clients of one gateway are made with. */
export interface ClientParts {
  readonly target: RedisTarget;
  /** Never empty. */
  readonly addresses: readonly [RedisAddress, ...RedisAddress[]];
  readonly onError: OnConnectionError;
  /** Aborted when the gateway closes its connections. */
  readonly closing: AbortSignal;
}

/** A client, and whether commands can be sent now, to whatever server they may go. */
export interface Connection<C extends RedisClient = RedisClient> {
  readonly client: C;
  readonly isUsable: () => boolean;
}

/** A connection on which nothing comes back in this time, while an answer is due, is torn down. */
const SILENCE_MS = 5_000;
const CONNECT_DEADLINE_MS = 2_000;
const MAX_RECONNECT_DELAY_MS = 1_000;
/** How long a connection may take to close; ioredis waits so long also for one that is closed already. */
const FAREWELL_MS = 200;
/** How long a sentinel, or a node that is asked for the slots, may take to answer. */
const DISCOVERY_DEADLINE_MS = 1_000;
/** Servers that want TLS, or a certificate, say nothing else. */
const ENDED = 'the connection was ended before it was ready';
const retryDelayMs = (times: number) => Math.min(times * 100, MAX_RECONNECT_DELAY_MS);

type RedisAddress = ReturnType<typeof readAddress>;
export function readAddress(text: string, usualPort: number) {
  const { hostname, port, username, password, protocol } = new URL(text);
  return {
    host: hostname.replace(/^\[(.*)\]$/u, '$1'),
    port: port === '' ? usualPort : Number(port),
    username: decoded(username),
    password: decoded(password),
    secure: protocol === 'rediss:',
  };
}

/** Undefined where there is none. What is not percent-encoded by the rules stands for itself. */
function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text) || undefined;
  } catch {
    return text;
  }
}

const tlsOf = ({ tls = {} }: RedisTarget, secure: boolean) => (secure ? tls : undefined);

/** Options of every client that serves the gateway. @param name by which Redis lists the connection */
function clientOptions({ target, addresses }: ClientParts, name: string) {
  const [first] = addresses;
  const hasOwnLogin = target.mode === 'sentinel' || target.password !== undefined;
  const { username, password } = hasOwnLogin ? target : first;
  return {
    connectionName: `mdx-gateway-${name}`,
    username,
    password,
    tls: tlsOf(target, first.secure),
    connectTimeout: CONNECT_DEADLINE_MS,
    socketTimeout: SILENCE_MS,
    disconnectTimeout: FAREWELL_MS,
    autoResendUnfulfilledCommands: false,
    // Where that failed the process would end. A subscriber subscribes at each 'ready'.
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
  };
}

/** The servers behind a client. */
export const nodesOf = (client: RedisClient, role: 'master' | 'all' = 'master'): readonly Redis[] =>
  'nodes' in client ? client.nodes(role) : [client];

function isReady(client: RedisClient): boolean {
  if (client.status !== 'ready') return false;
  // A node that waits connects for the first command, which waits as well.
  return nodesOf(client).every(({ status }) => status === 'ready' || status === 'wait');
}

/** Whether a command failed because nothing came back in its time. ioredis has neither a class nor a code for it. */
export const isDeadline = (error: unknown): boolean =>
  error instanceof Error && error.message === 'Command timed out';

const CUT_OFF: ReadonlySet<unknown> = new Set(['ECONNRESET', 'EPIPE']);

/** Connects in the background and for ever. @param deadlineMs of each command; left out: none */
export function createServerClient(
  parts: ClientParts,
  name: string,
  deadlineMs?: number,
): Connection<Redis> {
  const { target, addresses, onError, closing } = parts;
  const [{ host, port, secure }] = addresses;
  const options: Omit<RedisOptions, 'replyMapping'> = {
    ...clientOptions(parts, name),
    ...(target.mode === 'sentinel' ? sentinelOptions(target) : { host, port }),
    commandTimeout: deadlineMs,
    enableOfflineQueue: false,
    // A master that became a replica refuses to write (Redis 6 says so in the middle of the error of a script); its
    // name may lead to the new master by now.
    reconnectOnError(error) {
      const isReadOnly = error.message.includes('READONLY');
      if (isReadOnly) onError(error, true);
      return isReadOnly;
    },
    retryStrategy: retryDelayMs,
  };
  const redis = new Redis(options);
  revive(redis, closing);
  tellFailures(redis, secure, onError);
  tellSentinels(redis, target.master, onError);
  return { client: redis, isUsable: () => isReady(redis) };
}

/** Connects again: when a sentinel tells of a new master while ioredis asks where the master is, it gives up for ever. */
function revive(redis: Redis, closing: AbortSignal): void {
  let revivals = 0;
  redis.on('ready', () => (revivals = 0));
  redis.on('end', () => {
    revivals += 1;
    const again = () => closing.aborted || redis.connect().catch(() => {});
    if (!closing.aborted) setTimeout(again, retryDelayMs(revivals)).unref();
  });
}

/** Tells what goes wrong with one connection, with a hint where the error itself says too little. */
function tellFailures(redis: Redis, secure: boolean, onError: OnConnectionError): void {
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
}

function tellSentinels(redis: Redis, master: string | undefined, onError: OnConnectionError): void {
  redis.on('sentinelError', ({ message }: Error) => {
    // What it answers when it is asked for the master, and when it is asked for the other sentinels.
    const unknown = /invalid reply: null$|No such master/u.test(message);
    const sentinel = /sentinel \S+/u.exec(message)?.[0] ?? 'a sentinel';
    const why = unknown ? `${sentinel} knows no master ${master}` : message;
    onError(new ConnectionProblem(why), true);
  });
}

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
    sentinelCommandTimeout: DISCOVERY_DEADLINE_MS,
    sentinelRetryStrategy: retryDelayMs,
    sentinelReconnectStrategy: retryDelayMs,
    // Without it a master that was replaced and still answers would not be left.
    failoverDetector: true,
  };
}

/** A client of each sentinel, which connects when it is asked. The caller disconnects it. */
export function sentinelClients(target: RedisTarget, deadlineMs: number): Redis[] {
  return sentinelAddresses(target).map(({ secure, ...address }) => {
    const sentinel = new Redis({
      ...address,
      tls: tlsOf(target, secure),
      lazyConnect: true,
      retryStrategy: null,
      connectTimeout: deadlineMs,
      commandTimeout: deadlineMs,
      disconnectTimeout: FAREWELL_MS,
      enableReadyCheck: false,
    });
    sentinel.on('error', () => {});
    return sentinel;
  });
}

const NO_SLOTS = 'the node knows of no slots; is it of a cluster that is made?';
const CLUSTER_DOWN = 'the cluster says that it is down (cluster_state:fail)';

/** Connects in the background and for ever. @param deadlineMs of each command */
export function createClusterClient(
  parts: ClientParts,
  name: string,
  deadlineMs: number,
): Connection<Cluster> {
  const { onError, closing } = parts;
  /** Tries since the cluster was there last. */
  let tries = 0;
  let connection = 0;
  /** Whether the cluster has said that it works, on this connection. */
  let works = false;
  const client = newCluster(parts, name, deadlineMs, () => retryDelayMs((tries += 1)));
  client.on('ready', () => void check());
  client.on('close', () => {
    connection += 1;
    works = false;
  });
  client.on('error', (error) => onError(error, false));
  // Until the client is ready it goes on to the next node; later this one may serve some of the keys alone.
  client.on('node error', (error) => onError(error, client.status !== 'ready'));

  /** Leaves a cluster that does not work. */
  async function check(): Promise<void> {
    const mine = connection;
    try {
      await mustWork(client);
      if (mine !== connection) return;
      tries = 0;
      works = true;
    } catch (error) {
      if (closing.aborted || mine !== connection) return;
      // Of connections that failed all is told.
      if (!(error instanceof AggregateError)) onError(error, false);
      client.disconnect(true);
    }
  }
  return { client, isUsable: () => works && isReady(client) };
}

function newCluster(
  parts: ClientParts,
  name: string,
  deadlineMs: number,
  clusterRetryStrategy: () => number,
): Cluster {
  const nodes = parts.addresses.map(({ host, port }) => ({ host, port }));
  const client = new Cluster(nodes, {
    redisOptions: { ...clientOptions(parts, name), commandTimeout: deadlineMs },
    enableOfflineQueue: false,
    // That of ioredis asks a random node, which may be connecting still, and then leaves all nodes without a word.
    enableReadyCheck: false,
    // Names are resolved where the connection is made, so that certificates can be held against them.
    dnsLookup: (address, callback) => callback(null, address),
    clusterRetryStrategy,
    slotsRefreshTimeout: DISCOVERY_DEADLINE_MS,
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
  return client;
}

/** Rejects where the cluster says of itself that it is down, or its nodes know of no slots. */
async function mustWork(client: Cluster): Promise<void> {
  const masters = nodesOf(client);
  if (masters.length === 0) throw new ConnectionProblem(NO_SLOTS);
  // Behind the connection: its own time is too short for both.
  const node = await Promise.any(masters.map(connected));
  const told = String(await node.cluster('INFO'));
  if (!told.includes('cluster_state:ok')) throw new ConnectionProblem(CLUSTER_DOWN);
}

/** Rejects when it cannot be connected to. It is a node of a cluster, which is tried once. */
function connected(node: Redis): Promise<Redis> {
  if (node.status === 'ready') return Promise.resolve(node);
  return new Promise((resolve, reject) => {
    node.once('ready', () => resolve(node));
    node.once('end', () => reject(new Error(ENDED)));
  });
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
