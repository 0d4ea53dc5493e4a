import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { redisClients } from '../../../src/redis/redis-connections.ts';

beforeEach(() => void jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate'] }));
afterEach(() => void jest.useRealTimers());

test('a client that can never connect tries it less and less often', async () => {
  const errors: unknown[] = [];
  const url = ['rediss://127.0.0.1:1'];
  const clients = redisClients({ url, mode: 'standalone', tls: { cert: 'none' } }, (error) =>
    errors.push(error),
  );
  clients.client('reader', 100);
  const triesIn = async (milliseconds: number) => {
    const before = errors.length;
    await jest.advanceTimersByTimeAsync(milliseconds);
    return errors.length - before;
  };
  const first = await triesIn(1_001);
  await triesIn(10_000);
  const later = await triesIn(1_001);
  clients.close();
  expect([first, later]).toEqual([5, 1]);
  expect(await triesIn(10_000)).toBe(0);
});
