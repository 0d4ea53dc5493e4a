import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { createTransientMap } from '../../src/transient-map.ts';
import { sizes } from '../support/sizes.ts';

const keys = fc.integer({ min: 0, max: 60 });
const step = fc.record({ key: keys, value: fc.option(fc.integer(), { nil: undefined }) });

describe('a map whose entries come and go', () => {
  test('holds at any time what a Map would, in the same order', () => {
    fc.assert(
      fc.property(fc.array(step, { size: 'xlarge' }), (steps) => {
        const usual = new Map<number, number>();
        const transient = createTransientMap<number, number>();
        const differing = steps.filter(({ key, value }) => {
          let same = true;
          if (value === undefined) same = transient.delete(key) === usual.delete(key);
          else {
            usual.set(key, value);
            transient.set(key, value);
          }
          return !same || transient.get(key) !== usual.get(key) || transient.size() !== usual.size;
        });
        expect(differing).toEqual([]);
        expect([...transient.keys()]).toEqual([...usual.keys()]);
        expect([...transient.keys()].map(transient.get)).toEqual([...usual.values()]);
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('keeps what is there while thousands of others come and go', () => {
    const map = createTransientMap<string, number>();
    map.set('stays', 1);
    const lost: number[] = [];
    for (let i = 0; i < 5_000; i += 1) {
      map.set(`${i}`, i);
      if (i >= 40 && !map.delete(`${i - 40}`)) lost.push(i - 40);
    }
    expect(lost).toEqual([]);
    expect(map.get('stays')).toBe(1);
    expect(map.size()).toBe(41);
    expect([...map.keys()][0]).toBe('stays');
  });
});
