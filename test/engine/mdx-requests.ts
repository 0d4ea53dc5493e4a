import { pivot } from './query.ts';
import type { CacheableRequest } from './request.ts';

/** Queries of Sales in the breadth of MDX, and with every name that is hard to spell. */
export const MDX_REQUESTS: readonly CacheableRequest[] = [
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
];
