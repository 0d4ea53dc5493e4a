import { describe, expect, test } from '@jest/globals';
import { GatewayError } from '../../../../src/common/errors.ts';
import type { Client, EngineAnswer } from '../../../../src/cache/query.ts';
import { faultAnswer } from '../../../support/answers.ts';
import { gate } from '../../../support/stub-engine.ts';
import { fakeClient, told, type FakeClient } from '../fake-client.ts';
import {
  checkpoint,
  engineAnswer,
  fakeTier,
  handClock,
  queryOf,
  quiet,
  rowset,
  sessionElement,
  sessionOf,
  type HandClock,
} from '../fakes.ts';
import { sharedEpochs } from '../purge/fake-epoch-stores.ts';
import { fakeEngine, replica } from '../purge/replica.ts';

const IN_FLIGHT = 100_000;
/** The part of it that answers may take. */
const FOR_ANSWERS = 75_000;

/** A gateway's cache with so much room left for answers (bytes). */
function withRoom(left: number, options: Parameters<typeof replica>[0] = {}) {
  const one = replica({ inFlight: IN_FLIGHT, ...options });
  const others = one.account.open('fill');
  expect(others.grow(FOR_ANSWERS - left)).toBe(true);
  return { ...one, others };
}

const used = ({ account }: Pick<ReturnType<typeof replica>, 'account'>) => account.usage().bytes;

/** A client that takes nothing until it is told to. */
function slowClient() {
  const taken = gate();
  const client: FakeClient & { write(chunk: Buffer): boolean } = fakeClient();
  const { write } = client;
  const slow: Partial<Client> = {
    write(chunk) {
      write(chunk);
      return false;
    },
    drained: () => taken.opened,
    over: () => taken.opened,
  };
  return { client: Object.assign(client, slow), take: taken.open };
}

describe('an answer for which there is no room', () => {
  const long = rowset('x'.repeat(8_000));

  test.each([
    ['its pieces', 10_000],
    ['the whole beside its pieces', long.length + 10_000],
  ])('is passed on whole and not kept, where there is none for %s', async (_what, left) => {
    const one = withRoom(left);
    const engine = fakeEngine(() => engineAnswer(long, one.clock));
    const client = await one.answer(queryOf(engine.ask));
    expect([client.body, client.ended]).toEqual([`${long}`, true]);
    expect(one.events).toContainEqual({ type: 'not-stored', project: 'a', reason: 'no-room' });
    expect([one.memory.usage().entries, used(one).fill]).toEqual([0, FOR_ANSWERS - left]);
    one.others.release();
    expect(told(await one.answer(queryOf(engine.ask)))).toBe('miss');
    expect(told(await one.answer(queryOf(engine.ask)))).toBe('hit:memory');
    expect(engine.asked).toBe(2);
  });

  test('says nothing of the next one: that is shared again at once', async () => {
    const one = withRoom(0);
    await one.answer(queryOf(fakeEngine(() => engineAnswer(long, one.clock)).ask));
    one.others.release();
    const held = checkpoint();
    const engine = fakeEngine(async () => {
      await held.arrive();
      return engineAnswer(long, one.clock);
    });
    const all = Array.from({ length: 5 }, () => one.answer(queryOf(engine.ask)));
    await held.arrived;
    await quiet();
    held.release();
    const clients = await Promise.all(all);
    expect(clients.map(told).sort()).toEqual([...Array(4).fill('hit:coalesced'), 'miss']);
    expect(engine.asked).toBe(1);
  });

  test('sends those who waited for it to the engine, a few at a time', async () => {
    const one = withRoom(0);
    const held = checkpoint();
    const engine = fakeEngine(async () => {
      await held.arrive();
      return engineAnswer(long, one.clock);
    });
    const all = Array.from({ length: 12 }, () => one.answer(queryOf(engine.ask)));
    await held.arrived;
    await quiet();
    held.release();
    const clients = await Promise.all(all);
    expect(new Set(clients.map(told))).toEqual(new Set(['miss:no-room']));
    expect(clients.every(({ body }) => body === `${long}`)).toBe(true);
    // The one that led may still be there.
    expect(engine.most).toBeLessThanOrEqual(5);
  });

  test('waits for a client that is slow, and so does the engine', async () => {
    const one = withRoom(0);
    const { client, take } = slowClient();
    let read = 0;
    async function* endless() {
      for (read = 1; read <= 5; read += 1) yield Buffer.alloc(100_000, ' ');
    }
    const engine = fakeEngine(() => ({ ...engineAnswer(long, one.clock), body: endless() }));
    const answered = one.answer(queryOf(engine.ask), client);
    await quiet();
    expect(read).toBe(1);
    take();
    await answered;
    expect(read).toBe(6);
  });
});

