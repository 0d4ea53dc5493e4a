import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import type { EventOf } from '../../src/common/events.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, until } from '../support/http-client.ts';
import '../support/patient-redis.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { startSessionEngine, type SessionEngine } from '../support/session-engine.ts';
import { beginSession, inSession } from '../support/stamped-client.ts';
import { gate, sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { purge } from '../support/warm-up.ts';

const TTL_MS = 600_000;
/** Time that the engine seems to take (ms). */
const TOOK_MS = 300;
const STATEMENT = 'SELECT FROM [Sales]';
const SALES = execute({ statement: STATEMENT, properties: { Catalog: 'Shop' } });

let redis: RedisServer;
let gateways: TestGateway[];
let engine: StubEngine;
let aheadMs: number;
const clock = { now: () => performance.now() + aheadMs, wall: () => Date.now() + aheadMs };

beforeEach(async () => {
  aheadMs = 0;
  gateways = [];
  const answer = sendXml(mddatasetAnswer());
  [redis, engine] = await Promise.all([startRedis(), startStubEngine(slow(answer))]);
});
afterEach(async () => {
  for (const one of gateways) await one.close();
  await Promise.all([redis.close(), engine.close()]);
});

/** Answers as told; by the clock of the gateways it takes long. */
function slow(answer: ReturnType<typeof sendXml>): ReturnType<typeof sendXml> {
  return async (...exchange) => {
    aheadMs += TOOK_MS;
    await answer(...exchange);
  };
}

async function start(
  count: number,
  settings: { engine?: object; warm?: object; cache?: object } = {},
) {
  const all = {
    engine: { url: engine.url, ...settings.engine },
    cache: { ttl: '10m', redis: { url: redis.url }, ...settings.cache },
    warm: settings.warm ?? {},
  };
  for (let i = 0; i < count; i += 1) {
    gateways.push(await startTestGateway(all, { clock, random: () => 0 }));
  }
  return gateways;
}

type Told = EventOf<'refreshed'>;
const refreshesAt = (one: TestGateway): Told[] =>
  one.events.flatMap((event) => (event.type === 'refreshed' ? [event] : []));
const results = () => gateways.flatMap(refreshesAt).map(({ result, reason }) => reason ?? result);
const isRefreshed = (times: number) => () =>
  results().filter((word) => word === 'stored').length === times;

/** What users were answered, in short. */
const answered = () =>
  gateways.flatMap(({ events }) =>
    events.flatMap((one) =>
      one.type === 'xmla-answered' ? [`${one.outcome.kind} ${one.outcome.detail}`] : [],
    ),
  );

/** Lets users ask at every gateway until told to end. */
function askingUsers(body = SALES) {
  const over = new AbortController();
  const asking = gateways.map(async ({ url }) => {
    while (!over.signal.aborted) {
      await askXmla(url, body);
      await sleep(20);
    }
  });
  return async () => {
    over.abort();
    await Promise.all(asking);
  };
}

/** Parts of the ttl until an entry has a twentieth of it left, and from then until it has ended. */
const [NEAR, PAST] = [0.95, 0.06];
const nearEnd = (sinceFilled = 0) => void (aheadMs += (NEAR - sinceFilled) * TTL_MS);
const pastEnd = () => void (aheadMs += PAST * TTL_MS);

describe('with users who ask all the time', () => {
  test('no one waits at the end of the ttl, and the engine is asked once for three gateways', async () => {
    const [first] = await start(3);
    await askXmla(first!.url, SALES);
    const end = askingUsers();
    for (let times = 1; times <= 3; times += 1) {
      nearEnd(times === 1 ? 0 : PAST);
      await until(isRefreshed(times));
      pastEnd();
      await sleep(100);
    }
    await end();
    const [miss, ...others] = answered();
    expect(miss).toBe('miss undefined');
    expect(new Set(others)).toEqual(new Set(['hit memory', 'hit redis']));
    expect(engine.seen).toHaveLength(4);
    const { body, headers } = engine.seen[0]!;
    for (const seen of engine.seen) {
      expect(seen.body).toEqual(body);
      expect(Object.keys(seen.headers)).toEqual(Object.keys(headers));
    }
  });

  test('and find that it has ended while it is asked for wait for that answer', async () => {
    const [one] = await start(1);
    await askXmla(one!.url, SALES);
    const open = gate();
    engine.answerWith(async (...exchange) => {
      await open.opened;
      await slow(sendXml(mddatasetAnswer()))(...exchange);
    });
    nearEnd();
    await askXmla(one!.url, SALES);
    await until(() => engine.seen.length === 2);
    pastEnd();
    const users = [askXmla(one!.url, SALES), askXmla(one!.url, SALES)];
    await sleep(100);
    open.open();
    await Promise.all(users);
    expect(answered().slice(2)).toEqual(['hit coalesced', 'hit coalesced']);
    expect(engine.seen).toHaveLength(2);
  });
});

describe('what is asked for ahead', () => {
  test.each([
    [
      'by one who may control the cache and asks for a new answer',
      'ADMIN',
      { 'cache-control': 'no-cache' },
      {},
    ],
    ['while it is off', 'alice', {}, { refresh_ahead: 'off' }],
  ])('is nothing %s', async (_when, user, headers, cache) => {
    const [one] = await start(1, { cache });
    await askXmla(one!.url, SALES, { user });
    nearEnd();
    await askXmla(one!.url, SALES, { user, headers });
    await sleep(50);
    expect(results()).toEqual([]);
  });

  test('is nothing that the engine answers quickly', async () => {
    engine.answerWith(sendXml(mddatasetAnswer()));
    const [one] = await start(1);
    await askXmla(one!.url, SALES);
    aheadMs += 0.95 * TTL_MS;
    await askXmla(one!.url, SALES);
    await sleep(50);
    expect(results()).toEqual([]);
  });

  test('leaves the entry as it is where the answer may not be stored, and is not asked for at each hit', async () => {
    const [one, other] = await start(2);
    await askXmla(one!.url, SALES);
    await askXmla(other!.url, SALES);
    engine.answerWith(slow(sendXml('<html/>')));
    nearEnd();
    for (let times = 0; times < 10; times += 1) {
      await askXmla(one!.url, SALES);
      await askXmla(other!.url, SALES);
    }
    await until(() => results().length > 0);
    await askXmla(other!.url, SALES);
    await until(() => results().length > 1);
    expect(new Set(answered().slice(1))).toEqual(new Set(['hit memory', 'hit redis']));
    expect(engine.seen).toHaveLength(2);
    expect(results().filter((word) => word !== 'no-turn')).toHaveLength(1);
    pastEnd();
    await askXmla(one!.url, SALES);
    expect(engine.seen).toHaveLength(3);
  });

  test('and purged meanwhile is not found by anyone', async () => {
    const [one] = await start(1);
    await askXmla(one!.url, SALES);
    const [open, arrived] = [gate(), gate()];
    engine.answerWith(async (...exchange) => {
      arrived.open();
      await open.opened;
      await slow(sendXml(mddatasetAnswer()))(...exchange);
    });
    nearEnd();
    await askXmla(one!.url, SALES);
    await arrived.opened;
    await purge(one!);
    open.open();
    await until(() => results().length === 1);
    await askXmla(one!.url, SALES);
    expect(answered().at(-1)).toBe('miss undefined');
  });

  test('under the old configuration ends there, and the new one refreshes too', async () => {
    const [one] = await start(1);
    await askXmla(one!.url, SALES);
    const open = gate();
    engine.answerWith(async (...exchange) => {
      await open.opened;
      await slow(sendXml(mddatasetAnswer()))(...exchange);
    });
    nearEnd();
    await askXmla(one!.url, SALES);
    await until(() => engine.seen.length === 2);
    await one!.reload({
      engine: { url: engine.url },
      cache: { ttl: '9m', redis: { url: redis.url } },
    });
    open.open();
    await until(isRefreshed(1));
    await askXmla(one!.url, SALES);
    aheadMs += 0.95 * 540_000;
    await askXmla(one!.url, SALES);
    await until(isRefreshed(2));
    expect(engine.seen).toHaveLength(3);
  });

  test('is given up by a gateway that ends', async () => {
    const [one] = await start(1);
    await askXmla(one!.url, SALES);
    engine.answerWith(() => {});
    nearEnd();
    await askXmla(one!.url, SALES);
    await until(() => engine.seen.length === 2);
    await one!.close();
    expect(results()).toEqual(['overtaken']);
    gateways = [];
  });
});

describe('what is asked in a session', () => {
  let sessions: SessionEngine;
  beforeEach(async () => {
    sessions = await startSessionEngine({ kind: 'generic' });
  });
  afterEach(() => sessions.close());

  const inShop = (session: string) =>
    execute({ statement: STATEMENT, properties: { Catalog: 'Shop' }, session: inSession(session) });
  const asksSales = ({ statement }: { readonly statement: string }) => statement === STATEMENT;

  /** Asks for the first time in a session of its own; the engine seems to take long. */
  async function firstAsk(url: string): Promise<string> {
    const id = await beginSession(url, { properties: { Catalog: 'Shop' } });
    await slowly(async () => void (await askXmla(url, inShop(id))));
    return id;
  }

  async function slowly(work: () => Promise<void>): Promise<void> {
    const held = sessions.hold(asksSales);
    const working = work();
    await held.arrived;
    aheadMs += TOOK_MS;
    held.release();
    await working;
  }

  test('is asked for in a session of the gateway’s own, once for three gateways', async () => {
    const [first] = await start(3, {
      engine: { url: sessions.url, kind: 'generic' },
      warm: { mode: 'auto' },
    });
    const id = await firstAsk(first!.url);
    const seenOf = () => sessions.asked.filter(({ session }) => session.id === id).length;
    const before = seenOf();
    await askXmla(first!.url, inShop(id));
    const end = askingUsers(inShop(id));
    for (let times = 1; times <= 2; times += 1) {
      nearEnd(times === 1 ? 0 : PAST);
      await slowly(() => until(isRefreshed(times)));
      pastEnd();
      await sleep(100);
    }
    await end();
    const hits = answered().filter((word) => !/bypass|miss/.test(word));
    expect(new Set(hits)).toEqual(new Set(['hit memory', 'hit redis']));
    expect(answered().filter((word) => word.startsWith('miss'))).toHaveLength(1);
    expect(sessions.asked.filter(asksSales)).toHaveLength(3);
    expect(seenOf()).toBe(before);
    const kinds = sessions.asked.map(({ session }) => session.kind);
    await until(() => sessions.asked.filter(({ session }) => session.kind === 'end').length === 2);
    expect(kinds.filter((kind) => kind === 'begin')).toHaveLength(3);
  });

  test('is left out where no beginning is recorded', async () => {
    const [one] = await start(1, { engine: { url: sessions.url, kind: 'generic' } });
    const id = await firstAsk(one!.url);
    nearEnd();
    await askXmla(one!.url, inShop(id));
    await until(() => results().length === 1);
    expect(results()).toEqual(['session-differs']);
    expect(sessions.asked.filter(asksSales)).toHaveLength(1);
  });
});
