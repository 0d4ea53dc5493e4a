import { beforeEach, describe, expect, test } from '@jest/globals';
import type { PurgeOrder } from '../../../../src/cache/purge/purge.ts';
import { createSemaphore } from '../../../../src/common/semaphore.ts';
import type { GatewayEvent } from '../../../../src/common/events.ts';
import { createMemoryFleet, fleetOf, type FleetStore } from '../../../../src/freshness/fleet.ts';
import { createWatcher } from '../../../../src/features/watch/watcher.ts';
import { gate } from '../../../support/stub-engine.ts';
import { handClock, type HandClock } from '../../cache/fakes.ts';

const EVERY = 60_000;
const { signal } = new AbortController();

/** What the source says, or why it does not; and what every purge saw of it. */
let data: string | Error;
let asked: number;
let purges: { readonly by: string; readonly data: string }[];
let purgeEnds: () => Promise<{ ok: boolean }>;
let events: GatewayEvent[];
let clock: HandClock;
let shared: ReturnType<typeof createMemoryFleet>;

beforeEach(() => {
  data = 'first';
  asked = 0;
  purges = [];
  purgeEnds = async () => ({ ok: true });
  events = [];
  clock = handClock();
  shared = createMemoryFleet(clock);
});

function watcherOf(
  gateway: string,
  {
    minInterval = 0,
    source = 'a file',
    before = async () => {},
  }: { minInterval?: number; source?: string; before?: (method: keyof FleetStore) => unknown } = {},
) {
  return createWatcher({
    name: 'Shop',
    watch: { every: EVERY, min_interval: minInterval },
    source,
    async signature() {
      asked += 1;
      if (typeof data !== 'string') throw data;
      return data;
    },
    fleet: fleetOf(async (method, ...args) => {
      await before(method);
      return (shared(gateway)[method] as (...given: readonly unknown[]) => unknown)(...args);
    }),
    purge: (async (_stale: unknown, { principal, cause }: PurgeOrder) => {
      purges.push({ by: `${gateway} ${principal} ${cause}`, data: String(data) });
      return purgeEnds();
    }) as never,
    enter: createSemaphore(1).acquire,
    clock,
    emit: (event) => void events.push(event),
  });
}

/** One poll behind another, `every` apart. */
async function polls(watcher: ReturnType<typeof watcherOf>, count = 1): Promise<number> {
  for (let done = 0; done < count; done += 1) {
    await watcher.poll(signal);
    clock.advance(EVERY);
  }
  return purges.length;
}

const states = () => events.flatMap((event) => (event.type === 'watch-state' ? event.state : []));

test('the first poll of all purges once, and no later one does while nothing changes', async () => {
  const watcher = watcherOf('a');
  expect(await polls(watcher)).toBe(1);
  expect(purges[0]).toEqual({ by: 'a watch:Shop watch', data: 'first' });
  expect(await polls(watcher, 5)).toBe(1);
});

test('a change is purged at once, and once more when the signature was equal twice', async () => {
  const watcher = watcherOf('a');
  await polls(watcher, 4);
  data = 'second';
  expect(await polls(watcher)).toBe(2);
  expect(await polls(watcher)).toBe(2);
  expect(await polls(watcher)).toBe(3);
  expect(await polls(watcher, 5)).toBe(3);
});

test('a load that goes on is purged at each change, and is over when two polls found the same', async () => {
  const watcher = watcherOf('a');
  await polls(watcher);
  for (const piece of ['1', '2', '3']) {
    data = piece;
    await polls(watcher);
  }
  expect(purges.map((one) => one.data)).toEqual(['first', '1', '2', '3']);
  await polls(watcher, 6);
  expect(purges.map((one) => one.data)).toEqual(['first', '1', '2', '3', '3']);
});

test('min_interval joins changes, and the last one is purged when it is over', async () => {
  const watcher = watcherOf('a', { minInterval: 3.5 * EVERY });
  await polls(watcher);
  for (const piece of ['1', '2', '3']) {
    data = piece;
    expect(await watcher.poll(signal)).toBe(Math.min(EVERY, 3.5 * EVERY - Number(piece) * EVERY));
    expect(await watcher.note()).toMatchObject({ due: true });
    clock.advance(EVERY);
  }
  await polls(watcher, 10);
  expect(purges.map((one) => one.data)).toEqual(['first', '3', '3']);
});

