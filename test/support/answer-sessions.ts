import { mddatasetAnswer } from './answers.ts';

/** Answers that show a session, in every encoding and spelling that engines have. */

export const XMLA = 'urn:schemas-microsoft-com:xml-analysis';
const SOAP = 'http://schemas.xmlsoap.org/soap/envelope/';

/** What an engine writes before the answer, and which bytes it makes of it. */
export interface TextEncoding {
  readonly name: string;
  readonly contentType: string;
  readonly declared: string;
  readonly mark: readonly number[];
  readonly bytes: (text: string) => Buffer;
  /** The last character that it can say; others are written by number. */
  readonly last: number;
}

const utf16be = (text: string) => Buffer.from(text, 'utf16le').swap16();
const encoding = (
  name: string,
  contentType: string,
  declared: string,
  bytes: TextEncoding['bytes'],
  { mark = [], last = 0x10ffff }: Partial<Pick<TextEncoding, 'mark' | 'last'>> = {},
): TextEncoding => ({ name, contentType, declared, bytes, mark, last });

export const ENCODINGS: readonly TextEncoding[] = [
  encoding('UTF-8', 'text/xml; charset=utf-8', 'UTF-8', (text) => Buffer.from(text)),
  encoding('UTF-8 that nothing names', 'text/xml', '', (text) => Buffer.from(text)),
  encoding('UTF-8 with a mark', 'text/xml', 'utf-8', (text) => Buffer.from(text), {
    mark: [0xef, 0xbb, 0xbf],
  }),
  encoding(
    'UTF-16LE',
    'text/xml; charset=utf-16',
    'UTF-16',
    (text) => Buffer.from(text, 'utf16le'),
    {
      mark: [0xff, 0xfe],
    },
  ),
  encoding('UTF-16BE', 'text/xml', 'utf-16', utf16be, { mark: [0xfe, 0xff] }),
  encoding('UTF-16LE without a mark', 'text/xml; charset=utf-16le', '', (text) =>
    Buffer.from(text, 'utf16le'),
  ),
  encoding('UTF-16BE without a mark', 'text/xml', 'UTF-16BE', utf16be),
  encoding('ISO-8859-1', 'text/xml', 'ISO-8859-1', (text) => Buffer.from(text, 'latin1'), {
    last: 0xff,
  }),
  encoding(
    'US-ASCII',
    'text/xml; charset=us-ascii',
    'US-ASCII',
    (text) => Buffer.from(text, 'latin1'),
    {
      last: 0x7f,
    },
  ),
];

/** How engines spell the element, around an id that stands in quotes already, and what is left without it. */
export const FORMS: readonly (readonly [
  form: string,
  element: (quoted: string) => string,
  left: string,
])[] = [
  ['as Mondrian writes it', (id) => `<Session SessionId=${id} xmlns="${XMLA}" />`, ''],
  ['its namespace first', (id) => `<Session xmlns="${XMLA}" SessionId=${id}></Session>`, ''],
  [
    'a prefix of its own',
    (id) => `\n  <XA:Session xmlns:XA="${XMLA}" SessionId=${id}/>\n`,
    '\n  \n',
  ],
  [
    'single quotes',
    (id) => `<Session\n\txmlns='${XMLA}'\n\tSessionId = '${id.slice(1, -1)}'\n></Session >`,
    '',
  ],
  [
    'attributes of SOAP',
    (id) =>
      `<x:Session SOAP-ENV:mustUnderstand="0" xmlns:x="${XMLA}" xmlns:s="${SOAP}" SessionId=${id} s:actor="a"/>`,
    '',
  ],
  [
    'beside a comment that shows another',
    (id) =>
      `<!-- <Session SessionId="c"/> --><Session xmlns="${XMLA}" SessionId=${id}/><!-- </Session> -->`,
    '<!-- <Session SessionId="c"/> --><!-- </Session> -->',
  ],
];

/** Captions that look like the element; the last one needs more than ISO-8859-1. */
const CAPTIONS = [
  '&lt;Session xmlns="urn:x" SessionId="caption"/>',
  '<![CDATA[<Session SessionId="cdata"/>]]>',
  'Café é ÿ Müller',
  '&#8364; 中国 Θράκη',
];

/** An attribute value as XML needs it, which is what this engine writes. */
export function escapeId(id: string): string {
  const marks = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&apos;' };
  return [...id].map((one) => marks[one as keyof typeof marks] ?? one).join('');
}

/** What the encoding cannot say is written by number, outside of CDATA. */
function encoded({ mark, bytes, last }: TextEncoding, text: string): Buffer {
  const written = [...text].map((one) => {
    const code = one.codePointAt(0) ?? 0;
    return code > last ? `&#x${code.toString(16).toUpperCase()};` : one;
  });
  return Buffer.concat([Buffer.from(mark), bytes(written.join(''))]);
}

/** What the engine sends to a session. */
export function answerTo(
  id: string | undefined,
  how: TextEncoding,
  element: (quoted: string) => string,
): Buffer {
  const header = id === undefined ? '' : element(`"${escapeId(id)}"`);
  return encoded(how, mddatasetAnswer({ encoding: how.declared, header, members: CAPTIONS }));
}

export const plain = (quoted: string) => `<Session xmlns="${XMLA}" SessionId=${quoted}/>`;

/** Elements that make an answer one for its session alone. */
export const ODD: readonly (readonly [what: string, element: (quoted: string) => string])[] = [
  [
    'mustUnderstand without a prefix',
    (id) => `<Session xmlns="${XMLA}" SessionId=${id} mustUnderstand="1"/>`,
  ],
  [
    'an attribute of nobody knows whom',
    (id) => `<Session xmlns="${XMLA}" x:n="1" xmlns:x="urn:x" SessionId=${id}/>`,
  ],
  ['text in it', (id) => `<Session xmlns="${XMLA}" SessionId=${id}>1</Session>`],
  ['white space in it', (id) => `<Session xmlns="${XMLA}" SessionId=${id}> </Session>`],
  ['an element in it', (id) => `<Session xmlns="${XMLA}" SessionId=${id}><Sequence/></Session>`],
  ['it twice', (id) => plain(id) + plain(id)],
  ['another beside it', (id) => plain(id) + plain('"another"')],
  ['another id', () => plain('"another"')],
  ['no id', () => `<Session xmlns="${XMLA}"/>`],
  ['an empty id', () => plain('""')],
  ['the id in another namespace', (id) => `<x:Session xmlns:x="${XMLA}" x:SessionId=${id}/>`],
  ['another namespace', (id) => `<Session xmlns="urn:x" SessionId=${id}/>`],
  ['no namespace', (id) => `<Session SessionId=${id}/>`],
];
