import { describe, expect, test } from '@jest/globals';
import { namedCatalogs } from '../../../../../src/xmla/request/named-objects.ts';
import type {
  Property,
  Restriction,
  XmlaRequest,
} from '../../../../../src/xmla/request/read-request.ts';

const BASE = {
  session: { kind: 'none' },
  sessionIds: [],
  sessionToken: false,
  headers: [],
  forms: [],
  security: false,
  unexpected: undefined,
} as const;

function execute(properties: readonly Property[], statement = 'SELECT'): XmlaRequest {
  return {
    ...BASE,
    method: 'Execute',
    commands: ['Statement'],
    statement,
    parameters: [],
    properties,
  };
}

function discover(
  requestType: string,
  restrictions: readonly Restriction[],
  properties: readonly Property[] = [],
): XmlaRequest {
  return { ...BASE, method: 'Discover', requestType, restrictions, properties };
}

const plain = (name: string, ...values: string[]): Restriction => ({ name, form: 'plain', values });

describe('the catalogs of an Execute', () => {
  test.each([
    [[{ name: 'Catalog', value: 'A' }], ['A']],
    [
      [
        { name: 'Catalog', value: 'A' },
        { name: 'catalog', value: 'B' },
      ],
      ['A', 'B'],
    ],
  ])('%j: the engine runs it there', (properties, catalogs) => {
    expect(namedCatalogs(execute(properties))).toEqual({
      catalogs,
      spansCatalogs: false,
      qualified: false,
      excess: undefined,
    });
  });

  test.each([
    [[], []],
    [[{ name: 'CATALOG', value: 'A' }], ['A']],
    [[{ name: 'catalog', value: 'A' }], ['A']],
    [[{ name: 'Catalog', value: ' ' }], []],
  ])('%j: the engine may choose another', (properties, catalogs) => {
    expect(namedCatalogs(execute(properties))).toEqual({
      catalogs,
      spansCatalogs: true,
      qualified: false,
      excess: undefined,
    });
  });

  const catalog = [{ name: 'Catalog', value: 'C' }];

  test.each([
    ['SELECT FROM [Other].[Sales]', ['C', 'Other', 'Sales']],
    ['SELECT FROM Other . Sales WHERE [a]', ['C', 'Other', 'Sales']],
    ['SELECT FROM/* */[a]]b]/* . */./* */[Sales]', ['C', 'a]b', 'Sales']],
    ['SELECT FROM [Server].[Other].[Sales]', ['C', 'Server', 'Other', 'Sales']],
    ['SELECT FROM (SELECT [a] ON 0 FROM [Other].[Sales])', ['C', 'Other', 'Sales']],
    [`WITH MEMBER [m] AS 'x("SELECT FROM [Other].[B]")' SELECT FROM [A]`, ['C', 'Other', 'B', 'A']],
    ['SELECT FROM [Other].&[Sales]', ['C', 'Other']],
    ['SELECT FROM [Other].', ['C', 'Other']],
    ['SELECT FROM "Other".[Sales]', ['C']],
    ['SELECT FROM Sales\u200b.[x]', ['C']],
    ['SELECT \u200bFROM [Other].[Sales]', ['C']],
  ])('%j: the statement itself may name another', (statement, catalogs) => {
    expect(namedCatalogs(execute(catalog, statement))).toEqual({
      catalogs,
      spansCatalogs: true,
      qualified: true,
      excess: undefined,
    });
  });

  test.each([
    'SELECT FROM [Sales]',
    'SELECT [a].[b] ON 0 FROM Sales WHERE [c].[d]',
    'SELECT FROM [Other.Sales]',
    'SELECT [From].[x] ON 0 FROM [Sales]',
    '-- FROM [Other].[Sales]\nSELECT FROM [Sales]',
    'SELECT FROM Sales-2',
    'SELECT FROM (SELECT [a].[b] ON 0 FROM [Sales])',
  ])('%j: the statement names none', (statement) => {
    expect(namedCatalogs(execute(catalog, statement))).toEqual({
      catalogs: ['C'],
      spansCatalogs: false,
      qualified: false,
      excess: undefined,
    });
  });
});

