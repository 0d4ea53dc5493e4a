import type { Redis } from 'ioredis';
import { redisScript } from '../../../src/redis/redis-script.ts';

/* What gateways of before did, word for word: they may be on one Redis with those of now. */

const olderScript = redisScript(`
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if not replid then return redis.error_reply('ERR no master_replid in INFO replication') end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('GET', KEYS[1]) ~= replid then
  redis.call('SET', KEYS[4], ARGV[5])
  redis.call('ZADD', KEYS[2], now + ARGV[6], ARGV[6])
end
redis.call('SET', KEYS[1], replid)

redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
redis.call('ZADD', KEYS[2], now + ARGV[2] * 10, ARGV[2])
local longest = 0
for _, lease in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  longest = math.max(longest, tonumber(lease))
end

redis.call('SET', KEYS[3], ARGV[3], 'NX')
local answer = { tostring(longest), redis.call('GET', KEYS[3]) }
for i = 5, #KEYS do
  local fresh = ARGV[i + 2]
  if ARGV[1] == 'renew' then redis.call('SET', KEYS[i], fresh)
  else redis.call('SET', KEYS[i], fresh, 'NX') end
  if string.find(KEYS[i], ':project:', 1, true) then redis.call('PEXPIRE', KEYS[i], ARGV[4]) end
  answer[#answer + 1] = redis.call('GET', KEYS[i])
end
return answer
`);

/** Reads the epoch of one project as an older gateway of this lease does (ms), and gives the answer of its script. */
export function readAsOlder(redis: Redis, namespace: string, lease: number): Promise<unknown> {
  const name = (rest: string) => `{${namespace}}:${rest}`;
  const keys = ['incarnation', 'leases', 'key-secret', 'epoch:everything', 'epoch:project:a'];
  const args = ['read', lease, 'fresh secret', 3_600_000, 'fresh everything', 2_000, 'fresh a'];
  return olderScript(redis, keys.map(name), args);
}

/** How an older gateway reads what tells it to forget. */
export function readScopesAsOlder(message: string): readonly string[] | undefined {
  try {
    const scopes: unknown = JSON.parse(message);
    return isStrings(scopes) ? scopes : undefined;
  } catch {
    return undefined;
  }
}

function isStrings(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}
