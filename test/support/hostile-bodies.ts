import { SOAP, XMLA } from '../../src/xmla/names.ts';

/** Bodies that are made to take a reader long. */

/** Makes a body of about so many bytes. */
type Make = (size: number) => string | Buffer;

function filled(piece: string, size: number): string {
  return piece.repeat(Math.max(1, Math.floor(size / piece.length)));
}

/** Pieces that differ, each made of its number. */
function numbered(piece: (index: number) => string, size: number): string {
  const pieces: string[] = [];
  for (let length = 0; length < size;) {
    const made = piece(pieces.length);
    pieces.push(made);
    length += made.length;
  }
  return pieces.join('');
}

const enveloped = (header: string, method: string) =>
  `<Envelope xmlns="${SOAP}">${header}<Body>${method}</Body></Envelope>`;
const executing = (statement: string, properties = '') =>
  `<Execute xmlns="${XMLA}"><Command><Statement>${statement}</Statement></Command><Properties><PropertyList>${properties}</PropertyList></Properties></Execute>`;

/** The statement, properties, restrictions or header blocks of an envelope that is otherwise as clients send it. */
export const AROUND = {
  statement: (text: string) => enveloped('', executing(text)),
  properties: (text: string) => enveloped('', executing('SELECT FROM [A]', text)),
  restrictions: (text: string) =>
    enveloped(
      '',
      `<Discover xmlns="${XMLA}"><RequestType>MDSCHEMA_CUBES</RequestType><Restrictions><RestrictionList>${text}</RestrictionList></Restrictions><Properties/></Discover>`,
    ),
  header: (text: string) => enveloped(`<Header>${text}</Header>`, executing('SELECT FROM [A]')),
  /** No XMLA. */
  root: (text: string) => `<session>${text}</session>`,
} as const;

/** What is repeated in one of these places, with nothing but itself. */
const REPEATED: Readonly<Record<keyof typeof AROUND, readonly string[]>> = {
  statement: [
    ...[
      '&amp;',
      '&#65;',
      '&',
      '\r',
      '<![CDATA[]]>',
      '<!---->',
      '<?a?>',
      'session ',
      '\u00E4',
      '\u0130',
    ],
    ...['\uFDFA', '\u{1F600}', 'DbpropMsmdMDXCompatibility', 'SELECT FROM (', 'FROM [a].', 'FROM '],
    ...[
      'FROM/**/',
      'a.',
      '"',
      '"a" ',
      `'"`,
      '[',
      '[a]',
      '[a]\n',
      '/*',
      '/**/',
      '--\n',
      '$[ $s]',
      ';',
    ],
    ...['now ', 'n\u00E4w ', 'a\u00E4', 'StrToSet(', '1e', '.1', '-', "'a''", 'DRILLTHROUGH '],
  ],
  properties: [
    ...['<Timeout>1</Timeout>', '<Timeout>', '<Roles/>', '<Roles></Roles>', '<Roles'],
    ...['<DbpropMsmdMDXCompatibility/>', '<Catalog>A</Catalog>'],
  ],
  restrictions: ['<CATALOG_NAME><Value>A</Value></CATALOG_NAME>', '<CUBE_NAME>A</CUBE_NAME>'],
  header: [
    ...['<a/>', '<Security/>', `<Session xmlns="${XMLA}" SessionId="a"/>`],
    '<Version xmlns="http://schemas.microsoft.com/analysisservices/x" a="1"/>',
  ],
  root: [
    ...['<a/>', '<a>', '<', '<!', '<!DOCTYP', '<a', '<a ', '<a:b xmlns:a="urn:a"/>', '\uFEFF'],
    '<a b="c" SessionId="d"/>',
  ],
};

const nested = (open: (level: number) => string, levels: number) =>
  Array.from({ length: levels }, (_, level) => open(level)).join('');
const within =
  (levels: number, open: (level: number) => string, piece: string): Make =>
  (size) =>
    `${nested(open, levels)}${filled(piece, size)}${'</e>'.repeat(levels)}`;
const declaring = (prefix: string, count: number) => (level: number) =>
  `<e${numbered((i) => ` xmlns:${prefix}${level * count + i}="urn:u"`, count * 18)}>`;

