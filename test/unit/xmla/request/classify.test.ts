import { describe, expect, test } from '@jest/globals';
import { ENGINE_KINDS } from '../../../../src/common/engine-kinds.ts';
import { classify, leavesState } from '../../../../src/xmla/request/classify.ts';
import type { DiscoverRequest, ExecuteRequest } from '../../../../src/xmla/request/read-request.ts';

const PLAIN = {
  session: { kind: 'none' },
  sessionIds: [],
  sessionToken: false,
  headers: [],
  forms: [],
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
  expect(classify(EXECUTE, ENGINE_KINDS.generic)).toBeUndefined();
  expect(classify(DISCOVER, ENGINE_KINDS.generic)).toBeUndefined();
});

describe('each reason is given', () => {
  test.each([
    ['security', { security: true }],
    ['unknown-shape', { unexpected: 'a comment' }],
    ['identity-property', named('EffectiveUserName', 'x')],
    ['identity-property', named('roles', '')],
    ['duplicate-property', { properties: [...PLAIN.properties, ...PLAIN.properties] }],
    ['real-time', named('RealTimeOlap', 'true')],
    // The first of the list is the reason when there are several.
    ['security', { security: true, unexpected: 'x', ...named('Roles', 'x') }],
    ['unknown-shape', { unexpected: 'x', ...named('Roles', 'x') }],
  ])('%s %#', (reason, change) => {
    expect(classify({ ...EXECUTE, ...change }, ENGINE_KINDS.generic)).toBe(reason);
    expect(classify({ ...DISCOVER, ...change }, ENGINE_KINDS.generic)).toBe(reason);
  });
});

test.each([
  [[]],
  [['Statement', 'Statement']],
  [['ClearCache']],
  [['Statement', 'Batch']],
  [['statement']],
])('the command must be one Statement: %j', (commands) => {
  expect(classify({ ...EXECUTE, commands }, ENGINE_KINDS.generic)).toBe('not-a-query');
});

test('the statement has its say', () => {
  expect(classify({ ...EXECUTE, statement: 'DRILLTHROUGH x' }, ENGINE_KINDS.generic)).toBe(
    'drillthrough',
  );
});

test('the kind of engine has its say', () => {
  const catalogs = { ...DISCOVER, requestType: 'DBSCHEMA_CATALOGS' };
  expect(classify(catalogs, ENGINE_KINDS.kylin)).toBe('discover-type');
  expect(classify(catalogs, ENGINE_KINDS.mondrian)).toBeUndefined();
});

test('a session is no matter of the request alone', () => {
  const session = { kind: 'in', id: '1', understand: '' } as const;
  expect(
    classify({ ...EXECUTE, session, sessionIds: ['1'] }, ENGINE_KINDS.generic),
  ).toBeUndefined();
});

describe('what a session is left with', () => {
  test.each([
    ['a query', {}],
    ['an empty statement', { statement: '' }],
    ['an empty statement with white space', { statement: ' \r\n\t' }],
    ['a query that asks for fresh data', named('RealTimeOlap', 'true')],
  ])('%s leaves nothing', (_name, change) => {
    expect(leavesState({ ...EXECUTE, ...change })).toBe(false);
  });

  test.each([
    ['a member', { statement: 'CREATE SESSION MEMBER [Sales].[Measures].[x] AS 1' }],
    ['a cube', { statement: 'CREATE SESSION CUBE [Sales_XL_GROUPING1] FROM [Sales] (…)' }],
    ['a bare assignment', { statement: '[Measures].AllMembers = null;' }],
    ['a second statement', { statement: 'SELECT [a] ON 0 FROM [b]; DROP MEMBER [a].[c]' }],
    ['a transaction', { statement: 'BEGIN TRAN' }],
    ['a change behind a drillthrough', { statement: 'DROP CUBE [a]; DRILLTHROUGH SELECT' }],
    ['a change and a wish', { statement: 'CREATE SET x', ...named('RealTimeOlap', 'true') }],
    ['two commands', { commands: ['Statement', 'Statement'], statement: '' }],
    ['another command', { commands: ['Batch'] }],
    ['other rights', named('EffectiveUserName', 'x')],
    ['a login of its own', { security: true }],
    ['a token', { sessionToken: true }],
    ['what nobody understood', { unexpected: 'a second Statement' }],
  ])('%s makes it another one', (_name, change) => {
    expect(leavesState({ ...EXECUTE, ...change })).toBe(true);
  });

  test('a Discover leaves nothing, whatever it asks for', () => {
    expect(leavesState({ ...DISCOVER, requestType: 'DISCOVER_SESSIONS' })).toBe(false);
  });
});
