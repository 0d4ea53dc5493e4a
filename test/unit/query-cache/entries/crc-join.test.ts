import { expect, test } from '@jest/globals';
import { crc32 } from 'node:zlib';
import * as fc from 'fast-check';
import { crcShift, joinCrc } from '../../../../src/query-cache/entries/crc-join.ts';
import { sizes } from '../../../support/sizes.ts';

const bytes = fc.uint8Array({ maxLength: 300 });

test('the joined checksum is that of both texts in a row', () => {
  fc.assert(
    fc.property(bytes, bytes, (first, second) => {
      const joined = joinCrc(crc32(first), crc32(second), crcShift(second.length));
      expect(joined).toBe(crc32(Buffer.concat([first, second])));
    }),
    { numRuns: sizes.propertyRuns },
  );
});

test('one shift serves every text that the same bytes follow', () => {
  const tail = Buffer.alloc(1_000_003, '<Cell/>');
  const shift = crcShift(tail.length);
  for (const text of ['', 'a', 'another', 'x'.repeat(70_000)]) {
    expect(joinCrc(crc32(text), crc32(tail), shift)).toBe(crc32(text + tail.toString()));
  }
});

test('texts that follow each other shift by the sum of their lengths, also beyond 32 bits', () => {
  fc.assert(
    fc.property(
      fc.nat({ max: 2 ** 31 - 1 }),
      fc.integer({ min: 0, max: 2 ** 40 }),
      fc.nat({ max: 2 ** 31 - 1 }),
      (first, second, crc) => {
        const inSteps = joinCrc(joinCrc(crc, 0, crcShift(first)), 0, crcShift(second));
        expect(joinCrc(crc, 0, crcShift(first + second))).toBe(inSteps);
      },
    ),
    { numRuns: sizes.propertyRuns },
  );
});
