import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import type { Query } from '../../../src/cache/query.ts';
import { GatewayError } from '../../../src/common/errors.ts';
import { faultAnswer } from '../../support/answers.ts';
import { type FakeClient, fakeClient, told } from './fake-client.ts';
import { checkpoint, engineAnswer, handClock, queryOf, quiet, rowset, sessionOf } from './fakes.ts';
import { sharedEpochs } from './purge/fake-epoch-stores.ts';
import { type FakeEngine, fakeEngine, ORDER, replica, unknownEpochs } from './purge/replica.ts';

/** How long the engine may be silent (ms). */
const TIMEOUT = 5_000;
const SECOND = 1_000;

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] });
});
afterEach(() => {
  jest.useRealTimers();
});

const timeout = () => new GatewayError('engine-timeout', 'The engine did not answer in time.');
const shared = { identity: 'everyone' } as const;
const ofAll = (query: Query): Query => ({ ...query, parts: { ...query.parts, ...shared } });

/** A gateway, and an engine whose every answer to the query times out, at once, until it is mended. */
function house(options: Parameters<typeof replica>[0] = {}) {
  const clock = handClock();
  const one = replica({ clock, ...options });
  const set = { mended: false };
  const engine = fakeEngine(() => {
    if (!set.mended) throw timeout();
    return engineAnswer(rowset('at last'), clock);
  });
  return { ...one, set, engine, query: queryOf(engine.ask) };
}

const reasonOf = ({ failure }: FakeClient) => (failure as GatewayError | undefined)?.reason;
const retryAfter = ({ failure }: FakeClient) =>
  Number((failure as GatewayError).headers['retry-after']);

describe('a query that never ends', () => {
  test('costs each of 24 users one timeout at most, and the engine three requests a minute', async () => {
    const clock = handClock();
    const one = replica({ clock });
    /** When each was asked, by the clock of the test, and what ends those that are under way. */
    const asked: number[] = [];
    const hung: { readonly since: number; readonly end: () => void }[] = [];
    const engine = fakeEngine(async () => {
      const { promise, reject } = Promise.withResolvers<never>();
      asked.push(clock.now());
      hung.push({ since: clock.now(), end: () => reject(timeout()) });
      return promise;
    });
    const quick = fakeEngine(() => engineAnswer(rowset('quick'), clock));
    const waits: number[] = [];
    const reasons: (string | undefined)[] = [];
    const underWay: Promise<void>[] = [];
    const begin = clock.now();
    const ask = async () => {
      const since = clock.now();
      const query = ofAll(queryOf(engine.ask, { timeoutMs: TIMEOUT }));
      const client = await one.answer(query, fakeClient(TIMEOUT));
      waits.push(clock.now() - since);
      reasons.push(reasonOf(client));
    };
    for (let second = 0; second < 180; second += 1) {
      // All at first, then one after the other, each twelve seconds after he was told.
      const asking = second === 0 ? 24 : 2;
      for (let i = 0; i < asking; i += 1) underWay.push(ask());
      const other = await one.answer(queryOf(quick.ask, { project: `other ${second}` }));
      expect(told(other)).toBe('miss');
      await quiet();
      clock.advance(SECOND);
      while (hung[0] !== undefined && clock.now() - hung[0].since >= TIMEOUT) hung.shift()?.end();
      await quiet();
    }
    for (const { end } of hung) end();
    await Promise.all(underWay);
    expect(waits).toHaveLength(24 + 2 * 179);
    expect(Math.max(...waits)).toBeLessThanOrEqual(TIMEOUT);
    expect(new Set(reasons)).toEqual(new Set(['engine-timeout', 'query-times-out']));
    expect(asked.map((at) => (at - begin) / SECOND)).toEqual([0, 25, 50, 75, 100, 125, 150, 175]);
    expect(one.flights.usage()).toEqual({ flights: 0, waiters: 0 });
  });

  test('is told with the time since when it does so, and when it is asked again', async () => {
    const { answer, query, clock, timedOut } = house();
    const since = new Date(clock.wall()).toISOString();
    await answer(query);
    clock.advance(4_500);
    const { failure } = await answer(query);
    expect(failure).toMatchObject({
      reason: 'query-times-out',
      status: 504,
      headers: { 'retry-after': '16' },
      message: `The engine has not answered this query in time since ${since}, and was not asked again; the next try is in 16 s.`,
    });
    await answer(query);
    const { digest } = query.parts.asked;
    expect(timedOut()).toEqual([{ digest, project: 'a', since, refused: 2 }]);
    // What tries again in vain is of the same trouble.
    clock.advance(16_000);
    await answer(query);
    expect(timedOut()).toEqual([{ digest, project: 'a', since, refused: 2 }]);
    clock.advance(59_999);
    expect(timedOut()).toHaveLength(1);
    clock.advance(1);
    expect(timedOut()).toEqual([]);
  });

  test('is tried again by one request, and who comes meanwhile shares what that gets', async () => {
    const clock = handClock();
    const one = replica({ clock });
    const held = checkpoint();
    const engine = fakeEngine(async (call) => {
      if (call === 1) throw timeout();
      await held.arrive();
      return engineAnswer(rowset('at last'), clock);
    });
    await one.answer(queryOf(engine.ask));
    clock.advance(19_999);
    expect(reasonOf(await one.answer(queryOf(engine.ask)))).toBe('query-times-out');
    clock.advance(1);
    const all = [1, 2, 3].map(() => one.answer(queryOf(engine.ask)));
    await held.arrived;
    await quiet();
    held.release();
    const clients = await Promise.all(all);
    expect(clients.map(told)).toEqual(['miss', 'hit:coalesced', 'hit:coalesced']);
    expect([engine.asked, one.timedOut()]).toEqual([2, []]);
  });

  test('is asked again a minute after it was asked last', async () => {
    const { answer, query, engine, clock } = house();
    await answer(query);
    clock.advance(60_000);
    await answer(query);
    expect(engine.asked).toBe(2);
    expect(retryAfter(await answer(query))).toBe(20);
  });

  test('is another one for each user whose own answer it is', async () => {
    const { answer, query, engine } = house();
    await answer(query);
    const ofBob = { ...query, parts: { ...query.parts, identity: 'user:bob' } };
    expect(reasonOf(await answer(ofBob))).toBe('engine-timeout');
    expect(reasonOf(await answer(query))).toBe('query-times-out');
    expect(engine.asked).toBe(2);
  });

  test('is answered from what is stored, as long as that counts', async () => {
    const { answer, query, set } = house();
    set.mended = true;
    await answer(query);
    set.mended = false;
    await answer(queryOf(query.ask, { fresh: true }));
    expect(told(await answer(query))).toBe('hit:memory');
  });
});

