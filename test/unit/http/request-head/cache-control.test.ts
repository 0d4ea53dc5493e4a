import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { clientControl } from '../../../../src/http/request-head.ts';
import { sizes } from '../../../support/sizes.ts';

const read = (field: string) => clientControl({ 'cache-control': field }, true);

describe('the header Cache-Control of a client', () => {
  test.each([
    ['no-cache', 'no-cache'],
    ['No-Cache', 'no-cache'],
    [' \tno-cache ', 'no-cache'],
    ['max-age=0', 'no-cache'],
    ['Max-Age=000', 'no-cache'],
    ['max-age="0"', 'no-cache'],
    ['max-age=5, max-age=0', 'no-cache'],
    [',, no-cache,', 'no-cache'],
    ['x="a, b", no-cache', 'no-cache'],
    ['x="a\\", no-store", no-cache', 'no-cache'],
    ['no-store', 'no-store'],
    ['NO-STORE', 'no-store'],
    ['no-cache, no-store', 'no-store'],
    ['no-store,no-cache', 'no-store'],
    ['max-age=0, no-store, no-transform', 'no-store'],
  ] as const)('%j asks for %s', (field, asked) => {
    expect(read(field)).toBe(asked);
  });

  test.each([
    '',
    ',',
    'max-age=1',
    'max-age=01',
    'max-age=00x',
    'max-age=-0',
    'max-age=0.0',
    'max-age',
    'max-age=',
    'max-age = 0',
    'min-fresh=0',
    'only-if-cached',
    'no-transform',
    'no-cache=x',
    'no-cache="x"',
    'no-store=""',
    'no-store=1',
    'no-cache no-store',
    'no-cache;no-store',
    'nocache',
    'x-no-cache',
    '"no-cache"',
    'x="no-cache, no-store"',
    'x="a\\", no-store"',
    'no-cache"',
    'no-\u00adcache',
    'x="no-store',
    'x="no-store\\',
  ])('%j asks for nothing', (field) => {
    expect(read(field)).toBe('none');
  });

  test('that is cut off inside of quotes is ignored from there on', () => {
    expect(read('no-cache, x="no-store')).toBe('no-cache');
  });

  test('counts only where the configuration allows it', () => {
    for (const field of ['no-cache', 'no-store', 'max-age=0']) {
      expect(clientControl({ 'cache-control': field }, false)).toBe('none');
    }
  });

  test('may be missing; Pragma does not stand for it', () => {
    expect(clientControl({}, true)).toBe('none');
    expect(clientControl({ pragma: 'no-cache' }, true)).toBe('none');
  });

  test('is read alike whatever well-formed directives stand around', () => {
    const other = fc
      .tuple(
        fc.stringMatching(/^x-[a-z]{1,5}$/),
        fc.constantFrom('', '=1', '="no-store"', '=","', '="\\""'),
      )
      .map(([name, argument]) => name + argument);
    fc.assert(
      fc.property(
        fc.array(other, { maxLength: 4 }),
        fc.array(other, { maxLength: 4 }),
        fc.constantFrom('no-cache', 'no-store'),
        (before, after, asked) => {
          expect(read([...before, asked, ...after].join(', '))).toBe(asked);
          expect(read([...before, ...after].join(', '))).toBe('none');
        },
      ),
      { numRuns: sizes.propertyRuns },
    );
  });
});
