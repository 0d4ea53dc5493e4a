import { describe, expect, test } from '@jest/globals';
import { GatewayError } from '../../../../src/common/errors.ts';
import type { Query } from '../../../../src/cache/query.ts';
import { sharedEpochs } from '../purge/fake-epoch-stores.ts';
import { told } from '../fake-client.ts';
import { checkpoint, engineAnswer, fakeTier, handClock, queryOf, quiet, rowset } from '../fakes.ts';
import { fakeEngine, FLIGHT_DEADLINE, replica, unknownEpochs } from '../purge/replica.ts';

const LEASE = 1_000;

const fresh = (ask: Query['ask']) => queryOf(ask, { fresh: true });

/**
 * A replica with a tier 2, and an engine whose answers are numbered, each held until a test lets it go. A
 * millisecond passes with every engine request.
 */
function held() {
  const clock = handClock();
  const values = fakeTier();
  const one = replica({ clock, values, store: sharedEpochs().replica(LEASE), lease: LEASE });
  const gates = Array.from({ length: 4 }, checkpoint);
  const engine = fakeEngine(async (call) => {
    clock.advance(1);
    const began = { now: clock.now(), wall: clock.wall() };
    await gates[call - 1]?.arrive();
    return engineAnswer(rowset(`answer ${call}`), clock, { began });
  });
  const gate = (call: number) => gates[call - 1] ?? checkpoint();
  /** Lets one answer go, after it was asked for. */
  const release = async (call: number) => {
    await gate(call).arrived;
    gate(call).release();
  };
  const body = (call: number) => `${rowset(`answer ${call}`)}`;
  return { ...one, values, engine, gate, release, body };
}

describe('what a request for a fresh answer brings', () => {
  /** Another gateway of the same house, whose wall clock runs half a minute ahead. */
  function housemates() {
    const values = fakeTier();
    const store = sharedEpochs();
    const build = (ahead: number) => {
      const clock = handClock();
      clock.stepWall(ahead);
      return replica({ clock, values, store: store.replica(LEASE), lease: LEASE });
    };
    return { values, here: build(0), ahead: build(30_000) };
  }

  test('takes the place of an answer that another gateway stored whose clock runs ahead', async () => {
    const { here, ahead } = housemates();
    const engine = fakeEngine((call) => engineAnswer(rowset(`answer ${call}`), here.clock));
    const strange = fakeEngine(() => engineAnswer(rowset('ahead'), ahead.clock));
    await ahead.answer(queryOf(strange.ask));
    const found = await here.answer(queryOf(engine.ask));
    expect([told(found), found.body]).toEqual(['hit:redis', `${rowset('ahead')}`]);
    const asked = await here.answer(fresh(engine.ask));
    expect(asked.outcome).toEqual({ kind: 'miss', stored: true });
    const inMemory = await here.answer(queryOf(engine.ask));
    expect([told(inMemory), inMemory.body]).toEqual(['hit:memory', `${rowset('answer 1')}`]);
    ahead.memory.clear();
    const elsewhere = await ahead.answer(queryOf(strange.ask));
    expect([told(elsewhere), elsewhere.body]).toEqual(['hit:redis', `${rowset('answer 1')}`]);
  });

  test('is not undone by a fresh answer that was asked for before it, though the wall clock was set back', async () => {
    const { answer, engine, gate, release, body, memory, clock } = held();
    const first = answer(fresh(engine.ask));
    await gate(1).arrived;
    clock.stepWall(-10_000);
    const second = answer(fresh(engine.ask));
    await release(2);
    await second;
    await release(1);
    await first;
    expect((await answer(queryOf(engine.ask))).body).toBe(body(2));
    memory.clear();
    const fromTier = await answer(queryOf(engine.ask));
    expect([told(fromTier), fromTier.body]).toEqual(['hit:redis', body(2)]);
  });

  test('or what was asked for later still, is what is stored, not an answer of a clock that runs ahead', async () => {
    const { here, ahead, values } = housemates();
    const gates = [checkpoint(), checkpoint()];
    const engine = fakeEngine(async (call) => {
      const began = { now: here.clock.now(), wall: here.clock.wall() };
      await gates[call - 1]?.arrive();
      return engineAnswer(rowset(`answer ${call}`), here.clock, { began });
    });
    const asked = here.answer(fresh(engine.ask));
    await gates[0]?.arrived;
    // Nobody joins a flight that is so old: the next one asks by itself.
    here.clock.advance(FLIGHT_DEADLINE);
    ahead.clock.advance(FLIGHT_DEADLINE);
    const later = here.answer(queryOf(engine.ask));
    await gates[1]?.arrived;
    const strange = fakeEngine(() => engineAnswer(rowset('ahead'), ahead.clock));
    await ahead.answer(queryOf(strange.ask));
    gates[1]?.release();
    await later;
    here.memory.clear();
    // Without having been asked for as a fresh one it does not take the place of what seems to be newer.
    expect((await here.answer(queryOf(engine.ask))).body).toBe(`${rowset('ahead')}`);
    gates[0]?.release();
    expect((await asked).body).toBe(`${rowset('answer 1')}`);
    for (const clear of [() => {}, here.memory.clear]) {
      clear();
      expect((await here.answer(queryOf(engine.ask))).body).toBe(`${rowset('answer 2')}`);
    }
    expect([values.values.size, engine.asked]).toEqual([1, 2]);
  });
});

