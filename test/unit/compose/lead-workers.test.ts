import { expect, test } from '@jest/globals';
import { workerShare } from '../../../src/compose/lead-workers.ts';
import { loadConfig } from '../../../src/config/load-config.ts';
import { fakeReadFile } from '../config/fake-files.ts';

const MIB = 1024 * 1024;

const configOf = (text: string) =>
  loadConfig({
    file: 'gateway.yaml',
    env: {},
    workingFolder: '/',
    readFile: fakeReadFile({ '/gateway.yaml': text, '/users.htpasswd': '' }),
  });

test('each of several workers has its part, and together they have no less than all', () => {
  const config = configOf(
    'workers: 3\nlimits: { concurrency: 64, queue: 256, per_user: 16, in_flight: 128MiB }',
  );
  const share = workerShare(config, 3);
  expect(share.cache.memory).toBe(Math.floor((256 * MIB) / 3));
  expect(share.limits).toEqual({
    ...config.limits,
    concurrency: 22,
    queue: 86,
    in_flight: Math.ceil((128 * MIB) / 3),
    connections: Math.ceil(config.limits.connections / 3),
  });
  expect(share.limits.per_user).toBe(16);
  // Nothing else differs.
  const { cache, limits } = config;
  const memory = share.cache.memory;
  expect(share).toEqual({
    ...config,
    workers: 1,
    cache: { ...cache, memory },
    limits: { ...limits, ...share.limits },
  });
});

test('a worker always has a place at the engine, and no queue only where there is none at all', () => {
  const { limits } = workerShare(configOf('workers: 4\nlimits: { concurrency: 2, queue: 0 }'), 4);
  expect([limits.concurrency, limits.queue]).toEqual([1, 0]);
});

test('after a reload with fewer workers than run, an entry still fits in memory and a request in its account', () => {
  const text =
    'cache: { memory: 32MiB, max_entry: 32MiB }\nlimits: { body: 16MiB, in_flight: 16MiB }';
  const { cache, limits } = workerShare(configOf(text), 4);
  expect([cache.memory, cache.max_entry]).toEqual([8 * MIB, 8 * MIB]);
  expect([limits.in_flight, limits.body]).toEqual([16 * MIB, 16 * MIB]);
});
