import { describe, expect, test } from '@jest/globals';
import { EVENTS } from '../../../src/features/events.ts';
import { createMetrics } from '../../../src/observability/metrics.ts';
import { createPrimaryMetrics, metricsOfAll } from '../../../src/workers/metrics.ts';
import { linkPair } from '../../support/link-pair.ts';
import { anyName, quiet } from '../cache/fakes.ts';
import { gauges } from '../../support/gauges.ts';

function ownMetrics({ bytes = 0, epochAge = 0 } = {}) {
  return createMetrics(
    EVENTS,
    anyName,
    gauges({
      memory: () => ({ entries: 1, bytes }),
      epochAge: () => epochAge,
      // The primary process knows the rest.
      states: { engines: () => [] },
    }),
  );
}

/** Longer than any test, and as long as is waited for who stands still (ms). */
const [LONG, BRIEF] = [60_000, 20];

function crew() {
  const attach = createPrimaryMetrics({ engines: () => [], reloaded: () => true, workers: 4 });
  return {
    join(held: Parameters<typeof ownMetrics>[0] = {}) {
      const pair = linkPair(LONG);
      const leave = attach(pair.primary);
      const own = ownMetrics(held);
      const metrics = metricsOfAll(pair.worker, own);
      return {
        ...pair,
        pair,
        leave,
        own,
        page: metrics.page,
        refuse: () =>
          metrics.on({
            type: 'login-refused',
            id: 'id',
            reason: 'rejected',
            why: undefined,
            user: undefined,
            address: '192.0.2.1',
          }),
      };
    },
  };
}

function figure(page: string, name: string): number {
  const line = page.split('\n').find((one) => one.startsWith(`mdx_gateway_${name} `));
  return Number(line?.split(' ').at(-1));
}
const REFUSED = 'logins_refused_total{reason="rejected"}';

describe('GET /metrics of any worker', () => {
  test('shows what all workers count', async () => {
    const { join } = crew();
    const [one, two] = [join(), join()];
    one.refuse();
    two.refuse();
    two.refuse();
    for (const { page } of [one, two]) {
      const text = await page();
      expect(figure(text, REFUSED)).toBe(3);
      expect(figure(text, 'workers')).toBe(2);
      expect(figure(text, 'workers_configured')).toBe(4);
    }
  });

  test('sums up what they hold and how long requests took, and shows the oldest epoch', async () => {
    const { join } = crew();
    const [one, two] = [join({ bytes: 10, epochAge: 700 }), join({ bytes: 32, epochAge: 300 })];
    for (const [{ own }, milliseconds] of [[one, 20] as const, [two, 3_000] as const]) {
      own.on({
        type: 'api-answered',
        operation: 'listRoles',
        status: 200,
        changes: false,
        principal: 'ADMIN',
        id: 'id',
        milliseconds,
      } as Parameters<typeof own.on>[0]);
    }
    const text = await one.page();
    expect(figure(text, 'memory_bytes')).toBe(42);
    expect(figure(text, 'epoch_age_seconds')).toBe(0.7);
    expect(figure(text, 'api_seconds_bucket{le="0.02"}')).toBe(1);
    expect(figure(text, 'api_seconds_sum')).toBeCloseTo(3.02);
  });

  test('names every metric that one process has, and says the same of it', async () => {
    const one = crew().join();
    const text = await one.page();
    const all = await one.own.registry.getMetricsAsJSON();
    const shown = all.filter((metric) => !('aggregator' in metric && metric.aggregator === 'omit'));
    expect(shown.length).toBeGreaterThan(40);
    const heads = shown.map(
      ({ name, help, type }) => `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`,
    );
    expect(heads.filter((head) => !text.includes(head))).toEqual([]);
  });

  test('leaves out a worker that stands still, and no counter goes back', async () => {
    const { join } = crew();
    const [one, two] = [join(), join()];
    two.refuse();
    expect(figure(await one.page(), REFUSED)).toBe(1);
    two.toWorker.hold();
    two.pair.within = BRIEF;
    one.refuse();
    const text = await one.page();
    expect(figure(text, REFUSED)).toBe(2);
    expect(figure(text, 'workers')).toBe(1);
    two.toWorker.release();
    two.pair.within = LONG;
    two.refuse();
    const again = await one.page();
    expect(figure(again, REFUSED)).toBe(3);
    expect(figure(again, 'workers')).toBe(2);
  });

  test('keeps what a worker counted that is gone, also when its report comes late', async () => {
    const { join } = crew();
    const [one, two] = [join(), join()];
    two.refuse();
    await one.page();
    two.toPrimary.hold();
    two.refuse();
    const during = one.page();
    // Its report is under way.
    while (two.toPrimary.held.length === 0) await quiet();
    two.leave();
    two.toPrimary.release();
    expect(figure(await during, REFUSED)).toBe(1);
    const text = await one.page();
    expect(figure(text, REFUSED)).toBe(1);
    expect(figure(text, 'workers')).toBe(1);
    const three = join();
    three.refuse();
    expect(figure(await one.page(), REFUSED)).toBe(2);
  });

  test('is made once for those who ask at one time', async () => {
    const { join } = crew();
    const [one, two] = [join(), join()];
    let asked = 0;
    two.toWorker.filter = (message) => {
      if (JSON.stringify(message).includes('report')) asked += 1;
      return true;
    };
    await Promise.all([one.page(), one.page(), one.page()]);
    expect(asked).toBe(1);
    await one.page();
    expect(asked).toBe(2);
  });

  test('leaves out a worker that tells something else', async () => {
    const { join } = crew();
    const [one, two] = [join(), join()];
    two.worker.serve('metrics', { report: () => [{ name: 'mdx_gateway_workers' }] });
    expect(figure(await one.page(), 'workers')).toBe(1);
  });

  test('cannot be had without the primary process', async () => {
    const one = crew().join();
    one.worker.close();
    await expect(one.page()).rejects.toThrow('closed');
  });
});
