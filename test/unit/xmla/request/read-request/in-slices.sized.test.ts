import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { createTreeReader, readTree, slicesOf } from '../../../../../src/xml/xml-scanner.ts';
import { SLICE } from '../../../../../src/xmla/mdx/mdx-tokens.ts';
import { readStatement, createStatementReader } from '../../../../../src/xmla/request/classify.ts';
import {
  readRequest,
  requestInSlices,
  type XmlaRequest,
} from '../../../../../src/xmla/request/read-request.ts';
import { AROUND, HOSTILE_PIECES } from '../../../../support/hostile-bodies.ts';
import { sizes } from '../../../../support/sizes.ts';

/** Readings in slices say what readings of the whole say, wherever the cuts are. */

const runs = { numRuns: Math.ceil(sizes.propertyRuns / 2) };
const piece = fc.constantFrom(
  ...HOSTILE_PIECES,
  ...[
    'SELECT x FROM [a]',
    'WITH MEMBER [a] AS ',
    "'",
    '"',
    "''",
    '[',
    ']',
    '(',
    ')',
    '.',
    ',',
    ';',
  ],
  ...['/*', '*/', '--', '//', '\n', '\r\n', '&#13;', '&#x41;', '&gt;', '\u{1F600}', 'Sum(', 'f('],
  ...[
    '<![CDATA[',
    ']]>',
    '<!--',
    '-->',
    '\r',
    '\u00E9',
    '\uFDFA',
    'StrToSet("',
    'COMMIT',
    '\\',
    'FROM',
  ],
);
/** Texts of some pieces, and of many slices, whose cuts are anywhere. */
const text = fc
  .array(
    fc.tuple(fc.array(piece, { minLength: 1, maxLength: 4 }), fc.constantFrom(1, 1, 1, 40, 9_000)),
    {
      maxLength: 6,
    },
  )
  .map((parts) =>
    parts
      .map(([pieces, times]) => pieces.join('').repeat(times))
      .join('')
      .slice(0, 5 * SLICE),
  );

describe('a statement', () => {
  const begin = fc.constantFrom('', 'SELECT x ON 0 FROM [a] WHERE ', "WITH MEMBER [a] AS '");
  const rules = fc.record({ endsBySemicolon: fc.boolean(), computesNames: fc.boolean() });

  test('is read in any steps as in one', () => {
    const steps = fc.infiniteStream(fc.integer({ min: 1, max: SLICE }));
    fc.assert(
      fc.property(begin, text, text, rules, steps, (begun, rest, value, rules, steps) => {
        const request = {
          ...{ method: 'Execute', statement: begun + rest, commands: ['Statement'] },
          parameters: [{ name: 'p', value: value.slice(0, 2 * SLICE), type: '' }],
        } as unknown as XmlaRequest;
        const reader = createStatementReader(request, rules);
        while (reader.step(begun.length + steps.next().value));
        const { tokens, ...read } = reader.finish();
        const { tokens: whole, ...expected } = readStatement(request, rules);
        const { count = 0 } = whole ?? {};
        expect(tokens?.count).toBe(count);
        const spans = [tokens, whole].map((one) =>
          Buffer.from(one?.spans.slice(0, 2 * count) ?? []),
        );
        expect(spans[0]?.equals(spans[1] as Buffer)).toBe(true);
        expect(tokens?.comments).toEqual(whole?.comments);
        expect({ ...read, sources: { ...read.sources } }).toEqual({
          ...expected,
          sources: { ...expected.sources },
        });
      }),
      runs,
    );
  });
});

test.each([
  ['a name behind its dollar', 'SELECT x ON 0 FROM % $[SYSTEM]'],
  ['a word behind a number', 'SELECT x ON 0 FROM [a] WHERE 1openrowset(b)'],
])('a cut makes no difference to %s', (_, statement) => {
  const request = { method: 'Execute', statement, commands: ['Statement'], parameters: [] };
  const reader = createStatementReader(request as unknown as XmlaRequest);
  while (reader.step(1));
  expect(reader.finish()).toEqual(readStatement(request as unknown as XmlaRequest));
});

describe('a body', () => {
  const document = fc
    .tuple(
      fc.constantFrom(...Object.values(AROUND), (inner: string) => inner),
      text,
    )
    .map(([around, inner]) => around(inner));
  const coded = fc
    .tuple(document, fc.constantFrom('utf8' as const, 'utf16le' as const))
    .map(([written, coding]) =>
      Buffer.from(coding === 'utf8' ? written : `\uFEFF${written}`, coding),
    );

  test('is read in slices as in one', async () => {
    await fc.assert(
      fc.asyncProperty(coded, async (body) => {
        const inSlices = await requestInSlices(body, 'text/xml', () => undefined);
        expect(inSlices).toEqual(readRequest(body, 'text/xml'));
      }),
      runs,
    );
  });

  test('is read in any pieces of whole characters and line ends as in one', () => {
    const cuts = fc.infiniteStream(fc.integer({ min: 1, max: 3_000 }));
    fc.assert(
      fc.property(document, cuts, (written, cuts) => {
        const reader = createTreeReader();
        let error: ReturnType<typeof reader.write>;
        for (let rest = written; rest !== '' && error === undefined;) {
          let end = cuts.next().value;
          while (/^(?:\r\n|[\uD800-\uDBFF][\uDC00-\uDFFF])/.test(rest.slice(end - 1))) end += 1;
          error = reader.write(Buffer.from(rest.slice(0, end)));
          rest = rest.slice(end);
        }
        expect(error ?? reader.end()).toEqual(readTree(Buffer.from(written)));
      }),
      runs,
    );
  });

  test('is cut between characters, and behind whole line ends', () => {
    for (const unit of ['\r\n', '\u00E9', '\u4E2D', '\u{1F600}', 'a', '\n', '\r']) {
      for (const shift of [0, 1, 2, 3]) {
        const written = 'x'.repeat(shift) + unit.repeat(3 * SLICE);
        const pieces = [...slicesOf(Buffer.from(written))].map(String);
        expect(pieces.length).toBeGreaterThan(2);
        expect(pieces.join('') === written).toBe(true);
        for (const one of pieces.slice(1)) expect(one.startsWith('\n')).toBe(unit === '\n');
      }
    }
  });
});
