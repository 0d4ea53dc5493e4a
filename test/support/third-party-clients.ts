/**
 * The programs that ask XMLA engines, as they were seen on the wire or as their sources have it: one row for each,
 * with the headers that it sends and the way in which it writes an envelope.
 */
import { randomInt, randomUUID } from 'node:crypto';
import type { Question } from '../engine/question.ts';
import type { SessionSpec } from './envelopes.ts';
import { send, type Answer } from './http-client.ts';

export interface ThirdPartyClient {
  readonly name: string;
  /** Beside SOAPAction, login and the length of the body. */
  readonly headers: Readonly<Record<string, string>>;
  readonly soapAction: 'quoted' | 'unquoted' | 'none';
  /** Whether the body is sent in chunks, without a length. */
  readonly chunked: boolean;
  /** Whether it begins a session before it asks, and names it from then on. */
  readonly session: boolean;
  /** An earlier row that differs from this one only in what cannot change an answer of Mondrian. */
  readonly sharesWith?: string;
  readonly write: (question: Question, session: SessionSpec | undefined) => Buffer;
}

const XMLA = 'urn:schemas-microsoft-com:xml-analysis';
const SOAP = 'http://schemas.xmlsoap.org/soap/envelope/';
const SOAP_ENCODING = 'http://schemas.xmlsoap.org/soap/encoding/';

/** How a client spells its elements and texts. */
interface Spelling {
  /** The prefix of what XMLA names; with '' it is in the default namespace. */
  readonly prefix?: string;
  /** Between two elements. */
  readonly gap?: string;
  readonly statement?: (text: string) => string;
  /** Attributes of the method, beside its namespace. */
  readonly attributes?: string;
}

const escapeText = (text: string) =>
  text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll('\r', '&#13;');

/** olap4j puts each statement on lines of its own. */
const cdataOnLines = (text: string) =>
  `\r\n       <![CDATA[\r\n${text.replaceAll(']]>', ']]]]><![CDATA[>')}\r\n]]>\r\n     `;

/** The element Discover or Execute. */
function methodOf(question: Question, spelling: Spelling): string {
  const { prefix = '', gap = '', statement = escapeText, attributes = '' } = spelling;
  const mark = prefix === '' ? '' : `${prefix}:`;
  const xmlns = prefix === '' ? 'xmlns' : `xmlns:${prefix}`;
  const element = (name: string, content: string) => {
    return content === '' ? `<${mark}${name}/>` : `<${mark}${name}>${content}</${mark}${name}>`;
  };
  const list = (items: readonly string[]) => items.map((item) => gap + item).join('') + gap;
  const named = ([name, value]: readonly [string, string | readonly string[]]) =>
    element(
      name,
      typeof value === 'string'
        ? escapeText(value)
        : value.map((one) => element('Value', escapeText(one))).join(''),
    );
  const { method, requestType, restrictions, parameters, properties } = question;
  const parts =
    method === 'Discover'
      ? [
          element('RequestType', escapeText(requestType)),
          element(
            'Restrictions',
            list([element('RestrictionList', list(restrictions.map(named)))]),
          ),
        ]
      : [element('Command', list([element('Statement', statement(question.statement))]))];
  parts.push(element('Properties', list([element('PropertyList', list(properties.map(named)))])));
  if (parameters.length > 0) {
    const one = ([name, value]: readonly [string, string]) =>
      element('Parameter', list([element('Name', name), element('Value', escapeText(value))]));
    parts.push(element('Parameters', list(parameters.map(one))));
  }
  return `<${mark}${method} ${xmlns}="${XMLA}"${attributes}>${list(parts)}</${mark}${method}>`;
}

function sessionBlock(session: SessionSpec | undefined, attributes: string): string {
  if (session === undefined) return '';
  const name = { begin: 'BeginSession', in: 'Session', end: 'EndSession' }[session.kind];
  const id = session.kind === 'begin' ? '' : ` SessionId="${escapeText(session.id)}"`;
  return `<${name} xmlns="${XMLA}"${id}${attributes} />`;
}

