import type { SweepStore } from '../cache/purge/sweep.ts';
import type { RedisClient } from './redis-connections.ts';
import type { RedisConnections } from './redis-connections.ts';
import { freshnessKey } from './redis-freshness.ts';
import { redisScript } from './redis-script.ts';

/** Values that are read or dropped at one time. */
const BATCH = 200;
/** Keys that Redis looks at in one step where only names are asked for. */
const NAMES = 1_000;
/** What a lock outlives its last sign of life (ms). */
const LOCK_LIFE = 30_000;

const extendLock = redisScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
`);

const dropLock = redisScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
`);

/**
 * What a sweep does in Redis: on the connection of the writer, in small steps. Not through the breaker: a sweep that
 * fails says nothing that requests need to know.
 */
export function createRedisSweepStore(options: {
  connections: Pick<RedisConnections, 'writer'>;
  namespace: string;
  newToken: () => string;
}): SweepStore {
  const { namespace, newToken } = options;
  const redis = options.connections.writer;
  const lockKey = `{${namespace}}:sweep`;
  let token = '';

  /** Names that match, each batch from one server; some may come twice. */
  async function* scan(pattern: string, count: number): AsyncGenerator<string[]> {
    for (const server of masters(redis)) {
      let cursor = '0';
      do {
        const [next, names] = await server.scan(
          cursor,
          'MATCH',
          pattern,
          'COUNT',
          count,
          'TYPE',
          'string',
        );
        cursor = next;
        yield names.slice(0, count);
        // COUNT is only a wish.
        for (let at = count; at < names.length; at += count) yield names.slice(at, at + count);
      } while (cursor !== '0');
    }
  }

  return {
    async lock() {
      token = newToken();
      return (await redis.set(lockKey, token, 'PX', LOCK_LIFE, 'NX')) !== null;
    },
    async holdLock() {
      return (await extendLock(redis, [lockKey], [token, LOCK_LIFE])) === 1;
    },
    async unlock() {
      await dropLock(redis, [lockKey], [token]);
    },
    async *tokens() {
      for await (const names of scan(freshnessKey(namespace, 'epoch:*'), NAMES)) {
        const tokens = names.length === 0 ? [] : await redis.mget(names);
        yield tokens.filter((one) => one !== null);
      }
    },
    async *heads(bytes) {
      for await (const names of scan(`${namespace}:entry:*`, BATCH)) {
        yield await Promise.all(
          names.map(async (name) => ({
            name,
            head: await redis.getrangeBuffer(name, 0, bytes - 1),
          })),
        );
      }
    },
    async drop(entries) {
      const counts = await Promise.all(entries.map((name) => redis.unlink(name)));
      return counts.reduce((sum, count) => sum + count, 0);
    },
  };
}

function masters(redis: RedisClient) {
  return 'nodes' in redis ? redis.nodes('master') : [redis];
}
