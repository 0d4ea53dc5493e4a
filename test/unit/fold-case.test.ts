import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { foldCase, isLongName } from '../../src/fold-case.ts';

describe('names that count as the same', () => {
  test.each([
    ['Sales', 'SALES'],
    ['straße', 'STRASSE'],
    ['STRAẞE', 'strasse'],
    ['ΟΔΟΣ', 'οδος'],
    ['οδοσ', 'οδος'],
    ['e\u0301te\u0301', 'ÉTÉ'],
    ['ı', 'I'],
    ['ﬁ', 'FI'],
  ])('%s and %s', (one, other) => {
    expect(foldCase(one)).toBe(foldCase(other));
  });

  test.each([
    ['a', 'b'],
    ['a', 'a '],
    ['e', 'é'],
    ['a_b', 'a%b'],
  ])('are not %s and %s', (one, other) => {
    expect(foldCase(one)).not.toBe(foldCase(other));
  });

  test('fold to themselves once folded', () => {
    for (const name of ['STRAẞE', 'ΟΔΟΣ', 'İstanbul', 'ǅ', 'ŉ', '\u0345']) {
      expect(foldCase(foldCase(name))).toBe(foldCase(name));
    }
  });

  test('fold alike alone and beside letters that are not ASCII', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary-ascii' }), (name) => {
        // A Han character has no case and composes with nothing.
        expect(foldCase(`${name}\u4e00`)).toBe(`${foldCase(name)}\u4e00`);
      }),
    );
  });

  test('are found by a part of them, in any case', () => {
    expect(foldCase('ΟΔΟΣΑ')).toContain(foldCase('ΟΔΟΣ'));
    expect(foldCase('Großhandel')).toContain(foldCase('GROSS'));
  });
});

describe('a name is too long', () => {
  test.each([
    ['of ASCII', 'a'.repeat(255)],
    ['as it is sent', '\u00E9'.repeat(127)],
    ['when it is folded', '\uFDFA'.repeat(7)],
  ])('with one letter more than 255 bytes take: %s', (_what, most) => {
    expect([most, `${most}${most.charAt(0)}`].map(isLongName)).toEqual([false, true]);
  });
});
