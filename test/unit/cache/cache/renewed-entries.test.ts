import { beforeEach, describe, expect, test } from '@jest/globals';
import type { KnownKey, Query } from '../../../../src/cache/query.ts';
import type { StoredAnswer } from '../../../../src/cache/stored-answer.ts';
import { until } from '../../../support/http-client.ts';
import { fakeClient, told } from '../fake-client.ts';
import { rowset } from '../fakes.ts';
import { flightHouse } from '../flight-house.ts';
import { ORDER, type Replica } from '../purge/replica.ts';

const TTL = 60_000;
const TOOK = 500;

let house: ReturnType<typeof flightHouse>;
let query: Query;
beforeEach(() => {
  house = flightHouse();
  house.set.took = TOOK;
  query = house.query;
});

/** What a hit tells of itself. */
async function hitOf(one: Replica, of = query) {
  let heard: { known: KnownKey; ending: StoredAnswer | undefined } | undefined;
  await one.answer({ ...of, found: (known, ending) => void (heard = { known, ending }) });
  return heard;
}

/** Fills at this gateway and lets time go until so much of the ttl is left (ms). */
async function filled(one: Replica, left: number) {
  await one.answer(query);
  house.clock.advance(TTL - TOOK - left);
  const { known, ending } = (await hitOf(one))!;
  return { ...known, requestedAt: ending?.requestedAt ?? 0 };
}

const renew = (
  one: Replica,
  { key, requestedAt }: Awaited<ReturnType<typeof filled>>,
  of = query,
) => one.cache.renew(of, fakeClient(), key, requestedAt);

describe('a hit', () => {
  test('tells that its entry ends when less than a tenth of its ttl is left', async () => {
    const one = house.gateway();
    await one.answer(query);
    house.clock.advance(TTL - TOOK - TTL / 10);
    expect((await hitOf(one))?.ending).toBeUndefined();
    house.clock.advance(1);
    expect((await hitOf(one))?.ending).toMatchObject({ lifetime: TTL });
    const known = (await hitOf(one))?.known as KnownKey;
    expect(one.cache.recall(known)?.ending).toBe(true);
  });

  test('counts by the ttl in force, and by the lifetime that was stored', async () => {
    const one = house.gateway();
    await one.answer(query);
    const shortened = { ...query, ttl: 10_000 };
    house.clock.advance(9_000 - TOOK);
    expect((await hitOf(one, shortened))?.ending).toBeUndefined();
    house.clock.advance(1);
    expect((await hitOf(one, shortened))?.ending).toBeDefined();
    expect((await hitOf(one))?.ending).toBeUndefined();
  });

  test('of an answer that the engine gave quickly tells nothing', async () => {
    const one = house.gateway();
    house.set.took = 249;
    await one.answer(query);
    house.clock.advance(TTL - 250);
    expect(await hitOf(one)).toMatchObject({ ending: undefined });
  });
});

describe('an entry that is asked for anew', () => {
  test('answers until the new one is there', async () => {
    const one = house.gateway();
    const entry = await filled(one, 5_000);
    const held = house.holdEngine();
    const renewing = renew(one, entry);
    await held.arrived;
    const before = await one.answer(query);
    held.release();
    await renewing;
    const after = await one.answer(query);
    expect([before, after].map((client) => [told(client), client.body])).toEqual([
      ['hit:memory', `${rowset('answer 1')}`],
      ['hit:memory', `${rowset('answer 2')}`],
    ]);
    expect(one.memory.warmed()).toEqual({ hits: 0, wasted: 0 });
  });

  test('ends meanwhile: those who come join, and the engine is asked once', async () => {
    const one = house.gateway();
    const entry = await filled(one, 100);
    const held = house.holdEngine();
    const renewing = renew(one, entry);
    await held.arrived;
    house.clock.advance(100);
    const users = [one.answer(query), one.answer(query)];
    await until(() => one.flights.usage().waiters === 2);
    held.release();
    await renewing;
    expect((await Promise.all(users)).map(told)).toEqual(['hit:coalesced', 'hit:coalesced']);
    expect(house.engine.asked).toBe(2);
  });

  test('is asked for by one gateway: the others take it from Redis', async () => {
    const [one, other] = [house.gateway(), house.gateway()];
    const entry = await filled(one, 5_000);
    await other.answer(query);
    const isThere = () => other.cache.takeLater(entry, entry.requestedAt);
    expect(await isThere()).toBe(false);
    await renew(one, entry);
    expect(await isThere()).toBe(true);
    await renew(other, entry);
    expect(told(await other.answer(query))).toBe('hit:memory');
    expect((await other.answer(query)).body).toBe(`${rowset('answer 2')}`);
    expect(house.engine.asked).toBe(2);
  });

  test('ends at another gateway while a slow query is asked: its users wait for that one', async () => {
    const [one, other] = [house.gateway(), house.gateway()];
    house.set.took = 5_000;
    await one.answer(query);
    house.clock.advance(TTL - 5_100);
    const heard = (await hitOf(one))!;
    const held = house.holdEngine();
    const renewing = one.cache.renew(
      query,
      fakeClient(),
      heard.known.key,
      heard.ending!.requestedAt,
    );
    await held.arrived;
    house.clock.advance(100);
    const user = other.answer(query);
    await house.asleep();
    held.release();
    await renewing;
    await house.night.wake();
    expect(told(await user)).toBe('hit:coalesced');
    expect(house.engine.asked).toBe(2);
  });

  test.each([
    ['may not be stored', () => Buffer.from('<html>')],
    ['fails', () => rowset('half').subarray(0, 40)],
  ])('stays as it is, and no longer, where what comes %s', async (_why, answer) => {
    const one = house.gateway();
    const entry = await filled(one, 5_000);
    house.set.answer = answer;
    await renew(one, entry);
    const user = await one.answer(query);
    expect([told(user), user.body]).toEqual(['hit:memory', `${rowset('answer 1')}`]);
    house.clock.advance(5_000);
    expect(told(await one.answer(query))).not.toMatch('hit');
  });

  test('and purged meanwhile is not found, nor is what comes', async () => {
    const one = house.gateway();
    const entry = await filled(one, 5_000);
    const held = house.holdEngine();
    const renewing = renew(one, entry);
    await held.arrived;
    await one.purge('everything', ORDER);
    held.release();
    await renewing;
    const user = await one.answer(query);
    expect([told(user), user.body]).toEqual(['miss', `${rowset('answer 3')}`]);
  });

  test('is not asked for where it was purged before, is another user’s, or is renewed by then', async () => {
    const one = house.gateway();
    const entry = await filled(one, 5_000);
    const { parts } = query;
    await renew(one, entry, { ...query, parts: { ...parts, identity: 'user:bob' } });
    expect(house.engine.asked).toBe(1);
    await renew(one, entry);
    await renew(one, entry);
    expect(house.engine.asked).toBe(2);
    await one.purge('everything', ORDER);
    await renew(one, { ...entry, requestedAt: Number.MAX_SAFE_INTEGER });
    expect(house.engine.asked).toBe(2);
  });

  test('is not replaced by what was asked for earlier than a user’s own new answer', async () => {
    const one = house.gateway();
    const entry = await filled(one, 5_000);
    const held = house.holdEngine();
    const renewing = renew(one, entry);
    await held.arrived;
    house.holdEngine().release();
    const { body } = await one.answer({ ...query, fresh: true });
    held.release();
    await renewing;
    expect((await one.answer(query)).body).toBe(body);
  });
});
