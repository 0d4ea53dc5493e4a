import { Cluster, Redis, type RedisOptions } from 'ioredis';
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

/** Makes clients that connect in the background and for ever, that is until they are closed. */
export interface RedisClients {
  /** For commands, each of which is rejected when it takes longer than so many milliseconds. */
  client(name: string, deadline: number): RedisClient;
  /** For messages. With a cluster, of any of its nodes: they hand messages on to each other. */
  subscriber(name: string): Redis;
  /** Disconnects all of them, for good. */
  close(): void;
}

/**
 * The connections of one gateway. They are apart so that a large body that is being written or read never delays a
 * look-up, and because a connection that subscribes can do nothing else.
 */
export interface RedisConnections {
  /** Look-ups and epoch reads. */
  readonly reader: RedisClient;
  /** Bodies. */
  readonly writer: RedisClient;
  /** Reading large values in pieces. */
  readonly bulk: RedisClient;
  /** Renewals of epochs and their announcements. */
  readonly epochs: RedisClient;
  readonly subscriber: Redis;
  /** Whether commands can be sent now. */
  ready(): boolean;
  /** Resolves when all are ready, or after so many milliseconds. */
  settled(milliseconds: number): Promise<void>;
  close(): Promise<void>;
}

/**
 * Called for every failed try to connect and every lost connection.
 * @param partial whether another node or sentinel may serve in the place of the one that failed
 */
export type OnConnectionError = (error: unknown, partial: boolean) => void;

/** Why a connection failed, where the error of the client says too little. */
export class ConnectionProblem extends Error {
  override readonly name = 'ConnectionProblem';
  /** Such as ECONNRESET. */
  readonly code: string | undefined;

  constructor(message: string, code?: string, cause?: Error) {
    super(message, { cause });
    this.code = code;
  }
}

/** What a look-up, or a piece of a large value, may wait for Redis (ms). */
const READ_DEADLINE = 100;
/** What a write, an epoch renewal or an announcement may wait (ms). */
const WRITE_DEADLINE = 500;
/** A connection on which nothing comes back for so long, while an answer is due, is torn down (ms). */
const SILENCE = 5_000;
const CONNECT_DEADLINE = 2_000;
const MAX_RECONNECT_DELAY = 1_000;
/** What a connection may take to close; ioredis waits so long also for one that is closed already (ms). */
const FAREWELL = 200;
/** How often the connection of the subscriber is tried: nothing else would notice that it is silent (ms). */
const HEARTBEAT = 2_000;
/** What a sentinel, or a node that is asked for the slots, may take to answer (ms). */
const DISCOVERY_DEADLINE = 1_000;
/** How often a command may be sent on to another node. */
const MAX_REDIRECTIONS = 4;
const SENTINEL_PORT = 26_379;
/** How often it is looked whether connections are ready (ms). */
const POLL = 5;

const retryDelay = (times: number) => Math.min(times * 100, MAX_RECONNECT_DELAY);

/** Connects in the background and for ever; a command that finds no connection fails at once. */
export function connectRedis(target: RedisTarget, onError: OnConnectionError): RedisConnections {
  const clients = redisClients(target, onError);
  const connections = {
    reader: clients.client('reader', READ_DEADLINE),
    writer: clients.client('writer', WRITE_DEADLINE),
    bulk: clients.client('bulk', READ_DEADLINE),
    epochs: clients.client('epochs', WRITE_DEADLINE),
    subscriber: clients.subscriber('subscriber'),
  };
  const all = Object.values(connections);
  return {
    ...connections,
    ready: () => all.every(isReady),
    async settled(milliseconds) {
      const signal = AbortSignal.timeout(milliseconds);
      await Promise.all(all.map((redis) => whenReady(redis, signal)));
    },
    async close() {
      clients.close();
    },
  };
}

/** Whether a command failed because nothing came back in its time. ioredis has neither a class nor a code for it. */
export function isDeadline(error: unknown): boolean {
  return error instanceof Error && error.message === 'Command timed out';
}

