import { describe, expect, test } from '@jest/globals';
import { ENGINE_KINDS } from '../../../../../src/common/engine-kinds.ts';
import { classify } from '../../../../../src/xmla/request/classify.ts';
import { IGNORED_PROPERTIES } from '../../../../../src/xmla/request/property-policy.ts';
import type { DiscoverRequest, Restriction } from '../../../../../src/xmla/request/read-request.ts';

const KINDS = Object.values(ENGINE_KINDS);

function asking(requestType: string, restrictions: readonly Restriction[] = []): DiscoverRequest {
  return {
    method: 'Discover',
    requestType,
    restrictions,
    properties: [],
    session: { kind: 'none' },
    sessionIds: [],
    sessionToken: false,
    headers: [],
    forms: [],
    security: false,
    unexpected: undefined,
  };
}

/** The same text in letters of full width. */
function wide(text: string): string {
  return text.replace(/[!-~]/g, (one) => String.fromCharCode(one.charCodeAt(0) + 0xfee0));
}

function names(...values: string[]): readonly Restriction[] {
  return values.map((value) => ({ name: 'PropertyName', form: 'plain', values: [value] }));
}

describe('what tells of metadata may be cached on every engine', () => {
  test.each([
    'DISCOVER_LITERALS',
    'DISCOVER_KEYWORDS',
    'DISCOVER_ENUMERATORS',
    'DISCOVER_SCHEMA_ROWSETS',
    'DISCOVER_DATASOURCES',
    'DBSCHEMA_TABLES',
    'DBSCHEMA_COLUMNS',
    'DBSCHEMA_PROVIDER_TYPES',
    'DBSCHEMA_SCHEMATA',
    'MDSCHEMA_CUBES',
    'MDSCHEMA_DIMENSIONS',
    'MDSCHEMA_HIERARCHIES',
    'MDSCHEMA_LEVELS',
    'MDSCHEMA_MEASURES',
    'MDSCHEMA_MEASUREGROUPS',
    'MDSCHEMA_MEASUREGROUP_DIMENSIONS',
    'MDSCHEMA_MEMBERS',
    'MDSCHEMA_PROPERTIES',
    'MDSCHEMA_SETS',
    'MDSCHEMA_KPIS',
    'MDSCHEMA_ACTIONS',
    'MDSCHEMA_FUNCTIONS',
    'MDSCHEMA_INPUT_DATASOURCES',
  ])('%s', (requestType) => {
    const refused = KINDS.filter((kind) => classify(asking(requestType), kind));
    expect(refused).toEqual([]);
  });
});

describe('what is momentary, unknown or spelt otherwise is passed through', () => {
  test.each([
    'DISCOVER_SESSIONS',
    'DISCOVER_CONNECTIONS',
    'DISCOVER_COMMANDS',
    'DISCOVER_JOBS',
    'DISCOVER_LOCKS',
    'DISCOVER_TRACES',
    'DISCOVER_MEMORYUSAGE',
    'DISCOVER_OBJECT_ACTIVITY',
    'DISCOVER_PERFORMANCE_COUNTERS',
    'DISCOVER_XML_METADATA',
    'TMSCHEMA_MODEL',
    'mdschema_cubes',
    ' MDSCHEMA_CUBES',
    '',
    'constructor',
  ])('%j', (requestType) => {
    const cached = KINDS.filter((kind) => !classify(asking(requestType), kind));
    expect(cached).toEqual([]);
  });
});

test('DBSCHEMA_CATALOGS may be cached except on Kylin', () => {
  const cached = KINDS.filter((kind) => !classify(asking('DBSCHEMA_CATALOGS'), kind));
  expect(cached).toEqual([
    ENGINE_KINDS.generic,
    ENGINE_KINDS.mondrian,
    ENGINE_KINDS.emondrian,
    ENGINE_KINDS.ssas,
  ]);
});

