import type { Cluster, Redis } from 'ioredis';
import { createHash } from 'node:crypto';
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

/** What each client of one gateway is made with. */
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
export const FAREWELL_MS = 200;
/** How long a sentinel, or a node that is asked for the slots, may take to answer. */
export const DISCOVERY_DEADLINE_MS = 1_000;
/** Servers that want TLS, or a certificate, say nothing else. */
export const ENDED = 'the connection was ended before it was ready';
export const retryDelayMs = (times: number) => Math.min(times * 100, MAX_RECONNECT_DELAY_MS);

export type RedisAddress = ReturnType<typeof readAddress>;
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

export const tlsOf = ({ tls = {} }: RedisTarget, secure: boolean) => (secure ? tls : undefined);

/** Options of every client that serves the gateway. @param name by which Redis lists the connection */
export function clientOptions({ target, addresses }: ClientParts, name: string) {
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

export function isReady(client: RedisClient): boolean {
  if (client.status !== 'ready') return false;
  // A node that waits connects for the first command, which waits as well.
  return nodesOf(client).every(({ status }) => status === 'ready' || status === 'wait');
}

/** Whether a command failed because nothing came back in its time. ioredis has neither a class nor a code for it. */
export const isDeadline = (error: unknown): boolean =>
  error instanceof Error && error.message === 'Command timed out';

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
