import type { Redis } from 'ioredis';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type ClientParts,
  type Connection,
  nodesOf,
  type OnConnectionError,
  readAddress,
  type RedisClient,
  type RedisTarget,
} from './redis-client.ts';
import { createClusterClient } from './redis-client.ts';
import { createServerClient } from './redis-client.ts';

/** How long a look-up may wait for Redis. */
const READ_DEADLINE_MS = 100;
/** How long a write, an epoch renewal or an announcement may wait. */
const WRITE_DEADLINE_MS = 500;
/** Between two tries of the connection of the subscriber: nothing else would notice that it is silent. */
const HEARTBEAT_MS = 2_000;
/** Between two looks whether connections are ready. */
const POLL_MS = 5;

export type RedisConnections = ReturnType<typeof connectRedis>;

/**
 * The connections of one gateway, apart so that a large body never delays a look-up, and because a connection that
 * subscribes can do nothing else. Connects in the background and for ever; a command that finds none fails at once.
 */
export function connectRedis(target: RedisTarget, onError: OnConnectionError) {
  const [first, ...others] = target.url.map((text) => readAddress(text, 6379));
  if (first === undefined) throw new Error('there is no address of Redis');
  const closing = new AbortController();
  const { signal } = closing;
  const parts: ClientParts = { target, addresses: [first, ...others], onError, closing: signal };
  const connect = (name: string, deadlineMs: number): Connection =>
    target.mode === 'cluster'
      ? createClusterClient(parts, name, deadlineMs)
      : createServerClient(parts, name, deadlineMs);

  const reader = connect('reader', READ_DEADLINE_MS);
  const writer = connect('writer', WRITE_DEADLINE_MS);
  const epochs = connect('epochs', WRITE_DEADLINE_MS);
  const clients = [reader.client, writer.client, epochs.client];
  const subscriber = createServerClient(parts, 'subscriber');
  beat(subscriber.client, signal);
  if (target.mode === 'cluster') moveOn(subscriber.client, parts, clients);

  const all: readonly Connection[] = [reader, writer, epochs, subscriber];
  const ready = () => all.every(({ isUsable }) => isUsable());
  return {
    /** Look-ups and epoch reads. */
    reader: reader.client,
    /** Bodies. */
    writer: writer.client,
    /** Renewals of epochs and their announcements. */
    epochs: epochs.client,
    /** Announcements. With a cluster, of any of its nodes: they hand messages on to each other. */
    subscriber: subscriber.client,
    ready,
    /** Resolves when all are ready, or after this time. */
    async settled(timeoutMs: number): Promise<void> {
      const late = AbortSignal.timeout(timeoutMs);
      while (!ready() && !late.aborted) await delay(POLL_MS);
    },
    async close(): Promise<void> {
      closing.abort();
      for (const { client } of all) client.disconnect();
    },
  };
}

function beat(subscriber: Redis, closing: AbortSignal): void {
  const heartbeat = setInterval(() => {
    if (subscriber.status === 'ready') subscriber.ping().catch(() => {});
  }, HEARTBEAT_MS).unref();
  closing.addEventListener('abort', () => clearInterval(heartbeat), { once: true });
}

/** Sends each try to connect to another node of the cluster: the one before may be gone for good. */
function moveOn(
  subscriber: Redis,
  { addresses }: ClientParts,
  clients: readonly RedisClient[],
): void {
  let tries = 0;
  subscriber.on('close', () => {
    const known = clients.flatMap((one) => nodesOf(one, 'all'));
    const nodes = [...known.map(({ options }) => options), ...addresses];
    tries += 1;
    const { host, port } = nodes[tries % nodes.length] ?? addresses[0];
    Object.assign(subscriber.options, { host, port });
  });
}
