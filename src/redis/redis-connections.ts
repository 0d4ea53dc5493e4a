import type { Redis } from 'ioredis';
import type { OnConnectionError } from './connection-failures.ts';
import {
  isReady,
  redisClients,
  whenReady,
  type RedisClient,
  type RedisTarget,
} from './redis-clients.ts';

/** What a look-up, or a piece of a large value, may wait for Redis (ms). */
const READ_DEADLINE = 100;
/** What a write, an epoch renewal or an announcement may wait (ms). */
const WRITE_DEADLINE = 500;

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
 * Connects in the background and for ever; a command that finds no connection fails at once.
 */
export function connectRedis(target: RedisTarget, onError: OnConnectionError): RedisConnections {
  const clients = redisClients(target, onError);
  const reader = clients.client('reader', READ_DEADLINE);
  const writer = clients.client('writer', WRITE_DEADLINE);
  const bulk = clients.client('bulk', READ_DEADLINE);
  const epochs = clients.client('epochs', WRITE_DEADLINE);
  const subscriber = clients.subscriber('subscriber');
  const all = [reader, writer, bulk, epochs, subscriber];

  return {
    reader,
    writer,
    bulk,
    epochs,
    subscriber,
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

/** Whether a command failed because nothing came back in its time. */
export function isDeadline(error: unknown): boolean {
  return error instanceof Error && error.message === 'Command timed out';
}
