import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { XmlDocument } from 'libxml2-wasm';
import { soapFault, SOAP_FAULT_CONTENT_TYPE } from '../../../src/xmla/soap-fault.ts';
import { sizes } from '../../support/sizes.ts';
import { codePoint } from '../../support/code-point.ts';

const NAMES = { s: 'http://schemas.xmlsoap.org/soap/envelope/' };

function read(fault: Buffer, path: string): string | undefined {
  using document = XmlDocument.fromBuffer(fault);
  return document.get(path, NAMES)?.content;
}

describe('a fault', () => {
  const fault = soapFault({
    side: 'Client',
    message: 'No <such> "thing" & more',
    code: '42',
  });

  test.each([
    ['/s:Envelope/s:Body/s:Fault/faultcode', 'SOAP-ENV:Client'],
    ['/s:Envelope/s:Body/s:Fault/faultstring', 'No <such> "thing" & more'],
    ['/s:Envelope/s:Body/s:Fault/detail/Error/@ErrorCode', '42'],
    ['/s:Envelope/s:Body/s:Fault/detail/Error/@Description', 'No <such> "thing" & more'],
    ['/s:Envelope/s:Body/s:Fault/detail/Error/@Source', 'mdx-gateway'],
  ])('has %s', (path, expected) => {
    expect(read(fault, path)).toBe(expected);
  });

  test('has a decimal code unless told', () => {
    const plain = soapFault({ side: 'Server', message: 'x' });
    expect(read(plain, '//faultcode')).toBe('SOAP-ENV:Server');
    expect(read(plain, '//Error/@ErrorCode')).toMatch(/^[0-9]+$/);
  });

  test('says its encoding', () => {
    expect(SOAP_FAULT_CONTENT_TYPE).toBe('text/xml; charset=utf-8');
  });
});

test('any message gives well-formed XML and comes back as it was, but for forbidden characters', () => {
  const forbidden = /[^\t\n\r\u0020-\uFFFD\u{10000}-\u{10FFFF}]/gu;
  const awkward = fc.string({
    unit: fc.constantFrom(
      '<',
      '&',
      '"',
      "'",
      ']]>',
      '\r',
      '\n',
      '\t',
      ' ',
      '\0',
      '\u001B',
      '\uFFFE',
      'a',
    ),
  });
  fc.assert(
    fc.property(fc.oneof(awkward, fc.string({ unit: codePoint })), (message) => {
      const fault = soapFault({ side: 'Server', message, code: message });
      const expected = message.toWellFormed().replaceAll(forbidden, '\uFFFD');
      expect(read(fault, '//faultstring')).toBe(expected);
      expect(read(fault, '//Error/@Description')).toBe(expected);
      expect(read(fault, '//Error/@ErrorCode')).toBe(expected);
    }),
    { numRuns: sizes.propertyRuns },
  );
});

test('a lone surrogate does not break the encoding', () => {
  expect(read(soapFault({ side: 'Server', message: 'a\uD800b' }), '//faultstring')).toBe(
    'a\uFFFDb',
  );
});
