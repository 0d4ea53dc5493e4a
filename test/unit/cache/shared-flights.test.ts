import { describe, expect, test } from '@jest/globals';
import { until } from '../../support/http-client.ts';
import { fakeClient, sent, told } from './fake-client.ts';
import { checkpoint, queryOf, quiet, rowset, sessionElement, sessionOf } from './fakes.ts';
import { endsOf, flightHouse } from './flight-house.ts';
import { ORDER } from './purge/replica.ts';

describe('a query that is not known to be slow', () => {
  test('is asked by each gateway, and waits for nobody', async () => {
    const { gateway, engine, query, locks, holdEngine } = flightHouse();
    const [a, b] = [gateway(), gateway()];
    const held = holdEngine();
    const all = [a.answer(query), b.answer(query)];
    await until(() => engine.inside === 2);
    held.release();
    expect((await Promise.all(all)).map(told)).toEqual(['miss', 'miss']);
    expect([locks.enters, endsOf(a), endsOf(b)]).toEqual([2, [], []]);
  });

  test('is known to be slow once the engine took a second, also after a purge', async () => {
    const { gateway, query, locks, set } = flightHouse();
    const [a, b] = [gateway(), gateway()];
    set.took = 999;
    await a.answer(query);
    expect(locks.slow.size).toBe(0);
    await a.purge('everything', ORDER);
    set.took = 1_000;
    await a.answer(query);
    expect([...locks.slow.values()]).toEqual([1_000]);
    await a.purge('everything', ORDER);
    set.took = 7_000;
    expect(told(await b.answer(query))).toBe('miss');
    expect(endsOf(b)).toEqual(['led']);
    expect([...locks.slow.values()]).toEqual([7_000]);
  });

  test('that was slow is forgotten when its next answer comes quickly', async () => {
    const { gateway, query, locks, set, markSlow } = flightHouse();
    markSlow();
    set.took = 999;
    await gateway().answer(query);
    expect(locks.slow.size).toBe(0);
  });
});

describe('a query that is known to be slow', () => {
  test('and is asked at several gateways at one time reaches the engine once', async () => {
    const house = flightHouse();
    const { engine, query, locks, gateway } = house;
    house.markSlow();
    const gateways = [gateway(), gateway(), gateway()];
    const held = house.holdEngine();
    const all = gateways.flatMap((one) => [1, 2, 3, 4].map(() => one.answer(query)));
    await house.asleep(2);
    await until(() => gateways.every(({ flights }) => flights.usage().waiters === 3));
    const { key } = await house.lockOf(gateways[0]!);
    held.release();
    await until(() => locks.holder(key) === undefined);
    await house.night.wake();
    const clients = await Promise.all(all);
    expect(engine.asked).toBe(1);
    expect(clients.map(told).sort()).toEqual([...Array(11).fill('hit:coalesced'), 'miss']);
    expect(new Set(clients.map(({ body }) => body))).toEqual(new Set([`${rowset('answer 1')}`]));
    expect(gateways.flatMap(endsOf).sort()).toEqual(['joined', 'joined', 'led']);
    for (const one of gateways) expect(told(await one.answer(query))).toBe('hit:memory');
    expect([locks.holder(key), gateways[1]?.flights.usage().flights]).toEqual([undefined, 0]);
  });

  test('whose entry landed between the look-up and the flight is not asked again', async () => {
    const house = flightHouse();
    const { engine, query, locks, gateway } = house;
    house.markSlow();
    const [a, b] = [gateway(), gateway()];
    const atLock = checkpoint();
    locks.beforeEnter = () => atLock.arrive();
    const late = b.answer(query);
    await atLock.arrived;
    locks.beforeEnter = async () => {};
    await a.answer(query);
    atLock.release();
    expect(told(await late)).toBe('hit:coalesced');
    expect([engine.asked, endsOf(b)]).toEqual([1, ['joined']]);
    expect(locks.holder((await house.lockOf(b)).key)).toBeUndefined();
  });

  test('frees its lock only when its answer can be found', async () => {
    const house = flightHouse();
    const { query, locks, values, gateway } = house;
    house.markSlow();
    const a = gateway();
    const { key } = await house.lockOf(a);
    const writing = checkpoint();
    values.beforeSet = () => writing.arrive();
    const all = a.answer(query);
    await writing.arrived;
    expect(locks.holder(key)).toBeDefined();
    writing.release();
    await all;
    expect([locks.holder(key), values.values.size]).toEqual([undefined, 1]);
  });

  test('asked for as a fresh one, or without epochs, meets nobody', async () => {
    const { gateway, engine, query, locks, epochs, markSlow } = flightHouse();
    markSlow();
    await gateway().answer(queryOf(engine.ask, { fresh: true }));
    epochs.reachable = false;
    expect(told(await gateway().answer(query))).toBe('bypass:epochs-unknown');
    expect(locks.enters).toBe(0);
  });

  test('is explained without a lock being taken', async () => {
    const { gateway, query, locks, markSlow } = flightHouse();
    markSlow();
    expect(await gateway().explain(query)).toMatchObject({ flight: false, redis: null });
    expect(locks.enters).toBe(0);
  });
});

