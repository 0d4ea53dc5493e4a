import { describe, expect, test } from '@jest/globals';
import type { Query } from '../../../../src/cache/query.ts';
import type { DiscoverRequest } from '../../../../src/xmla/request/read-request.ts';
import { sharedEpochs } from '../purge/fake-epoch-stores.ts';
import { told } from '../fake-client.ts';
import {
  checkpoint,
  engineAnswer,
  fakeTier,
  flatParts,
  type FlatParts,
  handClock,
  keyParts,
  queryOf,
  rowset,
  sessionOf,
} from '../fakes.ts';
import { fakeEngine, ORDER, replica, unknownEpochs } from '../purge/replica.ts';

const LEASE = 1_000;

function setUp() {
  const clock = handClock();
  const values = fakeTier();
  const shared = sharedEpochs();
  const one = () => replica({ clock, values, store: shared.replica(LEASE), lease: LEASE });
  const engine = fakeEngine(() => {
    const began = { now: clock.now(), wall: clock.wall() };
    clock.advance(40);
    return engineAnswer(rowset('one'), clock, { began });
  });
  return { ...one(), other: one(), clock, values, shared, engine };
}

function changedTo(query: Query, changed: Partial<FlatParts>): Query {
  return { ...query, parts: keyParts(changed) };
}

describe('an explanation', () => {
  test('tells what each tier holds of a query, how old it is and for how long it counts', async () => {
    const { answer, explain, engine, clock, values } = setUp();
    const query = queryOf(engine.ask, { ttl: 10_000 });
    await answer(query);
    clock.advance(960);
    const facts = {
      age_ms: 1_000,
      ttl_ms: 9_000,
      bytes: rowset('one').length,
      engine_ms: 40,
    };
    const explained = await explain(query);
    expect(explained).toMatchObject({ memory: facts, redis: facts, flight: false, nearest: null });
    expect([...values.values.keys()]).toEqual([explained.key]);
    // The ttl was shortened after they were stored.
    const shorter = { ...facts, ttl_ms: 1_000 };
    expect(await explain({ ...query, ttl: 2_000 })).toMatchObject({
      memory: shorter,
      redis: shorter,
    });
    clock.advance(9_000);
    expect(await explain(query)).toMatchObject({ memory: { ttl_ms: 0 }, redis: { ttl_ms: 0 } });
  });

  test('does not give an entry more time because the wall clock was set back', async () => {
    const { answer, explain, engine, clock } = setUp();
    const query = queryOf(engine.ask, { ttl: 10_000 });
    await answer(query);
    clock.stepWall(-5_000);
    clock.advance(9_000);
    expect(await explain(query)).toMatchObject({
      memory: { ttl_ms: 960 },
      redis: { ttl_ms: 5_960 },
    });
  });

  test('names the parts and the epochs by digests that all gateways share', async () => {
    const { explain, other, engine } = setUp();
    const query = queryOf(engine.ask);
    const explained = await explain(query);
    expect(explained.parts.map(({ name }) => name)).toEqual([
      'engine',
      'project',
      'query',
      'identity',
      'user-agent',
      'accept',
      'content-type',
      'session',
      'headers',
      'request-type',
      'restrictions',
      'properties',
      'epochs',
    ]);
    expect(explained.epochs).toEqual([
      { scope: 'everything', token: expect.stringMatching(/^[\w-]{11}$/u) },
      { scope: 'project:a', token: expect.stringMatching(/^[\w-]{11}$/u) },
    ]);
    expect(await other.explain(query)).toEqual(explained);
    expect(JSON.stringify(explained)).not.toContain('alice');
  });

  test('changes nothing: it asks no engine, stores nothing and is no use of an entry', async () => {
    const { answer, explain, other, engine, memory, values, events, flights } = setUp();
    const query = queryOf(engine.ask);
    await explain(query);
    expect([engine.asked, memory.usage().entries, values.sets]).toEqual([0, 0, 0]);
    await other.answer(query);
    const before = [memory.usage(), values.sets, flights.usage(), events.length];
    expect(await explain(query)).toMatchObject({ memory: null, redis: { age_ms: 40 } });
    expect([memory.usage(), values.sets, flights.usage(), events.length]).toEqual(before);
    await answer(query);
    await answer(queryOf(engine.ask, { project: 'b' }));
    const [newest] = memory.peekRecent(1);
    await explain(query);
    expect(memory.peekRecent(1)).toEqual([newest]);
  });

  test('sees a flight that would be joined', async () => {
    const { answer, explain, clock } = setUp();
    const held = checkpoint();
    const slow = fakeEngine(async () => {
      await held.arrive();
      return engineAnswer(rowset('slow'), clock);
    });
    const query = queryOf(slow.ask);
    const leads = answer(query);
    await held.arrived;
    expect(await explain(query)).toMatchObject({ flight: true, memory: null, nearest: null });
    held.release();
    await leads;
    expect(await explain(query)).toMatchObject({ flight: false, memory: { age_ms: 0 } });
  });

  test('says so when tier 2 cannot be asked, holds what cannot be read, or is not there', async () => {
    const { answer, explain, engine, values } = setUp();
    const query = queryOf(engine.ask);
    await answer(query);
    for (const value of values.values.values()) value.writeUInt8(9, 4);
    expect((await explain(query)).redis).toBeNull();
    values.beforeGet = () => Promise.reject(new Error('out of reach'));
    expect((await explain(query)).redis).toBe('unavailable');
    expect((await replica().explain(query)).redis).toBe('off');
  });

  test('says so when the epochs are unknown', async () => {
    const clock = handClock();
    const epochs = unknownEpochs(clock);
    const query = queryOf(fakeEngine(() => engineAnswer(rowset('x'), clock)).ask);
    expect(await replica({ clock, epochs, values: fakeTier() }).explain(query)).toMatchObject({
      epochs: 'unknown',
      memory: null,
      redis: 'unavailable',
      flight: false,
      nearest: null,
    });
    expect((await replica({ clock, epochs }).explain(query)).redis).toBe('off');
  });
});

