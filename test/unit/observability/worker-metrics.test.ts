import { describe, expect, test } from '@jest/globals';
import { createMetrics } from '../../../src/observability/metrics.ts';
import {
  createMetricsSum,
  isMetricsReport,
  reportOf,
  type MetricsReport,
} from '../../../src/observability/worker-metrics.ts';
import { anyName, bodyAccount } from '../query-cache/fakes.ts';

/** The metrics of one worker that holds so much in memory and uses epochs of that age. */
function worker({ bytes = 0, epochAge = 0 } = {}) {
  const metrics = createMetrics(anyName, {
    memory: () => ({ entries: 1, bytes }),
    flights: () => ({ flights: 0, waiters: 0 }),
    engine: () => ({ atEngine: 0, waiting: 0 }),
    bodies: bodyAccount().usage,
    connections: () => ({ open: 0, limit: 0 }),
    epochAge: () => epochAge,
    owedPurges: () => 0,
  });
  return {
    purges(times: number, milliseconds = 20) {
      for (let i = 0; i < times; i += 1) {
        metrics.on({
          type: 'purged',
          id: 'id',
          principal: 'ADMIN',
          scope: 'everything',
          cause: 'clear-cache',
          result: 'cleared',
          replicas: 1,
          waited: 0,
          engine_calls: 0,
          milliseconds,
        });
      }
    },
    /** What arrives of its report at the other end of a channel. */
    report: async () =>
      JSON.parse(JSON.stringify(await reportOf(metrics.registry))) as MetricsReport,
  };
}

function valuesOf(page: string): Map<string, number> {
  const lines = page.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [
      line.slice(0, line.lastIndexOf(' ')).replace('mdx_gateway_', ''),
      Number(line.slice(line.lastIndexOf(' ') + 1)),
    ]),
  );
}

const PURGES = 'purges_total{result="cleared",scope="everything",cause="clear-cache"}';

describe('the metrics of all workers', () => {
  test('are sums of what they count, and of what they hold', async () => {
    const sum = createMetricsSum();
    const [one, two] = [worker({ bytes: 10 }), worker({ bytes: 32 })];
    one.purges(2, 20);
    two.purges(3, 3_000);
    sum.report(1, await one.report());
    sum.report(2, await two.report());
    const values = valuesOf(await sum.page(new Set([1, 2])));
    expect(values.get(PURGES)).toBe(5);
    expect(values.get('purge_seconds_bucket{le="0.1"}')).toBe(2);
    expect(values.get('purge_seconds_bucket{le="+Inf"}')).toBe(5);
    expect(values.get('purge_seconds_count')).toBe(5);
    expect(values.get('purge_seconds_sum')).toBeCloseTo(9.04);
    expect(values.get('memory_bytes')).toBe(42);
    expect(values.get('workers')).toBe(2);
  });

  test('show the oldest epoch that any of them uses', async () => {
    const sum = createMetricsSum();
    sum.report(1, await worker({ epochAge: 300 }).report());
    sum.report(2, await worker({ epochAge: 700 }).report());
    expect(valuesOf(await sum.page(new Set([1, 2]))).get('epoch_age_seconds')).toBe(0.7);
  });

  test('name every metric that one process has, and say the same of it', async () => {
    const sum = createMetricsSum();
    const report = await worker().report();
    sum.report(1, report);
    sum.report(2, report);
    const page = await sum.page(new Set([1, 2]));
    const shown = report.filter(({ aggregator }) => aggregator !== 'omit');
    expect(shown.length).toBeGreaterThan(40);
    for (const { name, help, type } of shown) {
      expect(page).toContain(`# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`);
    }
  });

  test('never go back: not when a worker is silent, and not when it is gone', async () => {
    const sum = createMetricsSum();
    const [one, two] = [worker({ bytes: 10 }), worker({ bytes: 32 })];
    one.purges(2);
    two.purges(3);
    sum.report(1, await one.report());
    sum.report(2, await two.report());

    const silent = valuesOf(await sum.page(new Set([1])));
    expect(silent.get(PURGES)).toBe(5);
    expect(silent.get('workers')).toBe(1);
    expect(silent.get('memory_bytes')).toBe(10);

    sum.gone(2);
    const dead = valuesOf(await sum.page(new Set([1])));
    expect(dead.get(PURGES)).toBe(5);
    expect(dead.get('purge_seconds_count')).toBe(5);
    expect(dead.get('memory_bytes')).toBe(10);

    const three = worker();
    three.purges(1);
    sum.report(3, await three.report());
    expect(valuesOf(await sum.page(new Set([1, 3]))).get(PURGES)).toBe(6);

    // Both at one time: neither may overwrite what the other counted.
    sum.gone(1);
    sum.gone(3);
    expect(valuesOf(await sum.page(new Set<number>())).get(PURGES)).toBe(6);
  });

  test('count nothing twice when a worker tells its own again', async () => {
    const sum = createMetricsSum();
    const one = worker();
    one.purges(2);
    sum.report(1, await one.report());
    one.purges(1);
    sum.report(1, await one.report());
    expect(valuesOf(await sum.page(new Set([1]))).get(PURGES)).toBe(3);
    sum.gone(1);
    sum.gone(1);
    sum.gone(9);
    expect(valuesOf(await sum.page(new Set<number>())).get(PURGES)).toBe(3);
  });

  test('are taken from reports only', async () => {
    expect(isMetricsReport(await worker().report())).toBe(true);
    const [first] = await worker().report();
    for (const wrong of [
      undefined,
      null,
      {},
      [null],
      [{}],
      [{ ...first, name: 1 }],
      [{ ...first, aggregator: 'other' }],
      [{ ...first, values: undefined }],
      [{ ...first, values: [{ value: '1', labels: {} }] }],
      [{ ...first, values: [{ value: 1 }] }],
    ]) {
      expect(isMetricsReport(wrong)).toBe(false);
    }
  });
});
