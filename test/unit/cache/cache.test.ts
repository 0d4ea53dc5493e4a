import { describe, expect, test } from '@jest/globals';
import { GatewayError } from '../../../src/common/errors.ts';
import { sharedEpochs } from './purge/fake-epoch-stores.ts';
import { fakeClient, told } from './fake-client.ts';
import { checkpoint, engineAnswer, fakeTier, handClock, queryOf, quiet, rowset } from './fakes.ts';
import { fakeEngine, ORDER, replica } from './purge/replica.ts';

const LEASE = 1_000;

/** Two replicas on one set of epochs and one tier. */
function twoReplicas() {
  const clock = handClock();
  const epochs = sharedEpochs();
  const values = fakeTier();
  const one = () => replica({ clock, store: epochs.replica(LEASE), lease: LEASE, values });
  const engine = fakeEngine((call) => engineAnswer(rowset(`answer ${call}`), clock));
  return { clock, epochs, values, a: one(), b: one(), engine, query: queryOf(engine.ask) };
}

/** One replica that is alone. */
function alone(options: Parameters<typeof replica>[0] = {}) {
  const clock = handClock();
  const one = replica({ clock, ...options });
  const engine = fakeEngine((call) => engineAnswer(rowset(`answer ${call}`), clock));
  return { ...one, engine };
}

describe('a repeated query', () => {
  test('is answered from memory with the bytes of the engine', async () => {
    const { answer, clock, engine, events } = alone();
    const query = queryOf(engine.ask);
    const first = await answer(query);
    expect([told(first), first.body, first.ended]).toEqual(['miss', `${rowset('answer 1')}`, true]);
    expect(first.outcome).toEqual({ kind: 'miss', stored: true });
    clock.advance(7_000);
    const second = await answer(query);
    expect([told(second), second.body]).toEqual(['hit:memory', first.body]);
    expect([second.age, second.ttl]).toEqual([7_000, 53_000]);
    expect(engine.asked).toBe(1);
    expect(events).toContainEqual({
      type: 'stored',
      project: 'a',
      bytes: Buffer.byteLength(first.body),
    });
  });

  test('asked by a hundred at one time reaches the engine once', async () => {
    const held = checkpoint();
    const clock = handClock();
    const { answer } = replica({ clock });
    const engine = fakeEngine(async () => {
      await held.arrive();
      return engineAnswer(rowset('one'), clock);
    });
    const all = Array.from({ length: 100 }, () => answer(queryOf(engine.ask)));
    await held.arrived;
    await quiet();
    held.release();
    const clients = await Promise.all(all);
    expect(engine.asked).toBe(1);
    expect(clients.map(told).sort()).toEqual([...Array(99).fill('hit:coalesced'), 'miss']);
    expect(new Set(clients.map(({ body }) => body))).toEqual(new Set([`${rowset('one')}`]));
  });

  test('is answered by the engine again when its ttl is over', async () => {
    const { answer, clock, engine } = alone();
    const query = queryOf(engine.ask, { ttl: 10_000 });
    await answer(query);
    clock.advance(9_999);
    expect(told(await answer(query))).toBe('hit:memory');
    clock.advance(1);
    expect(told(await answer(query))).toBe('miss');
  });

  test.each([
    [0, 10_000],
    [0.5, 9_500],
    [0.999_999, 9_000],
  ])('has a ttl that is shorter by up to a tenth (random %d)', async (random, ttl) => {
    const { answer, engine } = alone({ random: () => random });
    const query = queryOf(engine.ask, { ttl: 10_000 });
    await answer(query);
    expect(Math.floor((await answer(query)).ttl ?? 0)).toBe(ttl);
  });

  test('follows a ttl that was shortened after it was stored', async () => {
    const { answer, clock, engine } = alone();
    await answer(queryOf(engine.ask, { ttl: 100_000 }));
    const shorter = queryOf(engine.ask, { ttl: 10_000 });
    clock.advance(4_000);
    expect((await answer(shorter)).ttl).toBe(6_000);
    clock.advance(6_000);
    expect(told(await answer(shorter))).toBe('miss');
  });

  test('has an age from the beginning of its engine request on', async () => {
    const clock = handClock();
    const { answer } = replica({ clock });
    const engine = fakeEngine(() => {
      const began = { now: clock.now(), wall: clock.wall() };
      clock.advance(3_000);
      return engineAnswer(rowset('slow'), clock, { began });
    });
    await answer(queryOf(engine.ask));
    expect((await answer(queryOf(engine.ask))).age).toBe(3_000);
  });

  test('of another project, user or engine is another query', async () => {
    const { answer, engine } = alone();
    await answer(queryOf(engine.ask, { project: 'a' }));
    expect(told(await answer(queryOf(engine.ask, { project: 'b' })))).toBe('miss');
    const query = queryOf(engine.ask);
    const ofBob = { ...query, parts: { ...query.parts, identity: 'user:bob' } };
    expect(told(await answer(ofBob))).toBe('miss');
  });
});

