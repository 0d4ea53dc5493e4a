import { describe, expect, test } from '@jest/globals';
import { answerDigest } from '../../../../src/xmla/answer/answer-digest.ts';
import {
  encodeAnswer,
  mddatasetAnswer,
  rowsetAnswer,
  SESSION_HEADER,
} from '../../../support/answers.ts';

const UTF_8 = 'text/xml; charset=utf-8';

function digestOf(text: string | Buffer, { contentType = UTF_8, piece = 1e9 } = {}) {
  const digest = answerDigest(contentType);
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += piece) digest.write(bytes.subarray(at, at + piece));
  return digest.end();
}

/** Of Kylin and eMondrian. */
const updated = (data: string, schema = data) =>
  mddatasetAnswer().replace(
    '</CubeName>',
    `</CubeName><LastDataUpdate xmlns="http://schemas.microsoft.com/analysisservices/2003/engine">${data}</LastDataUpdate><LastSchemaUpdate>${schema}</LastSchemaUpdate>`,
  );
const ANSWER = updated('2026-01-05T10:00:00');

describe('two answers count as the same that differ in', () => {
  test.each([
    ['when data and schema were loaded', updated('2026-01-05T10:00:07', '2025-12-31T00:00:00')],
    ['these moments, one of which is empty', updated('', '<!-- none -->')],
    ['the session', ANSWER.replace('<SOAP-ENV:Header>', `$&${SESSION_HEADER}`)],
    ['whether there is a header', ANSWER.replace(/<SOAP-ENV:Header>.*<\/SOAP-ENV:Header>/u, '')],
    ['the prefix of the envelope', ANSWER.replaceAll('SOAP-ENV', 'soap')],
    ['a comment', ANSWER.replace('<Axes>', '<Axes><!-- 12 ms -->')],
    ['how an empty element is spelt', ANSWER.replaceAll('"/>', '"  />')],
  ])('%s', (_what, other) => {
    expect(other).not.toBe(ANSWER);
    expect(digestOf(other)).toBe(digestOf(ANSWER));
  });

  test('the columns of a rowset with these moments', () => {
    const rowset = rowsetAnswer();
    const later = rowset.replaceAll('2026-01-05T10:00:00', '2026-01-05T10:00:07');
    const isData = later.replaceAll('LAST_SCHEMA_UPDATE', 'LAST_DATA_UPDATE');
    expect(later).not.toBe(rowset);
    expect(digestOf(later)).toBe(digestOf(rowset));
    expect(digestOf(isData)).toBe(
      digestOf(rowset.replaceAll('LAST_SCHEMA_UPDATE', 'LAST_DATA_UPDATE')),
    );
  });

  test('their encoding', () => {
    const text = rowsetAnswer({ encoding: '' });
    for (const encoding of ['utf-16le', 'iso-8859-1'] as const) {
      const contentType = `text/xml; charset=${encoding}`;
      expect(digestOf(encodeAnswer(text, encoding), { contentType })).toBe(digestOf(text));
    }
  });
});

describe('two answers differ by', () => {
  test.each([
    ['a value', ANSWER.replace('>1.25<', '>1.26<')],
    ['an attribute', ANSWER.replace('CellOrdinal="1"', 'CellOrdinal="2"')],
    ['the name of an attribute', ANSWER.replace('CellOrdinal="1"', 'Cellordinal="1"')],
    ['a name', ANSWER.replaceAll('LName', 'LNamf')],
    ['a namespace', ANSWER.replace(':mddataset"', ':mddatasets"')],
    ['a text that looks like a tag', ANSWER.replace('>1.25<', '>&lt;b/&gt;<')],
    ['white space in a value', ANSWER.replace('>1.25<', '> 1.25<')],
    ['an element more', ANSWER.replace('</CellData>', '<Cell CellOrdinal="9"/></CellData>')],
    ['where an element ends', ANSWER.replace(/<\/Tuple>\s*<Tuple>/u, '')],
    ['what stands behind a moment', ANSWER.replace('</LastDataUpdate>', '$&1')],
    ['a moment less', ANSWER.replace(/<LastSchemaUpdate>.*<\/LastSchemaUpdate>/u, '')],
  ])('%s', (_what, other) => {
    expect(other).not.toBe(ANSWER);
    expect(digestOf(other)).toBeDefined();
    expect(digestOf(other)).not.toBe(digestOf(ANSWER));
  });
});

test('how the bytes are cut makes no difference', () => {
  const whole = digestOf(ANSWER);
  expect(whole).toMatch(/^[\w-]{43}$/);
  expect([1, 7, 100].map((piece) => digestOf(ANSWER, { piece }))).toEqual([whole, whole, whole]);
});

test.each([
  ['half of it', ANSWER.slice(0, 900)],
  ['no XML', 'SELECT'],
  ['nothing', ''],
  ['a document type', `<!DOCTYPE x>${ANSWER.replace(/^<\?.*\?>\n/u, '')}`],
])('%s has no digest', (_what, text) => {
  expect(digestOf(text)).toBeUndefined();
});
