import { brotliCompressSync, gzipSync } from 'node:zlib';
import type { EngineKind } from '../../src/common/engine-kinds.ts';
import type { RefusalReason } from '../../src/common/reasons.ts';
import {
  KYLIN_MESSAGE,
  brokenOffAnswer,
  errorCellAnswer,
  faultAnswer,
  kylinErrorAnswer,
  largeMddatasetAnswer,
  mddatasetAnswer,
  response,
  rowsetAnswer,
  sessionAnswer,
} from './answers.ts';

/** The kinds of engine, as the protocol facts have them. */
export const KINDS = ['generic', 'mondrian', 'emondrian', 'kylin', 'ssas'] as const;

/** An answer with which an engine tells an error, or that is none. */
export interface Poison {
  readonly what: string;
  readonly reason: RefusalReason;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly method: 'Discover' | 'Execute';
  /** The kinds of engine that tell an error so; for the others it is data like any other. */
  readonly of: readonly EngineKind[];
}

const xml = { 'content-type': 'text/xml' };

const poison = (
  reason: RefusalReason,
  what: string,
  body: string | Buffer,
  more: Partial<Pick<Poison, 'method' | 'of' | 'headers' | 'status'>> = {},
): Poison => ({
  what,
  reason,
  status: 200,
  headers: { 'content-type': 'text/xml; charset=utf-8' },
  body: Buffer.from(body),
  method: 'Execute',
  of: KINDS,
  ...more,
});

/** With another head, and by default a dataset that is good. */
const withHead = (
  headers: Record<string, string>,
  body: string | Buffer = mddatasetAnswer(),
  status = 200,
) => [body, { headers, status }] as const;

const XMLA = 'urn:schemas-microsoft-com:xml-analysis';
const EXCEPTION = `${XMLA}:exception`;

/** A dataset in whose first cell stands this value. */
const cellOf = (value: string) =>
  mddatasetAnswer({
    cell: (ordinal) => (ordinal === 0 ? value : '<Value xsi:type="xsd:int">1</Value>'),
  });
const cellText = (text: string) => cellOf(`<Value xsi:type="xsd:string">${text}</Value>`);
/** What stands before the end of the root, when everything else is whole. */
const beforeEnd = (content: string) => mddatasetAnswer().replace('</root>', `${content}</root>`);
const replaced = (from: string, to: string) => mddatasetAnswer().replace(from, to);
const memberOf = (name: string, caption: string) =>
  mddatasetAnswer({ members: ['F'] })
    .replace('.[F]</UName>', `.[${name}]</UName>`)
    .replace('<Caption>F</Caption>', `<Caption>${caption}</Caption>`);

/** In which every engine may tell an error, at any depth. */
const ERROR_WORDS = ['Fault', 'Exception', 'Error', 'Messages', 'Warning'].flatMap((word) => [
  poison('fault', `${word} after the cells`, beforeEnd(`<${word} xmlns="${EXCEPTION}"/>`)),
  poison('fault', `${word} in a cell`, cellOf(`<Value><x:${word} xmlns:x="urn:x"/></Value>`)),
  poison(
    'fault',
    `${word} in a row`,
    rowsetAnswer().replace('<CUBE_TYPE>CUBE</CUBE_TYPE>', `<${word}>x</${word}>`),
    { method: 'Discover' },
  ),
]);

const JAVA: readonly EngineKind[] = ['generic', 'mondrian', 'emondrian', 'kylin'];
const KYLIN: readonly EngineKind[] = ['generic', 'kylin'];