test('a clock that was set back keeps no change waiting', async () => {
  const watcher = watcherOf('a', { minInterval: EVERY });
  await polls(watcher);
  clock.stepWall(-86_400_000);
  data = 'second';
  expect(await polls(watcher)).toBe(2);
});

test('a purge that did not hold stays due, also while the source does not answer', async () => {
  const watcher = watcherOf('a');
  await polls(watcher, 3);
  data = 'second';
  purgeEnds = async () => ({ ok: false });
  expect(await watcher.poll(signal)).toBe(10_000);
  expect(await watcher.note()).toMatchObject({ due: true, why: 'the purge did not hold' });
  data = new Error('away');
  expect(await polls(watcher)).toBe(3);
  purgeEnds = async () => ({ ok: true });
  expect(await polls(watcher)).toBe(4);
  expect(await polls(watcher)).toBe(4);
  expect(await watcher.note()).toMatchObject({ due: false });
});

test('of another source than was noted nothing is known', async () => {
  await polls(watcherOf('a'), 3);
  expect(await polls(watcherOf('a', { source: 'another file' }))).toBe(2);
  expect(await polls(watcherOf('a'))).toBe(3);
});

describe('of two gateways', () => {
  test('one polls, and the other knows what it found', async () => {
    const [one, other] = [watcherOf('a'), watcherOf('b')];
    for (let round = 0; round < 5; round += 1) {
      await one.poll(signal);
      await other.poll(signal);
      clock.advance(EVERY);
    }
    expect([asked, purges.length]).toEqual([5, 1]);
    // It looks more often than every minute, so that one that ended is soon followed.
    expect([await one.poll(signal), await other.poll(signal)]).toEqual([EVERY, 10_000]);
    expect(other.age()).toBe(one.age());
    expect(await other.note()).toEqual(await one.note());
  });

  test('the other polls when the first one has left, or was gone for a while, and purges nothing anew', async () => {
    const [one, other] = [watcherOf('a'), watcherOf('b')];
    await polls(one);
    await one.leave();
    await polls(other);
    expect(asked).toBe(2);
    await polls(one);
    expect(asked).toBe(2);
    clock.advance(2 * EVERY);
    await polls(one);
    expect([asked, purges.length]).toEqual([3, 1]);
  });

  test('a change is purged by the second where the first ends between its purge and its note', async () => {
    const [one, other] = [watcherOf('a'), watcherOf('b')];
    await polls(one, 3);
    data = 'second';
    const [begun, purged] = [gate(), gate()];
    purgeEnds = () => {
      begun.open();
      return purged.opened.then(() => ({ ok: true }));
    };
    const ending = one.poll(signal);
    await begun.opened;
    // It stands still for so long that it has lost the task.
    clock.advance(EVERY + 65_000);
    purgeEnds = async () => ({ ok: false });
    await other.poll(signal);
    expect(purges.map(({ by }) => by[0])).toEqual(['a', 'a', 'b']);
    purged.open();
    await ending;
    // What it says now counts for nothing: the purge of the second did not hold.
    expect(await other.note()).toMatchObject({ due: true });
    purgeEnds = async () => ({ ok: true });
    await other.poll(signal);
    expect(await other.note()).toMatchObject({ due: false });
  });

  test('a gateway that stands still before it notes a change notes nothing old when it goes on', async () => {
    const [reached, held] = [gate(), gate()];
    let holds = false;
    const one = watcherOf('a', {
      async before(method) {
        if (!holds || method !== 'write') return;
        reached.open();
        await held.opened;
      },
    });
    const other = watcherOf('b');
    await polls(one, 3);
    [data, holds] = ['second', true];
    const standing = one.poll(signal);
    await reached.opened;
    clock.advance(EVERY + 65_000);
    data = 'third';
    await other.poll(signal);
    const noted = await other.note();
    held.open();
    await standing;
    expect(await other.note()).toEqual(noted);
    expect(purges.map((each) => each.data)).toEqual(['first', 'third']);
  });

  test.each(['hold', 'note', 'write'] as const)(
    'a change is purged later where %s fails at first',
    async (failing) => {
      let fails = false;
      const before = (method: keyof FleetStore) => {
        if (fails && method === failing) throw new Error('no Redis');
      };
      const watcher = watcherOf('a', { before });
      await polls(watcher, 3);
      [data, fails] = ['second', true];
      expect(await polls(watcher)).toBe(1);
      expect(events.filter(({ type }) => type === 'redis-failed')).toHaveLength(1);
      fails = false;
      await polls(watcher);
      expect(purges.map((one) => one.data)).toEqual(['first', 'second']);
    },
  );
});

