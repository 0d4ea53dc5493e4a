import { ReplyError, type Redis } from 'ioredis';
import { oneAfterTheOther } from '../common/in-turn.ts';
import { nodesOf, type RedisClient, type RedisTarget } from './redis-client.ts';
import { sentinelClients } from './redis-client.ts';
import type { RedisConnections } from './redis-connections.ts';

/** How long a sentinel may take to answer. */
const DEADLINE_MS = 2_000;
/** Between two looks. */
const INTERVAL_MS = 60_000;
/** After a look that failed. */
const RETRY_MS = 2_000;
/** By how much a master may be late in refusing writes: once a second it counts whole seconds. */
const LATENESS_MS = 2_000;

/**
 * Watches for settings of Redis that docs/PURGE.md rules out. Looks now and then, and whenever a connection was made.
 * @param onProblem is told each sentence when it begins to be true
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

  /** Rejects when a server does not answer. */
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
      // That Redis is away is told by what needs it.
      setTimeout(look, RETRY_MS).unref();
    }
  }

  look();
  // The last two are of clusters, whose client stays ready while nodes come and go.
  for (const sign of ['ready', '+node', '-node']) epochs.on(sign, look);
  subscriber.on('ready', look);
  const timer = setInterval(look, INTERVAL_MS).unref();
  return {
    /** In short sentences, as of the last look; none before the first one. */
    list: () => problems,
    close: () => clearInterval(timer),
  };
}

/** Problems of one server. This and what follows rejects when it does not answer. */
async function* problemsOf(server: Redis, target: RedisTarget): AsyncGenerator<string> {
  const info = await server.info();
  const { remoteAddress = '?', remotePort = '?' } = server.stream;
  const at = `Redis at ${remoteAddress}:${remotePort}`;
  const field = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'mu').exec(info)?.[1];
  if (target.mode === 'standalone' && field('slave_read_only') === '1') {
    yield `${at} is a read-only replica: epochs cannot be read or renewed there, so that nothing is cached and purges answer 503; name its master in cache.redis.url`;
  }
  // Services that do not say it have set it themselves.
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

/** Two masters must never take writes at one time, since a purge would reach one of them only. */
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

/** A number of CONFIG GET; undefined where it is not told. */
async function configured(server: Redis, name: string): Promise<number | undefined> {
  const pair = await unlessRefused(server.config('GET', name) as Promise<string[]>);
  return pair?.[1] === undefined ? undefined : Number(pair[1]);
}

/** Undefined for what the server does not allow. @param told of the refusal */
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
 * What min-replicas-to-write must be, so that a master and its successor cannot both have so many: each of them with its
 * own must be more than half of all servers.
 * @param known replicas of the master, also those that are away
 */
export const neededReplicas = (known: number): number => Math.max(1, Math.ceil(known / 2));

/**
 * What decides when a master has a successor (ms), and how many replicas it has; undefined where it is not told. Sentinels
 * also know replicas that are away. What differs among them counts as it is most dangerous.
 */
async function toldBySentinels(target: RedisTarget) {
  const asked = sentinelClients(target, DEADLINE_MS).map(async (sentinel) => {
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
 * The same of a cluster. A master of it that is cut off with few of the others stops by itself, but perhaps half of
 * cluster-node-timeout after its replica was made master: the same rule counts.
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

/**
 * Every command that the scripts and the sweep use, with arguments that do nothing but to a key that is dropped again.
 * K stands for that key.
 */
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

/** Rights that the user of the gateway lacks, in the words of the server. */
async function missingRights(client: RedisClient, subscriber: Redis, namespace: string) {
  const missing: string[] = [];

  const attempt = (what: string, asked: Promise<unknown>) =>
    unlessRefused(asked, ({ message }) => {
      // Other refusals are of a script that is not loaded, or of a server that takes no writes just now.
      if (message.startsWith('NOPERM')) missing.push(`${what}: ${message}`);
    });

  const value = `${namespace}:entry:rights`;
  /** A key and a channel. */
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