/** Adds properties of its own to a question, less those that it names already. */
function withProperties(question: Question, more: Readonly<Record<string, string>>): Question {
  const own = Object.entries(more).filter(
    ([name]) => !question.properties.some(([known]) => known === name),
  );
  return { ...question, properties: [...question.properties, ...own] };
}

/**
 * New for every request of MSOLAP and ADOMD.NET. Mondrian answers a Discover with a Fault that names a property
 * which it does not know, so that these clients have none in theirs.
 */
const ids = () => ({
  DbpropMsmdActivityID: randomUUID(),
  DbpropMsmdCurrentActivityID: randomUUID(),
  DbpropMsmdRequestID: randomUUID(),
});

function olap4j(question: Question): Buffer {
  const method = methodOf(question, {
    gap: '\r\n      ',
    statement: cdataOnLines,
    attributes:
      question.method === 'Discover' ? `\r\n    SOAP-ENV:encodingStyle="${SOAP_ENCODING}"` : '',
  });
  return Buffer.from(
    `<?xml version="1.0" encoding="utf-8"?>\r\n<SOAP-ENV:Envelope\r\n    xmlns:SOAP-ENV="${SOAP}"\r\n    ` +
      `SOAP-ENV:encodingStyle="${SOAP_ENCODING}">\r\n  <SOAP-ENV:Body>\r\n    ${method}\r\n  </SOAP-ENV:Body>\r\n</SOAP-ENV:Envelope>`,
  );
}

/** @param program what the OLE DB provider is told of the program around it */
const msolap =
  (program: string, locale: string) => (question: Question, session: SessionSpec | undefined) => {
    const all = withProperties(question, {
      LocaleIdentifier: locale,
      ...(question.method === 'Execute' && {
        ClientProcessID: String(randomInt(32_768)),
        SspropInitAppName: program,
        SspropInitWsid: randomUUID(),
        ...ids(),
      }),
    });
    const version = `<Version xmlns="http://schemas.microsoft.com/analysisservices/2003/engine/2" Sequence="922"/>`;
    const block = sessionBlock(session, ' mustUnderstand="1"');
    return Buffer.from(
      `<Envelope xmlns="${SOAP}"><Header>${block}${version}</Header><Body>${methodOf(all, {})}</Body></Envelope>`,
    );
  };

const adomd =
  (encoding: 'utf-8' | 'utf-16') => (question: Question, session: SessionSpec | undefined) => {
    const all = withProperties(question, question.method === 'Execute' ? ids() : {});
    const block = sessionBlock(session, ' soap:mustUnderstand="1" mustUnderstand="1"');
    const header = block === '' ? '' : `<soap:Header>${block}</soap:Header>`;
    const text =
      `\u{FEFF}<?xml version="1.0" encoding="${encoding}"?><soap:Envelope xmlns:soap="${SOAP}" ` +
      `xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema">` +
      `${header}<soap:Body>${methodOf(all, {})}</soap:Body></soap:Envelope>`;
    return Buffer.from(text, encoding === 'utf-16' ? 'utf16le' : 'utf8');
  };

function prefixed(question: Question): Buffer {
  return Buffer.from(
    `<s:Envelope xmlns:s="${SOAP}"><s:Header/><s:Body>\n${methodOf(question, { prefix: 'xmla', gap: '\n' })}\n</s:Body></s:Envelope>\n`,
  );
}

function java(question: Question): Buffer {
  return Buffer.from(
    `<?xml version='1.0' encoding='UTF-8' standalone='yes'?><S:Envelope xmlns:S='${SOAP}'><S:Body>` +
      `${methodOf(question, {})}</S:Body></S:Envelope>`,
  );
}

