import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { checkDocument } from '../../../../src/datasets/document.ts';
import { INJECTION_STRINGS } from '../../../support/injection-strings.ts';
import { sizes } from '../../../support/sizes.ts';
import { codePoint } from '../../../support/code-point.ts';

const check = (text: string) => checkDocument(Buffer.from(text));
const identityOf = (text: string) => {
  const checked = check(text);
  return checked.ok ? checked.identity : checked.problem;
};

const FIELDS = '"project":"p","dataset_name":"d","type":"MDX"';
const IDENTITY = { project: 'p', name: 'd', type: 'MDX' };

describe('a document', () => {
  test.each([
    ['nothing but its identity', `{${FIELDS}}`],
    ['a byte order mark', `\ufeff{${FIELDS}}`],
    ['white space around it', `\r\n { ${FIELDS} } \n`],
    ['its identity at its end', `{"a":[{"project":"x","dataset_name":"y"}],"b":1e400,${FIELDS}}`],
    ['fields that are repeated', `{"a":1,"a":2,${FIELDS}}`],
    ['its identity repeated alike', `{${FIELDS},${FIELDS}}`],
    ['its identity repeated alike, spelt otherwise', `{${FIELDS},"projec\\u0074":"\\u0070"}`],
    ['keys that only look alike', `{${FIELDS},"Project":1,"project ":2,"datasetName":3,"":4}`],
    ['deep nesting', `{"a":${'['.repeat(90_000)}${']'.repeat(90_000)},${FIELDS}}`],
    ['keys longer than any', `{"${'\\u0061'.repeat(100)}":1,${FIELDS}}`],
    ['no type, which makes it one of MDX', '{"project":"p","dataset_name":"d","x":{"type":"t"}}'],
    ['half a surrogate pair elsewhere', `{${FIELDS},"\\ud800":"\\udfff"}`],
  ])('may have %s', (_what, text) => {
    expect(identityOf(text)).toEqual(IDENTITY);
  });

  test.each([
    ['[]', 'The document must be a JSON object.'],
    ['"project"', 'The document must be a JSON object.'],
    ['null', 'The document must be a JSON object.'],
    [
      '',
      'The document cannot be read as JSON: line 1, column 1: expected a value, but the text ends.',
    ],
    [
      `{${FIELDS},}`,
      'The document cannot be read as JSON: line 1, column 48: expected a property name in double quotes.',
    ],
    ['{}', 'project: is missing; dataset_name: is missing.'],
    [
      '{"project":1,"dataset_name":null,"type":["MDX"]}',
      'project: must be a string; dataset_name: must be a string; type: must be a string.',
    ],
    ['{"project":"","dataset_name":"d","type":"t"}', 'project: must have 1 to 255 characters.'],
    ['{"a":{"project":"p"},"dataset_name":"d","type":"t"}', 'project: is missing.'],
    [`{${FIELDS},"project":"P"}`, 'project: is given more than once, with different values.'],
    [`{"projec\\u0074":"q",${FIELDS}}`, 'project: is given more than once, with different values.'],
    ['{"project":"p","dataset_name":"d","type":null}', 'type: must be a string.'],
    [`{${FIELDS},"type":1,"type":"MDX"}`, 'type: is given more than once, with different values.'],
    [
      '{"project":"\\ud800","dataset_name":"\\udc00\\ud800","type":"t"}',
      'project: must not hold halves of surrogate pairs; dataset_name: must not hold halves of surrogate pairs.',
    ],
  ])('is refused with every problem (%s)', (text, problem) => {
    expect(identityOf(text)).toBe(problem);
  });

  test.each(['x', 'ß', '👍', '\\n', '\\u0000', '\\ud83d\\ude00'])(
    'may name itself in 255 characters, however they are written (%s)',
    (character) => {
      const named = (length: number) =>
        identityOf(`{"project":"${character.repeat(length)}","dataset_name":"d","type":"t"}`);
      expect(named(255)).toHaveProperty('project', JSON.parse(`"${character.repeat(255)}"`));
      expect(named(256)).toBe('project: must have 1 to 255 characters.');
      expect(named(100_000)).toBe('project: must have 1 to 255 characters.');
    },
  );

  test('does not repeat in its problem what it holds', () => {
    const long = 'secret'.repeat(1_000);
    for (const text of [
      `{"${long}"`,
      `{"project":["${long}"]}`,
      `${long}`,
      `{"project":"${long}"}`,
    ]) {
      expect(identityOf(text)).not.toContain('secret');
    }
  });
});

test('names are read as they were meant', () => {
  for (const text of INJECTION_STRINGS.filter((text) => [...text].length <= 255)) {
    const document = JSON.stringify({ type: text, dataset_name: text, project: text });
    expect(identityOf(document)).toEqual({ project: text, name: text, type: text });
  }
});

test('for any document the identity is that of JSON.parse, or there is a problem', () => {
  const value = fc.oneof(fc.string({ unit: codePoint, maxLength: 300 }), fc.jsonValue());
  const key = fc.oneof(fc.constantFrom('project', 'dataset_name', 'type'), fc.string());
  const escapedAll = (text: string) =>
    text.replaceAll(/[^\\"]/gu, (character) =>
      [...Array(character.length).keys()]
        .map((at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`)
        .join(''),
    );
  const written = fc.tuple(key, value, fc.boolean()).map(([key, value, escape]) => {
    const name = /^[a-z_]+$/.test(key) && escape ? `"${escapedAll(key)}"` : JSON.stringify(key);
    return `${name}:${JSON.stringify(value)}`;
  });
  fc.assert(
    fc.property(fc.array(written, { maxLength: 8 }), fc.boolean(), (members, whole) => {
      const text = `{${[...(whole ? [FIELDS] : []), ...members].join(',')}}`;
      const checked = check(text);
      const parsed = { type: 'MDX', ...JSON.parse(text) } as Record<string, unknown>;
      if (!checked.ok) return expect(checked.problem).toMatch(/^(?:project|dataset_name|type): /);
      const { project, name, type } = checked.identity;
      expect([project, name, type]).toEqual([parsed.project, parsed.dataset_name, parsed.type]);
    }),
    { numRuns: 2 * sizes.propertyRuns },
  );
});