describe('a request for a fresh answer', () => {
  test('is answered by the engine though memory and tier 2 hold an answer, and what it brings is stored', async () => {
    const { answer, engine, values, release, body, memory } = held();
    const first = answer(queryOf(engine.ask));
    await release(1);
    await first;
    const gets = values.gets;
    const again = answer(fresh(engine.ask));
    await release(2);
    expect([told(await again), (await again).body]).toEqual(['miss', body(2)]);
    expect((await again).outcome).toEqual({ kind: 'miss', stored: true });
    expect(values.gets).toBe(gets);
    expect((await answer(queryOf(engine.ask))).body).toBe(body(2));
    memory.clear();
    const fromTier = await answer(queryOf(engine.ask));
    expect([told(fromTier), fromTier.body]).toEqual(['hit:redis', body(2)]);
  });

  test('joins no flight that began before it, is joined by later ones, and is not undone by the older one', async () => {
    const { answer, engine, gate, release, body, flights, memory } = held();
    const older = answer(queryOf(engine.ask));
    await gate(1).arrived;
    const waiting = answer(queryOf(engine.ask));
    await quiet();
    const asked = answer(fresh(engine.ask));
    await gate(2).arrived;
    const later = answer(queryOf(engine.ask));
    await quiet();
    expect([engine.asked, flights.usage()]).toEqual([2, { flights: 1, waiters: 2 }]);
    gate(2).release();
    expect([told(await asked), (await asked).body]).toEqual(['miss', body(2)]);
    expect([told(await later), (await later).body]).toEqual(['hit:coalesced', body(2)]);
    await release(1);
    expect((await older).body).toBe(body(1));
    expect([told(await waiting), (await waiting).body]).toEqual(['hit:coalesced', body(1)]);
    const hit = await answer(queryOf(engine.ask));
    expect([told(hit), hit.body]).toEqual(['hit:memory', body(2)]);
    memory.clear();
    const fromTier = await answer(queryOf(engine.ask));
    expect([told(fromTier), fromTier.body]).toEqual(['hit:redis', body(2)]);
  });

  test('keeps its place on the map when the older flight lands first', async () => {
    const { answer, engine, gate, body } = held();
    const older = answer(queryOf(engine.ask));
    await gate(1).arrived;
    const asked = answer(fresh(engine.ask));
    await gate(2).arrived;
    gate(1).release();
    await older;
    const alsoFresh = answer(fresh(engine.ask));
    await gate(3).arrived;
    gate(2).release();
    await asked;
    gate(3).release();
    expect((await alsoFresh).body).toBe(body(3));
    expect((await answer(queryOf(engine.ask))).body).toBe(body(3));
  });

  test('joins no other such request, and of two that are under way the later one stays', async () => {
    const { answer, engine, gate, body } = held();
    const first = answer(fresh(engine.ask));
    await gate(1).arrived;
    const second = answer(fresh(engine.ask));
    await gate(2).arrived;
    const ordinary = answer(queryOf(engine.ask));
    await quiet();
    gate(2).release();
    expect([told(await second), (await second).body]).toEqual(['miss', body(2)]);
    gate(1).release();
    expect([told(await first), (await first).body]).toEqual(['miss', body(1)]);
    expect([told(await ordinary), (await ordinary).body]).toEqual(['hit:coalesced', body(2)]);
    expect((await answer(queryOf(engine.ask))).body).toBe(body(2));
    expect(engine.asked).toBe(2);
  });

  test('leaves the stored answer where it is when the engine fails or its answer may not be kept', async () => {
    const { answer, engine, release, body, clock } = held();
    const first = answer(queryOf(engine.ask));
    await release(1);
    await first;
    const failing = fakeEngine((call) => {
      if (call === 1) throw new GatewayError('engine-unreachable', 'No engine.');
      return engineAnswer(rowset('x'), clock, { status: 500 });
    });
    expect(told(await answer(fresh(failing.ask)))).toBe('failure');
    expect(told(await answer(fresh(failing.ask)))).toBe('miss:engine-status');
    const hit = await answer(queryOf(engine.ask));
    expect([told(hit), hit.body]).toEqual(['hit:memory', body(1)]);
  });

  test('shares nobody’s answer while the epochs are unknown either, and is joined by those that come later', async () => {
    const clock = handClock();
    const store = sharedEpochs();
    const one = replica({
      clock,
      store: store.replica(LEASE),
      lease: LEASE,
      epochs: unknownEpochs(clock),
    });
    const gates = [checkpoint(), checkpoint()];
    const engine = fakeEngine(async (call) => {
      await gates[call - 1]?.arrive();
      return engineAnswer(rowset(`answer ${call}`), clock);
    });
    const older = one.answer(queryOf(engine.ask));
    await gates[0]?.arrived;
    const asked = one.answer(fresh(engine.ask));
    await gates[1]?.arrived;
    const later = one.answer(queryOf(engine.ask));
    await quiet();
    for (const gate of gates) gate.release();
    expect((await older).body).toBe(`${rowset('answer 1')}`);
    expect([told(await asked), (await asked).body]).toEqual([
      'bypass:epochs-unknown',
      `${rowset('answer 2')}`,
    ]);
    expect([told(await later), (await later).body]).toEqual([
      'hit:coalesced',
      `${rowset('answer 2')}`,
    ]);
  });
});
