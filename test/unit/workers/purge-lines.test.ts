import { expect, test } from '@jest/globals';
import { MAX_PURGES, type PurgeLine } from '../../../src/query-cache/purge/purge-log.ts';
import { workerHouse } from '../../support/worker-house.ts';

const line = (number: number): PurgeLine => ({
  line: `line-${number}`,
  record: {
    id: `purge-${number}`,
    at: number,
    principal: 'a\uD800',
    cause: 'clear-cache',
    scope: { project: 'FoodMart' },
    result: 'cleared',
    replicas: 2,
    waited: 1_100,
    engine_calls: 0,
  },
});

test('the log of purges is one for all workers, and outlives them', async () => {
  const house = workerHouse();
  const [one, other] = [house.join(), house.join()];
  await one.purges.add([line(1), line(2)], 10);
  await other.purges.add([line(3)], 10);
  one.leave();
  expect(await house.join().purges.all(10)).toEqual([line(1), line(2), line(3)]);
  expect(await other.purges.all(2)).toEqual([line(2), line(3)]);
  expect(await other.purges.all(0)).toEqual([]);
});

test('the log of purges forgets the oldest, and is never longer than it may be', async () => {
  const { purges } = workerHouse().join();
  await purges.add([line(1), line(2), line(3)], 2);
  expect(await purges.all(10)).toEqual([line(2), line(3)]);
  const many = Array.from({ length: MAX_PURGES + 5 }, (_, number) => line(number));
  await purges.add(many, 1_000_000);
  expect(await purges.all(1_000_000)).toHaveLength(MAX_PURGES);
});

test('a line that cannot be read is skipped', async () => {
  const { purges, pair } = workerHouse().join();
  await pair.worker.call('purges', 'add', [['{', '{"line":1}'], 10], 60_000);
  await purges.add([line(1)], 10);
  expect(await purges.all(10)).toEqual([line(1)]);
  await expect(pair.worker.call('purges', 'add', [[7], 10], 60_000)).rejects.toThrow('not a text');
});
