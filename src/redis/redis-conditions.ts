import { ReplyError, type Redis } from 'ioredis';
import { oneAfterTheOther } from '../common/in-turn.ts';
import {
  nodesOf,
  type RedisClient,
  type RedisConnections,
  type RedisTarget,
  sentinelClients,
} from './redis-connections.ts';

const SENTINEL_DEADLINE_MS = 2_000;
const INTERVAL_MS = 60_000;
const RETRY_MS = 2_000;
/** A master may refuse writes this late: it looks once a second and counts whole seconds. */
const LATENESS_MS = 2_000;

/**
 * Looks for settings of Redis that docs/PURGE.md rules out, at intervals and after each connect.
 * @param onProblem gets each sentence when it begins to be true
 */
export function watchRedisConditions(options: {
  target: RedisTarget;
  namespace: string;
  connections: Pick<RedisConnections, 'epochs' | 'subscriber'>;
  onProblem: (problem: string) => void;
}) {
  const { target, namespace, onProblem } = options;
  const { epochs, subscriber } = options.connections;
  let problems: readonly string[] = [];
  const inTurn = oneAfterTheOther();
  const look = () => void inTurn(lookOnce);

  async function read(): Promise<readonly string[]> {
    const servers = nodesOf(epochs).map((server) => Array.fromAsync(problemsOf(server, target)));
    const found = (await Promise.all(servers)).flat();
    const rights = await missingRights(epochs, subscriber, namespace);
    const lacks = 'the user of the gateway lacks a right at Redis (docs/PURGE.md)';
    return [...rights.map((right) => `${lacks}: ${right}`), ...found];
  }

  async function lookOnce(): Promise<void> {
    if (epochs.status !== 'ready' || subscriber.status !== 'ready') return;
    try {
      const found = await read();
      const news = found.filter((problem) => !problems.includes(problem));
      problems = found;
      for (const problem of news) onProblem(problem);
    } catch {
      // The parts that need Redis report that it is away.
      setTimeout(look, RETRY_MS).unref();
    }
  }

  look();
  // The last two come from clusters, whose client stays ready while nodes come and go.
  for (const sign of ['ready', '+node', '-node']) epochs.on(sign, look);
  subscriber.on('ready', look);
  const timer = setInterval(look, INTERVAL_MS).unref();
  return {
    list: () => problems,
    close: () => clearInterval(timer),
  };
}

async function* problemsOf(server: Redis, target: RedisTarget): AsyncGenerator<string> {
  const info = await server.info();
  const { remoteAddress = '?', remotePort = '?' } = server.stream;
  const at = `Redis at ${remoteAddress}:${remotePort}`;
  const field = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'mu').exec(info)?.[1];
  if (target.mode === 'standalone' && field('slave_read_only') === '1') {
    yield `${at} is a read-only replica: epochs cannot be read or renewed there, so that nothing is cached and purges answer 503; name its master in cache.redis.url`;
  }
  // Managed services that hide the field have set it.
  if (field('maxmemory') === '0') {
    yield `${at} has no maxmemory: it may take all memory of its machine; set maxmemory, and a maxmemory-policy such as volatile-lru`;
  } else if (field('maxmemory_policy') === 'noeviction') {
    yield `${at} has maxmemory-policy noeviction: when it is full it refuses writes, so that purges answer 503 and queries go past the cache; set another one, such as volatile-lru`;
  }
  if (target.mode === 'standalone') return;
  if (field('connected_slaves') === '0') {
    yield `${at} has no replica: when it fails, no other server takes its place`;
  }
  yield* replicationProblems(at, server, target);
}

/** Two masters must never take writes at one time: a purge would reach only one of them. */
async function* replicationProblems(at: string, server: Redis, target: RedisTarget) {
  const { setting, failover, known } =
    target.mode === 'sentinel' ? await toldBySentinels(target) : await toldByNode(server);
  const replicas = await configured(server, 'min-replicas-to-write');
  const lag = await configured(server, 'min-replicas-max-lag');
  if (replicas === undefined || lag === undefined) {
    yield `${at} does not tell min-replicas-to-write and min-replicas-max-lag (CONFIG GET): not checked`;
    return;
  }
  const needed = neededReplicas(known ?? 0);
  if (replicas < 1 || lag < 1) {
    yield `${at} has min-replicas-to-write ${replicas} and min-replicas-max-lag ${lag}: when it is cut off it may take a purge that its successor never sees; set the first to at least ${needed} and the second to at least 1`;
    return;
  }
  if (known === undefined) {
    yield `how many replicas ${at} has cannot be read: min-replicas-to-write not checked`;
  } else if (replicas < needed) {
    yield `${at} has min-replicas-to-write ${replicas} and ${known} replicas: when it is cut off together with ${replicas} of them it may go on taking purges that its successor never sees; set min-replicas-to-write to at least ${needed}`;
  }
  const least = lag * 1_000 + LATENESS_MS;
  if (failover === undefined) {
    yield `${setting} cannot be read: not checked`;
  } else if (least > failover) {
    yield `${at} has min-replicas-max-lag ${lag}, and ${setting} is ${failover}: when it is cut off it may take a purge after another server took its place; set ${setting} to at least ${least}`;
  }
}