describe('what is remembered of a timeout ends', () => {
  test('with an answer that a user wants fresh, which is never refused', async () => {
    const { answer, query, engine, set, memory } = house();
    const fresh = queryOf(engine.ask, { fresh: true });
    await answer(query);
    expect(reasonOf(await answer(fresh))).toBe('engine-timeout');
    expect(reasonOf(await answer(query))).toBe('query-times-out');
    set.mended = true;
    expect(told(await answer(fresh))).toBe('miss');
    memory.clear();
    expect(told(await answer(query))).toBe('miss');
  });

  test('with an answer that is not stored', async () => {
    const { answer, query, clock } = house();
    await answer(query);
    const fault = fakeEngine(() => engineAnswer(Buffer.from(faultAnswer()), clock));
    await answer(queryOf(fault.ask, { fresh: true }));
    expect(reasonOf(await answer(query))).toBe('engine-timeout');
  });

  test('with a purge of its project, and not with one of another', async () => {
    const { answer, query, purge, set } = house();
    await answer(query);
    await purge({ project: 'b' }, ORDER);
    expect(reasonOf(await answer(query))).toBe('query-times-out');
    await purge({ project: 'a' }, ORDER);
    set.mended = true;
    expect(told(await answer(query))).toBe('miss');
  });

  test('with a purge that another gateway made', async () => {
    const clock = handClock();
    const epochs = sharedEpochs();
    const common = () => ({ clock, store: epochs.replica(SECOND), lease: SECOND });
    const [a, b] = [house(common()), replica(common())];
    await a.answer(a.query);
    clock.advance(2 * SECOND);
    expect(reasonOf(await a.answer(a.query))).toBe('query-times-out');
    await b.purge('everything', ORDER);
    expect(reasonOf(await a.answer(a.query))).toBe('engine-timeout');
  });

  test('when nothing would say whether it was purged: then none is made', async () => {
    const { answer, query, engine } = house({ epochs: unknownEpochs(handClock()) });
    await answer(query);
    expect(reasonOf(await answer(query))).toBe('engine-timeout');
    expect(engine.asked).toBe(2);
  });
});

