import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { foldCase, foldObjectName, isLongName } from '../../../src/common/fold-case.ts';
import { sizes } from '../../support/sizes.ts';
import { codePoint } from '../../support/code-point.ts';

/** Not the ideographs and the syllables of Hangul, which are many and alike, nor what is beyond the basic plane. */
const isDense = (code: number) => code < 0x3400 || (code >= 0xd7a4 && code <= 0xffff);

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

describe('names of objects of an engine that count as the same', () => {
  test.each([
    ['case', 'Sales', 'sALES', 'SALES'],
    ['width', 'Sales 1', 'Ｓales 1', 'ＳＡＬＥＳ　１', 'ｓales\u00a01'],
    ['kana of half width', 'カタログ', 'ｶﾀﾛｸﾞ', 'カタロク\u3099'],
    ['the script of kana', 'カタログ', 'かたろぐ', 'カタロぐ', 'かたろく\u3099'],
    ['a voiced kana that one script has only', 'ヷ', 'わ\u3099', 'ワ\u3099', 'ﾜﾞ'],
    ['composition', 'Caf\u00e9', 'Cafe\u0301', 'CAF\u00c9', 'ＣＡＦＥ\u0301'],
    ['compatibility', 'ﬃ ² ℡ ㎏ Ⅳ', 'ffi 2 TEL kg IV', 'FFI ２ tel KG iv'],
    ['style', '𝐒𝐚𝐥𝐞𝐬', 'Sales', 'Ⓢⓐⓛⓔⓢ'],
    ['case in several letters', 'straße', 'STRA\u1e9eE', 'ＳＴＲＡＳＳＥ'],
    ['final sigma', 'ΣΑΣ', 'σας', 'σασ'],
    ['outer white space', 'Sales', ' Sales', 'Sales\t', '\u3000Ｓales\ufeff'],
    ['what cannot be seen', 'Sales', 'Sa\u00adles', 'Sales\u200b', 'S\u2060ales\ufe0f'],
  ])('although they differ by %s', (_what, ...names) => {
    expect(new Set(names.map(foldObjectName)).size).toBe(1);
  });

  test('are of whatever letter and its other cases, forms and widths, and fold to themselves', () => {
    const split: string[] = [];
    for (let code = 1; code <= 0x1ffff; code += isDense(code) ? 1 : sizes.letterStride) {
      if (code >= 0xd800 && code <= 0xdfff) continue;
      const name = `a${String.fromCodePoint(code)}b`;
      const folded = foldObjectName(name);
      const others = [
        ...[folded, name.toUpperCase(), name.toLowerCase(), name.toLowerCase().toUpperCase()],
        ...['NFC', 'NFD', 'NFKC', 'NFKD'].map((form) => name.normalize(form)),
        name.toUpperCase().normalize('NFKD'),
      ];
      if (others.some((other) => foldObjectName(other) !== folded)) split.push(code.toString(16));
    }
    expect(split).toEqual([]);
  });

  test('fold to themselves once folded, whatever stands beside what', () => {
    const letter = fc.oneof(
      fc.constantFrom(...'\u0345\u0301\u0316\u0130ıßẞΣςſKﬃか\u3099ｶﾞわᾳΐ\u00ad\u3000¨ŉＳ각ﾡ㈀'),
      fc.string({ unit: codePoint, minLength: 1, maxLength: 1 }),
    );
    const name = fc.array(letter, { maxLength: 6 }).map((letters) => letters.join(''));
    fc.assert(
      fc.property(name, (one) => {
        const folded = foldObjectName(one);
        expect(foldObjectName(folded)).toBe(folded);
        for (const form of ['NFC', 'NFD', 'NFKC', 'NFKD']) {
          expect(foldObjectName(one.normalize(form))).toBe(folded);
        }
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('fold alike whether letters beside them are ASCII or not', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary-ascii' }), (name) => {
        expect(foldObjectName(`${name}.\u4e00`)).toBe(`${foldObjectName(`${name}.`)}\u4e00`);
      }),
    );
  });

  test.each([
    ['Sales', 'Sale'],
    ['Sales 1', 'Sales1'],
    ['e', 'é'],
    ['か', 'が'],
    ['1', '一'],
  ])('are not %s and %s', (one, other) => {
    expect(foldObjectName(one)).not.toBe(foldObjectName(other));
  });
});
