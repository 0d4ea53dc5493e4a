import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import type { EngineAnswer, Query } from '../../../../src/cache/query.ts';
import { EngineFailure, GatewayError } from '../../../../src/common/errors.ts';
import { faultAnswer } from '../../../support/answers.ts';
import { type FakeClient, fakeClient, told } from '../fake-client.ts';
import {
  checkpoint,
  engineAnswer,
  fakeTier,
  handClock,
  type HandClock,
  queryOf,
  quiet,
  rowset,
} from '../fakes.ts';
import { sharedEpochs } from '../purge/fake-epoch-stores.ts';
import { fakeLocks } from '../purge/fake-locks.ts';
import { type FakeEngine, fakeEngine, ORDER, replica } from '../purge/replica.ts';

const LEASE = 1_000;
const TTL = 60_000;
const STALE = 4 * 3_600_000;
const AWAY = 'hit:engine-away';

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] });
});
afterEach(() => {
  jest.useRealTimers();
});

const away = () => new EngineFailure('engine-unreachable', 'The engine cannot be reached.');
const silent = () => new EngineFailure('engine-timeout', 'The engine did not answer in time.');

type Respond = (call: number) => EngineAnswer | Promise<EngineAnswer>;
interface House {
  readonly clock: HandClock;
  readonly engine: FakeEngine;
  readonly set: { respond: Respond; ifError: number; isAway: boolean };
  readonly query: Query;
}

/** An engine that answers until told otherwise, and a query that an entry past its ttl may answer. */
function house(): House {
  const clock = handClock();
  const answers: Respond = (call) => engineAnswer(rowset(`answer ${call}`), clock);
  const set = { respond: answers, ifError: STALE, isAway: false };
  const engine = fakeEngine((call) => set.respond(call));
  const ifError = () => set.ifError;
  const query = queryOf(engine.ask, { ttl: TTL, ifError, isAway: () => set.isAway });
  return { clock, engine, set, query };
}

const throws = (failure: () => Error) => async (): Promise<never> => {
  throw failure();
};

/** One gateway, whose entry for the query is past its ttl by a second. */
async function old(options: Parameters<typeof replica>[0] = {}) {
  const ground = house();
  const one = replica({ clock: ground.clock, staleIfError: STALE, ...options });
  await one.answer(ground.query);
  ground.clock.advance(TTL + 1_000);
  return { ...ground, ...one };
}

/** Two gateways on one Redis; the first has filled it, and its entry is past its ttl by a second. */
async function oldInRedis() {
  const ground = house();
  const { clock } = ground;
  const epochs = sharedEpochs();
  const values = fakeTier();
  const locks = fakeLocks(clock);
  const gateway = () => {
    const store = epochs.replica(LEASE);
    return replica({ clock, values, store, lease: LEASE, locks, staleIfError: STALE });
  };
  const [a, b] = [gateway(), gateway()];
  await a.answer(ground.query);
  clock.advance(TTL + 1_000);
  return { ...ground, values, locks, a, b };
}

const reasonOf = ({ failure }: FakeClient) => (failure as GatewayError | undefined)?.reason;

/** A request whose engine is about to fail, while another has brought a new answer. */
async function renewedMeanwhile() {
  const { answer, query, set } = await old();
  const held = checkpoint();
  const { respond } = set;
  set.respond = async () => {
    await held.arrive();
    throw away();
  };
  const asking = answer(query);
  await held.arrived;
  set.respond = respond;
  await answer({ ...query, fresh: true });
  return { asking, held, set };
}