/** Whether commands can be sent now, to whatever server they may go. */
export function isReady(client: RedisClient): boolean {
  if (client.status !== 'ready') return false;
  // A node that waits connects for the first command, which waits as well.
  const masters = 'nodes' in client ? client.nodes('master') : [];
  return masters.every(({ status }) => status === 'ready' || status === 'wait');
}

/** Resolves when it is ready, or when the signal comes. */
export async function whenReady(client: RedisClient, signal: AbortSignal): Promise<void> {
  while (!isReady(client) && !signal.aborted) await delay(POLL);
}

export function redisClients(target: RedisTarget, onError: OnConnectionError): RedisClients {
  const addresses = target.url.map((text) => readAddress(text));
  const [first] = addresses;
  if (first === undefined) throw new Error('there is no address of Redis');
  const { secure } = first;
  const { username, password } =
    target.mode === 'sentinel' || target.password !== undefined ? target : first;
  const closing = new AbortController();
  const atClose = (end: () => void) => closing.signal.addEventListener('abort', end);
  const clusters: Cluster[] = [];

  const common = (name: string) => ({
    connectionName: `mdx-gateway-${name}`,
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(secure && { tls: target.tls ?? {} }),
    connectTimeout: CONNECT_DEADLINE,
    socketTimeout: SILENCE,
    disconnectTimeout: FAREWELL,
    autoResendUnfulfilledCommands: false,
    // Where that failed the process would end. A subscriber subscribes at each 'ready'.
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
  });

  /** Of one server: that of the URL, or the master that the sentinels name. */
  const server = (name: string, deadline: number | undefined): Redis => {
    const options: Omit<RedisOptions, 'replyMapping'> = {
      ...common(name),
      ...(target.mode === 'sentinel'
        ? sentinelOptions(target)
        : { host: first.host, port: first.port }),
      ...(deadline !== undefined && { commandTimeout: deadline }),
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
    reviveUntilClosed(redis, closing.signal);
    tellFailures(redis, target.master, secure, onError);
    return redis;
  };

  const cluster = (name: string, deadline: number): Cluster => {
    const client = new Cluster(
      addresses.map(({ host, port }) => ({ host, port })),
      {
        redisOptions: { ...common(name), commandTimeout: deadline },
        enableOfflineQueue: false,
        // Names are resolved where the connection is made, so that certificates can be held against them.
        dnsLookup: (address, callback) => callback(null, address),
        clusterRetryStrategy: retryDelay,
        slotsRefreshTimeout: DISCOVERY_DEADLINE,
        maxRedirections: MAX_REDIRECTIONS,
        // Waiting for a node that is away is in vain: the caller has a way past Redis.
        retryDelayOnFailover: 0,
        retryDelayOnClusterDown: 0,
        retryDelayOnTryAgain: 20,
      },
    );
    // Before the first command: its time is too short to connect, too.
    client.on('+node', (node: Redis) => {
      if (node.status === 'wait' && !node.options.readOnly) node.connect().catch(() => {});
    });
    client.on('error', (error) => onError(error, false));
    // Until the client is ready it goes on to the next node; later this one may serve some of the keys alone.
    client.on('node error', (error) => onError(error, client.status !== 'ready'));
    atClose(() => client.disconnect());
    clusters.push(client);
    return client;
  };

  return {
    client: target.mode === 'cluster' ? cluster : server,
    subscriber(name) {
      const redis = server(name, undefined);
      const heartbeat = setInterval(() => {
        if (redis.status === 'ready') redis.ping().catch(() => {});
      }, HEARTBEAT).unref();
      atClose(() => clearInterval(heartbeat));
      if (target.mode !== 'cluster') return redis;
      // Its node may be gone for good: each try goes to another one.
      let tries = 0;
      redis.on('close', () => {
        const known = clusters.flatMap((client) => client.nodes().map(({ options }) => options));
        const nodes = [...known, ...addresses];
        tries += 1;
        const { host, port } = nodes[tries % nodes.length] ?? first;
        Object.assign(redis.options, { host, port });
      });
      return redis;
    },
    close: () => closing.abort(),
  };
}

/** A client of each sentinel, which connects when it is asked. The caller disconnects it. */
export function sentinelClients(target: RedisTarget, deadline: number): Redis[] {
  return sentinelAddresses(target).map(({ host, port, username, password, secure }) => {
    const sentinel = new Redis({
      host,
      port,
      ...(username !== undefined && { username }),
      ...(password !== undefined && { password }),
      ...(secure && { tls: target.tls ?? {} }),
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

const sentinelAddresses = ({ url }: RedisTarget) =>
  url.map((text) => readAddress(text, SENTINEL_PORT));

function sentinelOptions(target: RedisTarget) {
  const addresses = sentinelAddresses(target);
  const [first] = addresses;
  return {
    sentinels: addresses.map(({ host, port }) => ({ host, port })),
    name: target.master ?? '',
    ...(first?.username !== undefined && { sentinelUsername: first.username }),
    ...(first?.password !== undefined && { sentinelPassword: first.password }),
    ...(first?.secure && { enableTLSForSentinelMode: true, sentinelTLS: target.tls ?? {} }),
    sentinelCommandTimeout: DISCOVERY_DEADLINE,
    sentinelRetryStrategy: retryDelay,
    sentinelReconnectStrategy: retryDelay,
    // Without it a master that was replaced and still answers would not be left.
    failoverDetector: true,
  };
}

/**
 * Connects again what gave up: when a sentinel tells of a new master in the moment in which ioredis asks where the
 * master is, it drops the answer and never tries again.
 */
function reviveUntilClosed(redis: Redis, closing: AbortSignal): void {
  let revival: NodeJS.Timeout | undefined;
  let revivals = 0;
  redis.on('ready', () => (revivals = 0));
  redis.on('end', () => {
    if (closing.aborted) return;
    revivals += 1;
    revival = setTimeout(() => redis.connect().catch(() => {}), retryDelay(revivals));
  });
  closing.addEventListener('abort', () => {
    clearTimeout(revival);
    redis.disconnect();
  });
}

/** Servers that want TLS, or a certificate, say nothing else. */
const ENDED = 'the connection was ended before it was ready';
const CUT_OFF: ReadonlySet<unknown> = new Set(['ECONNRESET', 'EPIPE']);

/**
 * Tells what goes wrong with one connection, with a hint where the error itself says too little.
 * @param secure whether it is spoken to with TLS
 */
function tellFailures(
  redis: Redis,
  master: string | undefined,
  secure: boolean,
  onError: OnConnectionError,
): void {
  const ended = `${ENDED}; does Redis want ${secure ? 'a client certificate' : 'TLS'}?`;
  // Between the connection and the word that it can be used, or that it cannot.
  let beginning = false;
  redis.on('connect', () => (beginning = true));
  redis.on('ready', () => (beginning = false));
  redis.on('error', (error: NodeJS.ErrnoException) => {
    const { code, message } = error;
    const why =
      secure && code === 'ETIMEDOUT'
        ? `${message}; does Redis speak TLS there?`
        : beginning && CUT_OFF.has(code)
          ? ended
          : undefined;
    beginning = false;
    onError(why === undefined ? error : new ConnectionProblem(why, code, error), false);
  });
  redis.on('close', () => {
    if (beginning) onError(new ConnectionProblem(ended), false);
    beginning = false;
  });
  redis.on('sentinelError', ({ message }: Error) => {
    // What it answers when it is asked for the master, and when it is asked for the other sentinels.
    const unknown = /invalid reply: null$|No such master/u.test(message);
    const sentinel = /sentinel \S+/u.exec(message)?.[0] ?? 'a sentinel';
    onError(
      new ConnectionProblem(unknown ? `${sentinel} knows no master ${master}` : message),
      true,
    );
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