describe('a gateway that waits', () => {
  test('gives each client the answer in its own session', async () => {
    const house = flightHouse();
    const { engine, gateway, set } = house;
    const [a, b] = [gateway(), gateway()];
    const inSession = (id: string) => queryOf(engine.ask, { session: sessionOf(id) });
    house.markSlow(5_000, inSession('one'));
    set.answer = () => rowset('data', sessionElement('one'));
    const held = house.holdEngine();
    const first = a.answer(inSession('one'));
    await held.arrived;
    const others = [b.answer(inSession('two')), b.answer(inSession('three'))];
    await house.asleep();
    await until(() => b.flights.usage().waiters === 1);
    held.release();
    expect(told(await first)).toBe('miss');
    await house.night.wake();
    const texts = (await Promise.all(others)).map(sent);
    expect(texts).toEqual([
      `${rowset('data', sessionElement('two'))}`,
      `${rowset('data', sessionElement('three'))}`,
    ]);
    expect(engine.asked).toBe(1);
  });

  test('serves those who joined when the client that came first goes away', async () => {
    const house = flightHouse();
    const { engine, query, gateway } = house;
    house.markSlow();
    const [a, b] = [gateway(), gateway()];
    const held = house.holdEngine();
    const first = a.answer(query);
    await held.arrived;
    const leaving = fakeClient();
    const left = b.answer(query, leaving);
    const stay = [b.answer(query), b.answer(query)];
    await house.asleep();
    await until(() => b.flights.usage().waiters === 2);
    leaving.leave();
    await house.night.wake();
    await house.asleep();
    held.release();
    await first;
    await house.night.wake();
    expect((await Promise.all(stay)).map(told)).toEqual(['hit:coalesced', 'hit:coalesced']);
    await left;
    expect(engine.asked).toBe(1);
  });

  test('asks for those who joined when the client that came first went away and the leader died', async () => {
    const house = flightHouse();
    const { engine, query, gateway, locks } = house;
    house.markSlow();
    const b = gateway();
    locks.seize((await house.lockOf(b)).key, 'dead', 1_000);
    const leaving = fakeClient();
    const left = b.answer(query, leaving);
    const stays = b.answer(query);
    await house.asleep();
    await until(() => b.flights.usage().waiters === 1);
    leaving.leave();
    await house.wakeUntil(() => engine.asked === 1);
    expect(told(await stays)).toBe('hit:coalesced');
    await left;
  });

  test('gives up when nobody waits there any more', async () => {
    const house = flightHouse();
    const { engine, query, gateway, locks } = house;
    house.markSlow();
    const b = gateway();
    locks.seize((await house.lockOf(b)).key, 'another');
    const leaving = fakeClient();
    const left = b.answer(query, leaving);
    await house.asleep();
    leaving.leave();
    await house.night.wake();
    await left;
    expect([engine.asked, b.flights.usage().flights]).toEqual([0, 0]);
  });

  test('asks nothing when its client leaves while Redis says who leads', async () => {
    const { engine, gateway, locks } = flightHouse();
    const held = checkpoint();
    const { enter } = locks;
    Object.assign(locks, {
      async enter(...place: Parameters<typeof enter>) {
        const standing = await enter(...place);
        await held.arrive();
        return standing;
      },
    });
    const b = gateway();
    const leaving = fakeClient();
    const left = b.answer(queryOf(engine.ask), leaving);
    await held.arrived;
    leaving.leave();
    held.release();
    await left;
    expect([engine.asked, b.flights.usage().flights]).toEqual([0, 0]);
    // Whoever comes next is not kept waiting for it.
    expect(told(await b.answer(queryOf(engine.ask)))).toBe('miss');
  });

  test.each([
    ['is spoilt', (value: Buffer) => void value.writeUInt8(value.readUInt8(100) ^ 1, 100)],
    ['is cut off', (value: Buffer) => void value.fill(0, 60)],
  ])('asks the engine when the entry %s', async (_how, spoil) => {
    const house = flightHouse();
    const { engine, query, gateway, values } = house;
    house.markSlow();
    const [a, b] = [gateway(), gateway()];
    const held = house.holdEngine();
    const first = a.answer(query);
    await held.arrived;
    const second = b.answer(query);
    await house.asleep();
    held.release();
    await first;
    for (const value of values.values.values()) spoil(value);
    await house.night.wake();
    expect([told(await second), engine.asked]).toEqual(['miss', 2]);
    expect(b.events).toContainEqual(expect.objectContaining({ type: 'entry-rejected' }));
  });

  test('asks the engine when the entry is too old for it', async () => {
    const house = flightHouse();
    const { engine, query, gateway } = house;
    house.markSlow();
    const [a, b] = [gateway(), gateway()];
    const held = house.holdEngine();
    const first = a.answer(query);
    await held.arrived;
    const second = b.answer(queryOf(engine.ask, { ttl: 2_000 }));
    await house.asleep();
    held.release();
    await first;
    await house.night.wake();
    expect([told(await second), engine.asked]).toEqual(['miss', 2]);
  });
});