describe('what a slow client has not taken yet', () => {
  const body = rowset('x'.repeat(10_000));

  test('counts until it has it, also when the answer is stored long since', async () => {
    const one = withRoom(FOR_ANSWERS);
    const { client, take } = slowClient();
    await one.answer(queryOf(fakeEngine(() => engineAnswer(body, one.clock)).ask), client);
    await quiet();
    expect(one.memory.usage().entries).toBe(1);
    expect(used(one).fill).toBeGreaterThanOrEqual(body.length);
    expect(used(one).fill).toBeLessThan(body.length + 1_000);
    take();
    await quiet();
    expect(used(one)).toEqual({ request: 0, fill: 0, value: 0, sending: 0 });
  });

  test('counts until it has it when the rest is passed on', async () => {
    const one = replica({ maxEntry: 150_000 });
    const { client, take } = slowClient();
    const large = rowset('x'.repeat(100_000));
    const engine = fakeEngine(() => engineAnswer(large, one.clock));
    const answered = one.answer(queryOf(engine.ask), client);
    await quiet();
    expect(used(one).fill).toBeGreaterThanOrEqual(100_000);
    take();
    await answered;
    await quiet();
    expect(used(one).fill).toBe(0);
  });
});

type Answer = (clock: HandClock) => EngineAnswer | Promise<EngineAnswer>;
const ID = 'a session';

test.each<[string, Answer]>([
  ['kept', (clock) => engineAnswer(rowset('good'), clock)],
  ['kept without its session', (clock) => engineAnswer(rowset('x', sessionElement(ID)), clock)],
  ['of another session', (clock) => engineAnswer(rowset('x', sessionElement('other')), clock)],
  ['a fault', (clock) => engineAnswer(Buffer.from(faultAnswer()), clock)],
  ['with status 500', (clock) => engineAnswer(rowset('x'), clock, { status: 500 })],
  ['too large', (clock) => engineAnswer(rowset('x'.repeat(20_000)), clock)],
  ['cut off', (clock) => engineAnswer(rowset('x').subarray(0, -20), clock)],
  [
    'broken off',
    (clock) => engineAnswer(rowset('x'), clock, { half: () => Promise.reject(new Error('reset')) }),
  ],
  ['none', () => Promise.reject(new GatewayError('engine-unreachable', 'No engine.'))],
])('of an answer that is %s nothing is counted when it is over', async (_what, answer) => {
  // Tier 1 has no room, so that what is sent counts.
  for (const maxMemory of [0, 1_000_000]) {
    const clock = handClock();
    const one = replica({ clock, inFlight: IN_FLIGHT, maxEntry: 16_384, maxMemory });
    const ask = fakeEngine(() => answer(clock)).ask;
    await one.answer(queryOf(ask, { session: sessionOf(ID) }));
    const gone = fakeClient();
    const answered = one.answer(queryOf(ask, { session: sessionOf(ID), fresh: true }), gone);
    gone.leave();
    await answered;
    await quiet();
    expect(used(one)).toEqual({ request: 0, fill: 0, value: 0, sending: 0 });
  }
});

describe('an entry of tier 2', () => {
  const body = rowset('x'.repeat(8_000));

  /** Two gateways with a tier in common; the first one has stored an answer there. */
  async function both() {
    const values = fakeTier();
    const store = sharedEpochs();
    const open = (inFlight: number) =>
      replica({ values, store: store.replica(1_000), lease: 1_000, inFlight });
    const first = open(IN_FLIGHT);
    await first.answer(queryOf(fakeEngine(() => engineAnswer(body, first.clock)).ask));
    return { first, values, second: open(IN_FLIGHT) };
  }
  const engineOf = ({ clock }: { clock: HandClock }) =>
    fakeEngine(() => engineAnswer(rowset('new'), clock));

  test('is found where there is room for it, of which nothing is counted afterwards', async () => {
    const { first, second } = await both();
    expect(told(await second.answer(queryOf(engineOf(second).ask)))).toBe('hit:redis');
    await quiet();
    for (const one of [first, second]) {
      expect(used(one)).toEqual({ request: 0, fill: 0, value: 0, sending: 0 });
    }
  });

  test('for which there is no room is a miss, and no failure of Redis', async () => {
    const { second, values } = await both();
    const others = second.account.open('fill');
    // The body decoded would just fit, but not beside the value that it is read from.
    expect(others.grow(FOR_ANSWERS - 2 * body.length - 10)).toBe(true);
    const sets = values.sets;
    expect(told(await second.answer(queryOf(engineOf(second).ask)))).toBe('miss');
    // What is small is kept all the same.
    expect([second.memory.usage().entries, values.sets]).toEqual([1, sets + 1]);
    expect(second.events.filter(({ type }) => type !== 'stored')).toEqual([]);
  });

  test('is not written where there is no room for that, and no failure of Redis', async () => {
    const values = fakeTier();
    const store = sharedEpochs();
    const one = withRoom(2.5 * body.length, {
      values,
      store: store.replica(1_000),
      lease: 1_000,
    });
    const { client, take } = slowClient();
    await one.answer(queryOf(fakeEngine(() => engineAnswer(body, one.clock)).ask), client);
    expect([one.memory.usage().entries, values.sets]).toEqual([1, 0]);
    expect(one.events).toEqual([{ type: 'stored', project: 'a', bytes: body.length }]);
    take();
  });
});
