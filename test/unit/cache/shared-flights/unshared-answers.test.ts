import { describe, expect, test } from '@jest/globals';
import { until } from '../../../support/http-client.ts';
import { told } from '../fake-client.ts';
import { checkpoint, queryOf, rowset, sessionOf } from '../fakes.ts';
import { endsOf, flightHouse } from '../flight-house.ts';

describe('an answer of which nothing can be shared', () => {
  test.each([
    ['a fault', rowset('x', '<Fault/>'), 'miss:fault'],
    ['an answer without end', rowset('x').subarray(0, 200), 'miss:not-well-formed'],
  ])('lets those who wait ask by themselves at once: %s', async (_which, body, says) => {
    const house = flightHouse();
    const { engine, query, locks, gateway, set } = house;
    house.markSlow();
    set.took = 1_000;
    const [a, b, c] = [gateway(), gateway(), gateway()];
    const held = house.holdEngine();
    set.answer = (call) => (call === 1 ? body : rowset(`answer ${call}`));
    const first = a.answer(query);
    await held.arrived;
    const second = b.answer(query);
    await house.asleep();
    held.release();
    expect(told(await first)).toBe(says);
    await house.night.wake();
    expect(told(await second)).toBe('miss');
    expect([engine.asked, endsOf(b)]).toEqual([2, ['gave-up']]);
    // For a while nobody waits; afterwards somebody may try for all again.
    expect(locks.holder((await house.lockOf(a)).key)).toBe('nothing');
    house.values.values.clear();
    expect([told(await c.answer(query)), endsOf(c)]).toEqual(['miss', []]);
    house.clock.advance(5_000);
    house.values.values.clear();
    const d = gateway();
    expect([told(await d.answer(query)), endsOf(d)]).toEqual(['miss', ['led']]);
  });

  test('is told of before its end', async () => {
    const house = flightHouse();
    const { query, locks, gateway, set } = house;
    house.markSlow();
    const half = checkpoint();
    set.answer = () => rowset('x'.repeat(200_000), '<Fault/>');
    set.half = () => half.arrive();
    const a = gateway();
    const { key } = await house.lockOf(a);
    const first = a.answer(query);
    await half.arrived;
    await until(() => locks.holder(key) === 'nothing');
    half.release();
    await first;
  });

  test('because the engine failed lets those who wait ask by themselves', async () => {
    const house = flightHouse();
    const { query, gateway, set } = house;
    house.markSlow();
    const [a, b] = [gateway(), gateway()];
    const held = house.holdEngine();
    set.answer = (call) => {
      if (call === 1) throw new Error('broken');
      return rowset(`answer ${call}`);
    };
    const first = a.answer(query);
    await held.arrived;
    const second = b.answer(query);
    await house.asleep();
    held.release();
    expect(told(await first)).toBe('failure');
    await house.night.wake();
    expect([told(await second), endsOf(b)]).toEqual(['miss', ['gave-up']]);
  });

  test('because tier 2 did not take it lets those who wait ask by themselves', async () => {
    const house = flightHouse();
    const { query, gateway, values, locks } = house;
    house.markSlow();
    const a = gateway();
    values.beforeSet = () => Promise.reject(new Error('full'));
    expect(told(await a.answer(query))).toBe('miss');
    expect(locks.holder((await house.lockOf(a)).key)).toBe('nothing');
  });

  test('because its session changed lets those who wait ask by themselves', async () => {
    const house = flightHouse();
    const { engine, gateway } = house;
    const [a, b] = [gateway(), gateway()];
    const one = queryOf(engine.ask, { session: sessionOf('one', () => false) });
    const other = queryOf(engine.ask, { session: sessionOf('other') });
    house.markSlow(5_000, one);
    const held = house.holdEngine();
    const first = a.answer(one);
    await held.arrived;
    const second = b.answer(other);
    await house.asleep();
    held.release();
    expect(told(await first)).toBe('miss:session-changed');
    await house.night.wake();
    expect([told(await second), engine.asked]).toEqual(['miss', 2]);
  });
});