export const THIRD_PARTY_CLIENTS: readonly ThirdPartyClient[] = [
  {
    name: 'olap4j',
    headers: {
      'content-type': 'text/xml',
      'user-agent': 'Olap4j(1.2.0)',
      accept: 'text/xml;q=1',
      'accept-charset': 'UTF-8;q=1',
      'accept-encoding': 'gzip',
      connection: 'keep-alive',
    },
    soapAction: 'quoted',
    chunked: false,
    session: false,
    write: olap4j,
  },
  {
    name: 'Saiku',
    headers: {
      'content-type': 'text/xml',
      'user-agent': 'Olap4j(TRUNK-SNAPSHOT)',
      accept: 'text/xml;q=1',
      'accept-charset': 'ISO-8859-1;q=1',
      connection: 'close',
    },
    soapAction: 'none',
    chunked: false,
    session: false,
    sharesWith: 'olap4j',
    write: olap4j,
  },
  {
    name: 'MSOLAP',
    headers: {
      'content-type': 'text/xml',
      'user-agent': 'MSOLAP 16.0 RTC',
      accept: '*/*',
      'accept-encoding': 'gzip, deflate',
      'x-transport-caps-negotiation-flags': '0,1,0,1,1',
      pragma: 'no-cache',
    },
    soapAction: 'quoted',
    chunked: false,
    session: true,
    write: msolap('Microsoft Office', '1033'),
  },
  {
    name: 'Tableau',
    headers: {
      'content-type': 'text/xml',
      'user-agent': 'MSOLAP 13.0 Client',
      accept: '*/*',
      'x-transport-caps-negotiation-flags': '1,0,0,0,0',
    },
    soapAction: 'quoted',
    chunked: false,
    session: true,
    write: msolap('Tableau', '1031'),
  },
  {
    name: 'ADOMD.NET',
    headers: {
      'content-type': 'text/xml',
      'user-agent': 'ADOMD.NET',
      expect: '100-continue',
    },
    soapAction: 'quoted',
    chunked: true,
    session: true,
    write: adomd('utf-8'),
  },
  {
    name: 'ADOMD.NET in UTF-16',
    headers: {
      'content-type': 'text/xml; charset=utf-16',
      'user-agent': 'ADOMD.NET',
      expect: '100-continue',
    },
    soapAction: 'quoted',
    chunked: false,
    session: true,
    write: adomd('utf-16'),
  },
  {
    name: 'XmlaClient',
    headers: {
      'content-type': 'text/xml; charset=UTF-8',
      'user-agent': 'XmlaClient',
      accept: '*/*',
      'accept-encoding': 'gzip,deflate',
    },
    soapAction: 'unquoted',
    chunked: false,
    session: false,
    write: prefixed,
  },
  {
    name: 'Java',
    headers: {
      'content-type': 'text/xml;charset="utf-8"',
      'user-agent': 'Java/1.8.0_292',
      accept: 'text/html, image/gif, image/jpeg, */*; q=0.2',
      'cache-control': 'no-cache',
      pragma: 'no-cache',
    },
    soapAction: 'none',
    chunked: true,
    session: false,
    sharesWith: 'XmlaClient',
    write: java,
  },
];

/** Sends a question as a client does. */
export function askAs(
  client: ThirdPartyClient,
  to: {
    /** Of an engine or of a gateway. */
    readonly base: string;
    readonly path: string;
    readonly authorization?: string;
    readonly session?: SessionSpec | undefined;
  },
  question: Question,
): Promise<Answer> {
  const { base, path, authorization, session } = to;
  const body = client.write(question, session);
  const action = `${XMLA}:${question.method}`;
  return send(base, {
    method: 'POST',
    path,
    body,
    headers: {
      ...client.headers,
      ...(client.soapAction !== 'none' && {
        soapaction: client.soapAction === 'quoted' ? `"${action}"` : action,
      }),
      ...(client.chunked
        ? { 'transfer-encoding': 'chunked' }
        : { 'content-length': String(body.length) }),
      ...(authorization !== undefined && { authorization }),
    },
  });
}
