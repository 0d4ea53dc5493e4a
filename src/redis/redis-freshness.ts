import { createHash } from 'node:crypto';
import {
  checkLease,
  SESSION_LIFE,
  type CacheScope,
  type FreshnessStore,
  type SessionData,
} from '../freshness/freshness-store.ts';
import { LEASE_MARGIN } from '../common/leases.ts';
import type { Sealer } from '../common/sealing.ts';
import { type RedisConnections, redisScript } from './redis-connections.ts';
import type { RunAtRedis } from './redis-health.ts';

/** One hash slot, as scripts need it. The number tells key layouts of gateway versions apart. */
export const freshnessKey = (namespace: string, rest: string) => `{${namespace}}:2:${rest}`;
const ID = /^[\w-]{1,100}$/;

/*
 * The beginning of both scripts.
 *
 * KEYS  1 incarnation · 2 leases in use · 3 token of everything · 4 token of all sessions
 * ARGV  1 what to do · 2 id of the caller · 3 its lease (ms) · 4 longest lease allowed (ms)
 *       5 fresh token
 *
 * The incarnation is the server's master_replid, new after every restart and failover. If another
 * one stands beside the tokens, they may come from a snapshot older than the last purge. A new
 * token of everything then makes all entries unreachable, and sessions noted earlier are unknown.
 * The SETs make a read-only replica refuse the scripts, so nothing is ever read from one.
 *
 * Every call notes the lease of its gateway, for ten times as long (member: id and length, score:
 * its end), so that a change knows how long to wait, also if gateways are configured differently.
 * Notes may be lost: with another incarnation, or evicted, which shows by the missing member
 * 'complete', whose score never ends. A change then waits for the longest lease allowed.
 * A clock set forward may end a note whose lease is in use: each note that ends is noted once more,
 * for one lease. A clock set back only makes notes last longer.
 */
const COMMON = `
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if not replid then return redis.error_reply('ERR no master_replid in INFO replication') end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local mode, caller, lease, allowed, fresh = unpack(ARGV)
if redis.call('GET', KEYS[1]) ~= replid then
  redis.call('SET', KEYS[3], fresh)
  redis.call('ZREM', KEYS[2], 'complete')
end
if not redis.call('ZSCORE', KEYS[2], 'complete') then
  redis.call('ZADD', KEYS[2], now + allowed, 'lost ' .. allowed, '+inf', 'complete')
end
redis.call('SET', KEYS[1], replid)

for _, note in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)) do
  redis.call('ZREM', KEYS[2], note)
  local length = string.match(note, '^%S+ (%S+)$')
  if length then redis.call('ZADD', KEYS[2], now + length, note .. ' again') end
end
redis.call('ZADD', KEYS[2], now + lease * 10, caller .. ' ' .. lease)
local longest, others = 0, 0
for _, note in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  if note ~= 'complete' then
    local id, length = string.match(note, '^(%S+) (%S+)')
    length = tonumber(length)
    longest = math.max(longest, length)
    if id ~= caller then others = math.max(others, length) end
  end
end
`;

/**
 * Reads or renews tokens. KEYS 5 secret of the keys · 6… tokens; ARGV 6 fresh secret · 7 life of an
 * unused project token (ms) · 8… fresh tokens. Answers the incarnation, the longest lease, the
 * longest of the others, the secret, '1' if a renewal found a project's token, and the tokens.
 */
const tokensScript = redisScript(`${COMMON}
redis.call('SET', KEYS[5], ARGV[6], 'NX')
local answer = { replid, tostring(longest), tostring(others), redis.call('GET', KEYS[5]), '0' }
for i = 6, #KEYS do
  local is_project = string.find(KEYS[i], ':project:', 1, true)
  if mode ~= 'renew' then redis.call('SET', KEYS[i], ARGV[i + 2], 'NX')
  elseif not is_project then redis.call('SET', KEYS[i], ARGV[i + 2])
  elseif redis.call('SET', KEYS[i], ARGV[i + 2], 'XX') then answer[5] = '1' end
  if is_project then redis.call('PEXPIRE', KEYS[i], ARGV[7]) end
  answer[#answer + 1] = redis.call('GET', KEYS[i])
end
return answer
`);

/** Life of a claim, and of the holders' notes after an end (ms): longer than any of them counts. */
const BRIEF = 60_000;

/**
 * Reads or changes a session; `SessionCall` says what each mode means.
 * KEYS  5 session
 * ARGV  6 token · 7 expected version · 8 data · 9 a moment · 10 '1' for dirty · 11 its life (ms)
 * Answers the lease to wait for, and a text that changes if sessions may have been lost (a restart,
 * FLUSHALL). A record adds '1' for dirty, its data, its version, when it was last forwarded, and
 * how long others may still use what stood before its catalog (ms, at most the longest lease).
 *
 * The session is a hash: `token`; `version` and `era` (the token of all sessions) under which it
 * was noted, which a claim writes before there are `data`; the `incarnation` that wrote it; and for
 * each gateway that may use it as clean `held:ID`, with the end and the length of the lease.
 */
