import type { PurgeLines } from '../cache/purge/purge-log.ts';
import type { SweepStore } from '../cache/purge/sweep.ts';
import type { ValueTier } from '../cache/shared-entries.ts';
import type { FlightLock, FlightLocks, Standing } from '../cache/shared-flights.ts';
import { inTime } from '../common/clock.ts';
import type { FleetStore, ReportStore } from '../freshness/fleet.ts';
import type { Sealer } from '../common/sealing.ts';
import {
  nodesOf,
  type RedisClient,
  type RedisConnections,
  redisScript,
} from './redis-connections.ts';
import { freshnessKey } from './redis-freshness.ts';
import type { RunAtRedis } from './redis-health.ts';

/** Bytes 8 to 15 tell when the fill began, as a number: Lua compares strings by the locale. */
const setInOrder = redisScript(`
local function began(head)
  local moment = 0
  for i = 9, 16 do moment = moment * 256 + string.byte(head, i) end
  return moment
end
if ARGV[3] ~= 'replace' then
  local present = redis.call('GETRANGE', KEYS[1], 0, 15)
  if #present == 16 and began(present) > began(ARGV[1]) then return 0 end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`);

/*
 * KEYS  1 the engine's last time for the query (ms); only if that is known to be slow
 *       2 the place: the token of the gateway that asks, or NOTHING
 * ARGV  1 token · 2 life of the place (ms)
 * A call whose answer got lost may have taken the place for this caller already.
 */
const NOTHING = 'nothing';
const enterPlace = redisScript(`
local slow = redis.call('GET', KEYS[1])
if not slow then return { 'fast', '0' } end
local holder = redis.call('GET', KEYS[2])
if holder == '${NOTHING}' then return { 'nothing', slow } end
if holder and holder ~= ARGV[1] then return { 'wait', slow } end
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
return { 'lead', slow }
`);

/** KEYS 1 a place · ARGV 1 token of its holder · 2 life (ms) */
const hold = redisScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
`);

/** KEYS 1 a place or a task · ARGV 1 token · 2 how long to note that there is nothing (ms), or 0 */
const leave = redisScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], '${NOTHING}', 'PX', ARGV[2])
return 1
`);

/** KEYS 1 the holder of a task · ARGV 1 token of the gateway · 2 life (ms) */
const holdTask = redisScript(`
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`);

/** KEYS 1 a note · 2 the holder of a task, if that counts · ARGV 1 text · 2 life (ms) · 3 token */
const writeNote = redisScript(`
if KEYS[2] and redis.call('GET', KEYS[2]) ~= ARGV[3] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`);

/** ARGV 1 a line · 2 how many are kept. The latest comes first. */
const addLine = redisScript(`
redis.call('LPUSH', KEYS[1], ARGV[1])
return redis.call('LTRIM', KEYS[1], 0, ARGV[2] - 1)
`);

/** KEYS 1 reports by id · 2 ids by second of report · ARGV 1 id · 2 report · 3 life (s) */
const setReport = redisScript(`
local now = tonumber(redis.call('TIME')[1])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], now, ARGV[1])
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], 0, now - ARGV[3])) do
  redis.call('HDEL', KEYS[1], id)
  redis.call('ZREM', KEYS[2], id)
end
redis.call('PEXPIRE', KEYS[1], ARGV[3] * 1000)
return redis.call('PEXPIRE', KEYS[2], ARGV[3] * 1000)
`);
const REPORT_LIFE_SECONDS = 120;
const NOTE_LIFE_MS = 30 * 24 * 3_600_000;
const VALUES_AT_ONCE = 200;
const NAMES_AT_ONCE = 1_000;

const late = () => new Error('Redis did not answer in the time that was left');
const entryKey = (namespace: string, key: string) => `${namespace}:entry:${key}`;

interface Parts {
  readonly connections: Pick<RedisConnections, 'reader' | 'writer' | 'epochs'>;
  readonly run: RunAtRedis;
  readonly namespace: string;
  readonly sealer: Sealer;
}

const groundOf = ({ connections, run, namespace, sealer }: Parts) => ({
  ...connections,
  run,
  namespace,
  // Sealed for the name under which the text lies: under another one it does not open.
  seal: (text: string, name: string) => sealer.seal(Buffer.from(text), name),
  open: (sealed: Buffer, name: string) => sealer.open(sealed, name)?.toString(),
});

type Ground = ReturnType<typeof groundOf>;

export function createRedisCache({ newToken, ...parts }: Parts & { newToken: () => string }) {
  const ground = groundOf(parts);
  return {
    values: createValueTier(ground),
    locks: createFlightLocks(ground),
    purgeLines: createPurgeLines(ground),
    reports: createReports(ground),
    fleet: createFleet(ground, newToken()),
    sweepStore: createSweepStore(ground),
  };
}

