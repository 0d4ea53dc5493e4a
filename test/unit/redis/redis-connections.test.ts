import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { connectRedis } from '../../../src/redis/redis-connections.ts';

beforeEach(() => void jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate'] }));
afterEach(() => void jest.useRealTimers());

test('a client that can never connect tries it less and less often', async () => {
  const errors: unknown[] = [];
  const url = ['rediss://127.0.0.1:1'];
  const connections = connectRedis({ url, mode: 'standalone', tls: { cert: 'none' } }, (error) =>
    errors.push(error),
  );
  const triesIn = async (milliseconds: number) => {
    const before = errors.length;
    await jest.advanceTimersByTimeAsync(milliseconds);
    return errors.length - before;
  };
  const first = await triesIn(1_001);
  await triesIn(10_000);
  const later = await triesIn(1_001);
  await connections.close();
  expect([first, later]).toEqual([4 * 5, 4 * 1]);
  expect(await triesIn(10_000)).toBe(0);
});
