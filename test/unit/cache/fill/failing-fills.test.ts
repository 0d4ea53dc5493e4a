import { describe, expect, test } from '@jest/globals';
import { GatewayError } from '../../../../src/common/errors.ts';
import type { EngineAnswer, QuerySession } from '../../../../src/cache/query.ts';
import type { GatewayReason } from '../../../../src/common/reasons.ts';
import { faultAnswer } from '../../../support/answers.ts';
import { fakeClient, told } from '../fake-client.ts';
import {
  checkpoint,
  engineAnswer,
  fakeTier,
  handClock,
  queryOf,
  quiet,
  rowset,
  sessionOf,
  type HandClock,
} from '../fakes.ts';
import { sharedEpochs } from '../purge/fake-epoch-stores.ts';
import { fakeEngine, replica } from '../purge/replica.ts';

const MAX_ENTRY = 16 * 1024;

type Fail = (clock: HandClock) => EngineAnswer | Promise<EngineAnswer>;

function failed(reason: GatewayReason): Fail {
  return () => Promise.reject(new GatewayError(reason, 'It failed.'));
}
const unreachable = failed('engine-unreachable');
const mistake: Fail = () => Promise.reject(new TypeError('a mistake'));
const fault: Fail = (clock) => engineAnswer(Buffer.from(faultAnswer()), clock);

/** The ways in which the engine can fail a request. */
const ENGINE_FAILURES: readonly (readonly [what: string, fail: Fail])[] = [
  ['no answer', unreachable],
  ['no answer in time', failed('engine-timeout')],
  ['no answer without another login', failed('engine-login')],
  [
    'an answer that breaks off',
    (clock) =>
      engineAnswer(rowset('broken'), clock, { half: () => Promise.reject(new Error('reset')) }),
  ],
];

/** The ways in which an answer that others wait for can turn out to be of no use to them. */
const FAILURES: readonly (readonly [what: string, leader: string, fail: Fail])[] = [
  ['no answer because its user has too many at the engine', 'failure', failed('overloaded')],
  ['no answer because of a mistake of the gateway', 'failure', mistake],
  [
    'an answer with status 500',
    'miss:engine-status',
    (clock) => engineAnswer(rowset('x'), clock, { status: 500 }),
  ],
  ['a fault', 'miss:fault', fault],
  [
    'an answer that ends too early',
    'miss:not-well-formed',
    (clock) => engineAnswer(rowset('cut').subarray(0, -20), clock),
  ],
  [
    'an answer that is too large',
    'miss:too-large',
    (clock) => engineAnswer(rowset('x'.repeat(MAX_ENTRY)), clock),
  ],
];

/** One request that is held at the engine and will fail; so many others joined it, and ask `engine` later. */
async function crowd(
  fail: Fail,
  respond: Fail,
  size: number,
  sessions: readonly QuerySession[] = [],
) {
  const clock = handClock();
  const held = checkpoint();
  const one = replica({ clock, maxEntry: MAX_ENTRY });
  const failing = fakeEngine(async () => {
    await held.arrive();
    return fail(clock);
  });
  const engine = fakeEngine(() => respond(clock));
  const inSession = (i: number) => {
    const session = sessions[i % sessions.length];
    return session === undefined ? {} : { session };
  };
  const leader = one.answer(queryOf(failing.ask, inSession(0)));
  await held.arrived;
  const others = Array.from({ length: size }, (_, i) =>
    one.answer(queryOf(engine.ask, inSession(i + 1))),
  );
  await quiet();
  return { ...one, engine, held, leader, others };
}

