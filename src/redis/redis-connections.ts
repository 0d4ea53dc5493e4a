import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { ConnectionOptions } from 'node:tls';
import type { RedisConfig } from './config.ts';

export type RedisClient = Redis | Cluster;

export type RedisTarget = Pick<RedisConfig, 'url' | 'mode'> &
  Partial<Pick<RedisConfig, 'master' | 'username' | 'password'>> & {
    readonly tls?: Pick<ConnectionOptions, 'ca' | 'cert' | 'key'>;
  };

export class ConnectionProblem extends Error {
  override readonly name = 'ConnectionProblem';
}

/** Gets every failed try and lost connection. @param partial another node or sentinel may serve */
type OnConnectionError = (error: unknown, partial: boolean) => void;

interface ClientParts {
  readonly target: RedisTarget;
  readonly addresses: readonly [RedisAddress, ...RedisAddress[]];
  readonly onError: OnConnectionError;
  readonly closing: AbortSignal;
}

const READ_DEADLINE_MS = 100;
const WRITE_DEADLINE_MS = 500;
/** Nothing else would notice that the subscriber's connection is dead. */
const HEARTBEAT_MS = 2_000;
const POLL_MS = 5;

/** A connection is torn down when an answer is due and nothing comes for this long. */
const SILENCE_MS = 5_000;
const CONNECT_DEADLINE_MS = 2_000;
const MAX_RECONNECT_DELAY_MS = 1_000;
/** ioredis waits this long also for a connection that is closed already. */
const FAREWELL_MS = 200;
/** How long a sentinel may take to answer, or a node that is asked for the slots. */
const DISCOVERY_DEADLINE_MS = 1_000;
/** Servers that require TLS, or a client certificate, give no other sign. */
const ENDED = 'the connection was ended before it was ready';
const retryDelayMs = (times: number) => Math.min(times * 100, MAX_RECONNECT_DELAY_MS);

type RedisAddress = ReturnType<typeof readAddress>;
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

/** Undefined for an empty text. A text that is not valid percent-encoding stands for itself. */
function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text) || undefined;
  } catch {
    return text;
  }
}

const tlsOf = ({ tls = {} }: RedisTarget, secure: boolean) => (secure ? tls : undefined);

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
    // Its failure would end the process. A subscriber subscribes at each 'ready' itself.
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
  };
}

export const nodesOf = (client: RedisClient, role: 'master' | 'all' = 'master'): readonly Redis[] =>
  'nodes' in client ? client.nodes(role) : [client];

function isReady(client: RedisClient): boolean {
  if (client.status !== 'ready') return false;
  // A waiting node connects at the first command, which waits too.
  return nodesOf(client).every(({ status }) => status === 'ready' || status === 'wait');
}

/** True if an answer came too late. ioredis has neither a class nor a code for this error. */
export const isDeadline = (error: unknown): boolean =>
  error instanceof Error && error.message === 'Command timed out';

const CUT_OFF: ReadonlySet<unknown> = new Set(['ECONNRESET', 'EPIPE']);

/** Connects in the background and forever. @param deadlineMs of each command; none if left out */
function createServerClient(parts: ClientParts, name: string, deadlineMs?: number) {
  const { target, addresses, onError, closing } = parts;
  const [{ host, port, secure }] = addresses;
  const options: Omit<RedisOptions, 'replyMapping'> = {
    ...clientOptions(parts, name),
    ...(target.mode === 'sentinel' ? sentinelOptions(target) : { host, port }),
    commandTimeout: deadlineMs,
    enableOfflineQueue: false,
    // A master that became a replica refuses writes; its name may lead to the new master by now.
    // Redis 6 says READONLY in the middle of a script's error.
    reconnectOnError(error) {
      const isReadOnly = error.message.includes('READONLY');
      if (isReadOnly) onError(error, true);
      return isReadOnly;
    },
    retryStrategy: retryDelayMs,
  };
  const redis = new Redis(options);
  let revivals = 0;
  redis.on('ready', () => (revivals = 0));
  // ioredis gives up if the master changes while it asks a sentinel for the master.
  redis.on('end', () => {
    revivals += 1;
    const again = () => closing.aborted || redis.connect().catch(() => {});
    if (!closing.aborted) setTimeout(again, retryDelayMs(revivals)).unref();
  });
  tellFailures(redis, secure, onError);
  redis.on('sentinelError', ({ message }: Error) => {
    // Answers to the questions for the master, and for the other sentinels.
    const unknown = /invalid reply: null$|No such master/u.test(message);
    const sentinel = /sentinel \S+/u.exec(message)?.[0] ?? 'a sentinel';
    const why = unknown ? `${sentinel} knows no master ${target.master}` : message;
    onError(new ConnectionProblem(why), true);
  });
  /** True when commands can be sent now, to whatever server they may go. */
  const isUsable = () => isReady(redis);
  return { client: redis, isUsable };
}

/** Reports failures of one connection, with a hint where the error itself says too little. */
function tellFailures(redis: Redis, secure: boolean, onError: OnConnectionError): void {
  const ended = `${ENDED}; does Redis want ${secure ? 'a client certificate' : 'TLS'}?`;
  // From the connect until the server accepts or ends the connection.
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
    // Otherwise the client would stay with a replaced master that still answers.
    failoverDetector: true,
  };
}

