import type { EpochStore } from '../query-cache/epoch-store.ts';
import type { Scope } from '../query-cache/scopes.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';
import type { RedisConnections } from './redis-connections.ts';
import { redisScript } from './redis-script.ts';

/*
 * KEYS  1 incarnation · 2 leases in use · 3 key secret · 4 epoch of everything · 5… epochs asked for
 * ARGV  1 'read' or 'renew' · 2 lease of the caller (ms) · 3 fresh secret · 4 life of an unused project
 *       epoch (ms) · 5 fresh epoch of everything · 6 the longest lease that is allowed (ms) · 7… fresh epochs
 * Answers the longest lease, the secret, and the epochs of KEYS 5….
 *
 * The incarnation is the server's master_replid, which is new after every restart and failover. When it is
 * not the one that stands beside the epochs, these may come from a snapshot older than the last purge: a new
 * epoch of everything makes all entries of before unreachable. The SETs make a read-only replica refuse the
 * script, so that no epoch is ever read from one.
 *
 * The leases: a replica holds epochs for its own lease only, and leaves that here with every read, for ten times
 * as long. So a purge knows how long to wait, also when replicas were configured differently. Each length is
 * kept apart (member: length, score: when it is over), since the longest alone would hide the shorter ones, and
 * all would be gone when it ends. Another incarnation may have lost them: for as long as the longest lease that
 * anybody may have, a purge waits for that.
 */
const epochsScript = redisScript(`
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

/** Epochs in Redis, shared by all replicas of one namespace. */
export function createRedisEpochStore(options: {
  connections: RedisConnections;
  breaker: CircuitBreaker;
  namespace: string;
  /** Milliseconds for which this replica uses what it reads. */
  lease: number;
  /** The longest lease that the configuration of any replica may name (ms). */
  longestLease: number;
  /** Milliseconds after which the epoch of a project that nobody asked for is dropped. */
  unusedAfter: number;
  newToken: () => string;
  /** The configured secret of the keys, or a new one that is used if there is none in Redis yet. */
  keySecret: { readonly configured: string | undefined; readonly fresh: string };
  onError: (error: unknown) => void;
}): EpochStore {
  const { connections, breaker } = options;
  // All in one hash slot, so that one script may touch them.
  const name = (rest: string) => `{${options.namespace}}:${rest}`;
  const channel = name('forget');
  let closed = false;

  async function run(
    mode: 'read' | 'renew',
    scopes: readonly Scope[],
  ): Promise<{ lease: number; secret: string; tokens: string[] }> {
    const redis = mode === 'read' ? connections.reader : connections.epochs;
    const reply = await epochsScript(
      redis,
      [
        name('incarnation'),
        name('leases'),
        name('key-secret'),
        name('epoch:everything'),
        ...scopes.map((scope) => name(`epoch:${scope}`)),
      ],
      [
        mode,
        options.lease,
        options.keySecret.fresh,
        options.unusedAfter,
        options.newToken(),
        options.longestLease,
        ...scopes.map(() => options.newToken()),
      ],
    );
    if (!isStrings(reply) || reply.length !== scopes.length + 2) {
      throw new Error('the epoch script answered something else than epochs');
    }
    const [lease, secret, ...tokens] = reply as [string, string, ...string[]];
    return { lease: Number(lease), secret, tokens };
  }

  return {
    async read(scopes) {
      const { secret, tokens } = await breaker.run(() => run('read', scopes));
      return { tokens, keySecret: options.keySecret.configured ?? secret };
    },
    // Not through the breaker: a purge always tries.
    async renew(scopes) {
      return (await run('renew', scopes)).lease;
    },
    async announce(scopes) {
      await connections.epochs.publish(channel, JSON.stringify(scopes));
    },
    onAnnouncement(listener) {
      const subscribe = () => void connections.subscriber.subscribe(channel).catch(options.onError);
      if (connections.subscriber.status === 'ready') subscribe();
      connections.subscriber.on('ready', subscribe);
      connections.subscriber.on('message', (_channel, message) => {
        const scopes = readScopes(message);
        if (scopes !== undefined && !closed) listener(scopes);
      });
    },
    async close() {
      closed = true;
    },
  };
}

function isStrings(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

function readScopes(message: string): readonly Scope[] | undefined {
  try {
    const scopes: unknown = JSON.parse(message);
    return isStrings(scopes) ? (scopes as Scope[]) : undefined;
  } catch {
    return undefined;
  }
}