describe('behind a failure of the engine', () => {
  test.each([
    ['that cannot be reached', away],
    ['that is silent', silent],
  ])('%s, an entry past its ttl answers, and says so', async (_what, error) => {
    const { answer, query, set, events } = await old();
    set.respond = throws(error);
    const client = await answer(query);
    expect([told(client), client.body]).toEqual([AWAY, `${rowset('answer 1')}`]);
    expect([client.ttl, client.age, client.failure]).toEqual([-1_000, TTL + 1_000, undefined]);
    expect(events.filter(({ type }) => type === 'stored')).toHaveLength(1);
  });

  test('it answers each of those who waited for one request', async () => {
    const { answer, query, set, engine } = await old();
    const held = checkpoint();
    set.respond = async () => {
      await held.arrive();
      throw away();
    };
    const all = Array.from({ length: 9 }, () => answer(query));
    await held.arrived;
    await quiet();
    held.release();
    expect(new Set((await Promise.all(all)).map(told))).toEqual(new Set([AWAY]));
    expect(engine.asked).toBe(2);
  });

  test('it answers those who waited for another gateway', async () => {
    const { b, query, set, locks, engine } = await oldInRedis();
    let looks = 0;
    locks.enter = async () => ({ kind: (looks += 1) < 3 ? 'wait' : 'lead', expected: 1_000 });
    set.respond = throws(away);
    const both = await Promise.all([b.answer(query), b.answer(query)]);
    expect(both.map(told)).toEqual([AWAY, AWAY]);
    expect([looks, engine.asked]).toEqual([3, 2]);
  });

  test('it is found in Redis, where another gateway put it', async () => {
    const { b, query, set } = await oldInRedis();
    set.respond = throws(away);
    expect(told(await b.answer(query))).toBe(AWAY);
  });

  test('the younger of both tiers answers', async () => {
    const { a, b, query, set, clock } = await oldInRedis();
    expect((await b.answer(query)).body).toBe(`${rowset('answer 2')}`);
    clock.advance(TTL + 1_000);
    set.respond = throws(away);
    const client = await a.answer(query);
    expect([told(client), client.body]).toEqual([AWAY, `${rowset('answer 2')}`]);
    expect(client.age).toBe(TTL + 1_000);
  });

  test('what another request brought meanwhile is an ordinary hit', async () => {
    const { asking, held } = await renewedMeanwhile();
    held.release();
    const client = await asking;
    expect([told(client), client.body]).toEqual(['hit:memory', `${rowset('answer 3')}`]);
  });

  test('it answers until ttl and stale_if_error are over, and never longer', async () => {
    const { answer, query, set, clock } = await old();
    set.respond = throws(away);
    clock.advance(STALE - 1_001);
    expect(told(await answer(query))).toBe(AWAY);
    clock.advance(1);
    expect(reasonOf(await answer(query))).toBe('engine-unreachable');
  });

  test('a ttl or a stale_if_error that was shortened since counts at once', async () => {
    const { answer, query, set } = await old();
    set.respond = throws(away);
    set.ifError = 1_000;
    expect(reasonOf(await answer(query))).toBe('engine-unreachable');
    set.ifError = 1_001;
    expect(told(await answer(query))).toBe(AWAY);
    expect(reasonOf(await answer({ ...query, ttl: TTL - 1 }))).toBe('engine-unreachable');
  });

  test('no entry answers where none is kept past its ttl', async () => {
    const { answer, query, set } = await old({ staleIfError: 0 });
    set.respond = throws(away);
    expect(reasonOf(await answer(query))).toBe('engine-unreachable');
  });

  test('an entry that a clock of the future made never answers', async () => {
    const { answer, query, set, clock } = await old();
    set.respond = throws(away);
    clock.stepWall(-TTL - 120_000);
    expect(reasonOf(await answer(query))).toBe('engine-unreachable');
  });

  test('a wall clock that was set back does not lengthen it', async () => {
    const { answer, query, set, clock } = await old();
    set.respond = throws(away);
    clock.advance(STALE);
    clock.stepWall(-STALE);
    expect(reasonOf(await answer(query))).toBe('engine-unreachable');
  });

  test('an answer of the engine makes the entry fresh again', async () => {
    const { answer, query, set } = await old();
    const { respond } = set;
    set.respond = throws(away);
    expect(told(await answer(query))).toBe(AWAY);
    set.respond = respond;
    expect(told(await answer(query))).toBe('miss');
    const client = await answer(query);
    expect([told(client), client.ttl]).toEqual(['hit:memory', TTL]);
  });

  test.each<[string, Partial<Query>]>([
    ['that wants a fresh answer', { fresh: true }],
    ['of no user', { ifError: undefined as never }],
  ])('a query %s fails', async (_what, changed) => {
    const { answer, query, set } = await old();
    set.respond = throws(away);
    expect(reasonOf(await answer({ ...query, ...changed }))).toBe('engine-unreachable');
  });

  test('it answers where the lease of session or roles ended while Redis was asked', async () => {
    const { b, query, set } = await oldInRedis();
    set.respond = throws(away);
    let checks = 0;
    const ifError = async () => {
      checks += 1;
      const isFirst = checks === 1;
      return () => (isFirst ? 0 : STALE);
    };
    expect(told(await b.answer({ ...query, ifError }))).toBe(AWAY);
  });

  test('nothing answers, however young, once session, roles or login do not count any more', async () => {
    const { asking, held, set } = await renewedMeanwhile();
    set.ifError = 0;
    held.release();
    expect(reasonOf(await asking)).toBe('engine-unreachable');
  });
});

