import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { judging, normalizeStatement } from '../../../../src/xmla/mdx/statement-policy.ts';
import { sizes } from '../../../support/sizes.ts';
import { codePoint } from '../../../support/code-point.ts';

function classifyStatement(statement: string): string | undefined {
  const { bypass, unknown } = judging(statement).finish().result();
  return bypass ?? (unknown.length > 0 ? 'unknown-function' : undefined);
}

const QUERY = 'SELECT {[Measures].[Sales]} ON 0 FROM [Sales]';

function withMember(formula: string): string {
  return `WITH MEMBER [Measures].[x] AS ${formula} SELECT {[Measures].[x]} ON 0 FROM [Sales]`;
}

describe('an ordinary query may be cached', () => {
  test.each([
    QUERY,
    QUERY.toLowerCase(),
    `  \n\t${QUERY}\n`,
    `-- a comment\n/* and another */ // third\n${QUERY}`,
    `SELECT{[Measures].[Sales]}ON 0 FROM[Sales]`,
    withMember("'[Measures].[a] / [Measures].[b]'"),
    withMember('[Measures].[a], FORMAT_STRING = "#,##0;(#,##0)"'),
    withMember("'[Measures].[a]', FORMAT_STRING = '$#,##0.00;-$#,##0.00'"),
    withMember("'IIF([x] = ''a'', 1, 2)'"),
    withMember('"it\'s fine"'),
    'SELECT [Date].[Year].Members ON 0, [Time].[1997].Children ON 1 FROM [Sales]',
    'SELECT [Measures].[Now] ON 0, {[User].[UserName]} ON 1 FROM [Timer]',
    'SELECT [a].[Rnd]]] ON 0 FROM [b;c]',
    'SELECT Date.Members ON 0, Time.[1997] ON 1 FROM [Sales]',
    'SELECT [x] ON 0 FROM [Sales] WHERE ([Time].&[1997]&[Q1], [Known].&Key)',
    'SELECT Nowhere ON 0, Updated ON 1, Timers ON 2 FROM Parameters',
    `SELECT [x] /* ; */ ON 0 -- ;\nFROM [Sales]`,
    `SELECT [x] ON 0 -- Now() in a comment\nFROM [Sales]`,
    'SELECT\r\n{[Measures].[Sales]} ON 0 -- c\r\nFROM [Sales]\r\n',
    withMember("'1\n+ 2'"),
    withMember("'1\r\n+\r\n2'"),
    withMember('IIf([Measures].[a] > 0, "goes into stock", "none")'),
    withMember(`'IIf([Measures].[a] > 0, "right Now (!)", ''UserName()'')'`),
    withMember('IIf([Measures].[a] = "it\'s Now()", [Measures].[b], 1)'),
    withMember(`'[Measures].[a]', FORMAT_STRING = "0 pieces (net)", CAPTION = 'Today (net)'`),
    'SELECT Filter([a].Members, [a].CurrentMember.Name = "Now!") ON 0 FROM [Sales]',
    'SELECT constructor "Now()" ON 0, [toString] "Now" ON 1 FROM [Sales]',
    withMember('"[Measures].[Now]"'),
  ])('%j', (statement) => {
    expect(classifyStatement(statement)).toBeUndefined();
  });
});

describe('what is no query is passed through', () => {
  test.each([
    '',
    ' \n ',
    '-- SELECT',
    '[Measures].AllMembers = null;',
    'CREATE SESSION CUBE [Sales_XL_GROUPING1] FROM [Sales] (MEASURE [Sales].[a])',
    'CREATE MEMBER [Sales].[Measures].[x] AS 1',
    'ALTER CUBE [Sales] UPDATE DIMENSION [a]',
    'DROP MEMBER [Sales].[Measures].[x]',
    'REFRESH CUBE [Sales]',
    'UPDATE CUBE [Sales] SET ([a]) = 1',
    'BEGIN TRANSACTION',
    'COMMIT TRANSACTION',
    'ROLLBACK',
    'SCOPE([a])',
    'CALL System.Discover()',
    'EXPLAIN PLAN FOR SELECT 1',
    'EVALUATE Sales',
    'DEFINE MEASURE x[y] = 1 EVALUATE x',
    '{ "refresh": {} }',
    '(SELECT 1)',
    '[SELECT] 1',
    'SELECTED',
    'SELECT_1 FROM x',
    'ſelect 1',
    '\u00A0SELECT 1',
    '\uFEFFSELECT 1',
    "'SELECT' 1",
    // DMX.
    'SELECT FLATTENED * FROM [M]',
    'SELECT * FROM [M].CONTENT',
    'SELECT * FROM [M] . /* c */ cases',
    'SELECT * FROM [M] . [ Cases ] /* c */ (x)',
    'SELECT * FROM [M] NATURAL PREDICTION JOIN x',
    'SELECT * INTO [N] USING y FROM [M]',
  ])('%j', (statement) => {
    expect(classifyStatement(statement)).toBe('not-a-query');
  });
});

