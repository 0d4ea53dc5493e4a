import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  ask,
  redisHealth,
  startDataEngine,
  untilHit,
  type DataEngine,
} from '../integration/cache/gateways.ts';
import { until } from '../integration/cache/redis-house.ts';
import { callDbtHook, callKylinHook, dbtRun, SECRET } from '../support/hooks.ts';
import { withDeadlines } from '../support/patient-redis.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

let redis: RedisServer;
let engine: DataEngine;
let one: TestGateway;
let other: TestGateway;

beforeAll(async () => {
  redis = await startRedis();
  engine = await startDataEngine();
  const settings = {
    engine: { url: `${engine.url}/{project}` },
    cache: { lease: '100ms', redis: { url: redis.url } },
    hooks: {
      kylin: { format: 'kylin5', user: 'alice', projects: { shop: 'a' } },
      dbt: { format: 'dbt', secret: SECRET, projects: ['a'] },
    },
  };
  one = await startTestGateway(settings);
  other = await startTestGateway(settings);
});
afterAll(async () => {
  redis?.resume();
  await one?.close();
  await other?.close();
  await engine?.close();
  await redis?.close();
});

const statusOf = ({ status, text }: { status: number; text: string }) => [
  status,
  (JSON.parse(text) as { status?: string }).status,
];

describe('hooks of two gateways on one Redis', () => {
  test.each([
    ['kylin', () => callKylinHook(one.url, 'kylin', 'alice')],
    ['dbt', () => callDbtHook(one.url, 'dbt')],
  ])('purge at both when they have answered cleared: %s', async (name, call) => {
    engine.data = `before ${name}`;
    const answer = await until(call, ({ text }) => text.includes('cleared'));
    expect(statusOf(answer)).toEqual([200, 'cleared']);
    await Promise.all([untilHit(one), untilHit(other)]);
    engine.data = `after ${name}`;
    await until(call, ({ text }) => text.includes('cleared'));
    for (const gateway of [one, other]) {
      expect((await ask(gateway)).body).toContain(`after ${name}`);
    }
  });

  test('take a signed message once', async () => {
    const body = dbtRun();
    const calls = [one, other, one, other].map(({ url }) => callDbtHook(url, 'dbt', body));
    const statuses = (await Promise.all(calls)).map(({ status }) => status);
    expect(statuses.toSorted()).toEqual([200, 403, 403, 403]);
  });

  test('answer while Redis hangs that they were heard, and what they were told holds when it goes on', async () => {
    engine.data = 'old';
    await until(
      () => callKylinHook(one.url, 'kylin', 'alice'),
      ({ text }) => text.includes('cleared'),
    );
    await Promise.all([untilHit(one), untilHit(other)]);
    engine.data = 'new';
    const before = one.events.length;
    await redis.pause();
    try {
      for (const call of [
        () => callKylinHook(one.url, 'kylin', 'alice'),
        () => callDbtHook(one.url, 'dbt'),
      ]) {
        expect(statusOf(await withDeadlines(call))).toEqual([200, 'accepted']);
      }
    } finally {
      redis.resume();
    }
    const done = () =>
      one.events
        .slice(before)
        .some((event) => event.type === 'purged' && event.result === 'cleared');
    await until(async () => done(), Boolean);
    const after = await untilHit(other);
    expect(after.map(({ body }) => body.includes('new'))).toEqual(after.map(() => true));
    await until(
      () => redisHealth(one),
      ({ purges_owed }) => purges_owed === 0,
    );
    expect((await untilHit(one)).at(-1)?.body).toContain('new');
  });
});
