import type { ValueTier } from '../../../src/cache/shared-entries.ts';
import type { FlightLocks } from '../../../src/cache/shared-flights.ts';
import { NO_SEALER } from '../../../src/common/sealing.ts';
import type { Backend } from '../../../src/compose/cache.ts';
import type { CacheGround } from '../../../src/compose/redis-backend.ts';
import type { FleetStore } from '../../../src/freshness/fleet.ts';
import { checkLease, type FreshnessStore } from '../../../src/freshness/freshness-store.ts';
import type { Channel } from '../../../src/workers/link.ts';
import { createLink, type Habits } from '../links.ts';
import type { Random } from '../random.ts';
import type { RedisModel } from '../redis/model.ts';
import type { SimulatedTime } from '../time.ts';
import type { FleetProgram } from './gateway.ts';

/** The longest lease that a configuration may name (ms). */
export const LONGEST_LEASE = 2_000;
/** What the product waits for an answer on each of its connections (ms). */
const LANES = { reader: 100, writer: 500, epochs: 500, messages: Infinity };
type Lane = keyof typeof LANES;
export const LANE_NAMES = Object.keys(LANES) as readonly Lane[];

/** Bad weather on a link: a few milliseconds, now and then a second and a half, lost, twice, in another order. */
export const ROUGH: Habits = {
  ...{ hopMs: 8, slowOneIn: 60, slowMs: 1_500 },
  ...{ loseOneIn: 40, doubleOneIn: 40, reorderOneIn: 40 },
};
/** What most links are like meanwhile: the breaker closes one that is rough again and again. */
export const UNSTEADY: Habits = {
  ...{ hopMs: 8, slowOneIn: 1_000, slowMs: 1_500 },
  ...{ loseOneIn: 1_000, doubleOneIn: 200, reorderOneIn: 100 },
};
export const SMOOTH: Habits = {
  ...{ hopMs: 4, slowOneIn: 0, slowMs: 0 },
  ...{ loseOneIn: 0, doubleOneIn: 0, reorderOneIn: 0 },
};

/** The way of one gateway to the Redis that all share, behind the product's own breaker. */
export function wayToRedis(options: {
  program: FleetProgram;
  redis: RedisModel;
  time: SimulatedTime;
  random: Random;
  habits: Habits;
  id: string;
  /** Whether it hears of no purge of others. */
  isDeaf: () => boolean;
}) {
  const { program, redis, time, random, habits, id, isDeaf } = options;
  const link = createLink<Lane>({
    ...{ time, random, lanes: LANES, habits },
    onCut: (error) => health.failed(error),
  });
  let lease = () => LONGEST_LEASE;
  let unusedAfter = () => Infinity;
  /** As it asks for what it uses for its lease of now. */
  const store = () => redis.of({ id, lease: lease(), unusedAfter: unusedAfter() });
  const health = program.health.createRedisHealth({
    isConnected: () => link.mood() !== 'cut',
    probe: () => link.ask('reader', store().incarnation),
    sleep: time.sleep,
    onChange() {},
  });

  const ask = <T>(lane: Lane, run: () => T) => link.ask(lane, async () => run());
  /** What a request asks: not while Redis is left alone. */
  const through = <T>(lane: Lane, run: () => T) => health.run(() => ask(lane, run));

  function open(ground: CacheGround): Backend {
    ({ lease, unusedAfter } = ground);
    const freshness: FreshnessStore = {
      async read(scopes) {
        const asked = store();
        return health.run(() => link.ask('reader', () => asked.read(scopes)));
      },
      async renew(scopes) {
        const own = lease();
        const asked = store();
        const renewed = await link.ask('epochs', () => asked.renew(scopes));
        checkLease(renewed.lease, own, LONGEST_LEASE, 'the simulated Redis');
        return renewed;
      },
      incarnation: () => link.ask('epochs', store().incarnation),
      session: () => Promise.reject(new Error('there are no sessions here')),
      async announce(announcement) {
        await ask('epochs', () => redis.publish(announcement, id));
      },
      listen(listener) {
        const tell = (run: () => void) => isDeaf() || link.tell('messages', run);
        redis.listen(id, tell, listener);
      },
    };
    const values: ValueTier = {
      get: (key, from, count) =>
        through('reader', () => redis.get(key).subarray(from, from + count)),
      async set(key, value, lifetime, replace = false) {
        if (lifetime > 0) await through('writer', () => redis.set(key, value, lifetime, replace));
      },
    };
    const locks: FlightLocks = {
      enter: (lock, token, life) => through('reader', () => redis.enter(lock, token, life)),
      beat: (lock, token, life) => through('reader', () => redis.beat(lock, token, life)),
      leave: (lock, token, forMs = 0) =>
        through('reader', () => redis.leaveLock(lock, token, forMs)),
      markSlow: (query, ms, life) => through('reader', () => redis.markSlow(query, ms, life)),
      unmark: (query) => through('reader', () => redis.unmark(query)),
    };
    const fleet: FleetStore = {
      hold: (task, life) => ask('writer', () => redis.hold(task, id, life)),
      leave: (task) => ask('writer', () => redis.leaveTask(task, id)),
      note: (name) => ask('writer', () => redis.note(name)),
      write: (name, text, task) => ask('writer', () => redis.write(name, text, id, task)),
    };
    return {
      freshness,
      fleet,
      entries: program.entries.createSharedEntries(values, NO_SEALER, ground),
      sharedFlights: program.flights.createSharedFlights({ ...ground, locks }),
    };
  }

  return {
    link,
    open,
    close() {
      health.close();
      redis.leave(id);
    },
  };
}

/**
 * The channel between a worker and the primary process: what is sent arrives in order, or not at all.
 * @returns both of its ends
 */
export function channelPair(options: {
  time: SimulatedTime;
  random: Random;
  habits: Habits;
  /** Whether no worker is told of the purges of others. */
  isDeaf: () => boolean;
}) {
  const { time, random, habits, isDeaf } = options;
  const inOrder = { ...habits, loseOneIn: 0, doubleOneIn: 0, reorderOneIn: 0 };
  const link = createLink({ time, random, lanes: {}, habits: inOrder });
  const hears: Record<'worker' | 'primary', (message: unknown) => void> = {
    worker() {},
    primary() {},
  };
  const end = (own: keyof typeof hears, other: keyof typeof hears): Channel => ({
    send(message, _connection, _options, callback) {
      const copy: unknown = JSON.parse(JSON.stringify(message));
      if (isDeaf() && (copy as { service?: string }).service === 'news') return callback(null);
      link.tell(`to ${other}`, () => hears[other](copy));
      callback(null);
    },
    on: (_event, listener) => (hears[own] = listener),
  });
  return { link, worker: end('worker', 'primary'), primary: end('primary', 'worker') };
}
