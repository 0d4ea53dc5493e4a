import { describe, expect, test } from '@jest/globals';
import type { TextEncoding } from '../../../../../src/xml/text-encoding.ts';
import { inspectAnswer } from '../../../../../src/xmla/answer/inspect-answer.ts';
import type { Inspection } from '../../../../../src/xmla/answer/inspect-answer.ts';
import { watchAnswer } from '../../../../../src/xmla/answer/watch-answer.ts';
import { SESSION_HEADER, encodeAnswer, mddatasetAnswer } from '../../../../support/answers.ts';

const XMLA = 'urn:schemas-microsoft-com:xml-analysis';

interface Coding {
  readonly name: string;
  readonly encoding: TextEncoding;
  readonly label: string;
  readonly mark: readonly number[];
}

const CODINGS: readonly Coding[] = [
  { name: 'UTF-8', encoding: 'utf-8', label: 'UTF-8', mark: [] },
  { name: 'UTF-8 with a mark', encoding: 'utf-8', label: 'UTF-8', mark: [0xef, 0xbb, 0xbf] },
  { name: 'UTF-8 that says so nowhere', encoding: 'utf-8', label: '', mark: [] },
  { name: 'UTF-16LE', encoding: 'utf-16le', label: 'UTF-16', mark: [0xff, 0xfe] },
  { name: 'UTF-16LE without a mark', encoding: 'utf-16le', label: 'UTF-16LE', mark: [] },
  { name: 'UTF-16BE', encoding: 'utf-16be', label: 'UTF-16', mark: [0xfe, 0xff] },
  { name: 'ISO-8859-1', encoding: 'iso-8859-1', label: 'ISO-8859-1', mark: [] },
  { name: 'US-ASCII', encoding: 'us-ascii', label: 'US-ASCII', mark: [] },
];

function encode({ encoding, mark }: Coding, text: string): Buffer {
  const bytes = encodeAnswer(text, encoding === 'us-ascii' ? 'iso-8859-1' : encoding);
  return Buffer.concat([Buffer.from(mark), bytes]);
}

function decode(encoding: TextEncoding, bytes: Buffer): string {
  if (encoding === 'utf-8') return bytes.toString('utf8');
  if (encoding === 'utf-16le') return bytes.toString('utf16le');
  if (encoding === 'utf-16be') return Buffer.from(bytes).swap16().toString('utf16le');
  return bytes.toString('latin1');
}

function inspect(bytes: Buffer): Inspection {
  const inspector = inspectAnswer({ contentType: 'text/xml', method: 'Execute', errorsAsData: [] });
  inspector.write(bytes);
  return inspector.end();
}

const reason = (header: string): string => {
  const result = inspect(Buffer.from(mddatasetAnswer({ header })));
  return result.ok ? 'ok' : result.reason;
};

/** A session: how the element is spelt, how its value is, which id that is, and whether it is plain. */
const FORMS: readonly [element: string, value: string, id: string, plain: boolean][] = [
  [SESSION_HEADER, '3a7f-20260101', '3a7f-20260101', true],
  [`<Session SessionId="a" xmlns="${XMLA}" />`, 'a', 'a', true],
  [`<Session xmlns='${XMLA}' SessionId='a"b'/>`, 'a"b', 'a"b', true],
  [`<Session xmlns="${XMLA}" SessionId="a'b"></Session>`, "a'b", "a'b", true],
  [`<x:Session xmlns:x="${XMLA}"\n SessionId = "a" ></x:Session >`, 'a', 'a', true],
  [`<Session SOAP-ENV:mustUnderstand="1" SessionId="a" xmlns="${XMLA}"/>`, 'a', 'a', true],
  [`<Session xmlns="${XMLA}" SessionId="&#x41;&amp;&#66;"/>`, '&#x41;&amp;&#66;', 'A&B', true],
  [`<Session xmlns="${XMLA}" SessionId="a\tb"/>`, 'a\tb', 'a b', true],
  [`<Session xmlns="${XMLA}" SessionId="a" mustUnderstand="1"/>`, 'a', 'a', false],
  [`<Session xmlns="${XMLA}" SessionId="a" xml:lang="de"/>`, 'a', 'a', false],
  [`<Session xmlns="${XMLA}" SessionId="a">b</Session>`, 'a', 'a', false],
  [`<Session xmlns="${XMLA}" SessionId="a"> </Session>`, 'a', 'a', false],
  [`<Session xmlns="${XMLA}" SessionId="a"><!-- b --></Session>`, 'a', 'a', false],
];

