import { describe, expect, test } from '@jest/globals';
import type { RefusalReason } from '../../../../../src/common/reasons.ts';
import { inspectAnswer } from '../../../../../src/xmla/answer/inspect-answer.ts';
import {
  SESSION_HEADER,
  envelope,
  faultAnswer,
  mddatasetAnswer,
  response,
  rowsetAnswer,
} from '../../../../support/answers.ts';

type Method = 'Discover' | 'Execute';

function verdict(answer: string, method: Method = 'Execute'): RefusalReason | undefined {
  const errorsAsData = ['java-exception', 'error-dataset'] as const;
  const inspector = inspectAnswer({ contentType: 'text/xml', method, errorsAsData });
  inspector.write(Buffer.from(answer));
  const inspection = inspector.end();
  return inspection.ok ? undefined : inspection.reason;
}

/** Changes a text, and fails when there was nothing to change. */
function change(text: string, from: string, to: string): string {
  expect(text).toContain(from);
  return text.replace(from, to);
}

function nest(levels: number): string {
  const nested = '<a>'.repeat(levels) + '</a>'.repeat(levels);
  return response('Execute', 'rowset', `<row>${nested}</row>`);
}

function typed(type: string): string {
  return mddatasetAnswer({ cell: () => `<Value ${type}>no realization found</Value>` });
}

function withValue(value: string): string {
  return mddatasetAnswer({ cell: () => `<Value>${value}</Value>` });
}

const ROWSET = rowsetAnswer({ style: 'ssas' });
const DATASET = mddatasetAnswer({ style: 'ssas' });
const PARTS = {
  info: '<OlapInfo><CubeInfo/></OlapInfo>',
  axes: '<Axes/>',
  cells: '<CellData/>',
  schema: '<xsd:schema/>',
};

describe('the frame of an answer', () => {
  test('fits the method of the request', () => {
    expect(verdict(ROWSET, 'Execute')).toBe('answer-shape');
    expect(verdict(DATASET, 'Discover')).toBe('answer-shape');
    expect(verdict(response('Discover', 'mddataset', ''), 'Discover')).toBe('answer-shape');
  });

  test.each(['empty', 'exception', 'rowsets'])('has no root in the namespace %s', (kind) => {
    expect(verdict(response('Execute', kind, ''))).toBe('answer-shape');
  });

  test.each<[string, string, string]>([
    [
      'SOAP 1.2',
      'http://schemas.xmlsoap.org/soap/envelope/',
      'http://www.w3.org/2003/05/soap-envelope',
    ],
    ['no envelope', 'soap:Envelope', 'soap:Letter'],
    ['no body', 'soap:Body', 'soap:Content'],
    ['another response', 'ExecuteResponse', 'CancelResponse'],
    [
      'another namespace of the response',
      'xmlns="urn:schemas-microsoft-com:xml-analysis"',
      'xmlns="urn:x"',
    ],
    ['no return', 'return>', 'result>'],
    ['another name of the root', 'root', 'results'],
  ])('is refused: %s', (_, from, to) => {
    expect(verdict(DATASET.replaceAll(from, to))).toBe('answer-shape');
  });

  test.each<[string, string, string]>([
    [
      'a second response',
      '</ExecuteResponse>',
      '</ExecuteResponse><ExecuteResponse xmlns="urn:schemas-microsoft-com:xml-analysis"/>',
    ],
    ['a second return', '</return>', '</return><return/>'],
    [
      'a second root',
      '</root>',
      '</root><root xmlns="urn:schemas-microsoft-com:xml-analysis:mddataset"/>',
    ],
    ['a second body', '</soap:Body>', '</soap:Body><soap:Body/>'],
    ['a header behind the body', '</soap:Body>', '</soap:Body><soap:Header/>'],
    ['an element behind the body', '</soap:Body>', '</soap:Body><x/>'],
    ['a second header', '<soap:Body>', '<soap:Header/><soap:Header/><soap:Body>'],
    [
      'an unknown header',
      '<soap:Body>',
      '<soap:Header><Token xmlns="urn:x"/></soap:Header><soap:Body>',
    ],
    ['text in the header', '<soap:Body>', '<soap:Header>x</soap:Header><soap:Body>'],
    ['text in the body', '<soap:Body>', '<soap:Body>x'],
    ['text in the body, as CDATA', '<soap:Body>', '<soap:Body><![CDATA[x]]>'],
    ['text behind the return', '</return>', '</return>x'],
    ['text beside the cells', '<CellData>', '<CellData>x'],
    ['text behind a value', '</Value>', '</Value>x'],
    ['an unknown part of the dataset', '<CellData>', '<Extra/><CellData>'],
  ])('is refused: %s', (_, from, to) => {
    expect(verdict(change(DATASET, from, to))).toBe('answer-shape');
  });

  test.each([
    ['a body', envelope('')],
    ['a response', envelope('<ExecuteResponse xmlns="urn:schemas-microsoft-com:xml-analysis"/>')],
    [
      'a return',
      envelope(
        '<ExecuteResponse xmlns="urn:schemas-microsoft-com:xml-analysis"><return/></ExecuteResponse>',
      ),
    ],
    ['an envelope', '<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"/>'],
    [
      'a return with text',
      envelope(
        '<ExecuteResponse xmlns="urn:schemas-microsoft-com:xml-analysis"><return>1</return></ExecuteResponse>',
      ),
    ],
    ['a root with text', response('Execute', 'rowset', '1')],
  ])('is refused: %s that holds nothing', (_, answer) => {
    expect(verdict(answer)).toBe('answer-shape');
  });

  test('may have an empty header, comments, and a return in no namespace', () => {
    const answer = change(
      DATASET,
      '<soap:Body>',
      '<soap:Header> </soap:Header><!-- x --><soap:Body>',
    );
    expect(verdict(answer)).toBeUndefined();
    expect(verdict(change(answer, '<return>', '<return xmlns="">'))).toBeUndefined();
  });

  test('nests no deeper than any real answer', () => {
    expect(verdict(nest(50))).toBeUndefined();
    expect(verdict(nest(60))).toBe('answer-shape');
  });
});