/** Makes a client of each sentinel; it connects at the first command. The caller disconnects it. */
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

function createClusterClient(parts: ClientParts, name: string, deadlineMs: number) {
  const { addresses, onError, closing } = parts;
  let tries = 0;
  let connection = 0;
  let works = false;
  const nodes = addresses.map(({ host, port }) => ({ host, port }));
  const client = new Cluster(nodes, {
    redisOptions: { ...clientOptions(parts, name), commandTimeout: deadlineMs },
    enableOfflineQueue: false,
    // ioredis asks a random node, perhaps one still connecting, and then silently leaves all.
    enableReadyCheck: false,
    // Node.js resolves the name at the connection, so that the certificate is checked against it.
    dnsLookup: (address, callback) => callback(null, address),
    clusterRetryStrategy: () => retryDelayMs((tries += 1)),
    slotsRefreshTimeout: DISCOVERY_DEADLINE_MS,
    maxRedirections: 4,
    // The caller has a way past Redis, so it need not wait for a node that is away.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    retryDelayOnTryAgain: 20,
  });
  // The deadline of the first command is too short to connect as well.
  client.on('+node', (node: Redis) => {
    if (node.status === 'wait' && !node.options.readOnly) node.connect().catch(() => {});
  });
  client.on('ready', () => void check());
  client.on('close', () => {
    connection += 1;
    works = false;
  });
  client.on('error', (error) => onError(error, false));
  // Before 'ready' the client tries the next node; later this node alone may serve some keys.
  client.on('node error', (error) => onError(error, client.status !== 'ready'));

  async function check(): Promise<void> {
    const mine = connection;
    try {
      await mustWork(client);
      if (mine !== connection) return;
      tries = 0;
      works = true;
    } catch (error) {
      if (closing.aborted || mine !== connection) return;
      if (!(error instanceof AggregateError)) onError(error, false);
      client.disconnect(true);
    }
  }
  return { client, isUsable: () => works && isReady(client) };
}

async function mustWork(client: Cluster): Promise<void> {
  const masters = nodesOf(client);
  if (masters.length === 0) {
    throw new ConnectionProblem('the node knows of no slots; is it of a cluster that is made?');
  }
  // The deadline of the command is too short to connect as well.
  const node = await Promise.any(masters.map(connected));
  const told = String(await node.cluster('INFO'));
  if (told.includes('cluster_state:ok')) return;
  throw new ConnectionProblem('the cluster says that it is down (cluster_state:fail)');
}

function connected(node: Redis): Promise<Redis> {
  if (node.status === 'ready') return Promise.resolve(node);
  return new Promise((resolve, reject) => {
    node.once('ready', () => resolve(node));
    node.once('end', () => reject(new Error(ENDED)));
  });
}

/** A Lua script that is safe to run twice. The server gets its source only if it lacks it. */
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

export type RedisConnections = ReturnType<typeof connectRedis>;

/**
 * Connections of one gateway, so that a large body (writer) never delays a look-up or epoch read
 * (reader), nor a renewal or announcement (epochs). They connect in the background and forever; a
 * command on an unconnected one fails at once.
 */
export function connectRedis(target: RedisTarget, onError: OnConnectionError) {
  const [first, ...others] = target.url.map((text) => readAddress(text, 6379));
  if (first === undefined) throw new Error('there is no address of Redis');
  const closing = new AbortController();
  const addresses = [first, ...others] as const;
  const parts: ClientParts = { target, addresses, onError, closing: closing.signal };
  const connect = (name: string, deadlineMs: number) =>
    target.mode === 'cluster'
      ? createClusterClient(parts, name, deadlineMs)
      : createServerClient(parts, name, deadlineMs);

  const reader = connect('reader', READ_DEADLINE_MS);
  const writer = connect('writer', WRITE_DEADLINE_MS);
  const epochs = connect('epochs', WRITE_DEADLINE_MS);
  const subscriber = createServerClient(parts, 'subscriber');
  const heartbeat = setInterval(() => {
    if (subscriber.client.status === 'ready') subscriber.client.ping().catch(() => {});
  }, HEARTBEAT_MS).unref();
  if (target.mode === 'cluster') {
    let tries = 0;
    subscriber.client.on('close', () => {
      // The last node may be gone for good, so the next try goes to another one.
      const known = [reader, writer, epochs].flatMap(({ client }) => nodesOf(client, 'all'));
      const nodes = [...known.map(({ options }) => options), ...addresses];
      tries += 1;
      const { host, port } = nodes[tries % nodes.length] ?? first;
      Object.assign(subscriber.client.options, { host, port });
    });
  }

  const all = [reader, writer, epochs, subscriber];
  const ready = () => all.every(({ isUsable }) => isUsable());
  return {
    reader: reader.client,
    writer: writer.client,
    epochs: epochs.client,
    /** Connected to any node of a cluster: nodes pass messages on to each other. */
    subscriber: subscriber.client,
    ready,
    async settled(timeoutMs: number): Promise<void> {
      const late = AbortSignal.timeout(timeoutMs);
      while (!ready() && !late.aborted) await delay(POLL_MS);
    },
    async close(): Promise<void> {
      closing.abort();
      clearInterval(heartbeat);
      for (const { client } of all) client.disconnect();
    },
  };
}