const DISCOVER: DiscoverRequest = {
  ...flatParts().request,
  method: 'Discover',
  requestType: 'MDSCHEMA_CUBES',
  restrictions: [],
};

/** Each changes one part of the key, that of this name. */
const CHANGES: readonly (readonly [name: string, changed: Partial<FlatParts>])[] = [
  ['engine', { engine: 'another' }],
  ['query', { query: ['a=1'] }],
  ['identity', { identity: 'user:bob' }],
  ['user-agent', { userAgentClass: 'Excel' }],
  ['accept', { accept: null }],
  ['content-type', { contentType: 'application/xml' }],
  ['session', { session: 'profile' }],
  ['request-type', { request: { ...DISCOVER, requestType: 'MDSCHEMA_SETS' } }],
  [
    'headers',
    {
      request: {
        ...flatParts().request,
        headers: [{ uri: 'u', local: 'Version', attributes: [], content: [] }],
      },
    },
  ],
  [
    'properties',
    {
      request: { ...flatParts().request, properties: [{ name: 'LocaleIdentifier', value: '7' }] },
    },
  ],
];

describe('the nearest entry', () => {
  test.each(CHANGES)(
    'of a query that differs in nothing but %s says that',
    async (name, changed) => {
      const { answer, explain, engine, clock } = setUp();
      const query = queryOf(engine.ask);
      await answer(query);
      clock.advance(960);
      expect(await explain(changedTo(query, changed))).toMatchObject({
        memory: null,
        nearest: { differs: [name], age_ms: 1_000 },
      });
    },
  );

  test('is the one of before a purge, which differs in the epochs', async () => {
    const { answer, explain, purge, engine, clock } = setUp();
    const query = queryOf(engine.ask);
    await answer(query);
    await purge({ project: 'a' }, ORDER);
    clock.advance(1_000);
    const { nearest, memory, redis } = await explain(query);
    expect([memory, redis, nearest?.differs]).toEqual([null, null, ['epochs']]);
  });

  test('is the one with the fewest differences, and of several the youngest', async () => {
    const { answer, explain, engine, clock } = setUp();
    const query = queryOf(engine.ask);
    await answer(changedTo(query, { identity: 'user:bob' }));
    clock.advance(100);
    await answer(changedTo(query, { accept: null }));
    clock.advance(100);
    await answer(changedTo(query, { identity: 'user:bob', accept: null }));
    // Used last, which does not make it younger.
    await answer(changedTo(query, { identity: 'user:bob' }));
    expect((await explain(query)).nearest).toEqual({ differs: ['accept'], age_ms: 180 });
  });

  test('is none that is too old, and none where nothing is like it', async () => {
    const { answer, explain, engine, clock } = setUp();
    await answer(queryOf(engine.ask, { ttl: 1_000 }));
    const inSession = queryOf(engine.ask, { session: sessionOf('one') });
    expect((await explain(inSession)).nearest?.differs).toEqual(['session']);
    clock.advance(1_000);
    expect((await explain(inSession)).nearest).toBeNull();
    expect((await replica().explain(inSession)).nearest).toBeNull();
  });

  test('is not looked for where there is a hit', async () => {
    const { answer, explain, other, engine } = setUp();
    const query = queryOf(engine.ask);
    await other.answer(query);
    await answer(changedTo(query, { identity: 'user:bob' }));
    expect(await explain(query)).toMatchObject({
      memory: null,
      redis: { age_ms: 80 },
      nearest: null,
    });
    expect(told(await answer(query))).toBe('hit:redis');
  });
});
