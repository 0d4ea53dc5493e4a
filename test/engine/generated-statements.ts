import { pivot } from './query.ts';
import type { CacheableRequest } from './request.ts';

/** Numbers from 0 to 1 by a seed (mulberry32). */
function randomBy(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Valid statements over the cube Sales, by a grammar that calls what the engine knows in all the forms that it takes. */
export function generatedStatements(seed: number, count: number): readonly CacheableRequest[] {
  const random = randomBy(seed);
  const pick = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)] as T;
  const one = (...forms: readonly (() => string)[]): string => pick(forms)();
  const small = () => String(1 + Math.floor(random() * 4));
  /** Some write names of functions so, some so. */
  const spelt = (name: string) =>
    pick([name, name.toLowerCase(), name.toUpperCase(), `${name} `, `${name} /* of ${name}( */ `]);

  const YEARS = ['[Time].[2023]', '[Time].[2024]', '[Time].[2025]'];
  const COUNTRIES = ['[Geography].[France]', '[Geography].[Ελλάδα]', '[Geography].[中国]'];
  const MEASURES = ['Units', 'Revenue', 'Cost', 'Margin'];
  const measure = () => `[Measures].[${pick(MEASURES)}]`;
  const year = () =>
    one(
      () => pick(YEARS),
      () => `[Time].[2024].${spelt('Lag')}(${pick(['0', '1', '-1'])})`,
      () => `[Time].[Year].Members.${spelt('Item')}(${pick(['0', '1'])})`,
      () => `${spelt('StrToMember')}("${pick(YEARS)}")`,
      () => `${spelt('ParallelPeriod')}([Time].[Year], 1, [Time].[2024])`,
      () => `${spelt('Ancestor')}([Time].[2024].FirstChild, [Time].[Year])`,
      () => `${spelt('ClosingPeriod')}([Time].[Year], [Time].[2024])`,
    );
  const times = (depth: number): string =>
    depth === 0
      ? pick(['[Time].[Year].Members', `{${pick(YEARS)}}`, '[Time].[2024].Children'])
      : one(
          () => `{${year()}, ${year()}}`,
          () => `${spelt('Descendants')}(${year()}, [Time].[Quarter])`,
          () => `${spelt('YTD')}([Time].[2024].[Q1].Lead(${small()}))`,
          () => `${spelt('LastPeriods')}(${small()}, ${year()})`,
          () => `${spelt('PeriodsToDate')}([Time].[Year], [Time].[2024].LastChild)`,
          () => `${spelt('StrToSet')}('{${pick(YEARS)}}', [Time])`,
          () => setOf(() => times(depth - 1)),
        );
  const places = (depth: number): string =>
    depth === 0
      ? pick([
          '[Geography].[Country].Members',
          `{${pick(COUNTRIES)}}`,
          `${pick(COUNTRIES)}.Children`,
        ])
      : one(
          () => `{${pick(COUNTRIES)}, ${pick(COUNTRIES)}}`,
          () => `${spelt('Descendants')}(${pick(COUNTRIES)}, [Geography].[Region])`,
          () => `${spelt('Generate')}({${pick(COUNTRIES)}}, [Geography].CurrentMember.Children)`,
          () => `${spelt('Ascendants')}(${pick(COUNTRIES)}.FirstChild)`,
          () => `${spelt('DrilldownMember')}({${pick(COUNTRIES)}}, {${pick(COUNTRIES)}})`,
          () => `${spelt('AddCalculatedMembers')}(${places(depth - 1)})`,
          () => setOf(() => places(depth - 1)),
        );
  const setOf = (set: () => string): string =>
    one(
      () => `${spelt('Order')}(${set()}, ${measure()}, ${pick(['BDESC', 'BASC', 'DESC'])})`,
      () => `${spelt('Filter')}(${set()}, ${condition()})`,
      () => `${spelt(pick(['Head', 'Tail']))}(${set()}, ${small()})`,
      () => `${spelt('TopCount')}(${set()}, ${small()}, (${measure()}))`,
      () => `${spelt('BottomPercent')}(${set()}, 50, ${measure()})`,
      () => `${spelt('Union')}(${set()}, ${set()})`,
      () => `${spelt('Except')}(${set()}, ${set()})`,
      () => `${spelt('Intersect')}(${set()}, ${set()})`,
      () => `${spelt('Hierarchize')}(${set()})`,
      () => `${spelt('Distinct')}(${set()})`,
      () => `${spelt('Subset')}(${set()}, 0, ${small()})`,
    );
  const condition = (): string =>
    one(
      () => `${measure()} > ${small()}`,
      () => `${spelt('NOT')} (${measure()} < 0)`,
      () => `(${measure()} > 0 AND (${measure()} > ${small()})) OR (1 = 2) XOR (1 = 1)`,
      () => `${spelt('IsEmpty')}(${measure()}) OR (${measure()} <> 0)`,
      () =>
        `[Geography].CurrentMember.Name <> "goes into ${pick(['Now()', 'stock!', 'Today (net)'])}"`,
      () => `[Geography].CurrentMember IS (${pick(COUNTRIES)}) OR 1 = 1`,
      () => `${spelt('InStr')}([Geography].CurrentMember.UniqueName, "a") > -1`,
    );
  const figure = (depth: number): string =>
    depth === 0
      ? pick([measure(), `(${measure()}, ${pick(YEARS)})`, small()])
      : one(
          () => `${spelt('IIf')}(${condition()}, ${figure(depth - 1)}, ${figure(depth - 1)})`,
          () => `${spelt(pick(['Sum', 'Avg', 'Max', 'Min', 'Median']))}(${times(1)}, ${measure()})`,
          () => `${spelt('Count')}(${places(1)})`,
          () => `${spelt('Aggregate')}(${times(0)}, [Measures].[Units])`,
          () => `${spelt('Rank')}(${pick(COUNTRIES)}, [Geography].[Country].Members)`,
          () => `${spelt('CoalesceEmpty')}(${measure()}, ${small()})`,
          () => `${spelt('Round')}(${figure(depth - 1)}, 2) + ${spelt('Sqr')}(${small()})`,
          () => `${spelt('Len')}(${text()})`,
          () => `CASE WHEN (${condition()}) THEN (${small()} * ${measure()}) ELSE (${small()}) END`,
          () =>
            `${spelt('DateDiff')}("d", ${spelt('DateSerial')}(2024, ${small()}, 1), DateSerial(2025, 1, 1))`,
          () => `${spelt('Cast')}("${small()}" AS NUMERIC)`,
        );
  const text = (): string =>
    one(
      () => `${spelt('UCase')}([Geography].CurrentMember.Name)`,
      () => `${spelt('Left')}("UserName (x)!", ${small()})`,
      () => `${spelt('Format')}(${measure()}, "#,##0.00")`,
      () => `${spelt('SetToStr')}(${times(0)})`,
      () => `${spelt('MonthName')}(${small()}, 1 = 1)`,
      () => `[Geography].CurrentMember.${spelt('Properties')}("MEMBER_CAPTION")`,
    );
  const formula = () =>
    one(
      () => figure(2),
      () => figure(1),
      text,
    );
  const quoted = (written: string) => `'${written.replaceAll("'", "''")}'`;

  function statement(number: number): string {
    const written = formula();
    const as = pick([written, quoted(written), quoted(`\n  ${written}\r\n`)]);
    const format = pick(['', ', FORMAT_STRING = "#,##0 pieces (net)"', ', SOLVE_ORDER = 3']);
    const columns = pick(['0', 'COLUMNS', 'AXIS(0)']);
    const empty = pick(['', 'NON EMPTY ']);
    const where = pick(['', ` WHERE (${pick(COUNTRIES)})`, ` WHERE ([Product].[Food])`]);
    const rows = where.includes('Geography') ? times(2) : pick([times(2), places(2)]);
    return `WITH SET [s] AS ${pick([quoted(rows), rows])} MEMBER [Measures].[m ${number}] AS ${as}${format}
SELECT {[Measures].[m ${number}], ${measure()}} ON ${columns}, ${empty}[s] ON ${pick(['1', 'ROWS'])} FROM [Sales]${where}`;
  }

  return Array.from({ length: count }, (_, i) => pivot(`generated ${seed} ${i}`, statement(i)));
}
