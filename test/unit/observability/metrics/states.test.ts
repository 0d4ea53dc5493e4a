import { expect, test } from '@jest/globals';
import type { ReplicaState } from '../../../../src/common/events.ts';
import { EVENTS } from '../../../../src/features/events.ts';
import { createMetrics } from '../../../../src/observability/metrics.ts';
import { gauges } from '../../../support/gauges.ts';
import { anyName } from '../../cache/fakes.ts';

test('the metrics say which parts answer, when the certificate ends, and of what is not known nothing', async () => {
  let redis: boolean | undefined;
  let storage: boolean | undefined;
  let end: number | undefined;
  let reloaded = true;
  const engines: ReplicaState[] = [];
  const { page } = createMetrics(
    EVENTS,
    anyName,
    gauges({
      memory: () => ({ entries: 3, bytes: 30 }),
      evictions: () => ({ all: 7, unused: 1 }),
      limits: () => ({ memory: 100, concurrency: 4, queue: 5 }),
      states: {
        engines: () => engines,
        redisUp: () => redis,
        storageUp: async () => storage,
        reloaded: () => reloaded,
      },
      certificateEnd: () => end,
      version: '1.2.3',
    }),
  );
  const lines = async () =>
    (await page())
      .split('\n')
      .filter((line) =>
        /^mdx_gateway_(?:up|cert|build|config_|memory_|engine_\w+_limit)/.test(line),
      );
  const fixed = [
    'mdx_gateway_memory_entries 3',
    'mdx_gateway_memory_bytes 30',
    'mdx_gateway_memory_limit_bytes 100',
    'mdx_gateway_memory_evictions_total 7',
    'mdx_gateway_engine_requests_limit 4',
    'mdx_gateway_engine_queue_limit 5',
    'mdx_gateway_build_info{version="1.2.3"} 1',
    'mdx_gateway_config_last_reload_successful 1',
  ];
  expect((await lines()).toSorted()).toEqual(fixed.toSorted());
  [redis, storage, end] = [true, false, 1_800_000_000_000];
  engines.push({ url: 'http://olap/xmla', state: 'up', why: '' });
  expect(await lines()).toEqual(
    expect.arrayContaining([
      'mdx_gateway_up{part="engine",name="http://olap/xmla"} 1',
      'mdx_gateway_up{part="redis",name=""} 1',
      'mdx_gateway_up{part="storage",name=""} 0',
      'mdx_gateway_certificate_end_seconds{key="listen.certificate"} 1800000000',
    ]),
  );
  [redis, reloaded] = [false, false];
  engines[0] = { url: 'http://olap/xmla', state: 'down', why: 'it is gone' };
  expect(await lines()).toEqual(
    expect.arrayContaining([
      'mdx_gateway_up{part="engine",name="http://olap/xmla"} 0',
      'mdx_gateway_up{part="redis",name=""} 0',
      'mdx_gateway_config_last_reload_successful 0',
    ]),
  );
  // By a reload the configuration names another one.
  engines[0] = { url: 'http://other/xmla', state: 'up', why: '' };
  expect((await lines()).filter((line) => line.includes('engine"'))).toEqual([
    'mdx_gateway_up{part="engine",name="http://other/xmla"} 1',
  ]);
});