describe('an answer that one replica stored', () => {
  test('is a hit from Redis at another, and from memory there the next time', async () => {
    const { a, b, engine, query } = twoReplicas();
    const first = await a.answer(query);
    const second = await b.answer(query);
    expect([told(second), second.body]).toEqual(['hit:redis', first.body]);
    expect(told(await b.answer(query))).toBe('hit:memory');
    expect(engine.asked).toBe(1);
  });

  test('reaches tier 2 also when the engine needed longer than a lease', async () => {
    const { a, b, clock, values } = twoReplicas();
    const slow = fakeEngine(() => {
      const began = { now: clock.now(), wall: clock.wall() };
      clock.advance(30 * LEASE);
      return engineAnswer(rowset('slow'), clock, { began });
    });
    await a.answer(queryOf(slow.ask));
    expect(values.sets).toBe(1);
    expect(told(await b.answer(queryOf(slow.ask)))).toBe('hit:redis');
  });

  test('is looked up anew when the lease ran out while tier 2 was asked', async () => {
    const { a, b, clock, epochs, values, engine, query } = twoReplicas();
    await a.answer(query);
    epochs.messages = 'lost';
    const held = checkpoint();
    values.beforeGet = held.arrive;
    const late = b.answer(query);
    await held.arrived;
    await a.purge({ project: 'a' }, ORDER);
    held.release();
    expect([told(await late), engine.asked]).toEqual(['miss', 2]);
    expect(clock.now()).toBeGreaterThan(LEASE);
  });

  test('is looked up anew when a purge was told of while tier 2 was asked', async () => {
    const { a, b, epochs, values, query } = twoReplicas();
    await a.answer(query);
    const held = checkpoint();
    values.beforeGet = held.arrive;
    const late = b.answer(query);
    await held.arrived;
    const renewer = epochs.replica(LEASE);
    const scopes = ['project:a', 'unassigned'] as const;
    await renewer.renew(scopes);
    await renewer.announce({ purge: 'id', scopes });
    held.release();
    expect(told(await late)).toBe('miss');
  });

  test('that landed while tier 2 was asked is found by the second look', async () => {
    const { a, values, clock } = twoReplicas();
    const [asking, looking] = [checkpoint(), checkpoint()];
    const engine = fakeEngine(async () => {
      await asking.arrive();
      return engineAnswer(rowset('one'), clock);
    });
    const query = queryOf(engine.ask);
    const leads = a.answer(query);
    await asking.arrived;
    values.beforeGet = looking.arrive;
    const looks = a.answer(query);
    await looking.arrived;
    asking.release();
    expect(told(await leads)).toBe('miss');
    // The second one asked tier 2 before the first one's value was there.
    values.values.clear();
    looking.release();
    expect([told(await looks), engine.asked]).toEqual(['hit:memory', 1]);
  });

  test('makes a miss of a tier that fails, and a tier that fails keeps nobody from an answer', async () => {
    const { a, values, query } = twoReplicas();
    values.beforeGet = values.beforeSet = () => Promise.reject(new Error('out of reach'));
    expect(told(await a.answer(query))).toBe('miss');
    expect(
      a.events.flatMap((event) => (event.type === 'redis-failed' ? [event.operation] : [])),
    ).toEqual(['get', 'set']);
    expect(told(await a.answer(query))).toBe('hit:memory');
  });

  test('that was spoilt in tier 2 is a miss, and said so', async () => {
    const { a, b, values, query } = twoReplicas();
    await a.answer(query);
    for (const value of values.values.values()) value.writeUInt8(value.readUInt8(60) ^ 1, 60);
    expect(told(await b.answer(query))).toBe('miss');
    expect(b.events).toContainEqual({ type: 'entry-rejected', why: 'wrong checksum' });
  });

  test('is not replaced by one whose engine request began earlier', async () => {
    const { a, b, clock, values } = twoReplicas();
    const early = checkpoint();
    const slow = fakeEngine(async () => {
      const began = { now: clock.now(), wall: clock.wall() };
      await early.arrive();
      return engineAnswer(rowset('began first'), clock, { began });
    });
    const quick = fakeEngine(() => engineAnswer(rowset('began later'), clock));
    const first = a.answer(queryOf(slow.ask));
    await early.arrived;
    clock.advance(1);
    await b.answer(queryOf(quick.ask));
    early.release();
    await first;
    expect(values.sets).toBe(2);
    clock.advance(1);
    b.memory.clear();
    expect((await b.answer(queryOf(quick.ask))).body).toBe(`${rowset('began later')}`);
  });
});

