import { expect, test } from '@jest/globals';
import { createSharedStatistics } from '../../../../src/features/statistics/shared-statistics.ts';
import { processesOfAll } from '../../../../src/features/statistics/statistics.ts';
import { STATISTICS, statisticsOfLinks } from '../../../../src/workers/shared.ts';
import type { Link } from '../../../../src/workers/link.ts';
import { linkPair } from '../../../support/link-pair.ts';
import { asked } from '../../../support/answered.ts';
import { handClock, statisticsOf } from '../../features/statistics/answered.ts';

/** Workers of one primary process. */
function create(workers: number) {
  const links = new Set<Pick<Link, 'call'>>();
  return Array.from({ length: workers }, (_, i) => {
    const pair = linkPair();
    links.add(pair.primary);
    pair.primary.serve(STATISTICS, statisticsOfLinks(links, 'gateway'));
    const leave = () => links.delete(pair.primary);
    const { on, own } = statisticsOf({ clock: handClock() });
    const processes = processesOfAll(pair.worker, own);
    const common = { own, processes, store: undefined, onError: () => {} };
    return { pair, leave, on, shared: createSharedStatistics({ ...common, id: String(i) }) };
  });
}

const PAGE = { limit: 10, offset: 0 } as const;

test('each worker tells the figures and the requests of all', async () => {
  const [one, other] = create(2);
  one?.on(asked(100, { id: 'one' }));
  other?.on(asked(300, { id: 'other' }));
  for (const worker of [one, other]) {
    expect(await worker?.shared.statistics({ ...PAGE, sort: 'cost' })).toMatchObject({
      gateways: 1,
      total: 1,
      digests: [{ asks: 2, engine_ms: 200, engine_max_ms: 300 }],
    });
    const { total, requests } = (await worker?.shared.requests({}, PAGE)) ?? {};
    expect([total, requests?.map(({ id }) => id).toSorted()]).toEqual([2, ['one', 'other']]);
    const found = await worker?.shared.requests({ id: 'other' }, PAGE);
    expect(found).toMatchObject({ total: 1, requests: [{ id: 'other' }] });
    expect(await worker?.shared.entries({ ...PAGE, sort: 'hits' })).toMatchObject({ total: 0 });
  }
});

test('one that does not answer in time is left out, and every page says so', async () => {
  const [one, other] = create(2);
  one?.on(asked(100));
  other?.on(asked(300));
  other?.pair.toWorker.lose();
  if (other !== undefined) other.pair.within = 20;
  for (const told of [
    await one?.shared.statistics({ ...PAGE, sort: 'cost' }),
    await one?.shared.requests({}, PAGE),
    await one?.shared.entries({ ...PAGE, sort: 'hits' }),
  ]) {
    expect(told).toMatchObject({ complete: false });
  }
});

test('one that is gone is left out, and without the primary process nothing is told', async () => {
  const [one, other] = create(2);
  one?.on(asked(100));
  other?.on(asked(300));
  other?.leave();
  const told = await one?.shared.statistics({ ...PAGE, sort: 'cost' });
  expect(told?.totals.asks).toBe(1);
  one?.pair.worker.close();
  await expect(one?.shared.requests({}, PAGE)).rejects.toMatchObject({ reason: 'overloaded' });
});
