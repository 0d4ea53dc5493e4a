import type { BypassReason } from '../../src/common/reasons.ts';

/** Requests that two parsers may read in two ways, made of one that all read alike. */

export interface OddRequest {
  readonly body: Buffer;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
}

interface Disagreement {
  readonly reason: BypassReason;
  readonly what: string;
  /** @param text of a plain request in UTF-8, which says so in its declaration and in its Content-Type */
  readonly odd: (text: string) => OddRequest;
  /**
   * Which sessions it may have changed: `none`, where all readings agree that it only reads; `named`, those that its envelope names; `any`, where it speaks of
   * sessions and nobody knows which; `always`, where nobody even knows whether it does.
   */
  readonly reach: 'none' | 'named' | 'any' | 'always';
}

const of =
  (reason: BypassReason, reach: Disagreement['reach']) =>
  (what: string, odd: Disagreement['odd']): Disagreement => ({ reason, what, odd, reach });
const encoding = of('encoding', 'any');
/** Its letters are those of ASCII in each of the encodings that are named. */
const ascii = of('encoding', 'none');
const malformed = of('malformed', 'any');
const shape = of('unknown-shape', 'named');
const action = of('soap-action', 'named');
const type = of('content-type', 'named');

const utf8 = (text: string, contentType?: string): OddRequest => ({
  body: Buffer.from(text),
  ...(contentType !== undefined && { headers: { 'content-type': contentType } }),
});
const replaced = (from: string | RegExp, to: string) => (text: string) => {
  const odd = text.replace(from, to);
  if (odd === text) throw new Error(`the plain request holds no ${from}`);
  return utf8(odd);
};
const declared = (name: string) => (text: string) => text.replace('"UTF-8"', `"${name}"`);
const withAction = (soapaction: string | readonly string[]) => (text: string) => ({
  body: Buffer.from(text),
  headers: { soapaction },
});
const utf16 = (text: string) => Buffer.from(`\u{FEFF}${text}`, 'utf16le');

const XMLA = 'urn:schemas-microsoft-com:xml-analysis';
const CREATE = "CREATE MEMBER [Sales].[Measures].[Mine] AS '1'";
const OTHER = `<Execute xmlns="${XMLA}"><Command><Statement>${CREATE}</Statement></Command><Properties/></Execute>`;
/** The plain request names no SOAP header where it names no session. */
const intoHeader = (block: string) => (text: string) =>
  text.includes('<SOAP-ENV:Header>')
    ? utf8(text.replace('</SOAP-ENV:Header>', `${block}</SOAP-ENV:Header>`))
    : utf8(
        text.replace(
          '<SOAP-ENV:Body>',
          `<SOAP-ENV:Header>${block}</SOAP-ENV:Header><SOAP-ENV:Body>`,
        ),
      );

