import { createHash } from 'node:crypto';
import type { RedisClient } from './redis-connections.ts';

export type RunScript = (
  redis: RedisClient,
  keys: readonly string[],
  args: readonly (string | number | Buffer)[],
) => Promise<unknown>;

/** A Lua script, sent whole only when the server does not know it yet. Safe to run twice. */
export function redisScript(source: string): RunScript {
  const sha = createHash('sha1').update(source).digest('hex');
  return async (redis, keys, args) => {
    try {
      return await redis.evalsha(sha, keys.length, ...keys, ...args);
    } catch (error) {
      if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
      return await redis.eval(source, keys.length, ...keys, ...args);
    }
  };
}