describe('a text that cannot be read for certain is passed through', () => {
  test.each([
    // Never ends, so nobody knows what is inside.
    `${QUERY} WHERE 'a`,
    `${QUERY} WHERE "a`,
    `${QUERY} WHERE [a`,
    `${QUERY} /* a`,
    `${QUERY}]`,
    // Engines read these in different ways.
    'SELECT [a\nb] ON 0 FROM [Sales]',
    'SELECT [a]\rON 0 FROM [Sales]',
    'SELECT [a]\u00A0ON 0 FROM [Sales]',
    withMember("\u3000'Today()'"),
    'SELECT [a] -- c\rON 0 FROM [Sales]',
    'SELECT [a] -- c\u2028ON 0 FROM [Sales]',
    withMember("'[a\r\nb]'"),
    withMember("'1 -- c\u2028 + 2'"),
    'SELECT /* /* */ [a] /* */ */ ON 0 FROM [Sales]',
    withMember(String.raw`"a\" + Now() + "b"`),
  ])('%j', (statement) => {
    expect(classifyStatement(statement)).toBe('unclear-statement');
  });
});

describe('several statements are passed through', () => {
  test.each([
    `${QUERY};`,
    `${QUERY}; DROP MEMBER [x]`,
    `SELECT 1;SELECT 2`,
    `${QUERY}/* a */;-- b`,
  ])('%j', (statement) => {
    expect(classifyStatement(statement)).toBe('several-statements');
  });
});

describe('DRILLTHROUGH anywhere in the text is passed through', () => {
  test.each([
    `DRILLTHROUGH ${QUERY}`,
    `drillThrough MAXROWS 10 ${QUERY}`,
    `SELECT [drillthrough] ON 0 FROM [Sales]`,
    `${QUERY} -- DrillThrough`,
    withMember("'DRILLTHROUGHs'"),
    // Upper case of dotless i is I.
    `${QUERY} /* drıllthrough */`,
  ])('%j', (statement) => {
    expect(classifyStatement(statement)).toBe('drillthrough');
  });
});

describe('$SYSTEM is passed through', () => {
  test.each([
    'SELECT * FROM $SYSTEM.DISCOVER_SESSIONS',
    'select * from $system.MDSCHEMA_CUBES',
    'SELECT * FROM /* c */ $ System . DISCOVER_SESSIONS',
    'SELECT * FROM [$System].[DISCOVER_SESSIONS]',
    'SELECT * FROM SYSTEMRESTRICTSCHEMA($System.DISCOVER_PARTITION_STAT, A = 1)',
    'SELECT * FROM (SELECT * FROM $SYSTEM.X)',
  ])('%j', (statement) => {
    expect(classifyStatement(statement)).toBe('system-rowset');
  });
});

describe('a comment #NoCache is obeyed', () => {
  test.each([`${QUERY} -- #NoCache`, `/* x #nocache */${QUERY}`, `//#NOCACHE\n${QUERY}`])(
    '%j',
    (statement) => {
      expect(classifyStatement(statement)).toBe('no-cache-comment');
    },
  );

  test('but not in brackets', () => {
    expect(classifyStatement('SELECT [#NoCache] ON 0 FROM [Sales]')).toBeUndefined();
  });
});

