import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { apiOf, dataOf, documentOf, failureOf, messageOf } from '../contract/api-client.ts';
import {
  ask,
  dataAnswer,
  purge,
  startDataEngine,
  startGateway,
  untilHit,
  type Answer,
  type DataEngine,
} from '../integration/cache/gateways.ts';
import { until } from '../integration/cache/redis-house.ts';
import { startBlackHole, type BlackHole } from '../support/black-hole.ts';
import { withDeadlines } from '../support/patient-redis.ts';
import { askRedis, startRedis, type RedisServer } from '../support/redis-server.ts';
import type { TestGateway } from '../support/test-gateway.ts';

let redis: RedisServer;
let hole: BlackHole;
let engine: DataEngine;
let gateway: TestGateway;

beforeEach(async () => {
  redis = await startRedis();
  hole = await startBlackHole(redis.port);
  engine = await startDataEngine();
  gateway = await startGateway(engine, `redis://127.0.0.1:${hole.port}`);
});
afterEach(async () => {
  await gateway?.close();
  await engine?.close();
  await hole?.close();
  await redis?.close();
});

/** So many clients ask at one time, each one query after the other; some ask for the same. */
async function load(meanwhile: (answered: () => number) => Promise<void>): Promise<Answer[]> {
  const answers: (Answer & { readonly expected: string })[] = [];
  const client = async (number: number) => {
    for (let i = 0; i < 25; i += 1) {
      const cube = `Cube ${(number * 7 + i) % 40}`;
      answers.push({ ...(await ask(gateway, { cube })), expected: dataAnswer('old', { cube }) });
    }
  };
  const clients = Array.from({ length: 16 }, (_, number) => client(number));
  await meanwhile(() => answers.length);
  await Promise.all(clients);
  for (const { status, body, expected } of answers) {
    expect([status, body]).toEqual([200, expected]);
  }
  return answers;
}

describe('a Redis that dies under load', () => {
  test('fails no request, and is used again when it is back', async () => {
    const answers = await load(async (answered) => {
      await until(answered, (count) => count > 100);
      await redis.stop('SIGKILL');
      await until(answered, (count) => count > 250);
    });
    expect(answers).toHaveLength(400);
    await redis.restart();
    const back = await untilHit(gateway);
    expect(back.at(-1)?.body).toBe(dataAnswer('old'));
    await until(
      () => askRedis(redis.port, 'DBSIZE'),
      (reply) => !reply.startsWith(':0'),
    );
  });

  test('and comes back from a snapshot older than a purge serves nothing of before', async () => {
    await untilHit(gateway);
    await until(
      () => askRedis(redis.port, 'EVAL "return #redis.call(\'KEYS\', ARGV[1])" 0 mdx:entry:*'),
      (reply) => reply !== ':0\r\n',
    );
    await askRedis(redis.port, 'SAVE');
    engine.data = 'new';
    expect((await purge(gateway, 'a')).status).toBe(200);
    await redis.restart({ signal: 'SIGKILL' });
    // One that knows nothing but what stands in Redis, and the one that purged.
    const fresh = await startGateway(engine, redis.url);
    try {
      const answers = [...(await untilHit(fresh)), ...(await untilHit(gateway))];
      expect(new Set(answers.map(({ body }) => body))).toEqual(new Set([dataAnswer('new')]));
    } finally {
      await fresh.close();
    }
  });

  test('and is emptied leaves nothing of before in use, not even in memory', async () => {
    await untilHit(gateway);
    engine.data = 'new';
    await askRedis(redis.port, 'FLUSHALL');
    await until(
      () => ask(gateway),
      ({ body }) => body === dataAnswer('new'),
    );
  });
});

describe.each(['hang', 'mute', 'refuse'] as const)('a Redis behind a black hole (%s)', (mode) => {
  test('lets every request be answered, by no more than one engine request each', async () => {
    await untilHit(gateway);
    engine.seen.splice(0);
    const answers = await withDeadlines(() =>
      load(async (answered) => {
        await until(answered, (count) => count > 50);
        await hole.set(mode);
      }),
    );
    expect(answers).toHaveLength(400);
    expect(engine.seen.length).toBeLessThanOrEqual(400);
    // Once it is known to be away, nobody waits for it: it is not asked.
    const failed = () => gateway.events.filter(({ type }) => type === 'redis-failed').length;
    expect(failed()).toBeGreaterThan(0);
    const states = () =>
      gateway.events.flatMap((event) => (event.type === 'redis-state' ? [event.state] : []));
    await until(states, (told) => told.includes('down'));
    await hole.set('forward');
    expect((await untilHit(gateway)).at(-1)?.status).toBe(200);
    await until(states, (told) => told.at(-1) === 'up');
  });
});

test('a Redis that was stopped and goes on is used again', async () => {
  await untilHit(gateway);
  await redis.pause();
  const during = await withDeadlines(() =>
    Promise.all(Array.from({ length: 50 }, () => ask(gateway))),
  );
  expect(new Set(during.map(({ status, body }) => `${status} ${body}`))).toEqual(
    new Set([`200 ${dataAnswer('old')}`]),
  );
  redis.resume();
  await untilHit(gateway);
});

test('a gateway starts without its Redis, and uses it when it comes', async () => {
  await redis.stop();
  const early = await startGateway(engine, redis.url);
  try {
    expect((await ask(early)).cache).toBe('fwd=bypass; detail=epochs-unknown');
    await redis.restart();
    await untilHit(early);
  } finally {
    await early.close();
  }
});

describe('a dataset that is written while Redis is away', () => {
  test.each(['import', 'update'] as const)(
    'is saved and says that the cache is not yet cleared; the purge is done when Redis is back (%s)',
    async (what) => {
      const api = apiOf(gateway.url);
      const document = documentOf('a', `written ${what}`);
      if (what === 'update') dataOf(await api.import(document));
      await untilHit(gateway);
      engine.data = 'new';
      await hole.set('refuse');
      const answer = await (what === 'import' ? api.import(document) : api.replace(document));
      expect([failureOf(answer), messageOf(answer)]).toEqual([
        '503 not-cleared',
        'saved; cache of a not yet cleared',
      ]);
      expect((await api.export('a', `written ${what}`)).text).toBe(document);
      await hole.set('forward');
      const answers = await untilHit(gateway);
      expect(new Set(answers.map(({ body }) => body))).toEqual(new Set([dataAnswer('new')]));
    },
  );
});
