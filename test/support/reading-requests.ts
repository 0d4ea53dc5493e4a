import { execute, type SessionSpec } from './envelopes.ts';

/** One Execute: its statement, and what is done to the text of its envelope. */
export interface Reading {
  readonly statement?: string;
  readonly odd?: (text: string) => string;
}

const AS = 'http://schemas.microsoft.com/analysisservices/2003/engine';
const command = (content: string) => ({
  odd: (text: string) => text.replace('<Statement></Statement>', () => content),
});

/** What only reads: it changes nothing for anybody, and leaves nothing in its session. */
export const READS: readonly (readonly [what: string, Reading])[] = [
  ['an empty Statement', { statement: '' }],
  ['DRILLTHROUGH', { statement: 'DRILLTHROUGH MAXROWS 10 SELECT [a] ON 0 FROM [Sales]' }],
  ['a Cancel', command(`<Cancel xmlns="${AS}"/>`)],
  ['a Cancel with two tags', command('<Cancel>\n</Cancel>')],
  ['a rowset of the system', { statement: 'SELECT * FROM $SYSTEM.DISCOVER_SESSIONS' }],
  ['EVALUATE', { statement: "EVALUATE 'T'" }],
  ['DEFINE', { statement: "DEFINE MEASURE 'T'[b] = 1\r\nEVALUATE 'T' // all\r\n" }],
  ['EXPLAIN', { statement: 'EXPLAIN PLAN FOR SELECT FROM [Sales]' }],
  ['a volatile SELECT', { statement: 'select Now() ON 0 FROM [Sales];' }],
  ['a volatile WITH', { statement: "/* x */ WITH MEMBER [a] AS 'Now()' SELECT [a] ON 0 FROM [b]" }],
  ['a prediction', { statement: 'SELECT Predict([x]) FROM [into] -- INTO' }],
];

const DRILLTHROUGH = 'DRILLTHROUGH SELECT [a] ON 0 FROM [Sales]';
const statement = (text: string): Reading => ({ statement: text });
const around = (from: string, to: string, text = DRILLTHROUGH): Reading => ({
  statement: text,
  odd: (envelope) => envelope.replace(from, () => to),
});

/** What looks like that, of which some engine may read LEAVE as something to be done: by its statement. */
export const TWISTED: readonly (readonly [what: string, Reading])[] = [
  ['another statement behind it', statement(`${DRILLTHROUGH}; LEAVE`)],
  ['another SELECT behind it', statement('SELECT Now() ON 0 FROM [a]; SELECT FROM [LEAVE]')],
  ['another statement before it', statement(`LEAVE; ${DRILLTHROUGH}`)],
  ['a semicolon before it', statement(`; ${DRILLTHROUGH} LEAVE`)],
  ['INTO', statement('SELECT * INTO [LEAVE] FROM [y]')],
  ['into, between other letters', statement('SELECT * \u200Binto\u200B [LEAVE] FROM [y]')],
  ['OPENQUERY', statement("SELECT FROM OpenQuery([d], 'LEAVE')")],
  ['OPENROWSET', statement("WITH SET [a] AS {} SELECT FROM OPENROWSET('LEAVE')")],
  ['a line that some end at a return', statement(`${DRILLTHROUGH} -- \r; LEAVE`)],
  ['a word that a return divides', statement('SELE\rCT Now() ON 0 FROM [LEAVE]')],
  ['a line that some end elsewhere', statement(`EVALUATE 'T' -- \u2028; LEAVE`)],
  ['a line that some end there too', statement(`EVALUATE 'T' // \u0085; LEAVE`)],
  ['a comment in a comment', statement(`/* /* */ LEAVE; -- */ ${DRILLTHROUGH}`)],
  ['a quote that a backslash may escape', statement(String.raw`SELECT Now(), '\'; LEAVE --' ON 0`)],
  ['a text without an end', statement("SELECT Now() ON 0 FROM [a] WHERE 'LEAVE")],
  ['a comment without an end', statement(`${DRILLTHROUGH} /* LEAVE`)],
  ['a name over two lines', statement('SELECT Now() ON 0 FROM [a\n; LEAVE]')],
  ['a bracket that closes nothing', statement('SELECT Now() ON 0 FROM a] ; LEAVE')],
];