describe('the parts of a root', () => {
  const { info, axes, cells, schema } = PARTS;

  test.each([
    ['nothing', ''],
    ['a schema only', schema],
    ['a dataset', info + axes + cells],
    ['a dataset with its schema', schema + info + axes + cells],
    // Mondrian answers a request that names no format with rows in the namespace of the mddataset.
    ['rows', `${schema}<row/><row/>`],
  ])('may be %s', (_, content) => {
    expect(verdict(response('Execute', 'mddataset', content))).toBeUndefined();
  });

  test.each([
    ['no cells', info + axes],
    ['no axes', info + cells],
    ['no description', axes + cells],
    ['another order', axes + info + cells],
    ['two times the cells', info + axes + cells + cells],
    ['a schema behind the data', info + axes + cells + schema],
    ['two schemas', schema + schema],
    ['something else of the schema language', '<xsd:element/>'],
    ['rows and a dataset', `<row/>${info}${axes}${cells}`],
    ['a dataset and rows', `${info}${axes}${cells}<row/>`],
    ['a part of another namespace', `<x:OlapInfo xmlns:x="urn:x"/>${axes}${cells}`],
  ])('are refused: %s', (_, content) => {
    expect(verdict(response('Execute', 'mddataset', content))).toBe('answer-shape');
  });

  test.each([
    ['a dataset', info + axes + cells],
    ['something besides rows', '<row/><column/>'],
    ['a schema behind a row', `<row/>${schema}`],
    ['a row of another namespace', '<row xmlns="urn:x"/>'],
  ])('are refused in a rowset: %s', (_, content) => {
    expect(verdict(response('Execute', 'rowset', content))).toBe('answer-shape');
  });
});

describe('an element that tells an error', () => {
  const names = ['Fault', 'Exception', 'Error', 'Messages', 'Warning'];

  test.each(names)('%s is found wherever it stands', (name) => {
    const element = `<x:${name} xmlns:x="urn:any"/>`;
    for (const place of ['<soap:Body>', '<return>', '<CellInfo>', '<CellData>', '</Tuples>']) {
      const answer = change(
        DATASET,
        place,
        place.startsWith('</') ? element + place : place + element,
      );
      expect(verdict(answer)).toBe('fault');
    }
    expect(verdict(change(ROWSET, '<row>', `<row><${name}/>`), 'Discover')).toBe('fault');
    expect(verdict(change(ROWSET, '</xsd:schema>', `${element}</xsd:schema>`), 'Discover')).toBe(
      'fault',
    );
  });

  test.each(names)('%s may be declared by the inline schema', (name) => {
    const declared = `<xsd:element name="${name}"/><xsd:${name}/></xsd:schema>`;
    expect(verdict(change(ROWSET, '</xsd:schema>', declared), 'Discover')).toBeUndefined();
  });

  test('is not excused by the namespace of the schema outside of it', () => {
    expect(verdict(change(ROWSET, '<row>', '<row><xsd:Error/>'), 'Discover')).toBe('fault');
  });

  test('is not told by other names and places', () => {
    const row = '<row><ErrorCode>1</ErrorCode><error>Error</error><X Error="Fault"/>';
    expect(verdict(change(ROWSET, '<row>', row), 'Discover')).toBeUndefined();
  });

  test('is said before a refusal that stands behind it, and after one that stands before it', () => {
    expect(verdict(`${faultAnswer({ style: 'ssas' })}<`)).toBe('fault');
    expect(verdict(faultAnswer({ header: SESSION_HEADER }))).toBe('fault');
    const twice = SESSION_HEADER + SESSION_HEADER;
    expect(verdict(faultAnswer({ header: twice }))).toBe('session-in-answer');
  });
});

