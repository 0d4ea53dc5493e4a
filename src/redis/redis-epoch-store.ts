import { LRUCache } from 'lru-cache';
import type { EpochStore } from '../query-cache/purge/epoch-store.ts';
import type { Scope } from '../query-cache/purge/scopes.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';
import { readAcknowledgement, readForget } from './forget-messages.ts';
import type { RedisConnections } from './redis-connections.ts';
import { redisScript } from './redis-script.ts';

/*
 * KEYS  1 incarnation · 2 leases in use · 3 key secret · 4 epoch of everything · 5… epochs asked for
 * ARGV  1 'read' or 'renew' · 2 lease of the caller (ms) · 3 fresh secret · 4 life of an unused project
 *       epoch (ms) · 5 fresh epoch of everything · 6 the longest lease that is allowed (ms) · 7… fresh epochs
 * Answers the incarnation, the longest lease, the secret, and the epochs of KEYS 5….
 *
 * The incarnation is the server's master_replid, which is new after every restart and failover. When it is
 * not the one that stands beside the epochs, these may come from a snapshot older than the last purge: a new
 * epoch of everything makes all entries of before unreachable. The SETs make a read-only replica refuse the
 * script, so that no epoch is ever read from one.
 *
 * The leases: a replica holds epochs for its own lease only, and leaves that here with every read, for ten times
 * as long. So a purge knows how long to wait, also when replicas were configured differently. Each length is
 * kept apart (member: length, score: when it is over), since the longest alone would hide the shorter ones, and
 * all would be gone when it ends.
 *
 * They may be lost: with another incarnation, or evicted, which shows by the member '0', whose score never ends. Then
 * a purge waits for the longest lease that anybody may have, for about as long. And a clock that is set forward may
 * end them while the lease that they note is still in use: what ends is noted once more as '1000.0', for one lease.
 * A clock that is set back only makes them last.
 */
const epochsScript = redisScript(`
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if not replid then return redis.error_reply('ERR no master_replid in INFO replication') end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('GET', KEYS[1]) ~= replid then
  redis.call('SET', KEYS[4], ARGV[5])
  redis.call('ZREM', KEYS[2], '0')
end
if not redis.call('ZSCORE', KEYS[2], '0') then
  redis.call('ZADD', KEYS[2], now + ARGV[6], ARGV[6], '+inf', '0')
end
redis.call('SET', KEYS[1], replid)

for _, lease in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)) do
  redis.call('ZREM', KEYS[2], lease)
  if not string.find(lease, '.', 1, true) then
    redis.call('ZADD', KEYS[2], now + lease, lease .. '.0')
  end
end
redis.call('ZADD', KEYS[2], now + ARGV[2] * 10, ARGV[2])
local longest = 0
for _, lease in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  longest = math.max(longest, tonumber(lease))
end

redis.call('SET', KEYS[3], ARGV[3], 'NX')
local answer = { replid, tostring(longest), redis.call('GET', KEYS[3]) }
for i = 5, #KEYS do
  local fresh = ARGV[i + 2]
  if ARGV[1] == 'renew' then redis.call('SET', KEYS[i], fresh)
  else redis.call('SET', KEYS[i], fresh, 'NX') end
  if string.find(KEYS[i], ':project:', 1, true) then redis.call('PEXPIRE', KEYS[i], ARGV[4]) end
  answer[#answer + 1] = redis.call('GET', KEYS[i])
end
return answer
`);

/** Acknowledgements are counted for so many purges, and from so many replicas. */
const MAX_ANNOUNCED = 1_000;
const MAX_REPLICAS = 1_000;

/** Epochs in Redis, shared by all replicas of one namespace. */
export function createRedisEpochStore(options: {
  connections: RedisConnections;
  breaker: CircuitBreaker;
  namespace: string;
  /** Tells this replica from the others; random. */
  replica: string;
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
}): EpochStore & {
  /** Does all that a look-up needs of Redis, for nobody; rejects when Redis does not do it. */
  probe(): Promise<void>;
} {
  const { connections, breaker } = options;
  // All in one hash slot, so that one script may touch them.
  const name = (rest: string) => `{${options.namespace}}:${rest}`;
  const channel = name('forget');
  const longestLease = Math.max(options.lease, options.longestLease);
  /** Where acknowledgements for a replica are told. */
  const channelTo = (replica: string) => name(`forgotten:${replica}`);
  /** Purges announced here → replicas that handled the announcement. */
  const acknowledgements = new LRUCache<string, Set<string>>({ max: MAX_ANNOUNCED });
  let closed = false;

  function acknowledge(purge: string, to: string): void {
    const { replica } = options;
    const message = JSON.stringify({ purge, replica });
    connections.epochs.publish(channelTo(to), message).catch(options.onError);
  }

  async function run(
    mode: 'read' | 'renew',
    scopes: readonly Scope[],
    redis = mode === 'read' ? connections.reader : connections.epochs,
  ): Promise<{ incarnation: string; longest: string; secret: string; tokens: string[] }> {
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
    if (!isStrings(reply) || reply.length !== scopes.length + 3) {
      throw new Error('the epoch script answered something else than epochs');
    }
    const [incarnation, longest, secret, ...tokens] = reply as [
      string,
      string,
      string,
      ...string[],
    ];
    return { incarnation, longest, secret, tokens };
  }

  return {
    async read(scopes) {
      const { secret, tokens } = await breaker.run(() => run('read', scopes));
      return { tokens, keySecret: options.keySecret.configured ?? secret };
    },
    async probe() {
      await run('read', []);
    },
    // Not through the breaker: a purge always tries.
    async renew(scopes) {
      const { longest } = await run('renew', scopes);
      const lease = Number(longest);
      if (lease >= options.lease && lease <= longestLease) return lease;
      // Nobody knows then for how long the old ones are used. It lasts until the note is taken away.
      throw new Error(
        `${name('leases')} holds a length that no lease can have: the longest is ${longest}, not between ${options.lease} and ${longestLease} ms`,
      );
    },
    // On the connection of the renewals: what one server is told first, it does first.
    async incarnation() {
      return (await run('read', [], connections.epochs)).incarnation;
    },
    async announce({ purge, scopes }) {
      acknowledgements.set(purge, new Set([options.replica]));
      const from = options.replica;
      await connections.epochs.publish(channel, JSON.stringify({ purge, scopes, from }));
    },
    acknowledged: (purge) => acknowledgements.get(purge)?.size ?? 1,
    onAnnouncement(listener) {
      const { subscriber } = connections;
      const own = channelTo(options.replica);
      const subscribe = () => void subscriber.subscribe(channel, own).catch(options.onError);
      if (subscriber.status === 'ready') subscribe();
      subscriber.on('ready', subscribe);
      subscriber.on('message', (heardOn, message) => {
        if (closed) return;
        if (heardOn === own) {
          const told = readAcknowledgement(message);
          const replicas = told && acknowledgements.get(told.purge);
          if (told && replicas && replicas.size < MAX_REPLICAS) replicas.add(told.replica);
        }
        if (heardOn !== channel) return;
        const forget = readForget(message);
        if (forget === undefined) return;
        listener(forget.scopes);
        const { purge, from } = forget;
        if (purge === undefined || from === undefined || from === options.replica) return;
        acknowledge(purge, from);
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
