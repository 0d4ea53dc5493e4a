import type { FlightPlace, FlightPlaces, Standing } from '../cache/shared-flights.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';
import type { RedisConnections } from './redis-connections.ts';
import { redisScript } from './redis-script.ts';

/*
 * KEYS  1 what the engine needed for the query last time (ms); not there: it is not known to be slow
 *       2 the place: the token of the gateway that asks, or NOTHING
 * ARGV  1 token · 2 life of the place (ms)
 * A place that is the caller's already was taken by a call whose answer got lost.
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

/** KEYS 1 place · ARGV 1 token · 2 life (ms) */
const holdPlace = redisScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
`);

/** KEYS 1 place · ARGV 1 token · 2 for how long it says that there is nothing (ms), 0 for not at all */
const leavePlace = redisScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], '${NOTHING}', 'PX', ARGV[2])
return 1
`);

/** Where gateways meet, in Redis. Whatever is there may be lost at any time: then more than one gateway asks. */
export function createRedisFlights(options: {
  connections: RedisConnections;
  breaker: CircuitBreaker;
  namespace: string;
}): FlightPlaces {
  const { connections, breaker } = options;
  // The query is the hash tag, so that one script may touch both.
  const slowKey = (query: string) => `${options.namespace}:{${query}}:slow`;
  const placeKey = ({ query, key }: FlightPlace) => `${options.namespace}:{${query}}:flight:${key}`;

  return {
    async enter(place, token, life, within) {
      const keys = [slowKey(place.query), placeKey(place)];
      return readStanding(
        await breaker.run(() =>
          sooner(enterPlace(connections.reader, keys, [token, life]), within),
        ),
      );
    },
    async beat(place, token, life) {
      const held = await breaker.run(() =>
        holdPlace(connections.reader, [placeKey(place)], [token, life]),
      );
      return held === 1;
    },
    async leave(place, token, nothing = 0) {
      await breaker.run(() =>
        leavePlace(connections.reader, [placeKey(place)], [token, Math.ceil(nothing)]),
      );
    },
    async markSlow(query, milliseconds, life) {
      await breaker.run(() =>
        connections.reader.set(slowKey(query), Math.round(milliseconds), 'PX', Math.ceil(life)),
      );
    },
    async unmark(query) {
      await breaker.run(() => connections.reader.del(slowKey(query)));
    },
  };
}

function readStanding(reply: unknown): Standing {
  const [kind, text] = Array.isArray(reply) ? (reply as unknown[]) : [];
  if (kind === 'fast' || kind === 'nothing') return { kind };
  const expected = Number(text);
  if ((kind === 'lead' || kind === 'wait') && Number.isFinite(expected)) return { kind, expected };
  throw new Error('the script of the flights answered something else than a standing');
}

async function sooner<T>(promise: Promise<T>, milliseconds: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new Error('Redis did not answer in the time that was left')),
      milliseconds,
    );
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
