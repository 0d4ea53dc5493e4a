import { redisScript } from './redis-script.ts';

/*
 * What all scripts of the sessions begin with.
 *
 * KEYS  1 incarnation · 2 leases in use · 3 era · 4 the session, if there is one
 * ARGV  1 id of the caller · 2 its lease (ms) · 3 the longest lease that is allowed (ms) · 4 fresh era
 *       5 life of a session (ms) · 6… of the script
 *
 * The session is a hash. `incarnation` is the server's master_replid when it was written: in another one it may
 * come from a snapshot that is older than its last change, so it is not known. `era` is the era in which it was
 * begun: in another one it is dirty. `claim` stands there while it is being begun, and no record yet. For each
 * replica that may hold it as clean there is `held:ID`, with the moment when that note is over and the length of
 * the lease; the note is kept for ten times the lease.
 *
 * Beside that, every caller leaves its lease in one sorted set (member: id and length, score: when it is over),
 * for changes of which nobody knows who holds what was. What another incarnation, or an eviction, may have lost
 * of it counts as the longest lease that anybody may have, for as long. The SETs make a read-only replica refuse
 * every script.
 */
const COMMON = `
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if not replid then return redis.error_reply('ERR no master_replid in INFO replication') end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('GET', KEYS[1]) ~= replid or redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('ZADD', KEYS[2], now + ARGV[3], 'lost ' .. ARGV[3])
end
redis.call('SET', KEYS[1], replid)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
redis.call('ZADD', KEYS[2], now + ARGV[2] * 10, ARGV[1] .. ' ' .. ARGV[2])
redis.call('SET', KEYS[3], ARGV[4], 'NX')
local era = redis.call('GET', KEYS[3])

local function lease_of_any_other()
  local longest = 0
  for _, member in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    local id, length = string.match(member, '^(%S+) (%S+)$')
    if id ~= ARGV[1] then longest = math.max(longest, tonumber(length)) end
  end
  return longest
end

local function get(field) return redis.call('HGET', KEYS[4], field) end
local function bound() return get('incarnation') == replid end
local function known() return bound() and not get('claim') end
local function dirty() return get('dirty') == '1' or get('era') ~= era end

local function make_dirty(version)
  if get('dirty') ~= '1' then redis.call('HSET', KEYS[4], 'dirty', '1', 'version', version) end
end

local function lease_of_others()
  if not known() then return lease_of_any_other() end
  local longest = 0
  local all = redis.call('HGETALL', KEYS[4])
  for i = 1, #all, 2 do
    local id = string.match(all[i], '^held:(.+)$')
    if id then
      local over, length = string.match(all[i + 1], '^(%d+) (%S+)$')
      if tonumber(over) <= now then redis.call('HDEL', KEYS[4], all[i])
      elseif id ~= ARGV[1] then longest = math.max(longest, tonumber(length)) end
    end
  end
  return longest
end

local function answer(lease)
  if not known() then return { tostring(lease) } end
  redis.call('PEXPIRE', KEYS[4], ARGV[5])
  local is_dirty = dirty()
  if not is_dirty then
    local note = string.format('%.0f %s', now + ARGV[2] * 10, ARGV[2])
    redis.call('HSET', KEYS[4], 'held:' .. ARGV[1], note)
  end
  return { tostring(lease), is_dirty and '1' or '0', get('who'), get('where'), get('version'),
    get('forwardedAt') }
end
`;

/** Milliseconds for which a claim stands, and the notes of replicas after an end: longer than any of them counts. */
const BRIEF = 60_000;

const script = (body: string) => redisScript(COMMON + body);

/**
 * Whoever asks for a session that is being begun has its id already: its caller has given up. What happens in it from
 * now on is not noted, so that the second half of the beginning must fail.
 */
export const readSession = script(`
if bound() and get('claim') then redis.call('DEL', KEYS[4]) end
return answer(0)
`);

/**
 * The first half of a beginning: nothing is known of the session from now on, and what happens to it until the
 * second half is remembered. So a second half that Redis carries out late, when its caller has given up, makes
 * nothing clean that was made dirty in between. ARGV 6 is the claim.
 */
export const claimSession = script(`
local stays_dirty = bound() and dirty()
redis.call('HSET', KEYS[4], 'incarnation', replid, 'era', era, 'claim', ARGV[6],
  'dirty', stays_dirty and '1' or '0')
redis.call('PEXPIRE', KEYS[4], ${BRIEF})
return {}
`);

/** ARGV  6 claim · 7 who · 8 where · 9 version · 10 forwardedAt · 11 '1' for dirty */
export const beginSession = script(`
if not bound() or get('claim') ~= ARGV[6] then
  return redis.error_reply('ERR the claim on the session is gone')
end
redis.call('HDEL', KEYS[4], 'claim')
redis.call('HSET', KEYS[4], 'who', ARGV[7], 'where', ARGV[8], 'version', ARGV[9], 'forwardedAt', ARGV[10])
if ARGV[11] == '1' then make_dirty(ARGV[9]) end
return answer(0)
`);

/** ARGV 6 is the version of the dirty record. */
export const dirtySession = script(`
if bound() then make_dirty(ARGV[6]) end
return answer(lease_of_others())
`);

export const dirtyAllSessions = script(`
redis.call('SET', KEYS[3], ARGV[4])
return { tostring(lease_of_any_other()) }
`);

/** ARGV  6 the version that is expected · 7 where · 8 the next version */
export const setSessionCatalog = script(`
if known() and not dirty() then
  if get('version') == ARGV[6] then redis.call('HSET', KEYS[4], 'where', ARGV[7], 'version', ARGV[8])
  elseif get('where') ~= ARGV[7] then make_dirty(ARGV[8]) end
end
return answer(lease_of_others())
`);

/** ARGV 6 is the moment. It is asked for by nobody, so nothing is held afterwards. */
export const touchSession = script(`
if known() then redis.call('HSET', KEYS[4], 'forwardedAt', ARGV[6]) end
return {}
`);

/** The notes of who holds it stay: an engine may begin another session of that id at once. */
export const endSession = script(`
redis.call('HDEL', KEYS[4], 'incarnation', 'era', 'claim', 'dirty', 'who', 'where', 'version', 'forwardedAt')
redis.call('PEXPIRE', KEYS[4], ${BRIEF})
return {}
`);
