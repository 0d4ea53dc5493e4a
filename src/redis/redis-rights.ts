import { ReplyError, type Redis } from 'ioredis';
import type { RedisClient } from './redis-connections.ts';

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

/**
 * What the user of the gateway may not do, in the words of the server; none where it may do everything. Rejects when
 * the server does not answer.
 * @param node any of the nodes, on a connection of its own, since it subscribes
 */
export async function missingRights(
  client: RedisClient,
  node: Redis,
  namespace: string,
): Promise<readonly string[]> {
  const missing: string[] = [];

  async function attempt<T>(what: string, work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      // Other refusals are of a script that is not loaded, or of a server that takes no writes just now.
      if (!(error instanceof ReplyError)) throw error;
      const { message } = error as Error;
      if (message.startsWith('NOPERM')) missing.push(`${what}: ${message}`);
      return undefined;
    }
  }

  const value = `${namespace}:entry:rights`;
  // A key and a channel.
  const shared = `{${namespace}}:rights`;
  await attempt('PING', () => client.ping());
  await attempt(`GET ${value}`, () => client.get(value));
  await attempt('EVALSHA', () => client.evalsha('0'.repeat(40), 1, shared));
  const refused = await attempt(`EVAL with ${shared}`, () =>
    client.eval(SCRIPT, 1, shared, ...TRIALS),
  );
  if (Array.isArray(refused)) {
    for (const name of new Set(refused)) missing.push(`${String(name)} in scripts`);
  }
  await attempt(`PUBLISH ${shared}`, () => client.publish(shared, ''));
  await attempt(`SUBSCRIBE ${shared}`, () => node.subscribe(shared));
  return missing;
}