describe('blindness', () => {
  test('begins with the third question in a row without an answer, is told once, and when it is over', async () => {
    const watcher = watcherOf('a');
    await polls(watcher);
    data = new Error('the file is not there');
    await polls(watcher, 2);
    data = 'first';
    await polls(watcher);
    data = new Error('the file is not there');
    await polls(watcher, 2);
    expect([watcher.isBlind(), states()]).toEqual([false, []]);
    await polls(watcher, 4);
    expect([watcher.isBlind(), states()]).toEqual([true, ['blind']]);
    expect(events.at(-1)).toMatchObject({ project: 'Shop', why: 'the file is not there' });
    expect(watcher.age()).toBe(7 * EVERY);
    data = 'first';
    expect(await polls(watcher)).toBe(1);
    expect([watcher.isBlind(), states()]).toEqual([false, ['blind', 'seeing']]);
  });

  test('lasts until what changed meanwhile is purged', async () => {
    const watcher = watcherOf('a', { minInterval: 3 * EVERY });
    await polls(watcher, 3);
    data = new Error('away');
    await polls(watcher, 4);
    data = 'second';
    purgeEnds = async () => ({ ok: false });
    await polls(watcher);
    expect(watcher.isBlind()).toBe(true);
    purgeEnds = async () => ({ ok: true });
    await polls(watcher);
    expect([watcher.isBlind(), purges.at(-1)?.data]).toEqual([false, 'second']);
  });

  test('is known to the gateway that does not poll, and to one that has not polled yet', async () => {
    const [one, other] = [watcherOf('a'), watcherOf('b')];
    expect(other.isBlind()).toBe(true);
    await polls(one);
    await other.poll(signal);
    expect(other.isBlind()).toBe(false);
    data = new Error('away');
    for (let round = 0; round < 3; round += 1) {
      await polls(one);
      await other.poll(signal);
    }
    expect([other.isBlind(), states()]).toEqual([true, ['blind']]);
  });

  test('begins at a gateway that cannot speak to the others any more', async () => {
    let fails = false;
    const watcher = watcherOf('a', {
      before() {
        if (fails) throw new Error('no Redis');
      },
    });
    await polls(watcher);
    fails = true;
    await polls(watcher, 2);
    expect(watcher.isBlind()).toBe(false);
    await polls(watcher);
    expect(watcher.isBlind()).toBe(true);
    const why =
      'this gateway cannot speak to the others: Redis, or the primary process, does not answer';
    expect(await watcher.note()).toMatchObject({ blind: true, why });
    fails = false;
    await polls(watcher);
    expect(watcher.isBlind()).toBe(false);
    expect(await watcher.note()).toMatchObject({ blind: false, why: '' });
  });
});

test('what is noted holds digests in the place of what the source said and of what it is', async () => {
  data = 'QQZZ data';
  await polls(watcherOf('a', { source: 'QQZZ source' }));
  expect(await shared('').note('watch:Shop')).not.toContain('QQZZ');
});

test('a note that is not understood counts as none', async () => {
  const watcher = watcherOf('a');
  await polls(watcher);
  await shared('').write('watch:Shop', 'something else');
  expect(await polls(watcher)).toBe(2);
});
