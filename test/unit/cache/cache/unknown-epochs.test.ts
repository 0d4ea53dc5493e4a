import { describe, expect, test } from '@jest/globals';
import { faultAnswer } from '../../../support/answers.ts';
import type { Epochs } from '../../../../src/freshness/freshness.ts';
import { sharedEpochs } from '../purge/fake-epoch-stores.ts';
import { fakeClient, told } from '../fake-client.ts';
import { checkpoint, engineAnswer, fakeTier, handClock, queryOf, quiet, rowset } from '../fakes.ts';
import { fakeEngine, ORDER, replica, unknownEpochs } from '../purge/replica.ts';

const LEASE = 1_000;

function cutOff() {
  const clock = handClock();
  const shared = sharedEpochs();
  const values = fakeTier();
  const one = replica({ clock, store: shared.replica(LEASE), lease: LEASE, values });
  shared.reachable = false;
  return { ...one, shared, values };
}

describe('while the epochs are unknown', () => {
  test('every query goes to the engine, and nothing is stored', async () => {
    const { answer, clock, memory, values } = cutOff();
    const engine = fakeEngine((call) => engineAnswer(rowset(`answer ${call}`), clock));
    for (const call of [1, 2]) {
      const client = await answer(queryOf(engine.ask));
      expect([told(client), client.body]).toEqual([
        'bypass:epochs-unknown',
        `${rowset(`answer ${call}`)}`,
      ]);
    }
    expect(memory.usage().entries).toBe(0);
    expect([values.gets, values.sets]).toEqual([0, 0]);
  });

  test('what is in memory is not used, and is used again when they are known', async () => {
    const { answer, clock, shared } = cutOff();
    const engine = fakeEngine(() => engineAnswer(rowset('one'), clock));
    shared.reachable = true;
    await answer(queryOf(engine.ask));
    clock.advance(LEASE);
    shared.reachable = false;
    expect(told(await answer(queryOf(engine.ask)))).toBe('bypass:epochs-unknown');
    shared.reachable = true;
    expect(told(await answer(queryOf(engine.ask)))).toBe('hit:memory');
  });

  test('queries that come within a lease share one engine request', async () => {
    const { answer, clock } = cutOff();
    const held = checkpoint();
    const engine = fakeEngine(async () => {
      await held.arrive();
      return engineAnswer(rowset('one'), clock);
    });
    const all = [answer(queryOf(engine.ask))];
    await held.arrived;
    clock.advance(LEASE - 1);
    all.push(answer(queryOf(engine.ask)));
    await quiet();
    expect(engine.asked).toBe(1);
    held.release();
    expect((await Promise.all(all)).map(told)).toEqual(['bypass:epochs-unknown', 'hit:coalesced']);
  });

  test('a query that comes a lease later is not given an answer that began before', async () => {
    const { answer, clock } = cutOff();
    const held = checkpoint();
    const engine = fakeEngine(async (call) => {
      if (call === 1) await held.arrive();
      return engineAnswer(rowset(`answer ${call}`), clock);
    });
    const first = answer(queryOf(engine.ask));
    await held.arrived;
    clock.advance(LEASE);
    expect((await answer(queryOf(engine.ask))).body).toBe(`${rowset('answer 2')}`);
    held.release();
    await first;
  });

  test('a gateway that is alone, whose purges wait for nobody, lets nobody share', async () => {
    const clock = handClock();
    const one = replica({ clock, epochs: unknownEpochs(clock) });
    const held = checkpoint();
    const engine = fakeEngine(async (call) => {
      if (call === 1) await held.arrive();
      return engineAnswer(rowset(`answer ${call}`), clock);
    });
    const first = one.answer(queryOf(engine.ask));
    await held.arrived;
    expect((await one.answer(queryOf(engine.ask))).body).toBe(`${rowset('answer 2')}`);
    held.release();
    await first;
  });

  test('a flight whose answer may not be shared sends the others to the engine four at a time', async () => {
    const { answer, clock } = cutOff();
    const [first, then] = [checkpoint(), checkpoint()];
    const engine = fakeEngine(async (call) => {
      await (call === 1 ? first : then).arrive();
      return engineAnswer(call === 1 ? Buffer.from(faultAnswer()) : rowset('good'), clock);
    });
    const all = Array.from({ length: 20 }, () => answer(queryOf(engine.ask)));
    await first.arrived;
    await quiet();
    first.release();
    await quiet();
    expect(engine.inside).toBe(4);
    then.release();
    const clients = await Promise.all(all);
    expect(clients.map(told)).toEqual(Array(20).fill('bypass:epochs-unknown'));
    expect(engine.most).toBe(4);
  });

  test('a client that went away is not asked for', async () => {
    const { answer, clock } = cutOff();
    const engine = fakeEngine(() => engineAnswer(rowset('one'), clock));
    const client = fakeClient();
    client.leave();
    await answer(queryOf(engine.ask), client);
    expect(engine.asked).toBe(0);
  });
});

test('a purge that Redis refused for one project leaves the others in the cache', async () => {
  const clock = handClock();
  const shared = sharedEpochs();
  const one = replica({ clock, store: shared.replica(LEASE), lease: LEASE, values: fakeTier() });
  const engine = fakeEngine(() => engineAnswer(rowset('one'), clock));
  const ask = async (project: string) => told(await one.answer(queryOf(engine.ask, { project })));
  expect([await ask('a'), await ask('b')]).toEqual(['miss', 'miss']);
  shared.beforeRenewal = () => Promise.reject(new Error('refused'));
  expect(await one.purge({ project: 'b' }, ORDER)).toMatchObject({ ok: false, failed: 'redis' });
  // The memory is empty then.
  expect([await ask('a'), await ask('a')]).toEqual(['hit:redis', 'hit:memory']);
  expect(await ask('b')).toBe('bypass:epochs-unknown');
  one.epochs.close();
});

test('epochs that change at every look leave a query without the cache, but with its answer', async () => {
  const clock = handClock();
  let looks = 0;
  const restless: Epochs = {
    ...unknownEpochs(clock),
    held: (scopes) => ({
      scopes,
      tokens: scopes.map(String),
      keySecret: `secret ${(looks += 1)}`,
      leases: [],
    }),
    areCurrent: () => false,
  };
  const { answer, memory } = replica({ clock, epochs: restless });
  const engine = fakeEngine(() => engineAnswer(rowset('one'), clock));
  const client = await answer(queryOf(engine.ask));
  expect([told(client), client.body]).toEqual(['bypass:epochs-unknown', `${rowset('one')}`]);
  expect(looks).toBe(3);
  expect(memory.usage().entries).toBe(0);
});