describe('no entry past its ttl answers behind', () => {
  test.each<[string, string, (clock: HandClock) => EngineAnswer | Promise<EngineAnswer>]>([
    [
      'a full queue',
      'overloaded',
      throws(() => new GatewayError('overloaded', 'Too many requests wait.')),
    ],
    [
      'a refused login',
      'engine-login',
      throws(() => new GatewayError('engine-login', 'It refused the login.')),
    ],
    [
      'a head that cannot be read',
      'engine-unreachable',
      throws(() => new GatewayError('engine-unreachable', 'The engine cannot be reached.')),
    ],
    [
      'an answer that breaks off',
      'engine-unreachable',
      (clock) => engineAnswer(rowset('cut'), clock, { half: throws(() => new Error('reset')) }),
    ],
  ])('%s', async (_what, reason, respond) => {
    const { answer, query, set, clock } = await old();
    set.respond = () => respond(clock);
    const all = await Promise.all([answer(query), answer(query)]);
    expect(all.map((client) => reasonOf(client))).toEqual([reason, reason]);
  });

  test('a status or a Fault of the engine, which is the answer', async () => {
    const { answer, query, set, clock } = await old();
    set.respond = () => engineAnswer(rowset('x'), clock, { status: 503 });
    expect(told(await answer(query))).toBe('miss:engine-status');
    set.respond = () => engineAnswer(Buffer.from(faultAnswer()), clock);
    expect(told(await answer(query))).toBe('miss:fault');
  });

  test('a client that has gone', async () => {
    const { answer, query, set } = await old();
    const held = checkpoint();
    set.respond = async () => {
      await held.arrive();
      throw away();
    };
    const client = fakeClient();
    const asking = answer(query, client);
    await held.arrived;
    client.leave();
    held.release();
    await asking;
    expect([client.outcome, client.body]).toEqual([undefined, '']);
  });
});

describe('never across a purge', () => {
  test('that was acknowledged while the engine failed', async () => {
    const { answer, purge, query, set } = await old();
    const held = checkpoint();
    set.respond = async () => {
      await held.arrive();
      throw away();
    };
    const all = [answer(query), answer(query)];
    await held.arrived;
    await purge({ project: 'a' }, ORDER);
    held.release();
    const reasons = (await Promise.all(all)).map(reasonOf);
    expect(reasons).toEqual(['engine-unreachable', 'engine-unreachable']);
  });

  test('of another gateway, in memory or in Redis', async () => {
    const { a, b, query, set } = await oldInRedis();
    await b.purge('everything', ORDER);
    set.respond = throws(away);
    for (const one of [a, b]) expect(reasonOf(await one.answer(query))).toBe('engine-unreachable');
  });

  test('that is acknowledged while Redis is asked for the entry', async () => {
    const { a, b, query, set, values } = await oldInRedis();
    const looking = checkpoint();
    set.respond = async () => {
      values.beforeGet = looking.arrive;
      throw away();
    };
    const asking = b.answer(query);
    await looking.arrived;
    await a.purge({ project: 'a' }, ORDER);
    looking.release();
    expect(reasonOf(await asking)).toBe('engine-unreachable');
  });
});

describe('while the engine is away', () => {
  test('an entry past its ttl answers at once, and the engine is not asked', async () => {
    const { answer, query, set, engine } = await old();
    set.isAway = true;
    expect(told(await answer(query))).toBe(AWAY);
    expect(engine.asked).toBe(1);
    set.ifError = 0;
    expect(told(await answer(query))).toBe('miss');
  });

  test('an entry within its ttl is an ordinary hit, and a miss is asked', async () => {
    const { answer, query, set, engine } = await old();
    await answer(query);
    set.isAway = true;
    expect(told(await answer(query))).toBe('hit:memory');
    const other = queryOf(engine.ask, { project: 'b', ifError: () => STALE, isAway: () => true });
    expect(told(await answer(other))).toBe('miss');
  });

  test('a purge counts as ever', async () => {
    const { answer, purge, query, set } = await old();
    set.isAway = true;
    await purge({ project: 'a' }, ORDER);
    expect(told(await answer(query))).toBe('miss');
  });
});

describe('a query that timed out a short time ago', () => {
  test('is answered past its ttl instead of refused', async () => {
    const { answer, query, set, engine, clock } = await old();
    set.respond = throws(silent);
    await answer(query);
    clock.advance(1_000);
    expect(told(await answer(query))).toBe(AWAY);
    expect(engine.asked).toBe(2);
  });

  test('is refused where the engine fell silent in the middle of its answer', async () => {
    const { answer, query, set, clock } = await old();
    const half = throws(() => new GatewayError('engine-timeout', 'It did not go on.'));
    set.respond = () => engineAnswer(rowset('cut'), clock, { half });
    await answer(query);
    expect(reasonOf(await answer(query))).toBe('query-times-out');
  });
});