describe('a name by which the answer changes is found', () => {
  const WORDS = [
    'Now',
    'Timer',
    'Rnd',
    'Randomize',
    'CurrentDateMember',
    'CurrentDateMemberExact',
    'CurrentDateString',
    'UserName',
    'CustomData',
    'LookupCube',
    'Parameter',
    'ParamRef',
    'Predict',
    'PredictProbability',
    'Date(',
    'Time(',
    'Excel!Pi',
  ];
  const PLACES: readonly [string, (name: string) => string][] = [
    ['bare', (name) => withMember(`${name} + 1`)],
    ['in capitals', (name) => withMember(`${name.toUpperCase()} + 1`)],
    ['at the end', (name) => `${QUERY} WHERE ${name}`],
    ['as a member', (name) => withMember(`[Time].${name}`)],
    ['as a key', (name) => withMember(`[Time].&${name}`)],
    ['with a comment behind', (name) => withMember(name.replace('(', '/* c */ -- d\n ('))],
    ['behind another letter', (name) => withMember(`é${name}`)],
    ['behind a mark', (name) => withMember(`$${name}`)],
    ['behind a number', (name) => withMember(`1${name}`)],
    ['in a quoted formula', (name) => withMember(`'1 + ${name}'`)],
    ['in a string of a quoted formula', (name) => withMember(`'StrToSet(''{${name}}'')'`)],
    ['in a double-quoted string', (name) => withMember(`StrToMember("[Time].&[" + "${name}")`)],
    ['behind a loose quote in a string', (name) => withMember(`"it's ${name} [x"`)],
    ['behind a comment mark in a string', (name) => withMember(`"-- ${name}"`)],
    [
      'in the formula of cells',
      (name) => withMember(`1 CELL CALCULATION [c] FOR '(${name})' AS 1`),
    ],
    ['in a condition', (name) => withMember(`1, CONDITION = '${name} > 1'`)],
    [
      'in a formula in a formula',
      (name) => withMember(`'StrToSet("{StrToMember(''''${name}'''')}")'`),
    ],
  ];

  test.each(PLACES)('%s', (_, place) => {
    const missed = WORDS.filter((name) => classifyStatement(place(name)) !== 'volatile');
    expect(missed).toEqual([]);
  });

  test.each([
    'Now',
    'Timer',
    'Date',
    'Time',
    'CurrentDateString',
    'Parameter',
    ' username ',
    'PredictX',
  ])('as a function in brackets: [%s](…)', (name) => {
    expect(classifyStatement(withMember(`[${name}]()`))).toBe('volatile');
    expect(classifyStatement(withMember(`'1 + [${name.toUpperCase()}] /* c */ ("x")'`))).toBe(
      'volatile',
    );
    expect(classifyStatement(withMember(`[${name}].[2025]`))).toBeUndefined();
  });

  test('in letters whose capitals are ASCII', () => {
    expect(classifyStatement(withMember('uſername'))).toBe('volatile');
  });
});

test('strings nested beyond all sense are not followed, and not cached', () => {
  let formula = 'Now()';
  for (let depth = 0; depth < 9; depth += 1) {
    formula = `StrToValue('${formula.replaceAll("'", "''")}')`;
  }
  expect(classifyStatement(withMember(formula))).toBe('unclear-statement');
});

describe('the statement in the key', () => {
  test.each([
    ['  SELECT 1 \n', 'SELECT 1'],
    ['\r\n\t\fSELECT\r\n 1\r\n', 'SELECT\n 1'],
    ['\u00A0SELECT 1\u3000', '\u00A0SELECT 1\u3000'],
    ['SELECT  "a  b"', 'SELECT  "a  b"'],
    [`\r\nSELECT 'a\r\n"' /* ' \r\n */ "'\r\n"\r\n`, `SELECT 'a\r\n"' /* ' \n */ "'\r\n"`],
    ["SELECT [it's]\r\n 'b'", "SELECT [it's]\n 'b'"],
    ['', ''],
    [' \r\n', ''],
  ])('%j', (statement, expected) => {
    expect(normalizeStatement(statement)).toBe(expected);
  });

  test('is found in time linear in its length', () => {
    const spaces = ' '.repeat(2_000_000);
    expect(normalizeStatement(`a${spaces}b`)).toHaveLength(2_000_002);
  });
});

describe('any text', () => {
  const mdxLike = fc
    .array(
      fc.constantFrom(
        "'",
        '"',
        '[',
        ']',
        '/*',
        '*/',
        '--',
        '\n',
        '\r',
        ' ',
        ';',
        '!',
        '(',
        'Now',
        'Date',
        '$',
        'System',
        '#NoCache',
        'é',
        '\\',
      ),
      { maxLength: 40 },
    )
    .map((parts) => `SELECT ${parts.join('')}`);

  test('is classified without throwing, and the same with other outer white space', () => {
    fc.assert(
      fc.property(fc.oneof(mdxLike, fc.string({ unit: codePoint })), (text) => {
        const reason = classifyStatement(text);
        expect(classifyStatement(` \n${text}`)).toBe(reason);
      }),
      { numRuns: sizes.propertyRuns * 5 },
    );
  });

  test('that may be cached means the same as its form in the key', () => {
    fc.assert(
      fc.property(mdxLike, (text) => {
        if (classifyStatement(text) === undefined) {
          expect(classifyStatement(normalizeStatement(text))).toBeUndefined();
          expect(normalizeStatement(normalizeStatement(text))).toBe(normalizeStatement(text));
        }
      }),
      { numRuns: sizes.propertyRuns * 5 },
    );
  });

  test.each(['[', "'", '"', '/*', "'[", '"\'', '--', ']', '$', 'Date ', "''"])(
    'of many %j is read without exhausting stack or time',
    (part) => {
      const many = part.repeat(200_000);
      const quoted = `SELECT '${many.replaceAll("'", "''")}'`;
      expect(() =>
        [`SELECT "${many}`, quoted, `SELECT ${many}`].map((text) => classifyStatement(text)),
      ).not.toThrow();
    },
  );
});