const utf16 = (text: string) => Buffer.from(`\uFEFF${text}`, 'utf16le');

/** A query with one piece again and again, no longer than what is read of a statement. */
const querying =
  (begin: string, piece: string, end = ''): Make =>
  (size) => {
    const room = Math.min(size, 1_000_000);
    return AROUND.statement(
      `${begin}${filled(piece, (room / Buffer.byteLength(piece)) * piece.length)}${end} FROM [x]`,
    );
  };

const QUERIES: Readonly<Record<string, Make>> = {
  'a filter of many members': (size) =>
    AROUND.statement(
      `SELECT x FROM (SELECT {${numbered((i) => `[Kunde].[${i}].&amp;[${i}],`, Math.min(size, 1_000_000))}[a]} ON 0 FROM [x])`,
    ),
  'known functions': querying('SELECT ', 'Sum([a]),'),
  'unknown functions': querying('SELECT ', 'f('),
  'a function of a long name': querying('SELECT ', 'a.', 'b('),
  'functions in brackets': querying('SELECT ', '[\u0130\u0130\u0130\u0130](', 'b('),
  'a source of a long name': querying('SELECT x FROM ', 'a.', 'b'),
  'a long word': querying('SELECT ', 'a\u00E4'),
  'words of other letters': querying('SELECT ', '\u0130 '),
  'a long name': querying('SELECT [', '\u0130', ']'),
  'a long string': querying('SELECT "', '\u0130', '"'),
  'a long formula': querying("WITH MEMBER [a] AS '", 'Sum({[a].[b]}),', "'"),
  'formulas in a long formula': querying("WITH MEMBER [a] AS '", "StrToSet(''[a].[b]''),", "'"),
  'quotes in a long formula': querying("WITH MEMBER [a] AS '", "''", "'"),
  'brackets in a long formula': querying("WITH MEMBER [a] AS '", '[', "'"),
  'comments in a long formula': querying("WITH MEMBER [a] AS '", '/*a*/', "'"),
  'a long word in a formula': querying("WITH MEMBER [a] AS '", 'a\u00E4', "'"),
  'a long string that is no formula': querying('SELECT "', 'FROM [a].', '"'),
  'returns and strings': querying('SELECT ', "&#13;\n'a'"),
  'many short statements': querying('', 'a;&#13;\n'),
};