export const POISONS: readonly Poison[] = [
  poison('fault', 'a Fault with status 200', faultAnswer()),
  poison('fault', 'a Fault with status 200 to a Discover', faultAnswer(), { method: 'Discover' }),
  poison('fault', 'an error in the middle of the cells', brokenOffAnswer()),
  ...ERROR_WORDS,

  poison('error-cell', 'a cell that could not be evaluated', errorCellAnswer()),
  poison('error-cell', '#ERR: after white space', cellText(' \n#ERR: x')),
  poison('error-cell', '#ERR: in CDATA', cellText('<![CDATA[#ERR: x]]>')),
  poison('error-cell', '#ERR: in two pieces', cellText('#E<!-- -->RR: x')),
  poison('error-cell', '#ERR: by number', cellText('&#35;ERR: x')),
  poison('error-cell', '#ERR: in a row', rowsetAnswer({ names: ['#ERR: x'] }), {
    method: 'Discover',
  }),
  poison(
    'error-cell',
    'the message of a Java exception',
    cellText('mondrian.olap.fun.MondrianEvaluationException: no such member'),
    { of: JAVA },
  ),
  poison('error-cell', 'a dataset of an error', kylinErrorAnswer(), { of: KYLIN }),
  poison('error-cell', 'a dataset of an error without a text', kylinErrorAnswer(''), { of: KYLIN }),
  poison('error-cell', 'the text of that in a cell', cellText(KYLIN_MESSAGE), { of: KYLIN }),
  poison('error-cell', 'a member dummy', memberOf('dummy', 'dummy'), { of: KYLIN }),
  poison(
    'error-cell',
    'a reference to the log',
    cellText('Something error, please refer to mdx log'),
    { of: KYLIN },
  ),
  poison(
    'error-cell',
    'a value of a type without namespace',
    cellOf('<Value xsi:type="string">no realization</Value>'),
    { of: KYLIN },
  ),
  poison('error-cell', 'the header success: false', mddatasetAnswer(), {
    headers: { ...xml, success: 'false' },
    of: KYLIN,
  }),

  poison('answer-shape', 'an empty root', response('Execute', 'empty', '')),
  poison(
    'answer-shape',
    'several results',
    replaced(
      '<root ',
      '<results xmlns="http://schemas.microsoft.com/analysisservices/2003/xmla-multipleresults"><root ',
    ).replace('</root>', '</root></results>'),
  ),
  poison('answer-shape', 'a second root', replaced('</root>', '</root><root/>')),
  poison('answer-shape', 'a rowset of a Discover for an Execute', rowsetAnswer()),
  poison('answer-shape', 'a dataset of an Execute for a Discover', mddatasetAnswer(), {
    method: 'Discover',
  }),
  poison(
    'answer-shape',
    'axes without cells',
    mddatasetAnswer().replace(/<CellData>[^]*<\/CellData>/, ''),
  ),
  poison('answer-shape', 'no XMLA at all', '<a/>'),
  poison('answer-shape', 'a page in XHTML', '<html><body><p>Sign in</p></body></html>'),
  poison('answer-shape', 'text beside the data', replaced('</root>', 'Query failed</root>')),
  poison('answer-shape', 'a document type', `<!DOCTYPE x>${mddatasetAnswer({ encoding: '' })}`),

  poison('not-well-formed', 'half of the XML', mddatasetAnswer().slice(0, -20)),
  poison('not-well-formed', 'nothing', ''),
  poison('not-well-formed', 'a second document', `${mddatasetAnswer()}<a/>`),
  poison('not-well-formed', 'text after the end', `${mddatasetAnswer()}Error`),
  poison('not-well-formed', 'a bare ampersand', cellText('A & B')),
  poison('not-well-formed', 'an entity that nobody declared', cellText('&nbsp;')),
  poison(
    'answer-encoding',
    'another charset than its bytes',
    ...withHead({
      'content-type': 'text/xml; charset=utf-16',
    }),
  ),
  poison('answer-encoding', 'bytes that are no UTF-8', Buffer.from(cellText('é'), 'latin1')),

  poison('engine-status', 'status 500', ...withHead(xml, mddatasetAnswer(), 500)),
  poison('engine-status', 'status 202', ...withHead(xml, mddatasetAnswer(), 202)),
  poison('engine-status', 'a redirect', ...withHead({ location: '/elsewhere' }, '', 302)),
  poison('media-type', 'text/html', ...withHead({ 'content-type': 'text/html' })),
  poison('media-type', 'JSON', ...withHead({ 'content-type': 'application/json' }, '{}')),
  poison(
    'media-type',
    'binary XML',
    ...withHead({ 'content-type': 'application/sx' }, Buffer.from([1, 2, 0xff])),
  ),
  poison('media-type', 'no media type', ...withHead({})),
  poison(
    'content-coding',
    'a content coding that is not read',
    ...withHead({ ...xml, 'content-encoding': 'br' }, brotliCompressSync(mddatasetAnswer())),
  ),
  poison(
    'content-coding',
    'two content codings',
    ...withHead(
      { ...xml, 'content-encoding': 'gzip, gzip' },
      gzipSync(gzipSync(mddatasetAnswer())),
    ),
  ),
  poison(
    'session-in-answer',
    'a session that says more than its id',
    sessionAnswer().replace('SessionId=', 'Sequence="1" SessionId='),
  ),
  poison('too-large', 'more than the cap', largeMddatasetAnswer(300_000)),
];