export const DISAGREEMENTS: readonly Disagreement[] = [
  encoding('another charset than its bytes', (text) => utf8(text, 'text/xml; charset=utf-16')),
  encoding('a charset of UTF-16 that its bytes could be', (text) =>
    utf8(text.length % 2 === 0 ? text : `${text} `, 'text/xml; charset=utf-16be'),
  ),
  encoding('a charset against its mark', (text) => ({
    body: utf16(declared('UTF-16')(text)),
    headers: { 'content-type': 'text/xml; charset=utf-8' },
  })),
  encoding('a charset of another byte order than its mark', (text) => ({
    body: utf16(declared('UTF-16')(text)),
    headers: { 'content-type': 'text/xml; charset=utf-16be' },
  })),
  encoding('the charset of UTF-16 against a mark of UTF-8', (text) =>
    utf8(`\u{FEFF}${text}`, 'text/xml; charset=utf-16'),
  ),
  ascii('a charset that is not read', (text) => utf8(text, 'text/xml; charset=windows-1252')),
  encoding('two charsets', (text) => utf8(text, 'text/xml; charset=utf-8; charset=utf-16')),
  of('encoding', 'always')('a charset and an extended one', (text) =>
    utf8(text, "text/xml; charset=utf-8; charset*=utf-8''utf-16"),
  ),
  encoding('a declaration against its charset', (text) => utf8(declared('UTF-16')(text))),
  ascii('a declared encoding that is not read', (text) =>
    utf8(declared('windows-1252')(text), 'text/xml'),
  ),
  encoding('a declaration of ASCII against its bytes', (text) =>
    utf8(declared('us-ascii')(text).replace('SELECT', 'SELECT /* \u00E9 */'), 'text/xml'),
  ),
  ascii('a declaration of ISO-8859-1 against its charset', (text) =>
    utf8(declared('ISO-8859-1')(text)),
  ),
  encoding('a declaration against its mark', (text) => ({
    body: utf16(text),
    headers: { 'content-type': 'text/xml' },
  })),
  encoding('UTF-16 whose mark is missing', (text) => ({
    body: utf16(declared('UTF-16')(text)).subarray(2),
    headers: { 'content-type': 'text/xml' },
  })),
  encoding('a mark of UTF-32', (text) => ({
    body: Buffer.concat([Buffer.from([0xff, 0xfe, 0, 0]), Buffer.from(text, 'utf16le')]),
    headers: { 'content-type': 'text/xml' },
  })),
  encoding('bytes that are no UTF-8', (text) => ({
    body: Buffer.from(text.replace('SELECT', 'SELECT /* \u00E9 */'), 'latin1'),
  })),
  of('encoding', 'always')('letters that hide what they say', (text) =>
    utf8(
      text.replaceAll('<', '+ADw-').replaceAll('SessionId', '+AFM-essionId'),
      'text/xml; charset=utf-7',
    ),
  ),

  of('encoding', 'always')('a declared encoding that hides names', (text) =>
    utf8(declared('UTF-7')(text).replaceAll('Session', '+AFM-ession'), 'text/xml'),
  ),

  malformed('an element after the root', (text) => utf8(`${text}<a/>`)),
  malformed('another envelope after the root', (text) =>
    utf8(text + text.replace(/<\?xml.*?\?>\s*/, '').replace('SELECT', 'CREATE')),
  ),
  malformed('text after the root', (text) => utf8(`${text}x`)),
  malformed('a zero byte after the root', (text) => utf8(`${text}\0`)),
  malformed('text before the declaration', (text) => utf8(`x${text}`)),
  malformed('a second mark', (text) => utf8(`\u{FEFF}\u{FEFF}${text}`)),
  malformed('no end', (text) => utf8(text.slice(0, -1))),
  malformed('an attribute twice', replaced('<Command>', '<Command a="1" a="2">')),
  malformed('a prefix of nobody', replaced('<Command>', '<Command x:a="1">')),
  malformed('an entity of nobody', replaced('<Statement>', '<Statement>&nbsp;')),
  malformed('a bare ampersand', replaced('<Statement>', '<Statement>& ')),

  shape(
    'a second Body',
    replaced('</SOAP-ENV:Envelope>', `<SOAP-ENV:Body>${OTHER}</SOAP-ENV:Body></SOAP-ENV:Envelope>`),
  ),
  shape('a second method', replaced('</SOAP-ENV:Body>', `${OTHER}</SOAP-ENV:Body>`)),
  of('not-a-query', 'named')(
    'a second Statement',
    replaced('</Statement>', `</Statement><Statement>${CREATE}</Statement>`),
  ),
  shape(
    'a second Command',
    replaced('</Command>', `</Command><Command><Statement>${CREATE}</Statement></Command>`),
  ),
  shape('a Statement in another namespace', replaced('<Statement>', '<Statement xmlns="urn:x">')),
  shape('an element in the Statement', replaced('</Statement>', '<a/></Statement>')),
  shape('an attribute of the Statement', replaced('<Statement>', '<Statement a="1">')),
  shape('a comment in the Statement', replaced('<Statement>SEL', '<Statement>SEL<!-- -->')),
  shape('a processing instruction', replaced('<Command>', '<?cache no?><Command>')),
  shape(
    'a second list of properties',
    replaced('</PropertyList>', '</PropertyList><PropertyList/>'),
  ),
  shape('a header that nobody knows', intoHeader('<Hint xmlns="urn:x"/>')),
  shape('a header that nobody knows, of XMLA', intoHeader(`<Sessions xmlns="${XMLA}"/>`)),
  shape('a second Header', (text) =>
    utf8(text.replace('<SOAP-ENV:Body>', '<SOAP-ENV:Header/><SOAP-ENV:Header/><SOAP-ENV:Body>')),
  ),
  shape(
    'a Header after the Body',
    replaced('</SOAP-ENV:Envelope>', '<SOAP-ENV:Header/></SOAP-ENV:Envelope>'),
  ),
  shape('an element beside the Body', replaced('</SOAP-ENV:Envelope>', '<a/></SOAP-ENV:Envelope>')),
  shape('a comment after the root', (text) => utf8(`${text}<!-- -->`)),
  shape('a processing instruction after the root', (text) => utf8(`${text}<?cache no?>`)),
  shape(
    'an envelope of SOAP 1.2',
    replaced(
      'http://schemas.xmlsoap.org/soap/envelope/',
      'http://www.w3.org/2003/05/soap-envelope',
    ),
  ),
  shape(
    'a method in another namespace',
    replaced(/<Execute xmlns="[^"]*">/, '<Execute xmlns="urn:x">'),
  ),
  of('unknown-shape', 'any')('another version of XML', replaced('version="1.0"', 'version="1.1"')),

  action('the SOAPAction of the other method', withAction(`"${XMLA}:Discover"`)),
  action('a SOAPAction of nobody', withAction('"urn:x:Execute"')),
  action('another SOAPAction in another case', withAction(`"${XMLA}:execute"`)),
  action('two SOAPActions', withAction([`"${XMLA}:Execute"`, `"${XMLA}:Discover"`])),
  type('an action in the Content-Type', (text) =>
    utf8(text, `text/xml; charset=utf-8; action="${XMLA}:Discover"`),
  ),
  type('the Content-Type of SOAP 1.2', (text) => utf8(text, 'application/soap+xml; charset=utf-8')),
];
