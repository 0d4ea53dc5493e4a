import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { textRun } from '../../../../../src/xmla/answer/inspect-answer.ts';
import { KYLIN_MESSAGE } from '../../../../support/answers.ts';
import { sizes } from '../../../../support/sizes.ts';

const ALL = ['java-exception', 'error-dataset'] as const;

function tellsError(...pieces: string[]): boolean {
  const run = textRun(ALL);
  for (const piece of pieces) run.add(piece);
  return run.tellsError();
}

const ERRORS = [
  '#ERR: mondrian.olap.fun.MondrianEvaluationException',
  '#ERR:',
  '\r\n\t #ERR: late',
  'mondrian.olap.fun.MondrianEvaluationException: mondrian.olap.InvalidArgumentException: Mondrian Error:x',
  'java.lang.StackOverflowError',
  'dummy',
  ' dummy\n',
  '[Customer].[All].[dummy]',
  '[Customer].[All].&[1]&[dummy]',
  KYLIN_MESSAGE,
  `before ${KYLIN_MESSAGE} after`,
  `MDX Query ID: ${'x'.repeat(5_000)} Error message: y`,
  'Something error, please refer to mdx log',
  `${'x'.repeat(5_000)}Something error, please refer to mdx log${'x'.repeat(5_000)}`,
];

const GENUINE = [
  '',
  ' ',
  '#',
  '#ERR',
  'x#ERR:',
  `${'x'.repeat(100)}#ERR:`,
  'an.Exception',
  'www.example.org',
  'see java.lang.Error: x',
  'dummy 2',
  'no dummy',
  'Dummy',
  '[dummy].[Other]',
  'dummy]',
  'MDX Query ID: 17',
  'an Error message: none',
  'Something error',
  `dummy${' x'.repeat(100)}`,
];

describe('the text between two tags', () => {
  test.each(ERRORS)('tells an error: %j', (text) => {
    expect(tellsError(text)).toBe(true);
  });

  test.each(GENUINE)('is genuine: %j', (text) => {
    expect(tellsError(text)).toBe(false);
  });

  test('says the same in however many pieces it comes', () => {
    const texts = fc.constantFrom(...ERRORS, ...GENUINE);
    const cuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 6 });
    fc.assert(
      fc.property(texts, cuts, (text, fractions) => {
        const at = fractions.map((part) => Math.floor(part * text.length)).sort((a, b) => a - b);
        const pieces = [0, ...at].map((from, index) => text.slice(from, at[index] ?? text.length));
        expect(tellsError(...pieces)).toBe(tellsError(text));
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('says the same one character at a time', () => {
    for (const text of [...ERRORS, ...GENUINE]) {
      expect([text, tellsError(...text)]).toEqual([text, tellsError(text)]);
    }
  });

  test('is forgotten when the next run begins', () => {
    const run = textRun(ALL);
    run.add('MDX Query ID: 1');
    run.add('#ERR:');
    run.add('x');
    run.reset();
    expect(run.blank()).toBe(true);
    expect(run.tellsError()).toBe(false);
    run.add(' Error message: 2');
    run.add('x');
    expect(run.tellsError()).toBe(false);
  });

  test('is blank as long as only white space came', () => {
    const run = textRun(ALL);
    expect(run.blank()).toBe(true);
    run.add(' \t');
    expect(run.blank()).toBe(true);
    run.add('\r\n');
    expect(run.blank()).toBe(true);
    run.add(' x');
    expect(run.blank()).toBe(false);
    run.add(' ');
    expect(run.blank()).toBe(false);
  });

  test.each([
    ['java-exception', 'java.lang.StackOverflowError', true],
    ['java-exception', '[Customer].[All].[dummy]', false],
    ['java-exception', KYLIN_MESSAGE, false],
    ['error-dataset', 'java.lang.StackOverflowError', false],
    ['error-dataset', 'dummy', true],
    ['error-dataset', KYLIN_MESSAGE, true],
  ] as const)('in the ways of %s: %j is an error: %p', (way, text, expected) => {
    for (const pieces of [[text], [...text]]) {
      const run = textRun([way]);
      for (const piece of pieces) run.add(piece);
      expect(run.tellsError()).toBe(expected);
      const none = textRun([]);
      for (const piece of [...pieces]) none.add(piece);
      expect(none.tellsError()).toBe(false);
    }
  });

  test('with the sign of an error tells one, whatever the engine', () => {
    const run = textRun([]);
    run.add('#ERR: no');
    expect(run.tellsError()).toBe(true);
  });
});

describe('a look at the bytes', () => {
  const { mayTellError } = textRun(ALL);
  const parts = fc.constantFrom(
    ...ERRORS,
    ...GENUINE,
    ...[
      'd',
      'y',
      ']',
      '[dummy]',
      '#',
      ':',
      ',',
      '.',
      ' ',
      '\u00A0',
      '\u3000',
      '\u2028',
      '\uFEFF',
      '中',
      'é',
    ],
  );

  test('passes over no text that tells an error', () => {
    const around = Buffer.from('#');
    fc.assert(
      fc.property(fc.array(parts, { maxLength: 4 }), (texts) => {
        const text = texts.join('');
        const bytes = Buffer.concat([around, Buffer.from(text), around]);
        const looked = mayTellError(bytes, 1, bytes.length - 1);
        expect(tellsError(text) && !looked).toBe(false);
      }),
      { numRuns: sizes.propertyRuns },
    );
    for (const text of ERRORS) {
      const bytes = Buffer.from(text);
      expect([text, mayTellError(bytes, 0, bytes.length)]).toEqual([text, true]);
    }
  });

  test.each([
    '1.25',
    '12,345,678.50',
    '[Customer].[All Customers].[USA].[CA]',
    'xsd:string',
    '中国',
    'true',
  ])('passes over what most values are: %s', (text) => {
    const bytes = Buffer.from(text);
    const looked = textRun(['java-exception']).mayTellError(bytes, 0, bytes.length);
    expect(looked).toBe(text === 'xsd:string' || text === '中国');
  });
});