describe.each(FAILURES)('a flight that brings %s', (_what, toldToLeader, fail) => {
  test('fails nobody but the one who led it; the others find what the next ones stored', async () => {
    const { held, leader, others, engine } = await crowd(
      fail,
      (clock) => engineAnswer(rowset('good'), clock),
      20,
    );
    held.release();
    expect(told(await leader)).toBe(toldToLeader);
    const clients = await Promise.all(others);
    expect(clients.every(({ body, ended }) => ended && body === `${rowset('good')}`)).toBe(true);
    expect(new Set(clients.map(told))).toEqual(new Set(['miss', 'hit:coalesced']));
    expect(engine.asked).toBeLessThanOrEqual(4);
  });

  test('sends the others to the engine four at a time when their own fail as well', async () => {
    let release = checkpoint();
    const { held, leader, others, engine } = await crowd(
      fail,
      async (clock) => {
        await release.arrive();
        return fail(clock);
      },
      10,
    );
    held.release();
    await leader;
    await quiet();
    const waves: number[] = [];
    while (engine.inside > 0) {
      waves.push(engine.inside);
      const wave = release;
      release = checkpoint();
      wave.release();
      await quiet();
    }
    await Promise.all(others);
    expect(waves).toEqual([4, 4, 2]);
    expect([engine.most, engine.asked]).toEqual([4, 10]);
  });
});

describe.each(ENGINE_FAILURES)('a flight that brings %s', (_what, fail) => {
  const good: Fail = (clock) => engineAnswer(rowset('good'), clock);

  test('fails all who wait for it alike: the engine was asked for them, and is not asked again', async () => {
    const { held, leader, others, engine, answer, clock } = await crowd(fail, good, 20);
    held.release();
    const { failure } = await leader;
    expect(failure).toBeInstanceOf(GatewayError);
    const clients = await Promise.all(others);
    expect(new Set(clients.map((client) => client.failure))).toEqual(new Set([failure]));
    expect(engine.asked).toBe(0);
    // It is never replayed as if it were an answer; after a timeout one tries again, later.
    clock.advance(20_000);
    expect(told(await answer(queryOf(engine.ask)))).toBe('miss');
  });

  test('fails those whose session another replica keeps only where the query takes too long', async () => {
    const keptBy = (id: string, replica: string) => Object.assign(sessionOf(id), { replica });
    const sessions = [
      keptBy('one', 'http://dead'),
      keptBy('two', 'http://dead'),
      keptBy('other', 'http://other'),
    ];
    const { held, leader, others, engine } = await crowd(fail, good, 2, sessions);
    held.release();
    const { failure } = await leader;
    const clients = await Promise.all(others);
    const isShared = (failure as GatewayError).reason === 'engine-timeout';
    const other = isShared ? ['failure', 'failure', 0] : ['failure', 'miss', 1];
    expect([...clients.map(told), engine.asked]).toEqual(other);
  });
});

/** Two requests at one time; how many of them are at the engine. */
async function atEngine(one: ReturnType<typeof replica>): Promise<number> {
  const held = checkpoint();
  const engine = fakeEngine(async () => {
    await held.arrive();
    return fault(one.clock);
  });
  const both = [one.answer(queryOf(engine.ask)), one.answer(queryOf(engine.ask))];
  await quiet();
  const inside = engine.inside;
  held.release();
  await Promise.all(both);
  return inside;
}

describe('an answer that may not be shared', () => {
  test('keeps the next ones from waiting for each other, for five seconds', async () => {
    const one = replica();
    await one.answer(queryOf(fakeEngine(() => fault(one.clock)).ask));
    one.clock.advance(4_999);
    expect(await atEngine(one)).toBe(2);
    one.clock.advance(5_000);
    expect(await atEngine(one)).toBe(1);
  });

  test('does so from the moment when that is known, however long the answer goes on', async () => {
    const one = replica();
    const held = checkpoint();
    const endless = fakeEngine(() =>
      engineAnswer(rowset('x'), one.clock, { status: 500, half: held.arrive }),
    );
    const first = one.answer(queryOf(endless.ask));
    await held.arrived;
    expect(await atEngine(one)).toBe(2);
    held.release();
    await first;
  });

  test('is forgotten as such when a later one can be shared', async () => {
    const one = replica();
    await one.answer(queryOf(fakeEngine(() => fault(one.clock)).ask));
    const good = fakeEngine(() => engineAnswer(rowset('good'), one.clock));
    await one.answer(queryOf(good.ask, { ttl: 10 }));
    one.clock.advance(1_000);
    expect(await atEngine(one)).toBe(1);
  });

  test('is not what a failing engine gave: the next ones share one request', async () => {
    for (const [, fail] of ENGINE_FAILURES) {
      const one = replica();
      await one.answer(queryOf(fakeEngine(() => fail(one.clock)).ask));
      one.clock.advance(20_000);
      expect(await atEngine(one)).toBe(1);
    }
  });

  test('ends with its client: nobody else waits for it', async () => {
    const one = replica();
    const held = checkpoint();
    let aborted = false;
    const engine = fakeEngine((_call, signal) => {
      signal.addEventListener('abort', () => (aborted = true));
      return engineAnswer(rowset('x'), one.clock, { status: 500, half: held.arrive });
    });
    const client = fakeClient();
    const answered = one.answer(queryOf(engine.ask), client);
    await held.arrived;
    client.leave();
    held.release();
    await answered;
    expect(aborted).toBe(true);
  });
});

