/** Clients of a cluster. */
import { Cluster, type Redis } from 'ioredis';
import {
  type ClientParts,
  clientOptions,
  type Connection,
  ConnectionProblem,
  DISCOVERY_DEADLINE_MS,
  ENDED,
  isReady,
  nodesOf,
  retryDelayMs,
} from './redis-client.ts';

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
