import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { checkedFetch } from '../support/checked-requests.ts';
import {
  ask,
  dataAnswer,
  purge,
  redisHealth,
  startDataEngine,
  startGateway,
  untilHit,
  type DataEngine,
} from '../integration/cache/gateways.ts';
import { until } from '../integration/cache/redis-house.ts';
import { startBlackHole, type BlackHole } from '../support/black-hole.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { basic, type TestGateway } from '../support/test-gateway.ts';
import { sampled } from '../support/sizes.ts';

let redis: RedisServer;
let hole: BlackHole;
let engine: DataEngine;
/** Loses its Redis. */
let cutOff: TestGateway;
/** Keeps it. */
let other: TestGateway;

beforeEach(async () => {
  redis = await startRedis();
  hole = await startBlackHole(redis.port);
  engine = await startDataEngine();
  cutOff = await startGateway(engine, `redis://127.0.0.1:${hole.port}`);
  other = await startGateway(engine, redis.url);
});
afterEach(async () => {
  await cutOff?.close();
  await other?.close();
  await engine?.close();
  await hole?.close();
  await redis?.close();
});

async function memoryEntries(gateway: TestGateway): Promise<string | undefined> {
  const response = await checkedFetch(`${gateway.url}/metrics`, {
    headers: { authorization: basic('alice') },
  });
  return /^mdx_gateway_memory_entries (\d+)/mu.exec(await response.text())?.[1];
}

describe.each(sampled(['refuse', 'hang', 'mute'] as const))(
  'with a Redis out of reach (%s)',
  (mode) => {
    test('a purge says that it was not done, and is done when Redis is back', async () => {
      await untilHit(cutOff);
      await untilHit(other);
      expect(await memoryEntries(cutOff)).toBe('1');
      await hole.set(mode);
      engine.data = 'new';

      const refused = await purge(cutOff, 'a');
      expect(refused.status).toBe(503);
      expect(refused.text).not.toMatch(/cleared/iu);
      const asJson = await purge(cutOff, 'a', { accept: 'application/json' });
      expect(asJson.status).toBe(503);
      expect(asJson.text).not.toMatch(/cleared/iu);
      expect(await memoryEntries(cutOff)).toBe('0');
      expect(await redisHealth(cutOff)).toMatchObject({ state: 'down', purges_owed: 2 });

      // Meanwhile the engine answers, and nothing is stored.
      for (let i = 0; i < 3; i += 1) {
        const { cache, body } = await ask(cutOff);
        expect([cache, body]).toEqual(['fwd=bypass; detail=epochs-unknown', dataAnswer('new')]);
      }

      await hole.set('forward');
      // From the first answer on, none is of before: Redis still holds the old one.
      const answers = await untilHit(cutOff);
      expect(new Set(answers.map(({ body }) => body))).toEqual(new Set([dataAnswer('new')]));
      expect((await redisHealth(cutOff)).purges_owed).toBe(0);
      // The others follow, although nobody purges again.
      await until(
        () => ask(other),
        ({ body }) => body === dataAnswer('new'),
      );
    });
  },
);

test('a purge of everything that Redis did not confirm is owed as such', async () => {
  await untilHit(other, { project: 'b' });
  await hole.set('refuse');
  expect((await purge(cutOff)).status).toBe(503);
  engine.data = 'new';
  await hole.set('forward');
  await until(
    () => ask(other, { project: 'b' }),
    ({ body }) => body === dataAnswer('new', { project: 'b' }),
  );
});