describe('the catalogs of a Discover', () => {
  test('are those of the property and of the restrictions, each once', () => {
    const request = discover(
      'MDSCHEMA_CUBES',
      [plain('CATALOG_NAME', 'A'), plain('CATALOG_NAME', 'B')],
      [{ name: 'Catalog', value: 'A' }],
    );
    expect(namedCatalogs(request)).toEqual({
      catalogs: ['A', 'B'],
      spansCatalogs: false,
      qualified: false,
      excess: undefined,
    });
  });

  test.each([
    [plain('TABLE_CATALOG', 'A')],
    [plain('catalog_name', 'A')],
    [plain('CONSTRAINT_CATALOG', 'A')],
    [{ name: 'CATALOG_NAME', form: 'value', values: ['A'] } as const],
  ])('are found in any restriction that looks like one: %j', (restriction) => {
    expect(namedCatalogs(discover('MDSCHEMA_CUBES', [restriction])).catalogs).toEqual(['A']);
  });
});

describe('a Discover spans catalogs', () => {
  test.each<[string, XmlaRequest]>([
    ['without restrictions', discover('MDSCHEMA_CUBES', [])],
    ['with a property only', discover('MDSCHEMA_CUBES', [], [{ name: 'Catalog', value: 'A' }])],
    ['with an empty restriction', discover('MDSCHEMA_CUBES', [plain('CATALOG_NAME', '')])],
    [
      'with an empty restriction among others',
      discover('MDSCHEMA_CUBES', [plain('CATALOG_NAME', 'A'), plain('CATALOG_NAME', '')]),
    ],
    [
      'with a restriction spelt otherwise',
      discover('MDSCHEMA_CUBES', [plain('catalog_name', 'A')]),
    ],
    ['with the restriction of others', discover('MDSCHEMA_CUBES', [plain('TABLE_CATALOG', 'A')])],
    [
      'when the rowset knows no catalog',
      discover('MDSCHEMA_FUNCTIONS', [plain('CATALOG_NAME', 'A')]),
    ],
    [
      'in a form that not every engine knows',
      discover('MDSCHEMA_CUBES', [{ name: 'CATALOG_NAME', form: 'value', values: ['A'] }]),
    ],
  ])('%s', (_, request) => {
    expect(namedCatalogs(request).spansCatalogs).toBe(true);
  });

  test.each([
    discover('MDSCHEMA_MEMBERS', [plain('CATALOG_NAME', 'A'), plain('CUBE_NAME', 'x')]),
    discover('DBSCHEMA_TABLES', [plain('TABLE_CATALOG', 'A')]),
  ])('unless it is narrowed to one: %#', (request) => {
    expect(namedCatalogs(request).spansCatalogs).toBe(false);
  });
});

test.each(['DISCOVER_LITERALS', 'DISCOVER_KEYWORDS', 'DBSCHEMA_PROVIDER_TYPES'])(
  'a rowset about the engine itself holds nothing of any catalog: %s',
  (requestType) => {
    expect(namedCatalogs(discover(requestType, []))).toEqual({
      catalogs: [],
      spansCatalogs: false,
      qualified: false,
      excess: undefined,
    });
  },
);

test('catalogs with names that are too long are left out, and that is told', () => {
  const [most, long] = ['a'.repeat(255), 'a'.repeat(256)];
  const catalog = (value: string): Property => ({ name: 'Catalog', value });
  const named = (request: XmlaRequest) => {
    const { catalogs, excess } = namedCatalogs(request);
    return [catalogs, excess];
  };
  const cubes = (...values: string[]) =>
    discover('MDSCHEMA_CUBES', [plain('CATALOG_NAME', ...values)]);
  expect(named(execute([catalog(most)]))).toEqual([[most], undefined]);
  expect(named(execute([catalog(long)]))).toEqual([[], 'long-name']);
  expect(named(execute([catalog('A')], `SELECT FROM [${long}].[B]`))).toEqual([
    ['A', 'B'],
    'long-name',
  ]);
  expect(named(cubes('A', 'B'))).toEqual([['A', 'B'], undefined]);
  expect(named(cubes('A', long))).toEqual([['A'], 'long-name']);
});

test('of more catalogs than any client names none is folded or kept', () => {
  const many = (count: number) =>
    namedCatalogs(
      discover('MDSCHEMA_CUBES', [
        plain('CATALOG_NAME', ...Array.from({ length: count }, (_, at) => `c${at}`)),
      ]),
    );
  expect([many(16).catalogs.length, many(16).excess]).toEqual([16, undefined]);
  expect([many(17).catalogs, many(17).excess]).toEqual([[], 'many-catalogs']);
});
