import { expect, test } from '@jest/globals';
import { duration, percent, plural, size } from '../../../src/common/words.ts';

test.each([
  [null, '–'],
  [0, '0.0 ms'],
  [9.94, '9.9 ms'],
  [9.96, '10 ms'],
  [999.4, '999 ms'],
  [999.6, '1.00 s'],
  [59_900, '59.9 s'],
  [61_234, '1.0 min'],
  [3_600_000, '1.0 h'],
  [172_800_000, '2.0 d'],
])('%p milliseconds read as %s', (milliseconds, text) => {
  expect(duration(milliseconds)).toBe(text);
});

test.each([
  [0, '0 B'],
  [1_023, '1023 B'],
  [1_024, '1.0 KiB'],
  [102_400, '100 KiB'],
  [5_234_867, '5.0 MiB'],
  [2 ** 51, '2048 TiB'],
])('%d bytes read as %s', (bytes, text) => {
  expect(size(bytes)).toBe(text);
});

test('parts and numbers of things read as people say them', () => {
  expect([
    percent(null),
    percent(0.1234),
    plural(1, 'query', 'queries'),
    plural(2_000, 'row'),
  ]).toEqual(['–', '12.3 %', '1 query', '2,000 rows']);
});