test('a statement too long to be read in a moment is passed through, without a look at it', () => {
  const long = `SELECT ${'a '.repeat(5_000_000)}`;
  expect(classifyStatement(long)).toBe('long-request');
});

describe('a text that is read as MDX', () => {
  test.each([
    'StrToValue("No" + "w()")',
    'strtoset(  [a].[b].CurrentMember.Name)',
    "StrToMember('[Time].[' + x + ']')",
    '[StrToTuple](x)',
    'StrToValue("1" /* a comment */ + y)',
    'StrToValue(StrToValue("1"))',
    'StrToMember(@P)',
    'StrToMember("[Time]." + @P, CONSTRAINED)',
    'StrToMember(@P + "", CONSTRAINED)',
    'StrToMember(@P, CONSTRAINED + 1)',
    'StrToMember(x.Name, CONSTRAINED)',
  ])('%s is volatile unless it is one literal', (formula) => {
    const statement = `WITH MEMBER [Measures].[a] AS ${formula} SELECT [Measures].[a] ON 0 FROM [Sales]`;
    expect(classifyStatement(statement)).toBe('volatile');
    const quoted = `WITH MEMBER [Measures].[a] AS '${formula.replaceAll("'", "''")}' SELECT [Measures].[a] ON 0 FROM [Sales]`;
    expect(classifyStatement(quoted)).toBe('volatile');
  });

  test.each([
    'StrToSet("{[Time].[1997]}")',
    'StrToMember("[Time].[1997]", CONSTRAINED)',
    "strtotuple ('([a].[b])')",
    'StrToMember(@P, CONSTRAINED)',
    'STRTOSET( @Years /* c */ , constrained )',
    '[StrToSet].[x]',
  ])('%s is searched like any other', (formula) => {
    const statement = `WITH MEMBER [Measures].[a] AS ${formula} SELECT [Measures].[a] ON 0 FROM [Sales]`;
    expect(classifyStatement(statement)).toBeUndefined();
  });

  test('that is one literal is searched for what it calls', () => {
    const statement = 'SELECT StrToSet("Filter({[a]}, Now() > 1)") ON 0 FROM [Sales]';
    expect(classifyStatement(statement)).toBe('volatile');
  });
});

