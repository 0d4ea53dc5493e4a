import { envelope, execute } from './envelope.ts';
import { pivot, query, table } from './query.ts';
import { named } from './request.ts';
import type { CacheableRequest } from './request.ts';

const COUNTRY_BY_YEAR =
  'SELECT [Time].[Year].Members ON COLUMNS, [Geography].[Country].Members ON ROWS FROM [Sales] WHERE ([Measures].[Revenue])';

/** Queries over both cubes. The first ones are those that the demo shows. */
export const EXECUTE_REQUESTS: readonly CacheableRequest[] = [
  pivot('Sales by country and year', COUNTRY_BY_YEAR, { holds: ['Ελλάδα', 'Antarctica'] }),
  pivot(
    'Margin by family and quarter',
    `SELECT CrossJoin({[Measures].[Revenue], [Measures].[Margin]}, [Time].[Quarter].Members) ON COLUMNS,
  NON EMPTY [Product].[Family].Members ON ROWS
FROM [Sales]`,
    { holds: ['Home & Garden'] },
  ),
  pivot(
    'The ten best products',
    'SELECT {[Measures].[Units], [Measures].[Revenue]} ON COLUMNS, [Best Products] ON ROWS FROM [Sales]',
  ),
  pivot(
    'Buyers by segment and month',
    'SELECT NON EMPTY [Time].[Month].Members ON 0, [Customer].[Segment].Members ON 1 FROM [Sales] WHERE [Measures].[Buyers]',
    { holds: ['Hotel & Café', 'Public [sector]'] },
  ),
  pivot(
    'Cities with their population',
    `SELECT {[Measures].[Revenue]} ON COLUMNS,
  NON EMPTY [Geography].[City].Members DIMENSION PROPERTIES [Geography].[City].[Population] ON ROWS
FROM [Sales]`,
    { holds: ['Reykjavík', 'San José', '上海'] },
  ),
  pivot(
    'Growth against the year before',
    `WITH MEMBER [Measures].[Year Before] AS
  '([Measures].[Revenue], ParallelPeriod([Time].[Year], 1, [Time].CurrentMember))'
MEMBER [Measures].[Growth] AS
  'IIf(IsEmpty([Measures].[Year Before]), NULL, [Measures].[Revenue] / [Measures].[Year Before] - 1)',
  FORMAT_STRING = '0.0%'
SELECT {[Measures].[Revenue], [Measures].[Year Before], [Measures].[Growth]} ON COLUMNS,
  [Time].[2025].Children ON ROWS
FROM [Sales]`,
  ),
  pivot(
    'Stock by country and month',
    `SELECT NON EMPTY [Time].[Month].Members ON COLUMNS, NON EMPTY [Geography].[Country].Members ON ROWS
FROM [Stock] WHERE ([Measures].[Expected])`,
    { atLeastBytes: 50_000 },
  ),
  table(
    'Customers and what they bought',
    `SELECT {[Measures].[Units], [Measures].[Revenue], [Measures].[Margin]} ON COLUMNS,
  NON EMPTY [Customer].[Customer].Members ON ROWS
FROM [Sales] WHERE ([Time].[2025])`,
    { holds: ['Smith & Sons'], atLeastBytes: 500_000 },
  ),
  pivot(
    'Every product in every month',
    `SELECT CrossJoin([Time].[Month].Members, {[Measures].[Units], [Measures].[Revenue]}) ON COLUMNS,
  NON EMPTY [Product].[Product].Members ON ROWS
FROM [Sales]`,
    { atLeastBytes: 4_000_000 },
  ),
  table(
    'Customers by product family',
    `SELECT {[Measures].[Units]} ON COLUMNS,
  NON EMPTY CrossJoin([Customer].[Customer].Members, [Product].[Family].Members) ON ROWS
FROM [Sales]`,
    { atLeastBytes: 4_000_000 },
  ),
  pivot(
    'Customers by year',
    `SELECT {[Measures].[Units], [Measures].[Revenue], [Measures].[Cost]} ON COLUMNS,
  NON EMPTY CrossJoin([Customer].[Customer].Members, [Time].[Year].Members) ON ROWS
FROM [Sales]`,
    { atLeastBytes: 10_000_000 },
  ),

  // The same question in other forms: each is another answer.
  table('Sales by country and year, as a table', COUNTRY_BY_YEAR),
  pivot('Sales by country and year, data only', COUNTRY_BY_YEAR, {
    properties: [['Content', 'Data']],
  }),
  pivot('Sales by country and year, schema only', COUNTRY_BY_YEAR, {
    properties: [['Content', 'Schema']],
  }),
  pivot('Sales by country and year, no default slicer', COUNTRY_BY_YEAR, {
    properties: [['Content', 'DataOmitDefaultSlicer']],
  }),
  pivot('Sales by country and year, every slicer', COUNTRY_BY_YEAR, {
    properties: [['Content', 'DataIncludeDefaultSlicer']],
  }),
  query('Sales by country and year, no format named', COUNTRY_BY_YEAR, [], {}),
  pivot('Sales by country and year, a locale', COUNTRY_BY_YEAR, {
    properties: [['LocaleIdentifier', '1032']],
  }),
  pivot('Sales by country and year, a time limit', `${COUNTRY_BY_YEAR} `, {
    properties: [
      ['Timeout', '300'],
      ['Content', 'SchemaData'],
    ],
  }),
  pivot('Sales by country and year, BazaarTest', COUNTRY_BY_YEAR, { catalog: 'BazaarTest' }),
  table('Sales by country and year, as a table of BazaarTest', COUNTRY_BY_YEAR, {
    catalog: 'BazaarTest',
    style: 'soap',
  }),

  // Spellings of envelope and text.
  pivot(
    'In CDATA',
    'SELECT {[Measures].[Units]} ON 0, [Product].[Family].Members ON 1 FROM Sales',
    {
      cdata: true,
      style: 's',
    },
  ),
  pivot(
    'With a comparison, escaped',
    'SELECT {[Measures].[Units]} ON 0, Filter([Geography].[City].Members, [Measures].[Units] > 5000 AND [Measures].[Units] < 90000) ON 1 FROM Sales',
  ),
  pivot(
    'With a comparison, in CDATA',
    'SELECT {[Measures].[Units]} ON 0, Filter([Geography].[City].Members, [Measures].[Units] >= 9000 AND [Measures].[Units] <> 0) ON 1 FROM Sales',
    { cdata: true, style: 'default' },
  ),
  pivot(
    'With a CDATA end inside',
    'SELECT {[Measures].[Units]} ON 0, {[Product].[Food].[Fruit [fresh]]]} ON 1 FROM [Sales]  -- ]]> in a comment',
    { cdata: true, style: 'soap', holds: ['Fruit [fresh]]]'] },
  ),
  pivot(
    'With comments of every kind',
    `-- what it is for
SELECT {[Measures].[Units]} ON COLUMNS, // the number
  /* by brand; DRILL down by hand */ [Product.Brand].[Brand].Members ON ROWS
FROM [Sales] -- the end`,
    { holds: ['工坊', "O'Malley's"] },
  ),
  pivot(
    'In small letters',
    'select {[measures].[units]} on columns, {[time].[2024]} on rows from [sales]',
  ),
  pivot(
    'With tabs and blank lines',
    '\n\tSELECT\n\t{[Measures].[Cost]} ON COLUMNS,\n\n\t{[Time].[2023]} ON ROWS\nFROM [Sales]\n',
  ),
  pivot('No axis at all', 'SELECT FROM [Sales]'),
  pivot('One axis', 'SELECT [Measures].Members ON COLUMNS FROM [Sales]', { style: 'default' }),
  pivot(
    'All measures with the calculated ones',
    'SELECT AddCalculatedMembers([Measures].Members) ON 0 FROM [Sales]',
    {
      holds: ['[Measures].[Margin]'],
    },
  ),

  // Nothing to show.
  pivot(
    'An empty year',
    'SELECT NON EMPTY {[Measures].[Units]} ON 0, NON EMPTY [Geography].[Country].Members ON 1 FROM [Sales] WHERE [Time].[2026]',
  ),
  table(
    'An empty year, as a table',
    'SELECT NON EMPTY {[Measures].[Units]} ON 0, NON EMPTY [Geography].[Country].Members ON 1 FROM [Sales] WHERE [Time].[2026]',
  ),
  pivot(
    'A filter that lets nothing through',
    'SELECT {[Measures].[Units]} ON 0, Filter([Geography].[Country].Members, 1 = 0) ON 1 FROM [Sales]',
  ),
  pivot(
    'Empty cells',
    'SELECT {[Measures].[Units], [Measures].[Margin]} ON 0, {[Geography].[Antarctica]} ON 1 FROM [Sales]',
  ),
  pivot(
    'Products never sold',
    'SELECT {[Measures].[Units]} ON 0, [Product].[Home & Garden].[Discontinued].Children ON 1 FROM [Sales]',
    {
      holds: ['Gas mantle'],
    },
  ),

  // Stock, tables, the other catalog, and sizes in between.
  pivot(
    'Stock by category',
    'SELECT [Measures].Members ON 0, [Product].[Category].Members ON 1 FROM [Stock]',
    { style: 'soap' },
  ),
  table(
    'Stock by city',
    'SELECT {[Measures].[On Hand], [Measures].[On Order]} ON 0, NON EMPTY [Geography].[City].Members ON 1 FROM [Stock]',
  ),
  table(
    'Stock by city, Greece',
    'SELECT {[Measures].[On Hand]} ON 0, NON EMPTY Descendants([Geography].[Ελλάδα], [Geography].[City]) ON 1 FROM [Stock]',
  ),
  pivot(
    'Stock on the first of a month',
    'SELECT {[Measures].[On Hand]} ON 0, NON EMPTY [Product].[Product].Members ON 1 FROM [Stock] WHERE [Time].[2024].[Q2].[Apr].[1]',
    {
      atLeastBytes: 50_000,
    },
  ),
  pivot(
    'Stock, BazaarTest',
    'SELECT [Measures].Members ON 0, [Time].[Year].Members ON 1 FROM [Stock]',
    { catalog: 'BazaarTest' },
  ),
  table(
    'Best products, BazaarTest',
    'SELECT {[Measures].[Revenue]} ON 0, [Best Products] ON 1 FROM [Sales]',
    { catalog: 'BazaarTest' },
  ),
  table(
    'Products with brand',
    'SELECT {[Measures].[Units]} ON 0, NON EMPTY [Product].[Product].Members DIMENSION PROPERTIES [Product].[Product].[Brand], [Product].[Product].[List Price] ON 1 FROM [Sales]',
  ),
  table(
    'Units by day',
    'SELECT {[Measures].[Units], [Measures].[Revenue], [Measures].[Cost]} ON 0, NON EMPTY [Time].[Day].Members ON 1 FROM [Sales]',
    {
      atLeastBytes: 200_000,
    },
  ),
  pivot(
    'Cities by quarter',
    'SELECT NON EMPTY [Time].[Quarter].Members ON 0, NON EMPTY [Geography].[City].Members ON 1 FROM [Sales]',
    {
      atLeastBytes: 50_000,
    },
  ),
  pivot(
    'Categories by month',
    'SELECT NON EMPTY [Time].[Month].Members ON 0, NON EMPTY [Product].[Category].Members ON 1 FROM [Sales]',
    {
      atLeastBytes: 50_000,
    },
  ),
  pivot(
    'Categories by country',
    'SELECT NON EMPTY [Geography].[Country].Members ON 0, NON EMPTY CrossJoin([Product].[Category].Members, [Time].[Year].Members) ON 1 FROM [Sales]',
    {
      atLeastBytes: 100_000,
    },
  ),
  pivot(
    'Days of a month by family',
    'SELECT [Product].[Family].Members ON 0, Descendants([Time].[2024].[Q1].[Feb], [Time].[Day]) ON 1 FROM [Sales]',
  ),
  table(
    'Regions by year',
    'SELECT [Time].[Year].Members ON 0, NON EMPTY [Geography].[Region].Members ON 1 FROM [Sales]',
    { cdata: true },
  ),
  named(
    'A parameter that nobody reads',
    envelope(
      'Execute',
      `<Command><Statement>SELECT {[Measures].[On Order]} ON 0 FROM [Stock]</Statement></Command>
<Properties><PropertyList><DataSourceInfo>Bazaar</DataSourceInfo><Catalog>Bazaar</Catalog></PropertyList></Properties>
<Parameters><Parameter><Name>p</Name><Value>1</Value></Parameter></Parameters>`,
    ),
    { catalog: 'Bazaar', holds: ['</root>'], atLeastBytes: 0 },
  ),
  named(
    'No property at all',
    execute('SELECT {[Measures].[Units]} ON 0, [Time].[Year].Members ON 1 FROM [Sales]'),
    {
      catalog: undefined,
      holds: ['<row>'],
      atLeastBytes: 0,
    },
  ),
];