const SPECIAL: Readonly<Record<string, Make>> = {
  ...QUERIES,
  'names of other letters': (size) =>
    AROUND.properties(
      numbered(
        (i) => `<${'\u0130'.repeat(15_000)}${i}>a</${'\u0130'.repeat(15_000)}${i}>`,
        size / 2,
      ),
    ),
  'CDATA by thousands': (size) => AROUND.statement(filled('<![CDATA[a,]]>', size)),
  'a long attribute': (size) => AROUND.header(`<a b="${'x'.repeat(size)}"/>`),
  'declarations in scope, many levels': within(
    58,
    (level) => (level === 0 ? '<e xmlns:outermost="urn:u">' : declaring('p', 250)(0)),
    '<outermost:x/>',
  ),
  'declarations in scope, few enough': within(58, declaring('p', 4), '<p0:x p0:y=""/>'),
  'declarations in scope, by the parser': (size) =>
    `<!---->${within(58, declaring('p', 4), '<p0:x p0:y=""/>')(size)}`,
  'a prefix for each element': (size) =>
    `<e>${numbered((i) => `<p${i}:x xmlns:p${i}="urn:u"/>`, size)}</e>`,
  'a prefix at each level': (size) =>
    `${nested((i) => `<p${i}:e xmlns:p${i}="urn:u">`, 60)}${filled('<p0:y/>', size)}`,
  'a long prefix': (size) => {
    const prefix = 'p'.repeat(size / 200);
    return `<${prefix}:e xmlns:${prefix}="urn:u">${filled(`<${prefix}:e/>`, size)}`;
  },
  'a long namespace': (size) =>
    `<e xmlns:a="urn:${'u'.repeat(size / 2)}">${filled('<a:e a:x=""/>', size / 2)}</e>`,
  'a long namespace, by the parser': (size) =>
    `<!----><e xmlns:a="urn:${'u'.repeat(size / 2)}">${filled('<a:e a:x=""/>', size / 2)}</e>`,
  'a long namespace, in one tag': (size) =>
    `<e xmlns:a="urn:${'u'.repeat(size / 2)}"${numbered((i) => ` a:x${i}=""`, size / 2)}/>`,
  'a namespace of many parts': (size) => `<e xmlns="http://${filled('a/', size)}!"/>`,
  'many attributes': (size) => `<session${numbered((i) => ` a${i}=""`, size)}/>`,
  'one attribute again and again': (size) => `<session${filled(' a=""', size)}/>`,
  'elements at the last level': within(60, () => '<e>', '<b/>'),
  'elements without end': (size) => filled('<a>', size),
  'properties of many names': (size) =>
    AROUND.properties(numbered((i) => `<P${i}>a</P${i}>`, size)),
  'restrictions of many names': (size) =>
    AROUND.restrictions(numbered((i) => `<R${i}>a</R${i}>`, size)),
  'many catalogs': (size) =>
    AROUND.restrictions(numbered((i) => `<CATALOG_NAME>c${i}</CATALOG_NAME>`, size)),
  'many values of one catalog': (size) =>
    AROUND.restrictions(
      `<CATALOG_NAME>${numbered((i) => `<Value>\uFDFA${i}</Value>`, size)}</CATALOG_NAME>`,
    ),
  'many sessions': (size) =>
    AROUND.header(numbered((i) => `<Session xmlns="${XMLA}" SessionId="a${i}"/>`, size)),
  'properties that are nearly empty': (size) =>
    AROUND.properties(filled(`<Roles${' '.repeat(250)}`, size)),
  'an entity without end': (size) => AROUND.statement(`&${'a'.repeat(size)}`),
  'brackets at the end of CDATA': (size) => AROUND.statement(`<![CDATA[${']'.repeat(size)}]]>`),
  'a comment of dashes': (size) => AROUND.statement(`<!--${filled('x-', size)}-->`),
  'an instruction of question marks': (size) => AROUND.statement(`<?a x${'?'.repeat(size)}?>`),
  'strings in strings': (size) => AROUND.statement(`SELECT "'"'"'${filled(`'"`, size)}`),
  'a line end in a value': (size) => `<e a="${filled('\r', size)}" session=""/>`,
  'encodings in the declaration': (size) => `<?xml ${filled(' encoding=', size)}`,
  'white space in the declaration': (size) => `<?xml ${filled('\t encoding \n', size)}`,
  spaces: (size) => filled(' ', size),
  'spaces in a tag': (size) => `<e${filled(' ', size)}/>`,
  'zero bytes': (size) => Buffer.alloc(size),
  'zero bytes in UTF-16': (size) => Buffer.concat([utf16('<a>'), Buffer.alloc(size)]),
  'zero bytes between letters': (size) => Buffer.from(filled('<a\0', size)),
  'a statement in UTF-16': (size) => utf16(AROUND.statement(filled('session ', size / 2))),
  'bytes that are no UTF-8': (size) =>
    Buffer.concat([Buffer.from('<a>'), Buffer.alloc(size, 0xff)]),
};

/** Each by what it is made of. */
export const HOSTILE_BODIES: Readonly<Record<string, (size: number) => Buffer>> =
  Object.fromEntries(
    [
      ...Object.entries(SPECIAL),
      ...Object.entries(REPEATED).flatMap(([place, pieces]) =>
        pieces.map((piece): [string, Make] => [
          `${JSON.stringify(piece)} again and again: ${place}`,
          (size) =>
            AROUND[place as keyof typeof AROUND](
              filled(piece, (size / Buffer.byteLength(piece)) * piece.length),
            ),
        ]),
      ),
    ].map(([name, make]) => [name, (size: number) => Buffer.from(make(size) as string)]),
  );

/** What texts are put together from to make them hostile. */
export const HOSTILE_PIECES: readonly string[] = Object.values(REPEATED).flat();
