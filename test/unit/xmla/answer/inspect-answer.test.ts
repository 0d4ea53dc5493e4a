import { describe, expect, test } from '@jest/globals';
import type { RefusalReason } from '../../../../src/common/reasons.ts';
import { inspectAnswer, refuseByHead } from '../../../../src/xmla/answer/inspect-answer.ts';
import type { Inspection } from '../../../../src/xmla/answer/inspect-answer.ts';
import {
  brokenOffAnswer,
  encodeAnswer,
  errorCellAnswer,
  faultAnswer,
  kylinErrorAnswer,
  largeMddatasetAnswer,
  mddatasetAnswer,
  rowsetAnswer,
} from '../../../support/answers.ts';
import type { AnswerStyle } from '../../../support/answers.ts';

type Method = 'Discover' | 'Execute';

const ALL = ['java-exception', 'error-dataset'] as const;

function reasonOf(inspection: Inspection): RefusalReason | undefined {
  return inspection.ok ? undefined : inspection.reason;
}

function verdict(
  answer: string | Buffer,
  method: Method = 'Execute',
  contentType: string | undefined = 'text/xml',
): RefusalReason | undefined {
  const inspector = inspectAnswer({ contentType, method, errorsAsData: ALL });
  inspector.write(typeof answer === 'string' ? Buffer.from(answer) : answer);
  return reasonOf(inspector.end());
}

describe('an answer that may be stored', () => {
  test.each<AnswerStyle>(['mondrian', 'ssas', 'kylin'])('a rowset of %s', (style) => {
    expect(verdict(rowsetAnswer({ style }), 'Discover')).toBeUndefined();
  });

  test.each<AnswerStyle>(['mondrian', 'ssas', 'kylin'])('an mddataset of %s', (style) => {
    expect(verdict(mddatasetAnswer({ style }))).toBeUndefined();
  });

  test('a table that answers an Execute', () => {
    const table = rowsetAnswer().replaceAll('DiscoverResponse', 'ExecuteResponse');
    expect(verdict(table)).toBeUndefined();
  });

  test('a rowset without rows, and a dataset without cells', () => {
    expect(verdict(rowsetAnswer({ names: [] }), 'Discover')).toBeUndefined();
    expect(verdict(mddatasetAnswer({ cells: 0, members: [] }))).toBeUndefined();
  });

  test('an answer of several megabytes', () => {
    expect(verdict(largeMddatasetAnswer(3_000_000))).toBeUndefined();
  });

  test.each([
    ['UTF-8', 'utf-8', 'text/xml; charset=utf-8'],
    ['ISO-8859-1', 'iso-8859-1', 'text/xml;charset=ISO-8859-1'],
    ['UTF-16', 'utf-16le', 'application/xml; charset="UTF-16LE"'],
    ['UTF-16', 'utf-16be', 'text/xml; charset=utf-16be'],
  ] as const)('text declared %s in %s', (encoding, coding, contentType) => {
    const bytes = encodeAnswer(rowsetAnswer({ encoding }), coding);
    expect(verdict(bytes, 'Discover', contentType)).toBeUndefined();
  });
});

describe('an answer that is refused', () => {
  test.each<[string, RefusalReason, string]>([
    ['a fault with status 200', 'fault', faultAnswer()],
    ['a fault of SSAS', 'fault', faultAnswer({ style: 'ssas' })],
    ['an answer that broke off and closed its tags', 'fault', brokenOffAnswer()],
    ['a cell with the text of an error', 'error-cell', errorCellAnswer()],
    ['a failed query as a dataset', 'error-cell', kylinErrorAnswer()],
    ['a failed query as a dataset without a caption', 'error-cell', kylinErrorAnswer('')],
    ['no byte at all', 'not-well-formed', ''],
    ['a page of a proxy', 'answer-shape', '<!-- down --><html><body><p>Sorry<br></body></html>'],
  ])('%s', (_, reason, answer) => {
    expect(verdict(answer)).toBe(reason);
  });

  test.each(['UTF-8', 'ISO-8859-1'])('bytes that are not the declared %s', (encoding) => {
    const bytes = encodeAnswer(rowsetAnswer({ encoding }), 'iso-8859-1');
    const expected = encoding === 'UTF-8' ? 'answer-encoding' : undefined;
    expect(verdict(bytes, 'Discover')).toBe(expected);
  });

  test('whatever follows an answer', () => {
    const good = mddatasetAnswer();
    expect(verdict(`${good}<more/>`)).toBe('not-well-formed');
    expect(verdict(`${good}more`)).toBe('not-well-formed');
    expect(verdict(good + good)).toBe('not-well-formed');
    expect(verdict(`${good}\0`)).toBe('not-well-formed');
  });

  test('a document type, whether or not it defines an entity', () => {
    const good = mddatasetAnswer({ style: 'ssas' });
    expect(verdict(`<!DOCTYPE a>${good}`)).toBe('answer-shape');
    const used = good.replace('<CubeName>Sales', '<CubeName>&x;');
    expect(verdict(`<!DOCTYPE a [<!ENTITY x "Sales">]>${used}`)).toBe('answer-shape');
  });

  test('what is well-formed only by XML 1.1', () => {
    const good = mddatasetAnswer();
    expect(verdict(good.replace('version="1.0"', 'version="1.1"'))).toBe('not-well-formed');
  });

  test.each(['<a:1b/>', '<b a:-c="1"/>', '<b a:\u0301="1"/>'])('the name in %s', (element) => {
    const answer = mddatasetAnswer().replace(
      '<CellData>',
      `<CellData xmlns:a="urn:a">${element.replace('<b', '<x')}`,
    );
    expect(verdict(answer)).toBe('not-well-formed');
  });
});

