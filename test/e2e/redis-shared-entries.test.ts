import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { checkedFetch } from '../support/checked-requests.ts';
import {
  ask,
  askKnown,
  dataAnswer,
  startDataEngine,
  startGateway,
  untilHit,
  type DataEngine,
} from '../integration/cache/gateways.ts';
import { until } from '../integration/cache/redis-house.ts';
import '../support/patient-redis.ts';
import { askRedis, startRedis, type RedisServer } from '../support/redis-server.ts';
import { gate } from '../support/stub-engine.ts';
import { basic, type TestGateway } from '../support/test-gateway.ts';

let redis: RedisServer;
let engine: DataEngine;
const gateways: TestGateway[] = [];

async function gatewayOn(url: string, cache = {}): Promise<TestGateway> {
  const made = await startGateway(engine, url, cache);
  gateways.push(made);
  return made;
}

/** Resolves when Redis holds so many answers: they are written after the client has its own. */
const stored = (count: number) =>
  until(
    () => askRedis(redis.port, 'EVAL "return #redis.call(\'KEYS\', ARGV[1])" 0 mdx:entry:*'),
    (reply) => reply === `:${count}\r\n`,
  );

beforeEach(async () => {
  redis = await startRedis();
  engine = await startDataEngine();
});
afterEach(async () => {
  for (const gateway of gateways.splice(0)) await gateway.close();
  await engine?.close();
  await redis?.close();
});

describe('gateways that share a Redis', () => {
  test('answer from what another one stored, and then from their own memory', async () => {
    const [one, other] = [await gatewayOn(redis.url), await gatewayOn(redis.url)];
    expect((await askKnown(one)).cache).toBe('fwd=miss; stored');
    await stored(1);
    const [first] = await untilHit(other);
    expect([first?.cache, first?.body]).toEqual([
      expect.stringMatching(/^hit; ttl=\d+; detail=redis$/u),
      dataAnswer('old'),
    ]);
    expect((await untilHit(other)).at(-1)?.cache).toMatch(/detail=memory$/u);
    expect(engine.seen).toHaveLength(1);
  });

  test('do not give one user the entry of another', async () => {
    const [one, other] = [await gatewayOn(redis.url), await gatewayOn(redis.url)];
    await askKnown(one, { user: 'alice' });
    await stored(1);
    expect((await askKnown(other, { user: 'bob' })).cache).toBe('fwd=miss; stored');
  });

  test('under different key secrets do not read each other', async () => {
    const one = await gatewayOn(redis.url, {
      key_secret: 'one secret that is long enough for this',
    });
    const other = await gatewayOn(redis.url, { key_secret: 'another secret that is long enough' });
    await askKnown(one);
    await stored(1);
    expect((await askKnown(other)).cache).toBe('fwd=miss; stored');
  });

  test('take a value that somebody spoilt for a miss', async () => {
    const [one, other] = [await gatewayOn(redis.url), await gatewayOn(redis.url)];
    await askKnown(one);
    await stored(1);
    // Another byte than the one that stands there, whatever that is.
    const spoil =
      "local key = redis.call('KEYS', ARGV[1])[1] " +
      "local byte = redis.call('GETRANGE', key, 80, 80):byte() " +
      "return redis.call('SETRANGE', key, 80, string.char((byte + 1) % 256))";
    await askRedis(redis.port, `EVAL "${spoil}" 0 mdx:entry:*`);
    const { cache, body } = await askKnown(other);
    expect([cache, body]).toEqual(['fwd=miss; stored', dataAnswer('old')]);
    expect(other.events).toContainEqual({ type: 'entry-rejected', why: 'wrong checksum' });
  });
});

describe('a hundred equal requests at one time', () => {
  test.each([
    ['alone', () => ''],
    ['with a Redis', () => redis.url],
  ])('reach the engine once, and all get its answer (%s)', async (_house, url) => {
    const gateway = await gatewayOn(url(), { lease: '2s' });
    // Epochs and logins are known: what follows depends on nothing but the cache.
    await untilHit(gateway, { cube: 'Other' });
    engine.seen.splice(0);
    const release = gate();
    engine.answerWith(async (response) => {
      await release.opened;
      response.writeHead(200, { 'content-type': 'text/xml' });
      response.end(dataAnswer('old'));
    });
    const all = Array.from({ length: 100 }, () => ask(gateway));
    await until(
      async () =>
        (
          await checkedFetch(`${gateway.url}/metrics`, {
            headers: { authorization: basic('ADMIN') },
          })
        ).text(),
      (metrics) => metrics.includes('mdx_gateway_flight_waiters 99'),
    );
    release.open();
    const answers = await Promise.all(all);
    expect(engine.seen).toHaveLength(1);
    expect(new Set(answers.map(({ body }) => body))).toEqual(new Set([dataAnswer('old')]));
    expect(answers.filter(({ cache }) => cache.endsWith('detail=coalesced'))).toHaveLength(99);
  });
});
