import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { namedCubes } from '../../../../../src/xmla/request/named-objects.ts';
import { judging } from '../../../../../src/xmla/mdx/statement-policy.ts';
import type {
  Property,
  Restriction,
  XmlaRequest,
} from '../../../../../src/xmla/request/read-request.ts';
import { sizes } from '../../../../support/sizes.ts';

const BASE = {
  session: { kind: 'none' },
  sessionIds: [],
  sessionToken: false,
  headers: [],
  forms: [],
  security: false,
  unexpected: undefined,
} as const;

function execute(statement: string, properties: readonly Property[] = []): XmlaRequest {
  return {
    ...BASE,
    method: 'Execute',
    commands: ['Statement'],
    statement,
    parameters: [],
    properties,
  };
}

function discover(requestType: string, ...restrictions: readonly Restriction[]): XmlaRequest {
  return { ...BASE, method: 'Discover', requestType, restrictions, properties: [] };
}

const plain = (name: string, ...values: string[]): Restriction => ({ name, form: 'plain', values });
const bracketed = (name: string) => `[${name.replaceAll(']', ']]')}]`;

describe('the cubes of a statement', () => {
  test.each([
    ['SELECT FROM [Sales]', ['Sales']],
    ['SELECT FROM Sales', ['Sales']],
    ['select from sales where [a]', ['sales']],
    ['SELECT FROM Umsätze_2', ['Umsätze_2']],
    ['SELECT FROM[Sales]WHERE [a]', ['Sales']],
    ['SELECT FROM /* [x] */ [Sales] -- FROM [y]', ['Sales']],
    ['SELECT FROM [Sales] CELL PROPERTIES VALUE', ['Sales']],
    ['SELECT FROM [a]]b]', ['a]b']],
    ['SELECT FROM [FROM]', ['FROM']],
    ['SELECT FROM [Cat].[Sales]', ['Cat', 'Sales']],
    ['SELECT FROM Cat . Sales', ['Cat', 'Sales']],
    ['SELECT FROM (SELECT [a] ON 0 FROM [Sales])', ['Sales']],
    ['SELECT FROM NON VISUAL (SELECT [a] ON 0 FROM [Sales])', ['Sales']],
    ['SELECT FROM (SELECT [a] ON 0 FROM (SELECT [b] ON 0 FROM Sales WHERE [c]))', ['Sales']],
    [`WITH SET [s] AS 'Filter([a], [b].[From] > 1)' SELECT [s] ON 0 FROM [Sales]`, ['Sales']],
    [`WITH MEMBER [m] AS 'x("SELECT FROM [B]")' SELECT FROM [A]`, ['B', 'A']],
    [`WITH MEMBER [m] AS '"SELECT FROM [a'']"' SELECT FROM [A]`, ["a'", 'A']],
  ])('%s are %j', (statement, cubes) => {
    const found = namedCubes(execute(statement));
    expect([...found.cubes].sort()).toEqual([...cubes].sort());
    expect(found.certain).toBe(true);
  });

  test.each([
    '',
    'SELECT [Measures].MEMBERS ON 0',
    'SELECT FROM',
    'SELECT FROM WHERE [a]',
    "SELECT FROM 'Sales'",
    'SELECT FROM "Sales"',
    'SELECT FROM $Sales',
    'SELECT FROM 2020Sales',
    'SELECT FROM Sales-2',
    'SELECT FROM Sales 2',
    'SELECT FROM [Sales][Secret]',
    'SELECT FROM [Sales], [Secret]',
    'SELECT FROM [Sales] [Secret]',
    'SELECT FROM [Sales] AS [Secret]',
    'SELECT FROM [Sales].',
    'SELECT FROM [Sales].&[x]',
    'SELECT FROM ([Sales])',
    'SELECT FROM ([Secret], (SELECT [a] ON 0 FROM [Sales]))',
    'SELECT FROM Sales\u200b',
    'SELECT FROM (SELECT [a] ON 0)',
    'SELECT FROM VISUAL (SELECT FROM [Sales])',
    'SELECT FROM Sales\u200bWHERE [a]',
    'SELECT \u200bFROM [Secret] FROM [Sales]',
    'SELECT FROM [Sales',
    `WITH MEMBER [m] AS 'FROM -- FROM [Secret]' SELECT FROM [Sales]`,
    `WITH MEMBER [m] AS '1 -- FROM [Secret]' SELECT FROM [Sales]`,
    `WITH MEMBER [m] AS 'a "FROM [Secret]' SELECT FROM [Sales]`,
  ])('%j are not certain', (statement) => {
    expect(namedCubes(execute(statement)).certain).toBe(false);
  });

  test('are those of the property Cube as well, which does not make them certain', () => {
    const cube = [{ name: 'CUBE', value: 'Secret' }];
    expect(namedCubes(execute('SELECT', cube))).toEqual({
      cubes: ['Secret'],
      certain: false,
      excess: undefined,
    });
    expect(namedCubes(execute('SELECT FROM [Sales]', cube))).toEqual({
      cubes: ['Sales', 'Secret'],
      certain: true,
      excess: undefined,
    });
  });

  test('are not certain in strings that are nested too deep', () => {
    let formula = 'FROM [Secret]';
    for (let depth = 0; depth < 10; depth += 1) formula = `'${formula.replaceAll("'", "''")}'`;
    const found = namedCubes(execute(`WITH MEMBER [m] AS ${formula} SELECT FROM [Sales]`));
    expect(found.certain).toBe(false);
  });

  /** What MDX lets stand in brackets: anything but line breaks. */
  const name = fc
    .string({ unit: fc.constantFrom(...'abÄ 本[]\'".-/*%(&!;$', '\u00a0', '👍'), minLength: 1 })
    .filter((text) => text.trim() !== '');
  const space = fc.constantFrom(' ', '\n', '\t\f', '/* FROM [x] */', '-- FROM [x]\n', '\r\n');

  test('come back from brackets whatever they are called, with anything between', () => {
    fc.assert(
      fc.property(name, name, space, space, (outer, inner, a, b) => {
        const statement = `SELECT FROM${a}(${b}SELECT {[m].[x]} ON 0 FROM${b}${bracketed(outer)})${a}`;
        expect(namedCubes(execute(statement))).toEqual({
          cubes: [outer],
          certain: true,
          excess: undefined,
        });
        const formula = `x("SELECT FROM${b}${bracketed(inner).replaceAll('"', '""')}")`;
        const withFormula = `WITH MEMBER [m] AS '${formula.replaceAll("'", "''")}' ${statement}`;
        const found = namedCubes(execute(withFormula));
        // Comments inside of strings are not believed.
        expect(found.cubes.includes(inner) || !found.certain).toBe(true);
        expect(found.cubes).toContain(outer);
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('are never overlooked by one that may be cached', () => {
    const piece = fc.constantFrom(
      ...['SELECT ', 'WITH ', 'FROM ', ' FROM[Secret] ', '[Secret]', 'Secret', '.', '(', ')', ' '],
      ...["'", "''", '"', '[', ']', '/*', '*/', '--', '\n', 'NON VISUAL ', 'WHERE ', '1', '$'],
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 14 }), (pieces) => {
        const statement = `SELECT ${pieces.join('')}`;
        fc.pre(judging(statement).finish().result().bypass === undefined);
        // What stands in brackets is a name, whatever it says; a doubled bracket does not end it.
        fc.pre(!/\[(?:[^\]]|\]\])*\[/.test(statement));
        const { cubes, certain } = namedCubes(execute(statement));
        const outside = statement.replaceAll(/\/\*[\s\S]*?\*\/|--.*/g, ' ');
        const readsSecret = /\bFROM\s*(?:\[Secret\]|Secret\b)/.test(outside);
        expect(!readsSecret || !certain || cubes.some((cube) => cube.includes('Secret'))).toBe(
          true,
        );
      }),
      { numRuns: sizes.propertyRuns },
    );
  });
});

describe('the cubes of a Discover', () => {
  test.each([
    ['one restriction', [plain('CUBE_NAME', 'Sales')], ['Sales']],
    ['several values', [plain('CUBE_NAME', 'A', 'B')], ['A', 'B']],
    ['a base cube beside it', [plain('CUBE_NAME', 'A'), plain('BASE_CUBE_NAME', 'B')], ['A', 'B']],
    ['a catalog beside it', [plain('CATALOG_NAME', 'C'), plain('CUBE_NAME', 'A')], ['A']],
  ])('are those of %s', (_what, restrictions, cubes) => {
    const found = namedCubes(discover('MDSCHEMA_MEASURES', ...restrictions));
    expect(found).toEqual({ cubes, certain: true, excess: undefined });
  });

  test.each([
    ['no restriction', [], []],
    ['an empty value', [plain('CUBE_NAME', '')], []],
    ['a blank value among others', [plain('CUBE_NAME', 'A', ' ')], ['A']],
    ['the sign for any text', [plain('CUBE_NAME', 'Sal%')], ['Sal%']],
    ['another form', [{ name: 'CUBE_NAME', form: 'value', values: ['A'] } as const], ['A']],
    ['another spelling', [plain('Cube_Name', 'A')], ['A']],
    ['a base cube alone, which selects its perspectives', [plain('BASE_CUBE_NAME', 'A')], ['A']],
  ] as const)('are not certain with %s', (_what, restrictions, cubes) => {
    const found = namedCubes(discover('MDSCHEMA_CUBES', ...restrictions));
    expect(found).toEqual({ cubes, certain: false, excess: undefined });
  });

  test.each(['DBSCHEMA_TABLES', 'DBSCHEMA_COLUMNS', 'DISCOVER_INSTANCES', 'mdschema_cubes', 'X'])(
    'are not certain in %s, which does not know the restriction',
    (type) => {
      expect(namedCubes(discover(type, plain('CUBE_NAME', 'A'))).certain).toBe(false);
    },
  );

  test.each(['DISCOVER_DATASOURCES', 'DBSCHEMA_CATALOGS', 'MDSCHEMA_FUNCTIONS'])(
    'are none in %s',
    (type) => {
      expect(namedCubes(discover(type))).toEqual({ cubes: [], certain: true, excess: undefined });
    },
  );
});

test('cubes with names that are too long are left out, and that is told', () => {
  const [most, long] = ['a'.repeat(255), 'a'.repeat(256)];
  expect(namedCubes(execute(`SELECT FROM [${most}]`))).toMatchObject({
    cubes: [most],
    excess: undefined,
  });
  expect(namedCubes(execute(`SELECT FROM [${long}]`))).toMatchObject({
    cubes: [],
    excess: 'long-name',
  });
  const restricted = namedCubes(discover('MDSCHEMA_CUBES', plain('CUBE_NAME', 'A', long)));
  expect(restricted).toEqual({ cubes: ['A'], certain: true, excess: 'long-name' });
});