describe('those who wait for others', () => {
  test.each([
    ['its head', { status: 500 }],
    ['its body', {}],
  ])('go on as soon as %s says that it cannot be shared', async (_what, head) => {
    const clock = handClock();
    const one = replica({ clock });
    const [arriving, held] = [checkpoint(), checkpoint()];
    const body = Buffer.concat([Buffer.from('no XML'), rowset('long')]);
    const endless = fakeEngine(async () => {
      await arriving.arrive();
      return engineAnswer(body, clock, { ...head, lastByte: held.arrive });
    });
    const leader = one.answer(queryOf(endless.ask));
    await arriving.arrived;
    const engine = fakeEngine(() => engineAnswer(rowset('good'), clock));
    const other = one.answer(queryOf(engine.ask));
    await quiet();
    arriving.release();
    await held.arrived;
    expect((await other).body).toBe(`${rowset('good')}`);
    held.release();
    await leader;
  });

  test('leave the queue for the engine when their client goes away', async () => {
    const release = checkpoint();
    const good: Fail = async (clock) => {
      await release.arrive();
      return engineAnswer(rowset('good'), clock);
    };
    const { held, leader, others, engine, answer } = await crowd(fault, good, 4);
    const client = fakeClient();
    const waiting = answer(queryOf(engine.ask), client);
    await quiet();
    held.release();
    await leader;
    await quiet();
    client.leave();
    await waiting;
    expect(told(client)).toBe('nothing');
    release.release();
    await Promise.all(others);
    expect(engine.asked).toBe(4);
  });

  test('are not given an answer that is older than their ttl', async () => {
    const clock = handClock();
    const one = replica({ clock });
    await one.answer(
      queryOf(fakeEngine(() => engineAnswer(rowset('old'), clock)).ask, { ttl: 60_000 }),
    );
    clock.advance(30_000);
    const held = checkpoint();
    const engine = fakeEngine(async (call) => {
      if (call > 1) return engineAnswer(rowset('new'), clock);
      await held.arrive();
      return fault(clock);
    });
    const shorter = queryOf(engine.ask, { ttl: 10_000 });
    const [first, second] = [one.answer(shorter), one.answer(shorter)];
    await held.arrived;
    await quiet();
    held.release();
    await first;
    expect((await second).body).toBe(`${rowset('new')}`);
  });

  test('do not wait for the tier in which another one’s answer is being written', async () => {
    const clock = handClock();
    const values = fakeTier();
    const one = replica({ clock, values, store: sharedEpochs().replica(1_000), lease: 1_000 });
    const [held, writing] = [checkpoint(), checkpoint()];
    values.beforeSet = writing.arrive;
    const engine = fakeEngine(async (call) => {
      if (call > 1) return engineAnswer(rowset('good'), clock);
      await held.arrive();
      return fault(clock);
    });
    const all = Array.from({ length: 20 }, () => fakeClient());
    const answered = all.map((client) => one.answer(queryOf(engine.ask), client));
    await held.arrived;
    await quiet();
    held.release();
    await writing.arrived;
    await quiet();
    expect(all.filter(({ ended }) => ended)).toHaveLength(20);
    writing.release();
    await Promise.all(answered);
  });
});
