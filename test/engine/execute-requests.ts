import { envelope, execute } from './envelope.ts';
import type { ExecuteOptions, PropertyList } from './envelope.ts';
import { MULTIDIMENSIONAL, TABULAR, named, properties } from './request.ts';
import type { CacheableRequest, Catalog } from './request.ts';

interface QueryOptions extends Omit<ExecuteOptions, 'header'> {
  readonly catalog?: Catalog;
  readonly holds?: readonly string[];
  readonly atLeastBytes?: number;
}

function query(
  name: string,
  statement: string,
  format: PropertyList,
  { catalog = 'Bazaar', holds = [], atLeastBytes = 0, ...options }: QueryOptions,
): CacheableRequest {
  const all = properties(catalog, [...format, ...(options.properties ?? [])]);
  const message = execute(statement, { ...options, properties: all });
  return named(name, message, { catalog, holds, atLeastBytes });
}

const pivot = (name: string, statement: string, options: QueryOptions = {}): CacheableRequest =>
  query(name, statement, MULTIDIMENSIONAL, options);

const table = (name: string, statement: string, options: QueryOptions = {}): CacheableRequest =>
  query(name, statement, TABULAR, options);

const COUNTRY_BY_YEAR =
  'SELECT [Time].[Year].Members ON COLUMNS, [Geography].[Country].Members ON ROWS FROM [Sales] WHERE ([Measures].[Revenue])';

