import { Redis } from 'ioredis';

/** What a look-up may wait for Redis (ms). */
const READ_DEADLINE = 100;
/** What a write, an epoch renewal or an announcement may wait (ms). */
const WRITE_DEADLINE = 500;
/** A connection on which nothing comes back for so long, while something is owed, is torn down (ms). */
const SILENCE = 5_000;
const MAX_RECONNECT_DELAY = 1_000;
/** What a connection may take to close; ioredis waits so long also for one that is closed already (ms). */
const FAREWELL = 200;

/**
 * The connections of one gateway. They are apart so that a large body that is being written never delays a
 * look-up, and because a connection that subscribes can do nothing else.
 */
export interface RedisConnections {
  /** Look-ups and epoch reads. */
  readonly reader: Redis;
  /** Bodies. */
  readonly writer: Redis;
  /** Renewals of epochs and their announcements. */
  readonly epochs: Redis;
  readonly subscriber: Redis;
  /** Whether commands can be sent now. */
  ready(): boolean;
  /** Resolves when all are ready, or after so many milliseconds. */
  settled(milliseconds: number): Promise<void>;
  close(): Promise<void>;
}

/**
 * Connects in the background and for ever; a command that finds no connection fails at once.
 * @param onError called for every failed try to connect and every lost connection
 */
export function connectRedis(url: string, onError: (error: unknown) => void): RedisConnections {
  function connect(name: string, commandTimeout: number | undefined): Redis {
    const redis = new Redis(url, {
      connectionName: `mdx-gateway-${name}`,
      commandTimeout,
      connectTimeout: 2_000,
      socketTimeout: SILENCE,
      disconnectTimeout: FAREWELL,
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      // A master that became a replica refuses to write; its name may lead to the new master by now.
      // (Redis 6 tells it in the middle of the error of a script.)
      reconnectOnError: (error) => error.message.includes('READONLY'),
      retryStrategy: (times) => Math.min(times * 100, MAX_RECONNECT_DELAY),
    });
    redis.on('error', onError);
    return redis;
  }

  const reader = connect('reader', READ_DEADLINE);
  const writer = connect('writer', WRITE_DEADLINE);
  const epochs = connect('epochs', WRITE_DEADLINE);
  const subscriber = connect('subscriber', undefined);
  const all = [reader, writer, epochs, subscriber];
  const ready = () => all.every((redis) => redis.status === 'ready');

  return {
    reader,
    writer,
    epochs,
    subscriber,
    ready,
    async settled(milliseconds) {
      const signal = AbortSignal.timeout(milliseconds);
      const onReady = all.map(
        (redis) =>
          redis.status === 'ready' ||
          new Promise<void>((resolve) => {
            redis.once('ready', resolve);
            signal.addEventListener('abort', () => resolve(), { once: true });
          }),
      );
      await Promise.all(onReady);
    },
    async close() {
      for (const redis of all) redis.disconnect();
    },
  };
}
