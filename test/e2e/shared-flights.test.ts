import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { GatewayEvent } from '../../src/common/events.ts';
import {
  ask,
  askKnown,
  dataAnswer,
  purge,
  startDataEngine,
  untilHit,
  type Answer,
  type DataEngine,
} from '../integration/cache/gateways.ts';
import { until } from '../integration/cache/redis-house.ts';
import { checkedFetch } from '../support/checked-requests.ts';
import { askRedis, startRedis, type RedisServer } from '../support/redis-server.ts';
import { sizes } from '../support/sizes.ts';
import { gate } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const { flightGateways: GATEWAYS, flightClients: CLIENTS } = sizes;
/** What the engine seems to need: long enough that nobody gives up on a machine that is slow itself (ms). */
const TOOK = 60_000;
const LEASE = 500;
/** Each purge waits out a lease, and a slow machine needs several rounds (ms). */
const PATIENCE = 600_000;
/** So many requests come to each gateway at one time. */
const WAVE = 10;

let redis: RedisServer;
let engine: DataEngine;
let gateways: readonly TestGateway[];
let clock: TestClock;

/** The clock of the system, which a test moves on or stops; all gateways have it. */
interface TestClock {
  readonly now: () => number;
  readonly wall: () => number;
  advance(milliseconds: number): void;
  stop(): void;
  /** Goes on, after a stop, from where it would be without it. */
  go(): void;
}

function testClock(): TestClock {
  let ahead = 0;
  let stopped: { readonly now: number; readonly wall: number } | undefined;
  return {
    now: () => stopped?.now ?? performance.now() + ahead,
    wall: () => stopped?.wall ?? Date.now() + ahead,
    advance(milliseconds) {
      ahead += milliseconds;
    },
    stop() {
      stopped = { now: this.now(), wall: this.wall() };
    },
    go() {
      stopped = undefined;
    },
  };
}

beforeEach(async () => {
  redis = await startRedis();
  engine = await startDataEngine();
  clock = testClock();
  const settings = {
    engine: { url: `${engine.url}/{project}` },
    cache: { lease: `${LEASE}ms`, redis: { url: redis.url } },
  };
  gateways = await Promise.all(
    Array.from({ length: GATEWAYS }, () => startTestGateway(settings, { clock })),
  );
});
afterEach(async () => {
  await Promise.all(gateways.map((gateway) => gateway.close()));
  await engine?.close();
  await redis?.close();
});

async function waitersAt(gateway: TestGateway): Promise<number> {
  const response = await checkedFetch(`${gateway.url}/metrics`, {
    headers: { authorization: basic('ADMIN') },
  });
  return Number(/^mdx_gateway_flight_waiters (\d+)$/mu.exec(await response.text())?.[1]);
}

/** Whether so many requests wait at each gateway for another one that came there before. */
async function allWait(count: number): Promise<boolean> {
  // Often enough, and does not keep the gateways from their work.
  await delay(20);
  const waiters = await Promise.all(gateways.map(waitersAt));
  return waiters.every((waiting) => waiting === count);
}

const told = () => gateways.flatMap(({ events }) => events);
const countOf = (fits: (event: GatewayEvent) => boolean) => told().filter(fits).length;
const endings = (word: string) =>
  countOf((event) => event.type === 'shared-flight' && event.end === word);
const failures = () => countOf(({ type }) => type === 'redis-failed');

/** The engine answers only when the test releases it. */
function holdEngine() {
  engine.seen.splice(0);
  const release = gate();
  engine.answerWith(async (response) => {
    await release.opened;
    response.writeHead(200, { 'content-type': 'text/xml' });
    response.end(dataAnswer(engine.data));
  });
  return release;
}

const askEach = (count: number) =>
  gateways.flatMap((one) => Array.from({ length: count }, () => ask(one)));