describe.each(CODINGS)('a session in $name', (coding) => {
  test.each(FORMS)('is found with its place: %s', (element, value, id, plain) => {
    const note = coding.encoding === 'us-ascii' ? '<!-- <Session/> -->' : '<!-- é <Session/> -->';
    const bytes = encode(
      coding,
      mddatasetAnswer({ encoding: coding.label, header: `${note} ${element} ` }),
    );
    const result = inspect(bytes);
    if (!result.ok || result.session === undefined) throw new Error(JSON.stringify(result));
    const { session } = result;
    expect(session).toMatchObject({ id, plain, encoding: coding.encoding });
    const at = ({ start, end }: { start: number; end: number }): string =>
      decode(coding.encoding, bytes.subarray(start, end));
    expect(at(session.value)).toBe(value);
    expect(at(session.element)).toBe(element);

    const watch = watchAnswer({ contentType: 'text/xml' });
    watch.write(bytes);
    expect(watch.session).toEqual(session);
  });
});

describe('what is no session', () => {
  test.each([
    '<Session SessionId="1">',
    `<Session xmlns="${XMLA}" SessionId="1"/>`.replaceAll('<', '&lt;'),
    `<![CDATA[<Session xmlns="${XMLA}" SessionId="1"/>]]>`,
    `<!-- <Session xmlns="${XMLA}" SessionId="1"/> -->`,
    `<Session xmlns="${XMLA}" SessionId="1"/>`,
  ])('in the data: %s', (text) => {
    const caption = text === '<Session SessionId="1">' ? text.replace('<', '&lt;') : text;
    const answer = mddatasetAnswer({ cell: () => `<Value>${caption}</Value>` });
    expect(inspect(Buffer.from(answer))).toEqual({ ok: true, session: undefined });
  });
});

describe('a header that may not be stored', () => {
  test.each([
    ['two sessions', SESSION_HEADER + SESSION_HEADER, 'session-in-answer'],
    ['no id', `<Session xmlns="${XMLA}"/>`, 'session-in-answer'],
    ['an empty id', `<Session xmlns="${XMLA}" SessionId=""/>`, 'session-in-answer'],
    ['an id of another spelling', `<Session xmlns="${XMLA}" sessionid="1"/>`, 'session-in-answer'],
    ['an id in a namespace', `<x:Session xmlns:x="${XMLA}" x:SessionId="1"/>`, 'session-in-answer'],
    ['another namespace', '<Session xmlns="urn:x" SessionId="1"/>', 'session-in-answer'],
    [
      'an element in the session',
      `<Session xmlns="${XMLA}" SessionId="1"><a/></Session>`,
      'session-in-answer',
    ],
    ['the beginning of a session', `<BeginSession xmlns="${XMLA}"/>`, 'answer-shape'],
    ['the end of a session', `<EndSession xmlns="${XMLA}" SessionId="1"/>`, 'answer-shape'],
    ['something behind the session', `${SESSION_HEADER}<a/>`, 'answer-shape'],
    ['text behind the session', `${SESSION_HEADER}a`, 'answer-shape'],
    [
      'an error in the session',
      `<Session xmlns="${XMLA}" SessionId="1"><Error/></Session>`,
      'fault',
    ],
    ['a length that no header has', `<!--${'-x'.repeat(10_000)}-->`, 'answer-shape'],
    ['a session far behind', `<!--${'x'.repeat(17_000)}-->${SESSION_HEADER}`, 'answer-shape'],
    ['a long one still', `<!--${'x'.repeat(15_000)}-->${SESSION_HEADER}`, 'ok'],
  ])('%s', (_, header, expected) => {
    expect(reason(header)).toBe(expected);
  });
});
