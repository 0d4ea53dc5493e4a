import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { durations, sizes } from '../../../src/settings/kinds.ts';

const DURATIONS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const SIZES = {
  '': 1,
  kB: 1000,
  MB: 1000 ** 2,
  GB: 1000 ** 3,
  KiB: 1024,
  MiB: 1024 ** 2,
  GiB: 1024 ** 3,
};

function amounts(units: Readonly<Record<string, number>>) {
  return fc.tuple(fc.nat(1_000_000), fc.constantFrom(...Object.keys(units)));
}

describe('durations', () => {
  test('are a whole number times their unit', () => {
    fc.assert(
      fc.property(amounts(DURATIONS), ([amount, unit]) => {
        expect(durations.parse(`${amount}${unit}`)).toBe(
          amount * DURATIONS[unit as keyof typeof DURATIONS],
        );
      }),
    );
  });

  test('read back exactly as they were written, whatever their length', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), (milliseconds) => {
        expect(durations.parse(durations.format(milliseconds))).toBe(milliseconds);
      }),
    );
  });

  test.each([
    [0, '0'],
    [250, '250ms'],
    [1500, '1500ms'],
    [90_000, '90s'],
    [300_000, '5m'],
    [43_200_000, '12h'],
    [172_800_000, '2d'],
  ])('%i milliseconds are written in the largest exact unit, %s', (milliseconds, text) => {
    expect(durations.format(milliseconds)).toBe(text);
  });

  test.each([
    '',
    '30',
    's',
    '-1s',
    '+1s',
    '1.5h',
    '1 h',
    ' 1h',
    '1h ',
    '1H',
    '1h30m',
    '1w',
    '1e3s',
    '0x10s',
    '١s',
    '1s\n',
    '9999999999999999s',
    '999999999999999d',
  ])('%j is none', (text) => {
    expect(durations.parse(text)).toBeUndefined();
  });
});

describe('sizes', () => {
  test('are a whole number times their unit', () => {
    fc.assert(
      fc.property(amounts(SIZES), ([amount, unit]) => {
        expect(sizes.parse(`${amount}${unit}`)).toBe(amount * SIZES[unit as keyof typeof SIZES]);
      }),
    );
  });

  test('read back exactly as they were written, whatever their amount', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), fc.constantFrom(1, 1024, 1024 ** 2), (amount, unit) => {
        const bytes = Math.floor(amount / unit) * unit;
        expect(sizes.parse(sizes.format(bytes))).toBe(bytes);
      }),
    );
  });

  test.each([
    [0, '0'],
    [1000, '1000'],
    [65_536, '64KiB'],
    [268_435_456, '256MiB'],
    [1_073_741_824, '1GiB'],
  ])('%i bytes are written in the largest exact unit, %s', (bytes, text) => {
    expect(sizes.format(bytes)).toBe(text);
  });

  test.each([
    '',
    'MiB',
    '1KB',
    '1kb',
    '1mib',
    '1M',
    '1.5MiB',
    '-1',
    '1 MiB',
    '1e6',
    '9'.repeat(16),
    '999999999999GiB',
  ])('%j is none, because nobody can be sure what it means', (text) => {
    expect(sizes.parse(text)).toBeUndefined();
  });
});