const sessionScript = redisScript(`${COMMON}
local key = KEYS[5]
local token, expected, data, at, dirty, life = unpack(ARGV, 6)
redis.call('SET', KEYS[4], fresh, 'NX')
local era = redis.call('GET', KEYS[4])

local function get(field) return redis.call('HGET', key, field) end
local function noted() return get('incarnation') == replid and get('version') end
local function known() return noted() and get('data') end
local function stale() return get('version') ~= get('token') or get('era') ~= era end

local function lease_of_others()
  if not known() then return others end
  local found = 0
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    local id = string.match(all[i], '^held:(.+)$')
    if id then
      local over, length = string.match(all[i + 1], '^(%d+) (%S+)$')
      if tonumber(over) <= now then redis.call('HDEL', key, all[i])
      elseif id ~= caller then found = math.max(found, tonumber(length)) end
    end
  end
  return found
end

local function answer(to_wait)
  local whence = replid .. ' ' .. era
  if not known() then return { tostring(to_wait), whence } end
  local is_stale = stale()
  if mode ~= 'peek' then
    redis.call('PEXPIRE', key, life)
    if not is_stale then
      local note = string.format('%.0f %s', now + lease * 10, lease)
      redis.call('HSET', key, 'held:' .. caller, note)
    end
  end
  return { tostring(to_wait), whence, is_stale and '1' or '0', get('data'), get('version'), get('at'),
    tostring(math.min((get('settles') or now) - now, longest * ${LEASE_MARGIN})) }
end

if mode == 'read' then
  if noted() and not get('data') then redis.call('HDEL', key, 'version') end
elseif mode == 'claim' then
  local was_stale = noted() and stale()
  redis.call('HDEL', key, 'data', 'settles')
  redis.call('HSET', key, 'incarnation', replid, 'era', era, 'version', token,
    'token', was_stale and fresh or token)
  redis.call('PEXPIRE', key, ${BRIEF})
elseif mode == 'put' then
  if dirty == '1' then
    redis.call('HSET', key, 'incarnation', replid, 'era', era, 'version', token, 'token', fresh)
  elseif not noted() or get('version') ~= token then
    return redis.error_reply('ERR the claim on the session is gone')
  end
  redis.call('HSET', key, 'data', data, 'at', at)
  return answer(lease_of_others())
elseif mode == 'renew' then
  if noted() then redis.call('HSET', key, 'token', token) end
  return answer(lease_of_others())
elseif mode == 'take' then
  if known() and not stale() then
    if get('version') == expected then
      redis.call('HSET', key, 'data', data, 'version', token, 'token', token,
        'settles', string.format('%.0f', now + lease_of_others() * ${LEASE_MARGIN}))
    elseif get('data') ~= data then redis.call('HSET', key, 'token', token) end
  end
  return answer(lease_of_others())
elseif mode == 'touch' then
  if known() then redis.call('HSET', key, 'at', at) end
  return { '0' }
elseif mode == 'end' then
  redis.call('HDEL', key, 'incarnation', 'token', 'version', 'era', 'data', 'at', 'settles')
  redis.call('PEXPIRE', key, ${BRIEF})
end
return answer(0)
`);

