import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import {
  classifyProperties,
  keyedProperties,
} from '../../../../src/xmla/request/property-policy.ts';
import { sizes } from '../../../support/sizes.ts';

const one = (name: string, value = '1') => [{ name, value }];

describe('properties that keep a request from the cache', () => {
  test.each([
    'EffectiveUserName',
    'Roles',
    'EffectiveRoles',
    'CustomData',
    'UserName',
    'Password',
    'effectiveusername',
    'ROLES',
    'uſername',
  ])('%s speaks of an identity', (name) => {
    expect(classifyProperties(one(name))).toBe('identity-property');
    expect(classifyProperties(one(name, ''))).toBe('identity-property');
  });

  test.each(['true', 'True', ' TRUE\n', '1', 'yes'])(
    'RealTimeOlap %j asks for a fresh answer',
    (value) => {
      expect(classifyProperties(one('RealTimeOlap', value))).toBe('real-time');
      expect(classifyProperties(one('realtimeolap', value))).toBe('real-time');
    },
  );

  test.each(['Catalog', 'CATALOG', 'catalog'])('Catalog and %s are the same name twice', (name) => {
    expect(classifyProperties([...one('Catalog'), ...one(name)])).toBe('duplicate-property');
  });

  test('an ignored property named twice is a duplicate too', () => {
    expect(classifyProperties([...one('Timeout'), ...one('Timeout')])).toBe('duplicate-property');
  });
});

test.each([
  [[]],
  [one('RealTimeOlap', 'false')],
  [one('RealTimeOlap', '')],
  [[...one('Catalog'), ...one('Catalogue')]],
  [one('RolesOfCube')],
])('others do not: %j', (properties) => {
  expect(classifyProperties(properties)).toBeUndefined();
});

describe('the properties of the key', () => {
  test.each([
    'DbpropMsmdActivityID',
    'DbpropMsmdRequestID',
    'DbpropMsmdCurrentActivityID',
    'ClientProcessID',
    'SspropInitWsid',
    'SspropInitPacketsize',
    'RequestPriority',
    'DbpropMsmdRequestMemoryLimit',
    'MemoryLockingMode',
    'ApplicationContext',
    'Timeout',
    'CommitTimeout',
    'ForceCommitTimeout',
  ])('hold the name of %s in that spelling, and not its value', (name) => {
    expect(keyedProperties(one(name, '2'))).toEqual(keyedProperties(one(name, '3')));
    expect(keyedProperties(one(name))).toEqual([[name, null]]);
    const other = name.toUpperCase();
    expect(keyedProperties(one(other))).toEqual([[other, '1']]);
  });

  test('are all others with their values, unknown ones too', () => {
    const properties = [...one('Catalog'), ...one('Whatever'), ...one('constructor')];
    expect(keyedProperties(properties)).toEqual(properties.map(({ name }) => [name, '1']));
  });

  test('do not depend on the order of different names', () => {
    const names = fc.uniqueArray(fc.constantFrom('a', 'B', 'é', 'Catalog', 'Timeout', 'aa', 'Z'));
    fc.assert(
      fc.property(names, (list) => {
        const properties = list.flatMap((name) => one(name));
        expect(keyedProperties(properties.toReversed())).toEqual(keyedProperties(properties));
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('are found without touching the list that came', () => {
    const properties = Object.freeze([...one('b'), ...one('a')]);
    expect(keyedProperties(properties)).toEqual([
      ['a', '1'],
      ['b', '1'],
    ]);
  });
});