describe('a value typed by MDX for Kylin', () => {
  test.each([
    'xsi:type="string"',
    "xsi:type=' string '",
    'xmlns:a="http://www.w3.org/2001/XMLSchema-instance" a:type="string"',
  ])('tells an error: %s', (type) => {
    expect(verdict(typed(type))).toBe('error-cell');
  });

  test.each([
    'xsi:type="xsd:string"',
    'type="string"',
    'xmlns:a="urn:a" a:type="string"',
    'xsi:nil="string"',
  ])('is genuine: %s', (type) => {
    expect(verdict(typed(type))).toBeUndefined();
  });

  test('is not looked for in the inline schema', () => {
    const schema = '<xsd:element xsi:type="string"/></xsd:schema>';
    expect(verdict(change(ROWSET, '</xsd:schema>', schema), 'Discover')).toBeUndefined();
  });
});

describe('the text of a value', () => {
  test.each([
    '#ERR: no',
    '<![CDATA[#ERR: no]]>',
    '#E<!-- -->RR:',
    '#ER<![CDATA[R:]]>',
    '&#35;ERR:',
    ' \n#ERR:',
    '#E<?x y?>RR:',
  ])('tells an error: %s', (value) => {
    expect(verdict(withValue(value))).toBe('error-cell');
  });

  test.each(['ERR:', 'a #ERR:', '#ERROR', '#ER'])('is genuine: %s', (value) => {
    expect(verdict(withValue(value))).toBeUndefined();
  });

  test('is not joined over elements', () => {
    const halves = mddatasetAnswer({ cell: () => '<Value>#E</Value><FmtValue>RR:</FmtValue>' });
    expect(verdict(halves)).toBeUndefined();
  });

  test('of a row and of the schema: the one counts, the other does not', () => {
    expect(verdict(rowsetAnswer({ names: ['#ERR: no'] }), 'Discover')).toBe('error-cell');
    const schema = '<xsd:documentation>#ERR: no <xsd:b/> more</xsd:documentation></xsd:schema>';
    expect(verdict(change(ROWSET, '</xsd:schema>', schema), 'Discover')).toBeUndefined();
  });
});

describe('a tag that came before', () => {
  const bound = (uri: string): string => `<x xmlns:z="${uri}"><Value z:type="string">1</Value></x>`;
  const XSI = 'http://www.w3.org/2001/XMLSchema-instance';
  const cells = (cell: (ordinal: number) => string): string => mddatasetAnswer({ cells: 60, cell });

  test('tells an error where its prefix has another meaning', () => {
    expect(verdict(cells(() => bound('urn:z')))).toBeUndefined();
    for (const odd of [1, 4, 59])
      expect(verdict(cells((ordinal) => bound(ordinal === odd ? XSI : 'urn:z')))).toBe(
        'error-cell',
      );
  });

  test('is ill-formed where its prefix has none', () => {
    const unbound = bound('urn:z').replace(/ xmlns:z="[^"]*"/, '');
    expect(verdict(cells((ordinal) => (ordinal === 59 ? unbound : bound('urn:z'))))).toBe(
      'not-well-formed',
    );
  });

  test.each([
    '#ERR: x',
    '&#35;ERR: x',
    '#&#69;RR: x',
    'a.b.XError',
    'dummy',
    ' #ERR: x',
    '[x].[dummy]',
  ])('does not hide the text %j', (error) => {
    for (const odd of [1, 2, 5, 59]) {
      const cell = (ordinal: number): string =>
        `<Value>${ordinal === odd ? error : 'good'}</Value>`;
      expect(verdict(cells(cell))).toBe('error-cell');
      // The same text again, so that it would be known by then.
      expect(verdict(cells((ordinal) => (ordinal < odd ? '<Value>1</Value>' : cell(odd))))).toBe(
        'error-cell',
      );
    }
  });

  test('does not excuse a text because the inline schema has it too', () => {
    const text = '<Value>#ERR: x</Value>';
    const schema = `<xsd:schema>${text.repeat(3)}</xsd:schema>`;
    const answer = (row: string): string =>
      response('Execute', 'rowset', `${schema}<row>${'<Value>1</Value>'.repeat(3)}${row}</row>`);
    expect(verdict(answer(''))).toBeUndefined();
    expect(verdict(answer(text))).toBe('error-cell');
  });

  test('does not excuse text beside elements', () => {
    const one = '<row><Value>1</Value></row>'.repeat(3);
    expect(verdict(response('Execute', 'rowset', one))).toBeUndefined();
    const beside = `${one}<row><Value>1</Value>x</row>`;
    expect(verdict(response('Execute', 'rowset', beside))).toBe('answer-shape');
    const row = '<Value>1</Value>'.repeat(9);
    expect(verdict(response('Execute', 'rowset', `<row>${row}</row>`))).toBeUndefined();
    expect(verdict(response('Execute', 'rowset', `<row>${row}x${row}</row>`))).toBe('answer-shape');
    expect(verdict(response('Execute', 'rowset', `<row>${row}x</row>`))).toBe('answer-shape');
  });
});
