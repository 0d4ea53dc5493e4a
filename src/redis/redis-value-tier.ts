import type { ValueTier } from '../cache/shared-entries.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';
import type { RedisConnections } from './redis-connections.ts';
import { redisScript } from './redis-script.ts';

/**
 * Bytes 8 to 15 are the moment at which the fill began, big-endian. They are compared as numbers: Lua compares
 * strings by the locale in which the server runs.
 */
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

/** Tier 2 in Redis: one string for each entry, which Redis drops when its time is over. */
export function createRedisValueTier(options: {
  connections: Pick<RedisConnections, 'reader' | 'writer'>;
  breaker: CircuitBreaker;
  namespace: string;
}): ValueTier {
  const { connections, breaker } = options;
  const redisKey = (key: string) => `${options.namespace}:entry:${key}`;

  return {
    get: (key) => breaker.run(() => connections.reader.getBuffer(redisKey(key))),
    async set(key, value, lifetime, { replace } = { replace: false }) {
      const milliseconds = Math.ceil(lifetime);
      if (milliseconds <= 0) return;
      await breaker.run(() =>
        setInOrder(
          connections.writer,
          [redisKey(key)],
          [value, milliseconds, replace ? 'replace' : 'in-order'],
        ),
      );
    },
  };
}