describe('what other parsers may let pass is refused', () => {
  test.each([
    ['a processing instruction without white space', (good: string) => `${good}<?a?b?>`],
    [
      'a namespace that is no URI',
      (good: string) =>
        good.replace('="http://www.w3.org/2001', '="\u{FFFD}http://www.w3.org/2001'),
    ],
  ])('%s', (_what, damage) => {
    const good = mddatasetAnswer();
    expect(damage(good)).not.toBe(good);
    expect(verdict(damage(good))).toBe('not-well-formed');
  });
});

describe('an inspection', () => {
  test('says the first refusal in the document, as soon as it was read', () => {
    const bytes = Buffer.from(errorCellAnswer());
    const error = bytes.indexOf('</Value>', bytes.indexOf('#ERR:')) + '</Value>'.length;
    const inspector = inspectAnswer({
      contentType: 'text/xml',
      method: 'Execute',
      errorsAsData: ALL,
    });
    inspector.write(bytes.subarray(0, error - 1));
    expect(inspector.refusal).toBeUndefined();
    inspector.write(bytes.subarray(error - 1, error));
    expect(inspector.refusal).toBe('error-cell');
    inspector.write(Buffer.from('<<<'));
    inspector.write(Buffer.from(faultAnswer()));
    expect(reasonOf(inspector.end())).toBe('error-cell');
  });

  test('says a fault that stands before bytes of no encoding', () => {
    const bytes = Buffer.concat([Buffer.from(faultAnswer().trimEnd()), Buffer.from([0xff])]);
    expect(verdict(bytes)).toBe('fault');
  });

  test.each([1, 7, 64])('does not depend on chunks of %d that their owner overwrites', (size) => {
    const bytes = Buffer.from(rowsetAnswer());
    const inspector = inspectAnswer({
      contentType: undefined,
      method: 'Discover',
      errorsAsData: ALL,
    });
    const chunk = Buffer.alloc(size);
    for (let at = 0; at < bytes.length; at += size) {
      const length = bytes.copy(chunk, 0, at, at + size);
      inspector.write(chunk.subarray(0, length));
      chunk.fill(0xff);
    }
    expect(reasonOf(inspector.end())).toBeUndefined();
  });

  test('takes plain bytes that begin within their buffer', () => {
    const bytes = Buffer.from(`##${rowsetAnswer()}##`);
    const view = new Uint8Array(bytes.buffer, bytes.byteOffset + 2, bytes.length - 4);
    const inspector = inspectAnswer({
      contentType: undefined,
      method: 'Discover',
      errorsAsData: ALL,
    });
    inspector.write(view);
    expect(reasonOf(inspector.end())).toBeUndefined();
  });
});

function refusalWhenSuccessIs(success: string | string[]): RefusalReason | undefined {
  return refuseByHead({ status: 200, headers: { 'content-type': 'text/xml', success } }, 'success');
}

describe('the head of an answer', () => {
  test.each([
    'text/xml',
    'TEXT/XML; charset=utf-8',
    'application/xml;charset=ISO-8859-1',
    'text/xml ;x=y',
  ])('%s with status 200 forbids nothing', (type) => {
    expect(
      refuseByHead({ status: 200, headers: { 'content-type': type } }, 'success'),
    ).toBeUndefined();
  });

  test.each([201, 204, 206, 301, 401, 500])('status %d forbids to store', (status) => {
    const headers = { 'content-type': 'text/xml' };
    expect(refuseByHead({ status, headers }, 'success')).toBe('engine-status');
  });

  test.each([
    undefined,
    '',
    'text/html',
    'application/json',
    'application/sx',
    'application/xml+xpress',
    'application/soap+xml',
    'text/xmlx',
    'multipart/mixed; boundary="text/xml"',
  ])('the media type %s forbids to store', (type) => {
    const headers = type === undefined ? {} : { 'content-type': type };
    expect(refuseByHead({ status: 200, headers }, 'success')).toBe('media-type');
  });

  test.each(['gzip', 'deflate', 'GZIP', 'identity, gzip'])('the coding %s forbids it', (coding) => {
    const headers = { 'content-type': 'text/xml', 'content-encoding': coding };
    expect(refuseByHead({ status: 200, headers }, 'success')).toBe('content-coding');
  });

  test('the coding identity is none', () => {
    const headers = { 'content-type': 'text/xml', 'content-encoding': 'Identity' };
    expect(refuseByHead({ status: 200, headers }, 'success')).toBeUndefined();
  });

  test('a query that MDX for Kylin calls failed is not stored', () => {
    expect(refusalWhenSuccessIs('true')).toBeUndefined();
    expect(refusalWhenSuccessIs('false')).toBe('error-cell');
    expect(refusalWhenSuccessIs('False')).toBe('error-cell');
    expect(refusalWhenSuccessIs('true, false')).toBe('error-cell');
    expect(refusalWhenSuccessIs(['true', 'false'])).toBe('error-cell');
    const headers = { 'content-type': 'text/xml', success: 'false' };
    expect(refuseByHead({ status: 200, headers }, undefined)).toBeUndefined();
    expect(refuseByHead({ status: 200, headers }, 'other')).toBeUndefined();
  });
});
