/** Clients of one server: that of the URL, or the master that the sentinels name; and of the sentinels themselves. */
import { Redis, type RedisOptions } from 'ioredis';
import {
  type ClientParts,
  clientOptions,
  type Connection,
  ConnectionProblem,
  DISCOVERY_DEADLINE_MS,
  ENDED,
  FAREWELL_MS,
  isReady,
  type OnConnectionError,
  readAddress,
  type RedisTarget,
  retryDelayMs,
  tlsOf,
} from './redis-client.ts';

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
