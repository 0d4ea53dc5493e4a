import { expect, test } from '@jest/globals';
import { MAX_PURGES } from '../../../../src/cache/purge/purge-log.ts';
import { workerHouse } from '../../../support/worker-house.ts';

const line = (number: number) => `{"purge":${number}}`;

test('the log of purges is one for all workers, and outlives them', async () => {
  const house = workerHouse();
  const [one, other] = [house.join(), house.join()];
  await one.purges.add(line(1), 10);
  await other.purges.add(line(2), 10);
  one.leave();
  expect(await house.join().purges.all()).toEqual([line(1), line(2)]);
});

test('the log of purges forgets the oldest', async () => {
  const { purges } = workerHouse().join();
  for (let number = 1; number <= MAX_PURGES + 1; number += 1)
    await purges.add(line(number), MAX_PURGES);
  const kept = await purges.all();
  expect([kept.length, kept[0]]).toEqual([MAX_PURGES, line(2)]);
});
