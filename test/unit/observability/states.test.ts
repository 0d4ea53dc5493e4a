import { expect, test } from '@jest/globals';
import { createMetrics } from '../../../src/observability/metrics.ts';
import { anyName, bodyAccount } from '../cache/fakes.ts';

test('the metrics say which parts answer, when the certificate ends, and of what is not known nothing', async () => {
  let redis: boolean | undefined;
  let storage: boolean | undefined;
  let end: number | undefined;
  const { on, page } = createMetrics(anyName, {
    memory: () => ({ entries: 3, bytes: 30 }),
    evictions: () => 7,
    limits: () => ({ memory: 100, concurrency: 4, queue: 5 }),
    flights: () => ({ flights: 0, waiters: 0 }),
    engine: () => ({ atEngine: 0, waiting: 0 }),
    bodies: bodyAccount().usage,
    connections: () => ({ open: 0, limit: 0 }),
    epochAge: () => undefined,
    owedPurges: () => 0,
    redisUp: () => redis,
    storageUp: async () => storage,
    certificateEnd: () => end,
    version: '1.2.3',
  });
  const lines = async () =>
    (await page())
      .split('\n')
      .filter((line) => /^mdx_gateway_(?:up|cert|build|memory_|engine_\w+_limit)/.test(line));
  const fixed = [
    'mdx_gateway_memory_entries 3',
    'mdx_gateway_memory_bytes 30',
    'mdx_gateway_memory_limit_bytes 100',
    'mdx_gateway_memory_evictions_total 7',
    'mdx_gateway_engine_requests_limit 4',
    'mdx_gateway_engine_queue_limit 5',
    'mdx_gateway_build_info{version="1.2.3"} 1',
  ];
  expect((await lines()).toSorted()).toEqual(fixed.toSorted());
  [redis, storage, end] = [true, false, 1_800_000_000_000];
  on({ type: 'engine-state', url: 'http://olap/xmla', state: 'up', why: '' });
  expect(await lines()).toEqual(
    expect.arrayContaining([
      'mdx_gateway_up{part="engine",name="http://olap/xmla"} 1',
      'mdx_gateway_up{part="redis",name=""} 1',
      'mdx_gateway_up{part="storage",name=""} 0',
      'mdx_gateway_certificate_end_seconds{key="listen.certificate"} 1800000000',
    ]),
  );
  redis = false;
  on({ type: 'engine-state', url: 'http://olap/xmla', state: 'down', why: 'it is gone' });
  expect(await lines()).toEqual(
    expect.arrayContaining([
      'mdx_gateway_up{part="engine",name="http://olap/xmla"} 0',
      'mdx_gateway_up{part="redis",name=""} 0',
    ]),
  );
});
