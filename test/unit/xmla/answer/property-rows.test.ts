import { describe, expect, test } from '@jest/globals';
import { inspectAnswer } from '../../../../src/xmla/answer/inspect-answer.ts';
import { propertiesAnswer, response } from '../../../support/answers.ts';

/** Inspects an answer, cut into pieces of so many bytes. */
function inspected(text: string, asked: readonly string[], piece = 1_000_000) {
  const inspector = inspectAnswer({
    contentType: 'text/xml; charset=utf-8',
    method: 'Discover',
    errorsAsData: [],
    properties: new Set(asked),
  });
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += piece) inspector.write(bytes.subarray(at, at + piece));
  const found = inspector.end();
  return found.ok ? 'kept' : found.reason;
}

const ASKED = ['providerversion', 'timeout', 'dbmsversion'];
const row = (columns: string) => response('Discover', 'rowset', `<row>${columns}</row>`);

describe('rows of DISCOVER_PROPERTIES', () => {
  test.each([
    ['all that were asked for', propertiesAnswer(ASKED.map((name) => [name, 'a', '']))],
    ['one of them', propertiesAnswer([['DBMSVersion', 'a', '16.0']])],
    ['none of them', propertiesAnswer([])],
    ['one twice', propertiesAnswer([...ASKED, ...ASKED].map((name) => [name, 'a', '']))],
    ['a name with white space', propertiesAnswer([[' ProviderVersion\n', 'a', '1']])],
    [
      'an ignored property that is nil',
      row('<PropertyName>Timeout</PropertyName><Value xsi:nil="true"/>'),
    ],
    ['an ignored property without a value', row('<PropertyName>Timeout</PropertyName>')],
    [
      'a name in CDATA',
      row('<PropertyName><![CDATA[DBMSVersion]]></PropertyName><Value>1</Value>'),
    ],
  ])('are kept: %s', (_, text) => {
    for (const piece of [1, 7, 1_000_000]) expect(inspected(text, ASKED, piece)).toBe('kept');
  });

  test.each([
    ['another one', propertiesAnswer([['ServerName', 'a', 'b']])],
    [
      'another one among them',
      propertiesAnswer([
        ['DBMSVersion', 'a', 'b'],
        ['Format', 'a', ''],
      ]),
    ],
    ['an ignored property with a value', propertiesAnswer([['Timeout', 'a', '10']])],
    ['an ignored property with white space', propertiesAnswer([['Timeout', 'a', ' ']])],
    ['an ignored property in another case', propertiesAnswer([['TIMEOUT', 'a', '10']])],
    ['an ignored property with a reference', propertiesAnswer([['Timeout', 'a', '&#49;']])],
    ['a name in another width', propertiesAnswer([['Ｔimeout', 'a', '']])],
    ['a name with a reference', propertiesAnswer([['&#84;imeout', 'a', '10']])],
    ['a name beyond the longest', propertiesAnswer([['x'.repeat(300), 'a', '10']])],
    ['no name', row('<Value>1</Value>')],
    [
      'two names',
      row('<PropertyName>DBMSVersion</PropertyName><PropertyName>Timeout</PropertyName>'),
    ],
    ['a value in another column', row('<PropertyName>Timeout</PropertyName><VALUE>10</VALUE>')],
    ['a value in parts', row('<PropertyName>Timeout</PropertyName><Value><A>1</A></Value>')],
    ['a name in parts', row('<PropertyName><A>DBMSVersion</A></PropertyName>')],
  ])('are not kept: %s', (_, text) => {
    for (const piece of [1, 7, 1_000_000]) {
      expect(inspected(text, [...ASKED, 'x'.repeat(256)], piece)).toBe('answer-shape');
    }
  });

  test('do not matter where no properties were asked for', () => {
    const inspector = inspectAnswer({
      contentType: 'text/xml; charset=utf-8',
      method: 'Discover',
      errorsAsData: [],
    });
    inspector.write(Buffer.from(propertiesAnswer([['Timeout', 'a', '10']])));
    expect(inspector.end().ok).toBe(true);
  });
});