describe('DISCOVER_PROPERTIES', () => {
  const list = (...values: string[]): readonly Restriction[] => [
    { name: 'PropertyName', form: 'value', values },
  ];
  const ALL = KINDS.length;
  const NOT_KYLIN = KINDS.filter((kind) => kind !== ENGINE_KINDS.kylin).length;
  /** How many kinds may cache it: outside of a session, in one, and where it has an ignored property. */
  function cachedBy(restrictions: readonly Restriction[]): readonly number[] {
    const request = asking('DISCOVER_PROPERTIES', restrictions);
    const inSession = { ...request, session: { kind: 'in', id: '1', understand: '' } } as const;
    const withIgnored = { ...request, properties: [{ name: 'Timeout', value: '10' }] };
    return [request, inSession, withIgnored].map(
      (one) => KINDS.filter((kind) => !classify(one, kind)).length,
    );
  }

  test.each<[string, readonly Restriction[]]>([
    ['one name', names('ProviderVersion')],
    ['two names', names('ProviderVersion', 'MdpropMdxSubqueries')],
    ['a name with outer white space', names('\n  ProviderVersion\t')],
    ['a list', list('ProviderVersion', 'MdpropMdxSubqueries')],
    ['a name and a list', [...names('ProviderVersion'), ...list('A', 'B')]],
  ])('may be cached: %s', (_, restrictions) => {
    expect(cachedBy(restrictions)).toEqual([ALL, ALL, ALL]);
  });

  test.each<[string, readonly Restriction[]]>([
    ['alone', names('Catalog')],
    ['among others', names('ProviderVersion', 'catalog')],
    ['with white space', names(' Catalog\n')],
    ['in a list', list('A', 'CATALOG')],
    ['in the parts of a list', list('Cata', 'log')],
  ])('may be cached but for Kylin, which reads anew: Catalog %s', (_, restrictions) => {
    expect(cachedBy(restrictions)).toEqual([NOT_KYLIN, NOT_KYLIN, NOT_KYLIN]);
  });

  test.each<[string, readonly Restriction[]]>([
    ['in the parts of a list', list('Time', 'out')],
    ...[...IGNORED_PROPERTIES].flatMap((name): [string, readonly Restriction[]][] => [
      [`${name} alone`, names(name)],
      [`${name} among others, spelt otherwise`, names('A', ` ${name.toUpperCase()}\n`)],
      [`${name} in a list`, list('ProviderVersion', name)],
    ]),
  ])(
    'may be cached outside of a session where the request has no ignored property: %s',
    (_, restrictions) => {
      expect(cachedBy(restrictions)).toEqual([ALL, 0, 0]);
    },
  );

  test.each<[string, readonly Restriction[]]>([
    ['no restriction', []],
    ['another restriction only', [{ name: 'X', form: 'plain', values: ['ProviderVersion'] }]],
    ['a restriction spelt otherwise', [{ name: 'propertyname', form: 'plain', values: ['A'] }]],
    ['a name beside another restriction', [...names('A'), { ...names('B')[0]!, name: 'Value' }]],
    ['a name that may stand for several', names('%')],
    ['two names in one', names('ProviderVersion,Timeout')],
    ['letters of another width', names('Ｃａｔａｌｏｇ')],
    ['a letter that cannot be seen', names('Time\u00adout')],
    ['an empty name', names('')],
    ['an empty name in a list', list('A', '')],
    ['who asks', names('UserName')],
    ['who asks, spelt otherwise', names(' effectiveusername')],
    ['who asks, in a list', list('ProviderVersion', 'Roles')],
    // An engine that does not know this form reads the text of all values together.
    ['who asks, in the parts of a list', list('User', 'Name')],
    ...[...IGNORED_PROPERTIES].map((name): [string, readonly Restriction[]] => [
      `${name} in letters of another width`,
      names(wide(name)),
    ]),
  ])('is passed through: %s', (_, restrictions) => {
    expect(cachedBy(restrictions)).toEqual([0, 0, 0]);
  });
});
