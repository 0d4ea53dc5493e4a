import { discover } from './envelope.ts';
import type { DiscoverOptions, PropertyList, RestrictionList } from './envelope.ts';
import { named, properties } from './request.ts';
import type { Catalog } from './engine-files.ts';
import type { CacheableRequest } from './request.ts';

interface Expectation {
  readonly holds?: readonly string[];
  readonly atLeastBytes?: number;
}

function ask(
  name: string,
  requestType: string,
  catalog: Catalog | undefined,
  options: DiscoverOptions,
  { holds = ['<row>'], atLeastBytes = 0 }: Expectation = {},
): CacheableRequest {
  return named(name, discover(requestType, options), { catalog, holds, atLeastBytes });
}

/** About the server: no catalog is named. */
function aboutServer(
  name: string,
  requestType: string,
  restrictions: RestrictionList = [],
  more: PropertyList = [],
  expectation: Expectation = {},
): CacheableRequest {
  return ask(name, requestType, undefined, { restrictions, properties: more }, expectation);
}

const SCHEMA_AND_DATA: PropertyList = [
  ['Format', 'Tabular'],
  ['Content', 'SchemaData'],
];

/** Asks about Bazaar the way olap4j does: the catalog as a property and as the restriction `catalogColumn`. */
const aboutBazaar =
  (catalogColumn: string) =>
  (
    name: string,
    requestType: string,
    restrictions: RestrictionList = [],
    expectation: Expectation = {},
  ): CacheableRequest =>
    ask(
      name,
      requestType,
      'Bazaar',
      {
        restrictions: [[catalogColumn, 'Bazaar'], ...restrictions],
        properties: properties('Bazaar', SCHEMA_AND_DATA),
      },
      expectation,
    );

const about = aboutBazaar('CATALOG_NAME');
const aboutTables = aboutBazaar('TABLE_CATALOG');

const SALES: RestrictionList = [['CUBE_NAME', 'Sales']];
const STOCK: RestrictionList = [['CUBE_NAME', 'Stock']];

/** TREE_OP of MDSCHEMA_MEMBERS, as OLE DB for OLAP numbers it. */
const TREE_OP = {
  children: '1',
  siblings: '2',
  parent: '4',
  self: '8',
  descendants: '16',
  ancestors: '32',
};

