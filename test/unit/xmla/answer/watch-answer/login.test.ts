import { describe, expect, test } from '@jest/globals';
import { readLoginAnswer } from '../../../../../src/xmla/answer/watch-answer.ts';
import {
  encodeAnswer,
  envelope,
  faultAnswer,
  mddatasetAnswer,
  response,
  rowsetAnswer,
  SESSION_HEADER,
} from '../../../../support/answers.ts';

const read = (body: Buffer | string, status = 200, contentType = 'text/xml') =>
  readLoginAnswer({ status, contentType, body: Buffer.from(body) });

describe('a login is accepted', () => {
  test.each([
    ['of Mondrian', rowsetAnswer()],
    ['of SSAS', rowsetAnswer({ style: 'ssas' })],
    ['of MDX for Kylin', rowsetAnswer({ style: 'kylin' })],
    ['without rows', response('Discover', 'rowset', '')],
    ['with a session that the engine began', rowsetAnswer({ header: SESSION_HEADER })],
    ['with a byte order mark', `\uFEFF${rowsetAnswer()}`],
  ])('by a rowset %s', (_case, body) => {
    expect(read(body)).toBe('accepted');
  });

  test('by a rowset in ISO-8859-1', () => {
    const body = encodeAnswer(rowsetAnswer({ encoding: 'ISO-8859-1' }), 'iso-8859-1');
    expect(read(body)).toBe('accepted');
  });
});

describe('a login is rejected', () => {
  test.each([401, 403])('by the status %d, whatever stands in the body', (status) => {
    expect(read('', status)).toBe('rejected');
    expect(read(rowsetAnswer(), status)).toBe('rejected');
  });

  test.each(['mondrian', 'ssas', 'kylin'] as const)('by a Fault of %s with status 200', (style) => {
    expect(read(faultAnswer({ style }))).toBe('rejected');
  });
});

describe('an answer says nothing of the login', () => {
  const rowset = rowsetAnswer();

  test.each(
    [200, 500].flatMap(
      (status) =>
        [
          [status, ''],
          [status, '<html><body>Log in</body></html>'],
        ] as const,
    ),
  )('with status %d and the body %j', (status, body) => {
    expect(read(body, status, 'text/html')).toBe('unavailable');
  });

  test.each([204, 206, 302, 404, 407, 500, 502, 503])(
    'with status %d, whatever it holds',
    (status) => {
      expect(read(rowset, status)).toBe('unavailable');
      expect(read(faultAnswer(), status)).toBe('unavailable');
    },
  );

  test('when it is cut off at any place', () => {
    const whole = Buffer.from(rowset.trimEnd());
    const fault = Buffer.from(faultAnswer().trimEnd());
    for (let length = 0; length < whole.length; length += 1) {
      expect(read(whole.subarray(0, length))).toBe('unavailable');
    }
    for (let length = 0; length < fault.length; length += 1) {
      expect(read(fault.subarray(0, length))).toBe('unavailable');
    }
  });

  test.each([
    ['an mddataset', mddatasetAnswer()],
    ['a rowset of an Execute', response('Execute', 'rowset', '')],
    ['a root of another kind', response('Discover', 'empty', '')],
    ['an empty body', envelope('')],
    ['an error in the rowset', rowset.replace('</root>', '<EX:Messages/></root>')],
    [
      'a Fault beside the answer',
      rowset.replace('</SOAP-ENV:Body>', '<SOAP-ENV:Fault/></SOAP-ENV:Body>'),
    ],
    [
      'a Fault in the header',
      rowset.replace('<SOAP-ENV:Header>', '<SOAP-ENV:Header><SOAP-ENV:Fault/>'),
    ],
    [
      'a second body',
      rowset.replace('</SOAP-ENV:Envelope>', '<SOAP-ENV:Body/></SOAP-ENV:Envelope>'),
    ],
    [
      'a Fault of another namespace',
      faultAnswer().replaceAll('http://schemas.xmlsoap.org/soap/envelope/', 'urn:x'),
    ],
    ['something behind the envelope', `${rowset}<a/>`],
    ['a document type', rowset.replace('<SOAP-ENV:Envelope', '<!DOCTYPE a><SOAP-ENV:Envelope')],
  ])('when it holds %s', (_case, body) => {
    expect(read(body)).toBe('unavailable');
  });

  test('when its bytes are not of its encoding', () => {
    expect(read(Buffer.from(rowset, 'latin1'))).toBe('unavailable');
    expect(read(rowset, 200, 'text/xml; charset=utf-16')).toBe('unavailable');
  });
});