describe('who waits for a flight', () => {
  const hangs = (): FakeEngine => fakeEngine(() => new Promise(() => {}));

  test('has an end of his own: what he may wait, and the timeout of the engine', async () => {
    const one = replica();
    const engine = hangs();
    void one.answer(queryOf(engine.ask, { timeoutMs: TIMEOUT }));
    const joining = one.answer(queryOf(engine.ask, { timeoutMs: TIMEOUT }), fakeClient(2_000));
    await quiet();
    jest.advanceTimersByTime(6_999);
    await quiet();
    expect(one.flights.usage().waiters).toBe(1);
    jest.advanceTimersByTime(1);
    expect(reasonOf(await joining)).toBe('engine-timeout');
    expect(engine.asked).toBe(1);
  });

  test('waits on when the engine has begun to answer', async () => {
    const clock = handClock();
    const one = replica({ clock });
    const half = checkpoint();
    const engine = fakeEngine(() => engineAnswer(rowset('long'), clock, { half: half.arrive }));
    const query = queryOf(engine.ask, { timeoutMs: TIMEOUT });
    const all = [one.answer(query), one.answer(query, fakeClient(2_000))];
    await half.arrived;
    jest.advanceTimersByTime(600_000);
    half.release();
    expect((await Promise.all(all)).map(told)).toEqual(['miss', 'hit:coalesced']);
    expect(engine.asked).toBe(1);
  });

  test('is told of a timeout also in a session that another replica keeps', async () => {
    const one = replica();
    const held = checkpoint();
    const engine = fakeEngine(async () => {
      await held.arrive();
      throw timeout();
    });
    const keptBy = (id: string, url: string) => Object.assign(sessionOf(id), { replica: url });
    const all = ['http://one', 'http://two'].map((url) =>
      one.answer(queryOf(engine.ask, { session: keptBy(url, url) })),
    );
    await held.arrived;
    await quiet();
    held.release();
    expect((await Promise.all(all)).map(reasonOf)).toEqual(['engine-timeout', 'engine-timeout']);
    expect(engine.asked).toBe(1);
  });

  test('does not ask in his turn when the query has timed out in that of another', async () => {
    const clock = handClock();
    const one = replica({ clock });
    const [held, turns] = [checkpoint(), checkpoint()];
    const engine = fakeEngine(async (call) => {
      await (call === 1 ? held : turns).arrive();
      if (call > 1) throw timeout();
      return engineAnswer(Buffer.from(faultAnswer()), clock);
    });
    const all = Array.from({ length: 11 }, () => one.answer(queryOf(engine.ask)));
    await held.arrived;
    await quiet();
    held.release();
    await turns.arrived;
    await quiet();
    turns.release();
    const reasons = (await Promise.all(all)).map(reasonOf).slice(1);
    expect(reasons.filter((one) => one === 'engine-timeout')).toHaveLength(4);
    expect(reasons.filter((one) => one === 'query-times-out')).toHaveLength(6);
    expect(engine.asked).toBe(5);
  });

  test('waits for his turn only as long as he may wait in all', async () => {
    const clock = handClock();
    const one = replica({ clock });
    const held = checkpoint();
    const engine = fakeEngine(async (call) => {
      if (call > 1) return new Promise(() => {});
      await held.arrive();
      return engineAnswer(Buffer.from(faultAnswer()), clock);
    });
    const first = one.answer(queryOf(engine.ask));
    await held.arrived;
    const others = Array.from({ length: 5 }, () =>
      one.answer(queryOf(engine.ask), fakeClient(3_000)),
    );
    await quiet();
    held.release();
    await first;
    await quiet();
    expect(engine.inside).toBe(4);
    jest.advanceTimersByTime(3_000);
    const { failure } = (await others[4])!;
    expect(failure).toMatchObject({ reason: 'overloaded', headers: { 'retry-after': '5' } });
  });
});