describe('what is called must be known', () => {
  const unknownIn = (statement: string) => {
    const { bypass, unknown } = judging(statement).finish().result();
    return bypass ?? unknown.join(' ');
  };

  test.each([
    ["'Today()'", 'Today'],
    ['dtAsOfToday([Time].[Time].[Day])', 'dtAsOfToday'],
    ['Assembly.RandomSample({[a]}, 5)', 'Assembly.RandomSample'],
    ['[Assembly] . [Fn] /* c */ (1)', 'Assembly.Fn'],
    ['[My.Own].Fn(1)', '[My.Own].Fn'],
    ['ExcelMDX.Rand()', 'ExcelMDX.Rand'],
    ['MyAssembly.Count({[a]})', 'MyAssembly.Count'],
    ['MyAssembly.And(1)', 'MyAssembly.And'],
    ['[And](1)', 'And'],
    ['%OR({[a]})', '%OR'],
    ['Left$("a", 1)', 'Left$'],
    ['éCount({[a]})', 'éCount'],
    ['\u212APIValue("x")', '\u212APIValue'],
    [`'Today\u00A0()'`, 'Today\u00A0'],
    ['Today() + today() + TODAY()', 'Today'],
    ['Today() + Other(Third())', 'Today Other Third'],
    [`StrToSet("{Today()}")`, 'Today'],
    ['"Today()"', 'Today'],
    [`'Today (net)'`, 'Today'],
    [`'1', BACK_COLOR = 'Today()'`, 'Today'],
    ['{[a]}.Today() + Sum([a]).Other()', 'Today Other'],
    ['[Time].CurrentMember.Today()', 'Time.CurrentMember.Today'],
    ['Assembly.$Fn$ (1)', 'Assembly.$Fn$'],
  ])('%s', (formula, names) => {
    expect(unknownIn(withMember(formula))).toBe(names);
  });

  test('a thousand times at most', () => {
    const calls = (count: number) => withMember('Today() + '.repeat(count));
    expect([1_000, 1_001].map((count) => unknownIn(calls(count)))).toEqual([
      'Today',
      'unclear-statement',
    ]);
  });

  test('and what changes by time or user is told as before', () => {
    expect(unknownIn(withMember('Today() + Now()'))).toBe('volatile');
    expect(unknownIn(withMember(`1, CELL_FORMATTER_SCRIPT = 'return new Date()'`))).toBe(
      'volatile',
    );
    expect(unknownIn(withMember(`1, [cell_formatter] = 'Clock'`))).toBe('volatile');
  });

  test.each([
    'Order(Filter([T].Members, [M].[A] > 1), [M].[A], BDESC)',
    '[T].Members.Item(0).Lag(1).Properties("x", TYPED)',
    '[T].[1997].Children.Item ("[a]").Lead(1)',
    'Time.Lag(1), [Time].[1997].[Lag](1)',
    '[Count]({[a]}) + Members("[a]").Level.Ordinal',
    '{[a]}.Item(0).Item(0)',
    'IIf(NOT ([a] IS ([b])) AND ([a] > 1) OR (1) XOR (2), ([a]), 1)',
    'CASE WHEN (1 = 1) THEN (2) ELSE (3) END',
    'Count(EXISTING ([a].Members)), Count(NonEmpty ({[a]} * ([b])))',
    '[a] IN ({[b]}) AND "a" MATCHES ("b") AND [c] IS EMPTY ([c])',
  ])('%s calls nothing else', (formula) => {
    expect(unknownIn(withMember(formula))).toBe('');
    expect(unknownIn(withMember(`'${formula.replaceAll("'", "''")}'`))).toBe('');
  });

  test('what stands before ( in a statement is no call', () => {
    const inner = 'SELECT ({[a]}) ON COLUMNS FROM [Sales] WHERE ([b])';
    const statement = `WITH SET [s] AS ({[a]}) SELECT NON EMPTY ([s]) HAVING ([x] > 1) ON AXIS(0) FROM NON VISUAL (${inner}) WHERE ([c], [d])`;
    expect(unknownIn(statement)).toBe('');
  });
});

describe('what the configuration says is volatile passes', () => {
  const volatile = ['lastday'];
  test.each([
    ['as a property', '[Time].LastDay', 'volatile'],
    ['called', '[Time].Lag(LastDay())', 'volatile'],
    ['in brackets', '[Measures].[ LASTDAY ]', 'volatile'],
    ['in a formula', `'[Time].LastDay'`, 'volatile'],
    ['but not in a text', '"a" + "LastDay"', undefined],
    ['nor as a part of a name', '[Measures].[LastDays]', undefined],
  ])('%s', (_where, formula, expected) => {
    expect(judging(withMember(formula), undefined, { volatile }).finish().result().bypass).toBe(
      expected,
    );
  });
});

describe('one semicolon at the end', () => {
  const judge = (statement: string) =>
    judging(statement, undefined, { endsBySemicolon: true }).finish().result().bypass;

  test('ends a statement where the engine takes it so', () => {
    expect([`${QUERY};`, `${QUERY} ; \r\n`].map(judge)).toEqual([undefined, undefined]);
    expect(normalizeStatement(`${QUERY};\n`)).toBe(`${QUERY};`);
  });

  test.each([`${QUERY};;`, `${QUERY}; -- c`, `${QUERY}; ${QUERY}`, `${QUERY}; ${QUERY};`])(
    'but not in %j',
    (statement) => {
      expect(judge(statement)).toBe('several-statements');
    },
  );
});

describe('values of parameters', () => {
  const statement = 'SELECT {StrToMember(@P, CONSTRAINED)} ON 0 FROM [Sales]';
  const judge = (value: string, text = statement, computesNames = false) => {
    const { bypass, unknown } = judging(text, undefined, { computesNames }, [value])
      .finish()
      .result();
    return bypass ?? unknown.join(' ');
  };

  test('are searched where something reads texts', () => {
    expect(
      ['[T].[1997]', '[T].Now', 'Now()', 'Today()', "a 'b"].map((value) => judge(value)),
    ).toEqual(['', 'volatile', 'volatile', 'Today', '']);
  });

  test('are texts elsewhere, but where the engine may compute any', () => {
    expect(judge('goes into Now (x)', QUERY)).toBe('');
    expect(judge('Now()', QUERY, true)).toBe('volatile');
  });

  test('count as a part of what is too long to be read', () => {
    expect(judge('a '.repeat(500_000))).toBe('');
    expect(judge('a '.repeat(600_000))).toBe('long-request');
  });
});
