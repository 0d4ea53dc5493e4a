import { XmlDocument, XmlElement } from 'libxml2-wasm';
import { mddatasetAnswer, response, type AnswerStyle } from './answers.ts';

/** Everything that an engine has seen that can shape an answer; it is what its answers hold. */
export interface Stamp {
  /** The login. */
  readonly user: string;
  /** The user of WS-Security that counts for the session, or for the request; '' without one. */
  readonly security: string;
  /** What was made in the session before, in its order. */
  readonly created: readonly string[];
  /** The catalog in which it was computed; '' when the engine chose it. */
  readonly catalog: string;
  /** What its session was begun with and still counts. */
  readonly kept: readonly (string | readonly [name: string, value: string])[];
  /** Of the data; each change of it raises it. */
  readonly data: number;
  /** What was asked: statement or request type, with all that belongs to it. */
  readonly asked: string;
  readonly properties: readonly (readonly [name: string, value: string])[];
  /** The kind of the client program, where answers depend on it; '' elsewhere. */
  readonly program: string;
  readonly versions: readonly string[];
}

/** What an answer of a stamping engine says. */
export interface Stamped {
  /** Undefined when the answer holds no data: a Fault, or the answer to what is no query. */
  readonly stamp: Stamp | undefined;
  /** The session in which it was computed; '' without one. */
  readonly computedIn: string;
  /** The session that its SOAP header shows. */
  readonly session: string | undefined;
  /** The code of a Fault, wherever engines put it. */
  readonly fault: string | undefined;
}

const XMLA = 'urn:schemas-microsoft-com:xml-analysis';

interface Frame {
  readonly style: AnswerStyle;
  /** The session that the SOAP header shows. */
  readonly shown: string | undefined;
}

/** The cube of a statement whose answer has about so many megabytes. */
const WIDE = /\[Report of (\d+) MB\]/;
const FILLING = '<Value xsi:type="xsd:double">1234.25</Value><FmtValue>1,234.25</FmtValue>';
const CELLS_PER_MEGABYTE = Math.ceil(
  1_000_000 / `<Cell CellOrdinal="100000">${FILLING}</Cell>\n`.length,
);

/** A rowset of one row, or a dataset of two cells: the stamp, and the session in which it was computed. */
export function stampedAnswer(
  form: 'rowset' | 'mddataset',
  method: 'Discover' | 'Execute',
  stamp: Stamp,
  computedIn: string,
  frame: Frame,
): string {
  const texts = [JSON.stringify(stamp), computedIn].map(escapeText);
  const [told = '', where = ''] = texts;
  if (form === 'rowset') {
    const row = `<row>${propertyColumn(stamp)}<STAMP>${told}</STAMP><COMPUTED_IN>${where}</COMPUTED_IN></row>`;
    return response(method, 'rowset', row, framed(frame));
  }
  const [, megabytes = '0'] = WIDE.exec(stamp.asked) ?? [];
  return mddatasetAnswer({
    ...framed(frame),
    cells: texts.length + Number(megabytes) * CELLS_PER_MEGABYTE,
    cell: (ordinal) => {
      const text = texts[ordinal];
      if (text === undefined) return FILLING;
      const name = ordinal === 0 ? 'STAMP' : 'COMPUTED_IN';
      return `<Value xsi:type="xsd:string">${text}</Value><${name}>${text}</${name}>`;
    },
  });
}

/** Rows of DISCOVER_PROPERTIES say of which property they are. */
function propertyColumn({ asked }: Stamp): string {
  const [, name] = /"DISCOVER_PROPERTIES",\[\["PropertyName","<?([\w ]+)/.exec(asked) ?? [];
  return name === undefined ? '' : `<PropertyName>${name}</PropertyName>`;
}

/** The answer to what is no query. */
export function emptyAnswer(frame: Frame): string {
  return response('Execute', 'empty', '', framed(frame));
}

export function stampOf(body: Buffer): Stamped {
  const document = XmlDocument.fromBuffer(body);
  try {
    const text = (path: string) => document.get(path, { x: XMLA })?.content;
    const told = text(`//*[local-name()='STAMP']`);
    const session = document.get('//x:Session', { x: XMLA });
    const isFault = document.get(`//*[local-name()='Fault']`) !== null;
    const code = document.get('//@ErrorCode')?.content ?? text('//faultcode');
    return {
      stamp: told === undefined ? undefined : (JSON.parse(told) as Stamp),
      computedIn: text(`//*[local-name()='COMPUTED_IN']`) ?? '',
      session: session instanceof XmlElement ? session.attr('SessionId')?.value : undefined,
      fault: isFault ? (code ?? '') : undefined,
    };
  } finally {
    document.dispose();
  }
}

function framed({ style, shown }: Frame) {
  const header =
    shown === undefined
      ? {}
      : { header: `<Session SessionId="${escapeText(shown)}" xmlns="${XMLA}" />` };
  return { style, ...header };
}

function escapeText(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll(/[\t\n\r]/g, (one) => `&#${one.charCodeAt(0)};`);
}