/** Every cacheable Discover request type of Mondrian 3.11, with several forms of restrictions and properties. */
export const DISCOVER_REQUESTS: readonly CacheableRequest[] = [
  aboutServer('Data sources', 'DISCOVER_DATASOURCES', [], [], { holds: ['Bazaar'] }),
  aboutServer('Data sources, data only', 'DISCOVER_DATASOURCES', [], [['Content', 'Data']]),
  aboutServer('Schema rowsets', 'DISCOVER_SCHEMA_ROWSETS', [], [], { holds: ['MDSCHEMA_CUBES'] }),
  aboutServer('One schema rowset', 'DISCOVER_SCHEMA_ROWSETS', [['SchemaName', 'MDSCHEMA_CUBES']]),
  aboutServer('Enumerators', 'DISCOVER_ENUMERATORS', [], [], { holds: ['TREE_OP'] }),
  aboutServer('One enumerator', 'DISCOVER_ENUMERATORS', [['EnumName', 'AuthenticationMode']], [], {
    holds: ['Unauthenticated'],
  }),
  aboutServer('One server property', 'DISCOVER_PROPERTIES', [['PropertyName', 'ProviderVersion']]),
  aboutServer('Two server properties', 'DISCOVER_PROPERTIES', [
    ['PropertyName', 'ProviderName'],
    ['PropertyName', 'ProviderVersion'],
  ]),
  // Mondrian reads this spelling as one name, which no property has.
  aboutServer(
    'Server properties as values',
    'DISCOVER_PROPERTIES',
    [['PropertyName', ['ProviderName', 'ProviderVersion']]],
    [],
    { holds: ['</root>'] },
  ),
  aboutServer('The current catalog', 'DISCOVER_PROPERTIES', [['PropertyName', 'Catalog']]),
  aboutServer('Keywords', 'DISCOVER_KEYWORDS'),
  aboutServer('Literals', 'DISCOVER_LITERALS'),
  aboutServer('One literal', 'DISCOVER_LITERALS', [['LiteralName', 'DBLITERAL_QUOTE']]),
  aboutServer('Functions', 'MDSCHEMA_FUNCTIONS', [], [], { holds: ['ParallelPeriod'] }),
  aboutServer('One function', 'MDSCHEMA_FUNCTIONS', [['FUNCTION_NAME', 'TopCount']]),
  aboutServer('Provider types', 'DBSCHEMA_PROVIDER_TYPES'),
  aboutServer('One provider type', 'DBSCHEMA_PROVIDER_TYPES', [['DATA_TYPE', '3']], [], {
    holds: ['</root>'],
  }),

  ask(
    'Catalogs',
    'DBSCHEMA_CATALOGS',
    undefined,
    { properties: [['DataSourceInfo', 'Bazaar']], style: 'soap' },
    { holds: ['>Bazaar<', '>BazaarTest<'] },
  ),
  about('One catalog', 'DBSCHEMA_CATALOGS'),
  about('Schemata', 'DBSCHEMA_SCHEMATA'),
  aboutTables('Tables', 'DBSCHEMA_TABLES'),
  aboutTables('Tables of Sales', 'DBSCHEMA_TABLES', [['TABLE_NAME', 'Sales']]),
  aboutTables('Columns', 'DBSCHEMA_COLUMNS', [], {
    holds: ['Measures:Revenue'],
    atLeastBytes: 8_000,
  }),
  aboutTables('Columns of Stock', 'DBSCHEMA_COLUMNS', [['TABLE_NAME', 'Stock']]),

  about('Cubes', 'MDSCHEMA_CUBES', [], { holds: ['>Sales<', '>Stock<'] }),
  about('One cube', 'MDSCHEMA_CUBES', SALES),
  about('A cube that is not there', 'MDSCHEMA_CUBES', [['CUBE_NAME', 'Nowhere']], {
    holds: ['</root>'],
  }),
  ask(
    'Cubes by property only',
    'MDSCHEMA_CUBES',
    'Bazaar',
    { properties: properties('Bazaar'), style: 's' },
    { holds: ['>Stock<'] },
  ),
  ask(
    'Cubes without an inline schema',
    'MDSCHEMA_CUBES',
    'Bazaar',
    { properties: properties('Bazaar', [['Content', 'Data']]), style: 'default' },
    { holds: ['>Stock<'] },
  ),
  about('Dimensions', 'MDSCHEMA_DIMENSIONS', SALES, { holds: ['[Customer]'] }),
  about('Dimensions of Stock', 'MDSCHEMA_DIMENSIONS', STOCK),
  about('One dimension', 'MDSCHEMA_DIMENSIONS', [
    ...SALES,
    ['DIMENSION_UNIQUE_NAME', '[Geography]'],
  ]),
  about('Hierarchies', 'MDSCHEMA_HIERARCHIES', SALES, { holds: ['[Product.Brand]'] }),
  about('Hierarchies of Product', 'MDSCHEMA_HIERARCHIES', [
    ...SALES,
    ['DIMENSION_UNIQUE_NAME', '[Product]'],
  ]),
  about('Levels', 'MDSCHEMA_LEVELS', SALES, { holds: ['[Time].[Quarter]'] }),
  about('Levels of Time', 'MDSCHEMA_LEVELS', [...SALES, ['HIERARCHY_UNIQUE_NAME', '[Time]']]),
  about('Measures', 'MDSCHEMA_MEASURES', SALES, { holds: ['[Measures].[Margin]'] }),
  about('Measures of Stock', 'MDSCHEMA_MEASURES', STOCK, { holds: ['[Measures].[Expected]'] }),
  about('One measure', 'MDSCHEMA_MEASURES', [...SALES, ['MEASURE_NAME', 'Revenue']]),
  about('Member properties of levels', 'MDSCHEMA_PROPERTIES', [...SALES, ['PROPERTY_TYPE', '1']], {
    holds: ['Population'],
  }),
  about('Member properties of City', 'MDSCHEMA_PROPERTIES', [
    ...SALES,
    ['LEVEL_UNIQUE_NAME', '[Geography].[City]'],
  ]),
  about('Named sets', 'MDSCHEMA_SETS', SALES, { holds: ['Best Products'] }),
  about('Actions', 'MDSCHEMA_ACTIONS', SALES, { holds: ['</root>'] }),

  about(
    'Members of Country',
    'MDSCHEMA_MEMBERS',
    [...SALES, ['LEVEL_UNIQUE_NAME', '[Geography].[Country]']],
    {
      holds: ['Ελλάδα', '中国', 'Österreich'],
    },
  ),
  about(
    'Regions of Greece',
    'MDSCHEMA_MEMBERS',
    [...SALES, ['MEMBER_UNIQUE_NAME', '[Geography].[Ελλάδα]'], ['TREE_OP', TREE_OP.children]],
    { holds: ['Μακεδονία & Θράκη'] },
  ),
  about(
    'A city itself',
    'MDSCHEMA_MEMBERS',
    [
      ...SALES,
      ['MEMBER_UNIQUE_NAME', '[Geography].[United States].[South [Gulf]]].[Houston]'],
      ['TREE_OP', TREE_OP.self],
    ],
    { holds: ['South [Gulf]]]'] },
  ),
  about(
    'A city and its ancestors',
    'MDSCHEMA_MEMBERS',
    [
      ...SALES,
      ['MEMBER_UNIQUE_NAME', '[Geography].[France].[Île-de-France].[Évry]'],
      ['TREE_OP', String(Number(TREE_OP.self) + Number(TREE_OP.ancestors))],
    ],
    { holds: ['Île-de-France', '[Geography].[Everywhere]'] },
  ),
  about(
    'Siblings of a category',
    'MDSCHEMA_MEMBERS',
    [
      ...SALES,
      ['MEMBER_UNIQUE_NAME', '[Product].[Food].[Épicerie]'],
      ['TREE_OP', TREE_OP.siblings],
    ],
    { holds: ['豆制品'] },
  ),
  about(
    'The family of a category',
    'MDSCHEMA_MEMBERS',
    [
      ...SALES,
      ['MEMBER_UNIQUE_NAME', '[Product].[Paper <Print>].[Maps]'],
      ['TREE_OP', TREE_OP.parent],
    ],
    { holds: ['Paper <Print>'] },
  ),
  about(
    'Everything below Drink',
    'MDSCHEMA_MEMBERS',
    [...SALES, ['MEMBER_UNIQUE_NAME', '[Product].[Drink]'], ['TREE_OP', TREE_OP.descendants]],
    { holds: ['Tea 🍵', '龙井'], atLeastBytes: 50_000 },
  ),
  about(
    'Members of Product',
    'MDSCHEMA_MEMBERS',
    [...SALES, ['LEVEL_UNIQUE_NAME', '[Product].[Product]']],
    {
      holds: ['Olives 🫒', 'Comté <aged 18 months>', 'Müller & Söhne'],
      atLeastBytes: 200_000,
    },
  ),
  about('Days', 'MDSCHEMA_MEMBERS', [...STOCK, ['LEVEL_UNIQUE_NAME', '[Time].[Day]']], {
    atLeastBytes: 500_000,
  }),
  about('All members of Sales', 'MDSCHEMA_MEMBERS', SALES, { atLeastBytes: 4_000_000 }),

  ...(
    ['DBSCHEMA_CATALOGS', 'MDSCHEMA_CUBES', 'MDSCHEMA_DIMENSIONS', 'MDSCHEMA_MEASURES'] as const
  ).map((requestType) =>
    ask(`${requestType} of BazaarTest`, requestType, 'BazaarTest', {
      restrictions: [['CATALOG_NAME', 'BazaarTest']],
      properties: properties('BazaarTest', [['Timeout', '300']]),
      style: 'soap',
    }),
  ),
];