function createValueTier({ reader, writer, run, namespace }: Ground): ValueTier {
  return {
    get: (key, from, count) =>
      run(() => reader.getrangeBuffer(entryKey(namespace, key), from, from + count - 1)),
    async set(key, value, lifetime, replace = false) {
      const life = Math.ceil(lifetime);
      if (life <= 0) return;
      const how = replace ? 'replace' : 'in-order';
      await run(() => setInOrder(writer, [entryKey(namespace, key)], [value, life, how]));
    },
  };
}

/** Places where gateways meet. They may be lost at any time: then more than one gateway asks. */
function createFlightLocks({ reader, run, namespace }: Ground): FlightLocks {
  // The query is the hash tag, so that one script may touch both.
  const slowKey = (query: string) => `${namespace}:{${query}}:slow`;
  const lockKey = ({ query, key }: FlightLock) => `${namespace}:{${query}}:flight:${key}`;
  return {
    async enter(lock, token, life, within) {
      const keys = [slowKey(lock.query), lockKey(lock)];
      const reply = await run(() => inTime(enterPlace(reader, keys, [token, life]), within, late));
      const [kind, slow] = reply as [Standing['kind'], string];
      const expected = Number(slow);
      if (!Number.isFinite(expected)) throw new Error('something else lies where gateways meet');
      return kind === 'fast' || kind === 'nothing' ? { kind } : { kind, expected };
    },
    beat: async (lock, token, life) =>
      (await run(() => hold(reader, [lockKey(lock)], [token, life]))) === 1,
    async leave(lock, token, nothing = 0) {
      await run(() => leave(reader, [lockKey(lock)], [token, Math.ceil(nothing)]));
    },
    async markSlow(query, slow, life) {
      await run(() => reader.set(slowKey(query), Math.round(slow), 'PX', Math.ceil(life)));
    },
    async unmark(query) {
      await run(() => reader.del(slowKey(query)));
    },
  };
}

function createPurgeLines({ writer, epochs, namespace, seal, open }: Ground): PurgeLines {
  const key = freshnessKey(namespace, 'purges');
  return {
    async add(line, most) {
      await addLine(epochs, [key], [seal(line, key), most]);
    },
    async all() {
      const sealed = await writer.lrangeBuffer(key, 0, -1);
      return sealed.toReversed().flatMap((line) => open(line, key) ?? []);
    },
  };
}

function createReports({ writer, namespace, seal, open }: Ground): ReportStore {
  const key = freshnessKey(namespace, 'statistics');
  const reportName = (id: string) => `${key} ${id}`;
  return {
    async set(id, report) {
      const args = [id, seal(report, reportName(id)), REPORT_LIFE_SECONDS];
      await setReport(writer, [key, `${key}:told`], args);
    },
    async all() {
      const sealed = Object.entries(await writer.hgetallBuffer(key));
      return sealed.flatMap(([id, one]) => open(one, reportName(id)) ?? []);
    },
  };
}

/** Calls here and of the sweep bypass the breaker: their failures keep no request from Redis. */
function createFleet({ writer, namespace, seal, open }: Ground, gateway: string): FleetStore {
  const taskKey = (task: string) => freshnessKey(namespace, `task:${task}`);
  const noteKey = (name: string) => freshnessKey(namespace, `note:${name}`);
  return {
    hold: async (task, life) => (await holdTask(writer, [taskKey(task)], [gateway, life])) === 1,
    async leave(task) {
      await leave(writer, [taskKey(task)], [gateway, 0]);
    },
    async note(name) {
      const key = noteKey(name);
      const sealed = await writer.getBuffer(key);
      return sealed ? open(sealed, key) : undefined;
    },
    async write(name, text, task) {
      const key = noteKey(name);
      const keys = [key, ...(task === undefined ? [] : [taskKey(task)])];
      return (await writeNote(writer, keys, [seal(text, key), NOTE_LIFE_MS, gateway])) === 1;
    },
  };
}

function createSweepStore({ writer, namespace }: Ground): SweepStore {
  return {
    async *tokens() {
      for await (const names of scan(writer, freshnessKey(namespace, 'epoch:*'), NAMES_AT_ONCE)) {
        yield (await writer.mget(names)).filter((one) => one !== null);
      }
    },
    async *heads(bytes) {
      for await (const names of scan(writer, entryKey(namespace, '*'), VALUES_AT_ONCE)) {
        const heads = names.map((name) => writer.getrangeBuffer(name, 0, bytes - 1));
        yield (await Promise.all(heads)).map((head, at) => ({ name: names[at] ?? '', head }));
      }
    },
    async drop(entries) {
      const counts = await Promise.all(entries.map((name) => writer.unlink(name)));
      return counts.reduce((sum, count) => sum + count, 0);
    },
  };
}

/** Yields names that match, each batch from one server; some may come twice. */
async function* scan(redis: RedisClient, match: string, count: number): AsyncGenerator<string[]> {
  const options = { match, count, type: 'string', highWaterMark: 1 };
  for (const server of nodesOf(redis)) {
    const steps: AsyncIterable<string[]> = server.scanStream(options);
    for await (const names of steps) {
      // A server may return more than COUNT.
      for (let at = 0; at < names.length; at += count) yield names.slice(at, at + count);
    }
  }
}