describe('a query', () => {
  test('whose client went away while it waited for others is given up, and they are not', async () => {
    const held = checkpoint();
    const clock = handClock();
    const { answer, flights } = replica({ clock });
    const engine = fakeEngine(async () => {
      await held.arrive();
      return engineAnswer(rowset('one'), clock);
    });
    const leaving = fakeClient();
    const [first, left, stays] = [
      answer(queryOf(engine.ask)),
      answer(queryOf(engine.ask), leaving),
      answer(queryOf(engine.ask)),
    ];
    await held.arrived;
    await quiet();
    leaving.leave();
    await left;
    expect(told(leaving)).toBe('nothing');
    held.release();
    expect([told(await first), told(await stays)]).toEqual(['miss', 'hit:coalesced']);
    expect(flights.usage()).toEqual({ flights: 0, waiters: 0 });
  });

  test('whose leader goes away brings its answer to the others and into memory', async () => {
    const held = checkpoint();
    const clock = handClock();
    const { answer } = replica({ clock });
    let aborted = false;
    const engine = fakeEngine(async (_call, signal) => {
      signal.addEventListener('abort', () => (aborted = true));
      return engineAnswer(rowset('one'), clock, { half: held.arrive });
    });
    const leader = fakeClient();
    const led = answer(queryOf(engine.ask), leader);
    await held.arrived;
    const others = [answer(queryOf(engine.ask)), answer(queryOf(engine.ask))];
    await quiet();
    leader.leave();
    held.release();
    await led;
    for (const other of await Promise.all(others)) {
      expect([told(other), other.body]).toEqual(['hit:coalesced', `${rowset('one')}`]);
    }
    expect(told(await answer(queryOf(engine.ask)))).toBe('hit:memory');
    expect([engine.asked, aborted]).toEqual([1, false]);
  });

  test('that the engine fails is told so, and the next one asks again', async () => {
    const clock = handClock();
    const { answer } = replica({ clock });
    const engine = fakeEngine((call) => {
      if (call === 1) throw new GatewayError('engine-unreachable', 'No engine.');
      return engineAnswer(rowset('one'), clock);
    });
    const failed = await answer(queryOf(engine.ask));
    expect(failed.failure).toMatchObject({ reason: 'engine-unreachable' });
    expect(told(await answer(queryOf(engine.ask)))).toBe('miss');
  });
});
