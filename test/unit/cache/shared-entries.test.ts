import { describe, expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import { createBodyAccount } from '../../../src/common/body-account.ts';
import type { GatewayEvent } from '../../../src/common/events.ts';
import { createFillOrder } from '../../../src/cache/flights.ts';
import {
  createSharedEntries,
  FIRST,
  LARGE,
  LONGEST_VALUE,
  PIECE,
} from '../../../src/cache/shared-entries.ts';
import { deflated } from '../../../src/cache/stored-answer.ts';
import { NO_SEALER, type Sealer } from '../../../src/common/sealing.ts';
import { bytesIn } from './stored-answer/session-documents.ts';
import { checkpoint, fakeTier, handClock, quiet, storedAnswer } from './fakes.ts';

/** Bytes; answers may take three quarters of it. */
const IN_FLIGHT = 64 * 1024 * 1024;

const newKey = () => randomBytes(32).toString('base64url');

function house(inFlight = IN_FLIGHT, sealer = NO_SEALER) {
  const values = fakeTier();
  const clock = handClock();
  const events: GatewayEvent[] = [];
  const account = createBodyAccount(() => ({ in_flight: inFlight, queue: 0 }));
  const entries = createSharedEntries(values, sealer, {
    clock,
    maxEntry: () => 64 * 1024 * 1024,
    account,
    emit: (event) => events.push(event),
  });
  const order = createFillOrder();
  const longAnswer = (ago = 0) =>
    storedAnswer({ body: randomBytes(LARGE + 1), requestedAt: clock.wall() - ago });
  return { values, clock, events, account, entries, order, longAnswer };
}

test('an answer is kept in tier 2 for so much longer than its ttl as a failing engine may need it', async () => {
  const values = fakeTier();
  const clock = handClock();
  const lives: number[] = [];
  const entries = createSharedEntries(
    { ...values, set: async (_key, _value, life) => void lives.push(life) },
    NO_SEALER,
    {
      clock,
      maxEntry: () => 1_000_000,
      account: createBodyAccount(() => ({ in_flight: IN_FLIGHT, queue: 0 })),
      emit: () => {},
      staleIfError: () => 5_000,
    },
  );
  const key = newKey();
  const answer = storedAnswer({ requestedAt: clock.wall(), lifetime: 1_000 });
  const fill = createFillOrder().enter(key);
  await entries.keep(key, { fill, answer, tokens: ['a'], replace: false });
  expect(lives).toEqual([6_000]);
});

describe('a long answer on its way to tier 2', () => {
  test.each([false, true])(
    'is not written over one that began later and landed while others were written: replace %s',
    async (replace) => {
      const { values, entries, order, longAnswer } = house();
      const [key, before] = [newKey(), newKey()];
      const held = checkpoint();
      values.beforeSet = held.arrive;
      const first = entries.keep(before, {
        fill: order.enter(before),
        answer: longAnswer(),
        tokens: ['a'],
        replace: false,
      });
      await held.arrived;
      const [fill, later] = [order.enter(key), order.enter(key)];
      // By the wall clock, which was set back meanwhile, the later one is the older.
      const [mine, theirs] = [longAnswer(), longAnswer(5_000)];
      const keeping = entries.keep(key, { fill, answer: mine, tokens: ['a'], replace });
      later.landed(theirs, 2_000);
      fill.landed(mine, 1_000);
      held.release();
      await Promise.all([first, keeping]);
      const found = await entries.peek(key);
      // Without `replace` the fill of the later one writes it.
      if (replace) expect(found && bytesIn(found.body).equals(theirs.body)).toBe(true);
      else expect(found).toBeUndefined();
    },
  );

  test('stays in memory alone where its value would hold up Redis, which is no failure', async () => {
    const { values, clock, entries, events, order, account } = house(4 * LONGEST_VALUE);
    const keep = (length: number) =>
      entries.keep(newKey(), {
        fill: order.enter('key'),
        answer: storedAnswer({ body: randomBytes(length), requestedAt: clock.wall() }),
        tokens: ['a'],
        replace: false,
      });
    expect([await keep(LONGEST_VALUE - 1_000), values.sets]).toEqual([true, 1]);
    expect([await keep(LONGEST_VALUE), values.sets]).toEqual([false, 1]);
    expect([events, account.usage().bytes.value]).toEqual([[], 0]);
  });

  test('is not even put together where it is known to be too long', async () => {
    let sealed = 0;
    const seal = (bytes: Buffer) => {
      sealed += 1;
      return bytes;
    };
    const { values, entries, order } = house(16 * LONGEST_VALUE, {
      ...NO_SEALER,
      kind: 'aes-256-gcm',
      seal,
    } as Sealer);
    const keep = (length: number) =>
      entries.keep(newKey(), {
        fill: order.enter('key'),
        answer: storedAnswer({
          body: deflated(4 * LONGEST_VALUE, Buffer.of(), Buffer.alloc(length), 0),
        }),
        tokens: ['a'],
        replace: true,
      });
    expect([await keep(LONGEST_VALUE / 2), sealed, values.sets]).toEqual([true, 1, 1]);
    expect([await keep(LONGEST_VALUE), sealed, values.sets]).toEqual([false, 1, 1]);
  });

  test('waits for those before it, so that nothing piles up in front of Redis', async () => {
    const { values, entries, order, longAnswer } = house();
    let inside = 0;
    let most = 0;
    values.beforeSet = async () => {
      inside += 1;
      most = Math.max(most, inside);
      await quiet();
      inside -= 1;
    };
    const keys = Array.from({ length: 4 }, newKey);
    await Promise.all(
      keys.map((key) =>
        entries.keep(key, {
          fill: order.enter(key),
          answer: longAnswer(),
          tokens: ['a'],
          replace: false,
        }),
      ),
    );
    expect(most).toBe(1);
    expect(values.values.size).toBe(4);
  });

  test('is done without when too many wait, and short ones go on', async () => {
    const { values, clock, entries, events, order, longAnswer } = house();
    const held = checkpoint();
    values.beforeSet = () => {
      values.beforeSet = async () => {};
      return held.arrive();
    };
    const keep = (answer = longAnswer()) => {
      const key = newKey();
      return entries.keep(key, { fill: order.enter(key), answer, tokens: ['a'], replace: false });
    };
    const answer = longAnswer();
    const first = Array.from({ length: 17 }, () => keep(answer));
    await held.arrived;
    await keep();
    expect(events).toMatchObject([{ type: 'redis-failed', operation: 'set' }]);
    expect(String((events[0] as { error: unknown }).error)).toContain('too many large answers');
    await keep(storedAnswer({ requestedAt: clock.wall() }));
    expect(values.values.size).toBe(1);
    held.release();
    await Promise.all(first);
    expect(values.values.size).toBe(18);
    expect(events).toHaveLength(1);
  });

  test('that Redis does not take keeps none of the next ones from being written', async () => {
    const { values, entries, events, order, longAnswer } = house();
    values.beforeSet = () => Promise.reject(new Error('Redis is away'));
    const key = newKey();
    const filled = { answer: longAnswer(), tokens: ['a'], replace: false };
    await entries.keep(key, { fill: order.enter(key), ...filled });
    expect(events).toMatchObject([{ type: 'redis-failed', operation: 'set' }]);
    values.beforeSet = async () => {};
    await entries.keep(key, { fill: order.enter(key), ...filled });
    const found = await entries.find(key);
    expect(found && bytesIn(found.body).equals(filled.answer.body)).toBe(true);
  });
});

test('an entry that was damaged is told once as refused, and not at all when it is only looked at', async () => {
  const { values, entries, events, order, longAnswer } = house();
  const key = newKey();
  const fill = order.enter(key);
  await entries.keep(key, { fill, answer: longAnswer(), tokens: ['a'], replace: false });
  values.values.get(key)?.fill(0, 100);
  expect(await entries.peek(key)).toBeUndefined();
  expect(events).toEqual([]);
  expect(await entries.find(key)).toBeUndefined();
  expect(events).toEqual([{ type: 'entry-rejected', why: 'wrong checksum' }]);
});

describe('what the asker keeps while tier 2 is asked', () => {
  test('is counted until the answer is there', async () => {
    const { values, entries, account } = house();
    const asking = checkpoint();
    values.beforeGet = asking.arrive;
    const finding = entries.find(newKey(), 7);
    await asking.arrived;
    expect(account.usage().bytes.value).toBe(7 + FIRST);
    asking.release();
    expect(await finding).toBeUndefined();
    expect(account.usage().bytes.value).toBe(0);
  });

  test('is counted until tier 2 could not say', async () => {
    const { values, entries, account } = house();
    values.beforeGet = () => Promise.reject(new Error('Redis is away'));
    expect(await entries.find(newKey(), 7)).toBeUndefined();
    expect(account.usage().bytes.value).toBe(0);
  });

  test('must find room: else tier 2 is not asked, and nothing is told', async () => {
    const { values, entries, events, account } = house();
    account.open('fill').grow(IN_FLIGHT * (3 / 4) - FIRST - 6);
    expect(await entries.find(newKey(), 7)).toBeUndefined();
    expect([values.gets, events]).toEqual([0, []]);
    expect(await entries.find(newKey(), 6)).toBeUndefined();
    expect(values.gets).toBe(1);
  });
});

describe('look-ups of tier 2', () => {
  const many = <T>(count: number, look: (number: number) => T) =>
    Array.from({ length: count }, (_, number) => look(number));

  async function holding(...keys: readonly string[]) {
    const one = house();
    const { entries, order, longAnswer, values } = one;
    for (const key of keys) {
      const filled = { answer: longAnswer(), tokens: ['a'], replace: false };
      await entries.keep(key, { fill: order.enter(key), ...filled });
    }
    const bytes = values.values.get(keys[0] ?? '')?.length ?? 0;
    /** Of one look-up: the first piece, the others, and whether it is still the same value. */
    const gets = 1 + Math.ceil((bytes - FIRST + 1) / PIECE) + 1;
    return { ...one, gets };
  }

  test('of one key at one time are one, and give all who ask the same answer or the same miss', async () => {
    const [key, missing] = [newKey(), newKey()];
    const { values, entries, gets } = await holding(key);
    const found = await Promise.all(many(3_000, () => entries.find(key)));
    expect(new Set(found).size).toBe(1);
    expect(found[0]?.body).toHaveLength(LARGE + 1);
    expect(values.gets).toBe(gets);
    expect(new Set(await Promise.all(many(30, () => entries.find(missing))))).toEqual(
      new Set([undefined]),
    );
    expect(values.gets).toBe(gets + 1);
  });

  test('share how tier 2 failed, which is told once; who asks afterwards asks anew', async () => {
    const key = newKey();
    const { values, entries, events } = await holding(key);
    values.beforeGet = () => Promise.reject(new Error('Redis is away'));
    await Promise.all(many(30, () => entries.find(key)));
    expect([values.gets, events.length]).toEqual([1, 1]);
    values.beforeGet = async () => {};
    expect(await entries.find(key)).toBeDefined();
  });

  test('of other keys are not shared', async () => {
    const keys = [newKey(), newKey()];
    const { entries } = await holding(...keys);
    const [one, other] = await Promise.all(keys.map((key) => entries.find(key)));
    expect(one && other && bytesIn(one.body).equals(bytesIn(other.body))).toBe(false);
  });

  test('count what those who share one keep meanwhile, each for itself', async () => {
    const { values, entries, account } = house();
    const asking = checkpoint();
    values.beforeGet = asking.arrive;
    const key = newKey();
    const finding = many(3, () => entries.find(key, 7));
    await asking.arrived;
    expect(account.usage().bytes.value).toBe(3 * 7 + FIRST);
    asking.release();
    await Promise.all(finding);
    expect(account.usage().bytes.value).toBe(0);
  });

  test('take room before each piece of a long value comes, and are misses where there is none', async () => {
    const key = newKey();
    const { values, entries, account, events, order, clock } = await holding(key);
    const others = account.open('fill');
    // A sixteenth is left to short ones.
    others.grow(IN_FLIGHT * (3 / 4 - 1 / 16) - FIRST - 3 * PIECE);
    expect(await entries.find(key)).toBeDefined();
    others.grow(2 * PIECE + 1);
    const before = values.gets;
    expect(await entries.find(key)).toBeUndefined();
    expect([values.gets - before, events]).toEqual([1, []]);
    const short = newKey();
    const answer = storedAnswer({ requestedAt: clock.wall() });
    const filled = { answer, tokens: ['a'], replace: false };
    await entries.keep(short, { fill: order.enter(short), ...filled });
    expect(await entries.find(short)).toBeDefined();
    expect(account.usage().bytes.value).toBe(0);
  });

  test('of many long values are read a few at a time, and what would wait too long is a miss', async () => {
    const keys = many(40, newKey);
    const { values, entries } = await holding(...keys);
    const firsts = Promise.withResolvers<void>();
    let [inside, most] = [0, 0];
    values.beforeGet = async () => {
      if (values.gets === keys.length) firsts.resolve();
      if (values.gets <= keys.length) return firsts.promise;
      most = Math.max(most, (inside += 1));
      await quiet();
      inside -= 1;
    };
    const found = await Promise.all(keys.map((key) => entries.find(key)));
    expect(found.filter((one) => one !== undefined)).toHaveLength(4 + 16);
    expect(most).toBe(4);
    expect(await entries.find(keys[39] ?? '')).toBeDefined();
  });

  test('are misses, of which nothing is told, where the value is replaced while its pieces come', async () => {
    const key = newKey();
    const { values, entries, events, order, clock } = await holding(key);
    const before = values.gets;
    values.beforeGet = async () => {
      if (values.gets - before !== 2) return;
      values.beforeGet = async () => {};
      const answer = storedAnswer({ body: randomBytes(LARGE + 1), requestedAt: clock.wall() });
      const filled = { answer, tokens: ['a'], replace: true };
      await entries.keep(key, { fill: order.enter(key), ...filled });
    };
    expect(await entries.find(key)).toBeUndefined();
    expect(events).toEqual([]);
    expect(await entries.find(key)).toBeDefined();
  });
});