/** The engine is asked until Redis knows that it needs long for this, and that is purged. */
async function makeKnownSlow(): Promise<void> {
  const purged = () =>
    until(
      () => purge(gateways[0]!),
      ({ status }) => status === 200,
    );
  engine.data = 'old';
  engine.answerWith((response) => {
    clock.advance(TOOK);
    response.writeHead(200, { 'content-type': 'text/xml' });
    response.end(dataAnswer(engine.data));
  });
  await until(
    async () => {
      await purged();
      await askKnown(gateways[0]!);
      // It is noted after the answer; and not at all when a deadline passed.
      await delay(50);
      return askRedis(redis.port, 'EVAL "return #redis.call(\'KEYS\', ARGV[1])" 0 mdx:*:slow');
    },
    (reply) => reply !== ':0\r\n',
  );
  engine.data = 'new';
  await purged();
}

interface Round {
  readonly answers: readonly Answer[];
  readonly led: number;
  readonly joined: number;
}

/**
 * All ask, and are answered when all wait. They come a few at a time: clients, gateways and engine share one process,
 * and Redis has to answer within its deadlines. Undefined when it did not, and the engine was asked more than once for
 * that: the machine was too slow.
 */
async function round(): Promise<Round | undefined> {
  clock.go();
  await makeKnownSlow();
  // Logins and epochs are known: what follows depends on nothing but the flights.
  engine.answerWith((response) => {
    response.writeHead(200, { 'content-type': 'text/xml' });
    response.end(dataAnswer(engine.data));
  });
  await Promise.all(gateways.map((gateway) => untilHit(gateway, { cube: 'Other' })));
  const before = failures();
  const tooSlow = () => failures() > before && engine.seen.length > 1;
  const [led, joined] = [endings('led'), endings('joined')];
  // No lease runs out from here on.
  clock.stop();
  const release = holdEngine();
  const all: Promise<Answer>[] = [];
  for (let count = 0; count < CLIENTS && !tooSlow();) {
    const more = count === 0 ? 1 : Math.min(WAVE, CLIENTS - count);
    all.push(...askEach(more));
    count += more;
    await until(
      async () => tooSlow() || (engine.seen.length > 0 && (await allWait(count - 1))),
      (done) => done,
    );
  }
  release.open();
  const answers = await Promise.all(all);
  if (tooSlow()) return undefined;
  return { answers, led: endings('led') - led, joined: endings('joined') - joined };
}

describe(`${CLIENTS} equal requests to each of ${GATEWAYS} gateways at one time`, () => {
  test(
    'reach the engine once when the query is known to be slow, also after a purge',
    async () => {
      let one: Round | undefined;
      while (one === undefined) one = await round();
      const { answers, led, joined } = one;
      expect(engine.seen).toHaveLength(1);
      expect(new Set(answers.map(({ status, body }) => `${status} ${body}`))).toEqual(
        new Set([`200 ${dataAnswer('new')}`]),
      );
      const hits = answers.filter(({ cache }) => cache.endsWith('detail=coalesced'));
      expect([answers.length, hits.length]).toEqual([GATEWAYS * CLIENTS, GATEWAYS * CLIENTS - 1]);
      expect([led, joined]).toEqual([1, GATEWAYS - 1]);
    },
    PATIENCE,
  );

  test('reach it once from each gateway while Redis is away', async () => {
    await Promise.all(gateways.map((gateway) => untilHit(gateway)));
    await redis.stop();
    // Nobody may use an epoch that was read before; and all that follows comes in one moment.
    clock.advance(2 * LEASE);
    clock.stop();
    await Promise.all(gateways.map((gateway) => ask(gateway, { cube: 'Other' })));
    const release = holdEngine();
    const all = askEach(CLIENTS);
    await until(
      () => allWait(CLIENTS - 1),
      (done) => done,
    );
    release.open();
    const answers = await Promise.all(all);
    expect(engine.seen).toHaveLength(GATEWAYS);
    expect(new Set(answers.map(({ status, body }) => `${status} ${body}`))).toEqual(
      new Set([`200 ${dataAnswer('old')}`]),
    );
    const asked = answers.filter(({ cache }) => cache === 'fwd=bypass; detail=epochs-unknown');
    expect(asked).toHaveLength(GATEWAYS);
  });
});
