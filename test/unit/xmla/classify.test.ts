import { describe, expect, test } from '@jest/globals';
import { classify } from '../../../src/xmla/classify.ts';
import type { DiscoverRequest, ExecuteRequest } from '../../../src/xmla/xmla-request.ts';

const PLAIN = {
  session: { kind: 'none' },
  security: false,
  properties: [{ name: 'Catalog', value: 'FoodMart' }],
  unexpected: undefined,
} as const;

const EXECUTE: ExecuteRequest = {
  ...PLAIN,
  method: 'Execute',
  commands: ['Statement'],
  statement: 'SELECT [a] ON 0 FROM [Sales]',
  parameters: [],
};

const DISCOVER: DiscoverRequest = {
  ...PLAIN,
  method: 'Discover',
  requestType: 'MDSCHEMA_CUBES',
  restrictions: [],
};

function named(name: string, value: string) {
  return { properties: [{ name, value }] };
}

test('a plain query and a plain Discover may be cached', () => {
  expect(classify(EXECUTE, 'generic')).toBeUndefined();
  expect(classify(DISCOVER, 'generic')).toBeUndefined();
});

describe('each reason is given', () => {
  const session = { kind: 'in', id: '1' } as const;
  test.each([
    ['session', { session: { kind: 'begin' } as const }],
    ['session', { session }],
    ['session', { session: { kind: 'end', id: '1' } as const }],
    ['security', { security: true }],
    ['unknown-shape', { unexpected: 'a comment' }],
    ['identity-property', named('EffectiveUserName', 'x')],
    ['identity-property', named('roles', '')],
    ['duplicate-property', { properties: [...PLAIN.properties, ...PLAIN.properties] }],
    ['real-time', named('RealTimeOlap', 'true')],
    // The first of the list is the reason when there are several.
    ['session', { session, security: true, unexpected: 'x', ...named('Roles', 'x') }],
    ['unknown-shape', { unexpected: 'x', ...named('Roles', 'x') }],
  ])('%s %#', (reason, change) => {
    expect(classify({ ...EXECUTE, ...change }, 'generic')).toBe(reason);
    expect(classify({ ...DISCOVER, ...change }, 'generic')).toBe(reason);
  });
});

test.each([
  [[]],
  [['Statement', 'Statement']],
  [['ClearCache']],
  [['Statement', 'Batch']],
  [['statement']],
])('the command must be one Statement: %j', (commands) => {
  expect(classify({ ...EXECUTE, commands }, 'generic')).toBe('not-a-query');
});

test('the statement has its say', () => {
  expect(classify({ ...EXECUTE, statement: 'DRILLTHROUGH x' }, 'generic')).toBe('drillthrough');
});

test('the kind of engine has its say', () => {
  const catalogs = { ...DISCOVER, requestType: 'DBSCHEMA_CATALOGS' };
  expect(classify(catalogs, 'kylin')).toBe('discover-type');
  expect(classify(catalogs, 'mondrian')).toBeUndefined();
});