export function createRedisFreshness(options: {
  connections: Pick<RedisConnections, 'reader' | 'epochs' | 'subscriber'>;
  run: RunAtRedis;
  namespace: string;
  /** Must seal equal texts alike: the script compares records. */
  sealer: Sealer;
  /** How long this gateway uses what it reads now (ms). */
  lease: () => number;
  /** The longest lease that any gateway may be configured with (ms). */
  longestLease: number;
  /** Life of a project's token that no request asks for (ms). */
  unusedAfter: () => number;
  life?: number;
  newToken: () => string;
  onError: (error: unknown) => void;
}) {
  const { run, sealer, lease, longestLease, newToken, life = SESSION_LIFE } = options;
  const gateway = newToken();
  const freshSecret = newToken();
  const { reader, epochs, subscriber } = options.connections;
  const key = (rest: string) => freshnessKey(options.namespace, rest);
  const common = ['incarnation', 'leases', 'epoch:everything', 'epoch:sessions'].map(key);
  const channel = key('forget');
  const channelTo = (other: string) => key(`forgotten:${other}`);

  const caller = (what: string) => [what, gateway, lease(), longestLease, newToken()];

  async function ask(mode: 'read' | 'renew', scopes: readonly string[], redis = epochs) {
    const reply = await tokensScript(
      redis,
      [...common, key('key-secret'), ...scopes.map((scope) => key(`epoch:${scope}`))],
      [...caller(mode), freshSecret, options.unusedAfter(), ...scopes.map(() => newToken())],
    );
    const [incarnation = '', longest, others, keySecret = '', known, ...tokens] = reply as string[];
    const leases = { lease: Number(longest), others: Number(others) };
    return { incarnation, ...leases, keySecret, known: known === '1', tokens };
  }

  const askSession: FreshnessStore['session'] = async (name, call) => {
    // A session id is a credential, so Redis gets its hash only.
    const session = key(`session:${createHash('sha256').update(name).digest('base64url')}`);
    // Bound to the session, so that a record cannot be moved to another one.
    const context = `${session} data`;
    const { token, expected, data, at, dirty } = { ...NO_ARGUMENTS, ...call };
    const sealed = data === undefined ? '' : sealer.sealText(textOf(data), context);
    const reply = await sessionScript(
      call.do === 'read' || call.do === 'peek' ? reader : epochs,
      [...common, session],
      caller(call.do).concat(token, expected, sealed, data?.forwardedAt ?? at, dirty ? 1 : 0, life),
    );
    return readReply(reply as string[], (text) => sealer.openText(text, context));
  };

  return {
    async read(scopes) {
      const { tokens, keySecret } = await run(() => ask('read', scopes, reader));
      return { tokens, keySecret };
    },
    probe: () => ask('read', [], reader),
    // Bypasses the breaker: a purge always tries.
    async renew(scopes) {
      const own = lease();
      const renewed = await ask('renew', scopes);
      checkLease(renewed.lease, own, longestLease, key('leases'));
      return renewed;
    },
    // Uses the connection of renewals, which one server executes in order.
    incarnation: async () => (await ask('read', [])).incarnation,
    // A renewal bypasses the breaker: a statement that makes a session dirty waits for it.
    session: (name, call) =>
      call.do === 'renew' ? askSession(name, call) : run(() => askSession(name, call)),
    async announce({ purge, scopes }) {
      await epochs.publish(channel, JSON.stringify({ purge, scopes, gateway }));
    },
    listen(listener) {
      const own = channelTo(gateway);
      const subscribe = () => void subscriber.subscribe(channel, own).catch(options.onError);
      if (subscriber.status === 'ready') subscribe();
      subscriber.on('ready', subscribe);
      subscriber.on('message', (heardOn, message) => {
        const told = readMessage(message);
        if (told === undefined) return;
        const { purge, scopes, gateway: from } = told;
        if (heardOn === own) return listener.forgotten(purge, from);
        if (heardOn !== channel || scopes === undefined) return;
        listener.renewed(scopes);
        if (from === gateway) return;
        const answer = JSON.stringify({ purge, gateway });
        epochs.publish(channelTo(from), answer).catch(options.onError);
      });
    },
  } satisfies FreshnessStore & { probe(): unknown };
}

const NO_ARGUMENTS = { token: '', expected: '', data: undefined, at: 0, dirty: false } as const;

/** Text in a fixed form: equal data are equal bytes for the script. */
const textOf = ({ principal, replica, spelling, catalog, profile }: SessionData): string =>
  JSON.stringify({ principal, replica, spelling, catalog, profile });

/** The lease alone if there is no record, or it was sealed with another key. */
function readReply(
  [length, incarnation = '', dirty, sealed, version = '', at, left]: readonly string[],
  open: (text: string) => string | undefined,
) {
  const told = { lease: Number(length), incarnation };
  const opened = sealed && open(sealed);
  // Without a key, sealed texts of other gateways open too; they are no JSON.
  if (!opened?.startsWith('{')) return told;
  const data = JSON.parse(opened) as SessionData;
  const { principal, replica, spelling, profile, catalog } = data;
  const forwardedAt = Number(at);
  if (!isStrings([principal, replica, spelling, profile, catalog ?? '']) || !(forwardedAt >= 0)) {
    throw new Error('the script of the sessions answered something else than a session');
  }
  const settles = Number(left) > 0 ? { settles: Number(left) } : {};
  return { ...told, ...settles, record: { ...data, dirty: dirty !== '0', version, forwardedAt } };
}

function readMessage(message: string) {
  try {
    const { purge, gateway, scopes } = JSON.parse(message) as Record<string, unknown>;
    if (typeof purge !== 'string' || typeof gateway !== 'string') return undefined;
    if (!ID.test(purge) || !ID.test(gateway)) return undefined;
    // A text that names no scope is forgotten without harm.
    return { purge, gateway, scopes: isStrings(scopes) ? (scopes as CacheScope[]) : undefined };
  } catch {
    return undefined;
  }
}

const isStrings = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((item) => typeof item === 'string');