describe('a purge', () => {
  test('that was acknowledged before the request came keeps it from the flight of another gateway', async () => {
    const house = flightHouse();
    const { engine, query, gateway, set } = house;
    house.markSlow();
    const [a, b] = [gateway(), gateway()];
    let data = 'old';
    const asked: string[] = [];
    const dated = queryOf(async (signal) => {
      asked.push(data);
      return engine.ask(signal);
    });
    set.answer = (call) => rowset(`${asked[call - 1]}`);
    const held = house.holdEngine();
    const before = a.answer(dated);
    await held.arrived;
    // It came before the purge, so it may have what was asked before it.
    const waiting = b.answer(query);
    await house.asleep();
    data = 'new';
    await b.purge('everything', ORDER);
    const after = b.answer(dated);
    await until(() => engine.inside === 2);
    held.release();
    const bodies = [await before, await after].map(({ body }) => body);
    expect(bodies).toEqual([`${rowset('old')}`, `${rowset('new')}`]);
    await house.night.wake();
    expect((await waiting).body).toBe(`${rowset('old')}`);
    expect(endsOf(b).sort()).toEqual(['joined', 'led']);
    await quiet();
    for (const one of [a, b, gateway()]) {
      expect((await one.answer(dated)).body).toBe(`${rowset('new')}`);
    }
    expect(asked).toEqual(['old', 'new']);
  });
});
