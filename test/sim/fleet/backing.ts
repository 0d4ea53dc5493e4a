import type { Clock } from '../../../src/common/clock.ts';
import type { Backend } from '../../../src/compose/cache.ts';
import type { CacheGround } from '../../../src/compose/redis-backend.ts';
import type { Link } from '../../../src/workers/link.ts';
import type { Habits, Mood } from '../links.ts';
import { pick, type Random } from '../random.ts';
import type { SimulatedTime } from '../time.ts';
import type { FleetProgram } from './gateway.ts';
import { createRedisModel } from '../redis/model.ts';
import { channelPair, LANE_NAMES, LONGEST_LEASE, wayToRedis } from './stores.ts';

/** What one gateway stands on. */
export interface Backing {
  /** Whether all gateways share the entries. */
  readonly isShared: boolean;
  readonly link: {
    set(mood: Mood): void;
    mood(): Mood;
    failedSince(moment: number): boolean;
    slowDown(ms: number): void;
  };
  /** Breaks one of its connections, drawn from all, and tells which; mends it without a draw. */
  readonly breakOne?: (random?: Random) => string;
  /** Opens what gateways share; the product does it by itself where there is a primary process. */
  readonly open?: (ground: CacheGround) => Backend;
  readonly primary?: (program: FleetProgram, clock: Clock) => Link;
  /** The gateway is dead: nothing of it arrives any more. */
  close(): void;
}

/** What happens to what they share; it tells more, and for how long it lasts (ms) if it has to be mended. */
export interface Trouble {
  readonly told: string;
  readonly lasts?: number;
  mend?(): void;
}

/** What all gateways of a run share, and what may happen to it. */
export interface Shared {
  /** @param id names one start of a gateway */
  of(id: string, random: Random, habits: Habits): Backing;
  /** What happens to it, by names; each draws what it needs. */
  readonly troubles: Readonly<Record<string, (random: Random) => Trouble>>;
}

/** What has to be mended lasts so long at most (ms). */
const LASTS = 3_000;

interface Settings {
  readonly program: FleetProgram;
  readonly time: SimulatedTime;
  readonly newToken: () => string;
  /** Whether no gateway hears of the purges of others. */
  readonly isDeaf: () => boolean;
}

/** A Redis of all gateways. */
export function overRedis({ program, time, newToken, isDeaf }: Settings): Shared {
  const { now } = time.clock;
  const redis = createRedisModel({ now, newToken, longestLease: LONGEST_LEASE });
  return {
    of(id, random, habits) {
      const { link, open, close } = wayToRedis({
        ...{ program, redis, time, random, habits, id, isDeaf },
      });
      return {
        isShared: true,
        link,
        open,
        breakOne(drawn) {
          const lane = drawn && pick(drawn, LANE_NAMES);
          link.breakLane(lane);
          return lane ?? '';
        },
        close() {
          link.set('cut');
          close();
        },
      };
    },
    troubles: {
      'Redis saves': () => {
        redis.save();
        return { told: '' };
      },
      'Redis restarts': (random) => {
        const comesBack = random(2) === 0 ? 'empty' : 'as it was saved';
        redis.restart(comesBack);
        return { told: comesBack };
      },
      'Redis evicts': (random) => {
        redis.evict(random);
        return { told: '' };
      },
      'Redis forgets all': () => {
        redis.forget();
        return { told: '' };
      },
      'Redis does not write': (random) => {
        const as = pick(random, ['full', 'readOnly'] as const);
        redis.refuseWrites(as);
        return { told: as, lasts: random(LASTS), mend: () => redis.refuseWrites(undefined) };
      },
      'the clock of Redis is set': (random) => {
        const ms = random(8_000) - 4_000;
        redis.stepClock(ms);
        return { told: `by ${ms} ms` };
      },
    },
  };
}

/** The primary process of several workers. */
export function overPrimary({ program, time, newToken, isDeaf }: Settings): Shared {
  const attach = program.shared.createPrimary({
    ...{ clock: time.clock, newToken, orphanLease: LONGEST_LEASE },
    engineStates: async () => undefined,
    inForce: () => undefined,
    configuration: () => '',
    states: { engines: () => [], reloaded: () => true },
  });
  return {
    of(_id, random, habits) {
      const { link, worker, primary } = channelPair({ time, random, habits, isDeaf });
      let leave = () => {};
      return {
        isShared: false,
        link,
        primary(own, clock) {
          leave = attach(own.link.createLink(primary, 'the worker', time.clock));
          return own.link.createLink(worker, 'the primary process', clock);
        },
        close() {
          link.set('cut');
          leave();
        },
      };
    },
    troubles: {},
  };
}