/** Queries over both cubes. The first ones are those that the demo shows. */
export const EXECUTE_REQUESTS: readonly CacheableRequest[] = [
  pivot('Sales by country and year', COUNTRY_BY_YEAR, { holds: ['Ελλάδα', 'Antarctica'] }),
  pivot(
    'Margin by product family and quarter',
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

  // Names that hurt.
  pivot(
    'Greek names',
    'SELECT {[Measures].[Revenue]} ON 0, [Geography].[Ελλάδα].Children ON 1 FROM Sales',
    {
      holds: ['Κρήτη', 'Μακεδονία & Θράκη'],
    },
  ),
  pivot(
    'Chinese names',
    'SELECT {[Measures].[Revenue]} ON 0, Descendants([Geography].[中国], [Geography].[City]) ON 1 FROM Sales',
    {
      holds: ['重庆'],
      style: 's',
    },
  ),
  pivot(
    'Dotted and dotless i',
    'SELECT {[Measures].[Revenue]} ON 0, {[Geography].[Türkiye].[Ege].[İzmir], [Geography].[Türkiye].[Marmara].[Kırklareli]} ON 1 FROM Sales',
    {
      holds: ['İzmir', 'Kırklareli'],
    },
  ),
  pivot(
    'An emoji',
    'SELECT {[Measures].[Units]} ON 0, [Product].[Drink].[Tea 🍵].Children ON 1 FROM Sales',
    {
      holds: ['Tea 🍵'],
    },
  ),
  pivot(
    'An ampersand',
    'SELECT {[Measures].[Units]} ON 0, [Product].[Home & Garden].Children ON 1 FROM Sales',
    {
      holds: ['[Product].[Home & Garden].[Tools]'],
    },
  ),
  pivot(
    'Angle brackets',
    'SELECT {[Measures].[Units]} ON 0, [Product].[Paper <Print>].Children ON 1 FROM Sales',
    {
      holds: ['Paper <Print>'],
      cdata: true,
    },
  ),
  pivot(
    'Square brackets',
    'SELECT {[Measures].[Units]} ON 0, [Geography].[United States].[South [Gulf]]].Children ON 1 FROM Sales',
    {
      holds: ['South [Gulf]]]'],
    },
  ),
  pivot(
    'Quotes',
    `SELECT {[Measures].[Units]} ON 0, {[Product].[Home & Garden].[Tools].[O'Malley's Saw 12"]} ON 1 FROM Sales`,
    {
      holds: ["O'Malley's Saw 12"],
    },
  ),
  pivot(
    'A string with quotes',
    `WITH MEMBER [Measures].[Says] AS "'it''s' & <that>" SELECT {[Measures].[Says]} ON 0 FROM Sales`,
  ),
  pivot(
    'A semicolon in a string',
    `WITH MEMBER [Measures].[Says] AS '"a; b"' SELECT {[Measures].[Says]} ON 0 FROM Sales`,
    {
      holds: ['a; b'],
    },
  ),

  // What MDX can say.
  pivot(
    'With a set',
    `WITH SET [Europe] AS '{[Geography].[Ελλάδα], [Geography].[France], [Geography].[Österreich]}'
SELECT [Measures].[Revenue] ON 0, [Europe] ON 1 FROM [Sales]`,
  ),
  pivot(
    'With a set and its total',
    `WITH SET [Europe] AS {[Geography].[Ελλάδα], [Geography].[France]}
MEMBER [Geography].[Both] AS Aggregate([Europe])
SELECT {[Measures].[Units], [Measures].[Revenue]} ON 0, {[Europe], [Geography].[Both]} ON 1 FROM [Sales]`,
  ),
  pivot(
    'Year to date',
    `WITH MEMBER [Measures].[To Date] AS Sum(YTD([Time].CurrentMember), [Measures].[Revenue])
SELECT {[Measures].[Revenue], [Measures].[To Date]} ON 0, Descendants([Time].[2024], [Time].[Month]) ON 1 FROM [Sales]`,
  ),
  pivot(
    'A moving average',
    `WITH MEMBER [Measures].[Smooth] AS Avg(LastPeriods(3, [Time].CurrentMember), [Measures].[Units]), FORMAT_STRING = '#,##0.00'
SELECT {[Measures].[Units], [Measures].[Smooth]} ON 0, Descendants([Time].[2025], [Time].[Month]) ON 1 FROM [Sales]`,
  ),
  pivot(
    'A rank',
    `WITH SET [Sorted] AS Order([Geography].[Country].Members, [Measures].[Revenue], BDESC)
MEMBER [Measures].[Rank] AS Rank([Geography].CurrentMember, [Sorted])
SELECT {[Measures].[Revenue], [Measures].[Rank]} ON 0, [Sorted] ON 1 FROM [Sales]`,
  ),
  pivot(
    'A share of the parent',
    `WITH MEMBER [Measures].[Share] AS [Measures].[Revenue] / ([Measures].[Revenue], [Geography].CurrentMember.Parent), FORMAT_STRING = 'Percent'
SELECT {[Measures].[Share]} ON 0, [Geography].[France].Children ON 1 FROM [Sales]`,
  ),
  pivot(
    'A case',
    `WITH MEMBER [Measures].[Size] AS CASE WHEN [Measures].[Units] > 100000 THEN 'large' WHEN [Measures].[Units] > 10000 THEN 'middle' ELSE 'small' END
SELECT {[Measures].[Size]} ON 0, [Geography].[Country].Members ON 1 FROM [Sales]`,
    { holds: ['small'] },
  ),
  pivot(
    'Member properties in a formula',
    `WITH MEMBER [Measures].[Made By] AS [Product].CurrentMember.Properties("Brand")
SELECT {[Measures].[Units], [Measures].[Made By]} ON 0, Head([Product].[Product].Members, 25) ON 1 FROM [Sales]`,
    {
      holds: ['Müller & Söhne'],
    },
  ),
  pivot(
    'Brackets that look like a clock',
    `WITH MEMBER [Measures].[Now] AS [Measures].[Units] SELECT {[Measures].[Now]} ON 0, [Time].[Year].Members ON 1 FROM [Sales]`,
  ),
  pivot(
    'Top three cities of each country',
    `SELECT {[Measures].[Revenue]} ON 0,
  Generate([Geography].[Country].Members, TopCount(Descendants([Geography].CurrentMember, [Geography].[City]), 3, [Measures].[Revenue])) ON 1
FROM [Sales]`,
  ),
  pivot(
    'Drilled down',
    `SELECT {[Measures].[Units]} ON 0, NON EMPTY Hierarchize(DrilldownMember({[Product].[All Products], [Product].[Food], [Product].[Drink]}, {[Product].[Food]})) ON 1 FROM [Sales]`,
  ),
  pivot(
    'All but one',
    `SELECT {[Measures].[Units]} ON 0, Except([Geography].[Country].Members, {[Geography].[中国]}) ON 1 FROM [Sales]`,
  ),
  pivot(
    'Two hierarchies of one dimension',
    `SELECT [Product.Brand].Children ON 0, [Product].[Category].Members ON 1 FROM [Sales] WHERE [Measures].[Units]`,
    {
      atLeastBytes: 20_000,
    },
  ),
  pivot(
    'Three axes',
    `SELECT {[Measures].[Units]} ON COLUMNS, [Time].[Year].Members ON ROWS, [Product].[Family].Members ON PAGES FROM [Sales]`,
  ),
  pivot(
    'A slicer of two',
    `SELECT {[Measures].[Units]} ON 0, [Time].[Year].Members ON 1 FROM [Sales] WHERE ([Geography].[France], [Product].[Food])`,
  ),
  pivot(
    'A slicer of a set',
    `SELECT {[Measures].[Units]} ON 0, [Time].[Year].Members ON 1 FROM [Sales] WHERE {[Geography].[France], [Geography].[中国]}`,
  ),
  pivot(
    'Cell properties',
    `SELECT {[Measures].[Margin]} ON 0, [Time].[Quarter].Members ON 1 FROM [Sales] CELL PROPERTIES VALUE, FORMATTED_VALUE, FORMAT_STRING`,
  ),
  pivot(
    'As a spreadsheet asks',
    `SELECT NON EMPTY Hierarchize(AddCalculatedMembers({DrilldownLevel({[Geography].[Everywhere]})})) DIMENSION PROPERTIES PARENT_UNIQUE_NAME ON COLUMNS FROM [Sales] WHERE ([Measures].[Revenue]) CELL PROPERTIES VALUE, FORMAT_STRING, BACK_COLOR, FORE_COLOR, FONT_FLAGS`,
  ),
  pivot(
    'A distinct count',
    `SELECT {[Measures].[Buyers]} ON 0, [Product].[Category].Members ON 1 FROM [Sales]`,
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
    'Regions by segment',
    'SELECT [Customer].[Segment].Members ON 0, NON EMPTY [Geography].[Region].Members ON 1 FROM [Sales]',
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