/** The same by its envelope. */
export const TWISTED_ENVELOPES: readonly (readonly [what: string, Reading])[] = [
  ['two Commands', around('</Command>', '</Command><Command><LEAVE/></Command>')],
  ['a Command with two children', around('</Statement>', '</Statement><LEAVE/>')],
  ['two Statements', around('</Statement>', '</Statement><Statement>LEAVE</Statement>')],
  ['a Cancel with children', command('<Cancel><LEAVE/></Cancel>')],
  ['a Cancel with a text', command('<Cancel>LEAVE</Cancel>')],
  ['a Cancel with an attribute', command('<Cancel LEAVE="1"/>')],
  ['an element in the Statement', around('</Statement>', '<LEAVE/></Statement>')],
  ['a comment in the Statement', around('</Statement>', '<!-- LEAVE --></Statement>')],
  ['an attribute of the Statement', around('<Statement>', '<Statement LEAVE="1">')],
  ['an attribute of the Command', around('<Command>', '<Command LEAVE="1">')],
  ['a text in the Command', around('<Command>', '<Command>LEAVE')],
  ['an instruction behind the Command', around('</Command>', '</Command><?LEAVE?>')],
  ['an element behind Properties', around('</Properties>', '</Properties><LEAVE/>')],
  ['a text in Properties', around('</Properties>', 'LEAVE</Properties>')],
  ['a strange property', around('<PropertyList>', '<PropertyList><x:LEAVE xmlns:x="urn:x"/>')],
  ['an element in a property', around('</Catalog>', '<LEAVE/></Catalog>')],
  [
    'a second Header',
    around('<SOAP-ENV:Body>', '<SOAP-ENV:Header><LEAVE/></SOAP-ENV:Header><SOAP-ENV:Body>'),
  ],
  ['a text in the Body', around('<SOAP-ENV:Body>', '<SOAP-ENV:Body>LEAVE')],
  [
    'a comment behind the Envelope',
    around('</SOAP-ENV:Envelope>', '</SOAP-ENV:Envelope><!--LEAVE-->'),
  ],
];

const block = (content: string) => (text: string) =>
  text.includes('</SOAP-ENV:Header>')
    ? text.replace('</SOAP-ENV:Header>', () => `${content}</SOAP-ENV:Header>`)
    : text.replace(
        '<SOAP-ENV:Body>',
        () => `<SOAP-ENV:Header>${content}</SOAP-ENV:Header><SOAP-ENV:Body>`,
      );
const inProperties = (content: string) => (text: string) =>
  text.replace('</Properties>', () => `${content}</Properties>`);

/** Oddities by which nothing is executed, but which an engine may keep in a session. */
export const ODD_BESIDE: readonly (readonly [what: string, (text: string) => string])[] = [
  ['a header block of no namespace', block('<Version xmlns="" LEAVE="1"/>')],
  ['a header block of another', block('<x:Trace xmlns:x="urn:x">LEAVE<y/></x:Trace>')],
  ['a list of another name', inProperties('<PropertieList><LEAVE>1</LEAVE></PropertieList>')],
  ['a second list', inProperties('<PropertyList><LEAVE/></PropertyList>')],
  [
    'both',
    (text) => inProperties('<PropertieList/>')(block('<Version xmlns="">LEAVE</Version>')(text)),
  ],
];

export const bodyOf = (
  { statement: text = '', odd = (envelope) => envelope }: Reading,
  session?: SessionSpec,
): Buffer => {
  const properties = { Catalog: 'Sales' };
  const body = execute({ statement: text, properties, ...(session && { session }) });
  return Buffer.from(odd(body.toString()));
};
