import { expect, test } from '@jest/globals';
import { configWarnings } from '../../../src/compose/config-warnings.ts';
import { workerShare } from '../../../src/compose/lead-workers.ts';
import { loadConfig } from '../../../src/config/load-config.ts';
import { fakeReadFile } from './fake-files.ts';

const MIB = 1024 * 1024;

/** @param container MiB */
function configOf(container: number, text = '') {
  const { cache, limits, memory, ...config } = loadConfig({
    file: 'gateway.yaml',
    env: {},
    workingFolder: '/',
    readFile: fakeReadFile({ '/gateway.yaml': text, '/users.htpasswd': '' }),
    memory: { heap: Infinity, container: container * MIB },
  });
  const whole = { cache, limits, memory, ...config };
  const sizes = [cache.memory, limits.in_flight, cache.max_entry].map((bytes) => bytes / MIB);
  return { whole, memory, sizes, warnings: configWarnings(whole, 0) };
}

test.each([
  [Infinity, [256, 128, 64], undefined],
  [768, [256, 128, 64], undefined],
  [512, [154, 76, 64], 'cache.memory 154MiB, limits.in_flight 76MiB, limits.connections 1171'],
  [256, [34, 17, 34], 'cache.memory 34MiB, limits.in_flight 17MiB, limits.connections 586'],
  [192, [8, 16, 8], 'cache.memory 8MiB, limits.in_flight 16MiB, limits.connections 439'],
])('in a container of %d MiB memory is what is usual, or what fits', (container, sizes, told) => {
  const found = configOf(container);
  expect(found.sizes).toEqual(sizes);
  const sentence = told && `fitted to the memory limit of ${container}MiB: ${told}`;
  expect(found.memory.fitted).toBe(sentence);
  expect(found.memory.isTight).toBe(told !== undefined);
  expect(found.warnings).toEqual([]);
});

test('what is written is kept, the rest is fitted beside it, and what does not fit is told', () => {
  const small = configOf(256, 'cache: { memory: 20MiB, max_entry: 1MiB }');
  expect(small.sizes).toEqual([20, 31, 1]);
  expect(small.warnings).toEqual([]);
  expect(configOf(256, 'limits: { in_flight: 20MiB }').sizes).toEqual([31, 20, 31]);
  const large = configOf(256, 'cache: { memory: 256MiB }');
  expect(large.sizes).toEqual([256, 16, 64]);
  expect(large.warnings).toEqual([
    'cache.memory 256MiB, limits.in_flight 16MiB: more than fits into the memory limit of 256MiB; the gateway may be killed',
  ]);
});

test.each([
  [768, 'cache: { memory: 350MiB }', [350, 59, 64]],
  [2048, 'cache: { memory: 1300MiB }', [1300, 82, 64]],
  [768, 'limits: { in_flight: 256MiB }', [153, 256, 64]],
])('what had to be fitted beside what is written is told: %d MiB, %s', (container, text, sizes) => {
  const found = configOf(container, text);
  expect(found.sizes).toEqual(sizes);
  expect([found.memory.isTight, found.warnings]).toEqual([true, []]);
  const told = `cache.memory ${sizes[0]}MiB, limits.in_flight ${sizes[1]}MiB`;
  expect(found.memory.fitted).toMatch(
    `fitted to the memory limit of ${container / 1024 >= 2 ? '2GiB' : '768MiB'}: ${told}`,
  );
});

test('where what is written leaves room for the rest nothing was fitted', () => {
  const { memory, sizes } = configOf(512, 'cache: { memory: 32MiB }');
  expect([sizes, memory.fitted]).toEqual([[32, 128, 32], undefined]);
});

test('workers have their parts of what fits all of them', () => {
  const { whole, sizes, warnings } = configOf(512, 'workers: 2');
  expect([sizes, warnings]).toEqual([[25, 32, 12.5], []]);
  const share = workerShare(whole, 2);
  expect([share.cache.memory, share.limits.in_flight]).toEqual([12.5 * MIB, 16 * MIB]);
});

test.each([
  [191, '', 'the memory limit of 191MiB is too little: the gateway needs 192MiB'],
  [447, 'workers: 2', 'the memory limit of 447MiB is too little: 2 workers need 448MiB'],
])('a container of %d MiB is refused with one sentence: %s', (container, text, sentence) => {
  expect(() => configOf(container, text)).toThrow(`gateway.yaml: ${sentence}`);
  expect(() => configOf(container + 1, text)).not.toThrow();
});

test('a large answer that is written is fitted where the container has less than usual', () => {
  expect(configOf(256, 'cache: { max_entry: 64MiB }').sizes).toEqual([34, 17, 34]);
  expect(() => configOf(Infinity, 'cache: { max_entry: 300MiB }')).toThrow(
    'cache.max_entry: must not be larger than cache.memory',
  );
});
