import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { queryParameters } from '../../../../src/http/request-head.ts';
import { sizes } from '../../../support/sizes.ts';
import { codePoint } from '../../../support/code-point.ts';

const read = (search: string) => queryParameters({ url: `/roles${search}` });

describe('a query', () => {
  test.each([
    ['', {}],
    ['?', {}],
    ['?&&', {}],
    ['?a=1&b=', { a: '1', b: '' }],
    ['?a', { a: '' }],
    ['?a=b=c?d', { a: 'b=c?d' }],
    ['?a=1&a=&a=2', { a: ['1', '', '2'] }],
    ['?%61=1&a=2', { a: ['1', '2'] }],
    ['?a=x+y%2Bz%26', { a: 'x y+z&' }],
    ['?a=%25%32%35', { a: '%25' }],
    ['?__proto__=x&constructor=y', JSON.parse('{"__proto__":"x","constructor":"y"}')],
  ])('is read, percent-decoded once (%j)', (search, expected) => {
    expect(read(search)).toEqual(expected);
  });

  test.each([['?a=%'], ['?a=%f'], ['?a=%zz'], ['?%ff=1'], ['?a=%c0%af'], ['?a=%ed%a0%80']])(
    'is refused when it is not UTF-8, and not guessed (%j)',
    (search) => {
      expect(() => read(search)).toThrow(expect.objectContaining({ reason: 'bad-request' }));
    },
  );

  test('gives back whatever was written into it', () => {
    const text = fc.string({ unit: codePoint }).map((text) => text.toWellFormed());
    fc.assert(
      fc.property(fc.dictionary(text, text), fc.boolean(), (values, form) => {
        const pairs = Object.entries(values);
        const written = form
          ? new URLSearchParams(pairs).toString()
          : pairs.map((pair) => pair.map(encodeURIComponent).join('=')).join('&');
        expect(read(`?${written}`)).toEqual(Object.fromEntries(pairs));
      }),
      { numRuns: sizes.propertyRuns },
    );
  });
});