async function configured(server: Redis, name: string): Promise<number | undefined> {
  const pair = await unlessRefused(server.config('GET', name) as Promise<string[]>);
  return pair?.[1] === undefined ? undefined : Number(pair[1]);
}

async function unlessRefused<T>(asked: Promise<T>, told: (refusal: Error) => void = () => {}) {
  try {
    return await asked;
  } catch (error) {
    if (!(error instanceof ReplyError)) throw error;
    told(error as Error);
    return undefined;
  }
}

/**
 * The min-replicas-to-write with which a master and its successor cannot both take writes: each of
 * them, with its replicas, must be more than half of all servers.
 * @param known replicas of the master, also those that are away
 */
export const neededReplicas = (known: number): number => Math.max(1, Math.ceil(known / 2));

/**
 * Reads after how long a master gets a successor (ms), and how many replicas it has. Sentinels also
 * know replicas that are away. If they differ, the most dangerous value counts.
 */
async function toldBySentinels(target: RedisTarget) {
  const asked = sentinelClients(target, SENTINEL_DEADLINE_MS).map(async (sentinel) => {
    // Where one does not answer, another one may.
    const fields = await sentinel.call('SENTINEL', 'MASTER', target.master ?? '').catch(() => []);
    sentinel.disconnect();
    return Array.isArray(fields) ? fields.map(String) : [];
  });
  const told = await Promise.all(asked);
  const all = (name: string) =>
    told.flatMap((fields) =>
      fields.includes(name) ? Number(fields[fields.indexOf(name) + 1]) : [],
    );
  const setting = 'down-after-milliseconds';
  const [failover] = all(setting).toSorted((a, b) => a - b);
  const [known] = all('num-slaves').toSorted((a, b) => b - a);
  return { setting, failover, known };
}

/**
 * Reads the same of a cluster. A master that is cut off with a minority stops by itself, but
 * perhaps half of cluster-node-timeout after its replica was promoted, so the same rule counts.
 */
async function toldByNode(server: Redis) {
  const setting = 'cluster-node-timeout';
  const text = await unlessRefused(server.cluster('NODES'));
  const lines = String(text ?? '').split('\n');
  const nodes = lines.map((line) => line.split(' '));
  const own = nodes.find(([, , flags = '']) => flags.split(',').includes('myself'))?.[0];
  const replicas = nodes.filter(([, , , master]) => own !== undefined && master === own);
  const known = text === undefined ? undefined : replicas.length;
  return { setting, failover: await configured(server, setting), known };
}

/** Every command of the scripts and the sweep, with harmless arguments; K is a key of its own. */
export const TRIALS: readonly string[] = [
  'INFO replication; TIME; EXISTS K; GET K; SET K 1 PX 1000; GETRANGE K 0 1; MGET K; PEXPIRE K 1000; DEL K; UNLINK K',
  'SCAN 0 COUNT 1; HSET K a 1; HGET K a; HGETALL K; HDEL K a; ZADD K 1 a; ZSCORE K a; ZRANGE K 0 0; ZRANGEBYSCORE K 0 0',
  'ZREM K a; ZREMRANGEBYSCORE K 0 0; LPUSH K a; LTRIM K 0 0; LRANGE K 0 0; DEL K',
].flatMap((row) => row.split('; '));

const SCRIPT = `
local refused = {}
for _, trial in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(trial, '%S+') do words[#words + 1] = word == 'K' and KEYS[1] or word end
  local answer = redis.pcall(unpack(words))
  if type(answer) == 'table' and answer.err
    and (string.find(answer.err, 'NOPERM', 1, true)
      or string.find(answer.err, "can't run this command", 1, true)
      or string.find(answer.err, "can't access at least one of the keys", 1, true)) then
    refused[#refused + 1] = words[1]
  end
end
return refused
`;

async function missingRights(client: RedisClient, subscriber: Redis, namespace: string) {
  const missing: string[] = [];

  const attempt = (what: string, asked: Promise<unknown>) =>
    unlessRefused(asked, ({ message }) => {
      // Others are of a script that is not loaded, or of a server that takes no writes now.
      if (message.startsWith('NOPERM')) missing.push(`${what}: ${message}`);
    });

  const value = `${namespace}:entry:rights`;
  const shared = `{${namespace}}:rights`;
  await attempt('PING', client.ping());
  await attempt(`GET ${value}`, client.get(value));
  await attempt('EVALSHA', client.evalsha('0'.repeat(40), 1, shared));
  const trials = client.eval(SCRIPT, 1, shared, ...TRIALS);
  const refused = await attempt(`EVAL with ${shared}`, trials);
  if (Array.isArray(refused)) {
    for (const name of new Set(refused)) missing.push(`${String(name)} in scripts`);
  }
  await attempt(`PUBLISH ${shared}`, client.publish(shared, ''));
  await attempt(`SUBSCRIBE ${shared}`, subscriber.subscribe(shared));
  return missing;
}
