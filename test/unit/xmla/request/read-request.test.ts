import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { readRequest, type XmlaRequest } from '../../../../src/xmla/request/read-request.ts';
import { MAX_DEPTH, MAX_NODES, readTree } from '../../../../src/xml/xml-scanner.ts';
import { discover, execute } from '../../../support/envelopes.ts';
import { sizes } from '../../../support/sizes.ts';

const SOAP = 'http://schemas.xmlsoap.org/soap/envelope/';
const XMLA = 'urn:schemas-microsoft-com:xml-analysis';
const XSI = 'http://www.w3.org/2001/XMLSchema-instance';

const QUERY = '<Command><Statement>SELECT</Statement></Command>';
const PROPERTIES = '<Properties><PropertyList><Catalog>A</Catalog></PropertyList></Properties>';
const RESTRICTIONS = '<Restrictions><RestrictionList/></Restrictions>';
const TYPE = '<RequestType>MDSCHEMA_CUBES</RequestType>';

function enveloped(body: string, header = ''): string {
  return `<s:Envelope xmlns:s="${SOAP}">${header}<s:Body>${body}</s:Body></s:Envelope>`;
}
function executeOf(content: string): string {
  return enveloped(`<Execute xmlns="${XMLA}">${content}</Execute>`);
}
function discoverOf(content: string): string {
  return enveloped(`<Discover xmlns="${XMLA}">${content}</Discover>`);
}
function withHeader(content: string): string {
  const method = `<Execute xmlns="${XMLA}">${QUERY}${PROPERTIES}</Execute>`;
  return enveloped(method, `<s:Header>${content}</s:Header>`);
}
function read(text: string | Buffer, contentType = 'text/xml; charset=utf-8') {
  return readRequest(Buffer.from(text), contentType);
}
function understood(text: string | Buffer): XmlaRequest {
  const reading = read(text);
  if (reading.kind !== 'understood') {
    throw new Error(`${reading.kind}: ${reading.detail}`);
  }
  return reading.request;
}

function withProperty(property: string): string {
  return executeOf(`${QUERY}<Properties><PropertyList>${property}</PropertyList></Properties>`);
}
/** The statement that a content of the element Statement gives. */
function statementOf(content: string): unknown {
  const command = `<Command><Statement>${content}</Statement></Command>`;
  const request = understood(executeOf(`${command}${PROPERTIES}`));
  return request.method === 'Execute' && request.unexpected === undefined && request.statement;
}

describe('a known envelope is understood in full', () => {
  test('Execute', () => {
    const body = execute({
      statement: ' SELECT [a&b] ON 0\r\nFROM [x] ',
      properties: { Catalog: 'FoodMart', Format: 'Multidimensional' },
      parameters: [
        { name: 'p', type: 'xsd:int', value: '1' },
        { name: 'q', type: '', value: '' },
      ],
    });
    expect(read(body)).toEqual({
      kind: 'understood',
      root: expect.anything(),
      encoding: 'utf-8',
      declared: 'utf-8',
      request: {
        method: 'Execute',
        commands: ['Statement'],
        statement: ' SELECT [a&b] ON 0\r\nFROM [x] ',
        parameters: [
          { name: 'p', type: 'xsd:int', value: '1' },
          { name: 'q', type: '', value: '' },
        ],
        properties: [
          { name: 'Catalog', value: 'FoodMart' },
          { name: 'Format', value: 'Multidimensional' },
        ],
        session: { kind: 'none' },
        sessionIds: [],
        sessionToken: false,
        headers: [],
        forms: [],
        security: false,
        unexpected: undefined,
      },
    });
  });

  test('Discover, with both forms of restrictions', () => {
    const body = discover({
      requestType: 'MDSCHEMA_MEMBERS',
      restrictions: [
        { name: 'CATALOG_NAME', form: 'plain', values: ['A'] },
        { name: 'CATALOG_NAME', form: 'plain', values: ['B'] },
        { name: 'TREE_OP', form: 'value', values: ['1', '2'] },
      ],
    });
    expect(read(body)).toEqual({
      kind: 'understood',
      root: expect.anything(),
      encoding: 'utf-8',
      declared: 'utf-8',
      request: {
        method: 'Discover',
        requestType: 'MDSCHEMA_MEMBERS',
        restrictions: [
          { name: 'CATALOG_NAME', form: 'plain', values: ['A'] },
          { name: 'CATALOG_NAME', form: 'plain', values: ['B'] },
          { name: 'TREE_OP', form: 'value', values: ['1', '2'] },
        ],
        properties: [],
        session: { kind: 'none' },
        sessionIds: [],
        sessionToken: false,
        headers: [],
        forms: [],
        security: false,
        unexpected: undefined,
      },
    });
  });

  test.each([
    [{ kind: 'begin' } as const, { kind: 'begin' }],
    [
      { kind: 'in', id: 'a"<b' } as const,
      { kind: 'in', id: 'a"<b', understand: '[["mustUnderstand","1"]]' },
    ],
    [{ kind: 'end', id: '1' } as const, { kind: 'end', id: '1' }],
  ])('the session header %j', (session, expected) => {
    expect(understood(execute({ statement: 'x', session }))).toMatchObject({
      session: expected,
      unexpected: undefined,
    });
  });

  test('a session that nobody must understand is another than one that must be', () => {
    const request = understood(withHeader(`<Session xmlns="${XMLA}" SessionId="1"/>`));
    expect(request).toMatchObject({
      session: { kind: 'in', id: '1', understand: '' },
      sessionIds: ['1'],
      unexpected: undefined,
    });
  });

  test('what the client can do, in the order in which it says so', () => {
    const engine = 'http://schemas.microsoft.com/analysisservices/2003/engine';
    const request = understood(
      withHeader(
        `<Version xmlns="${engine}/2" Sequence="400"/>` +
          `<ProtocolCapabilities xmlns="${engine}"><Capability>sx</Capability><Capability>xpress</Capability></ProtocolCapabilities>`,
      ),
    );
    expect(request).toMatchObject({
      headers: [
        { uri: `${engine}/2`, local: 'Version', attributes: [['Sequence', '400']], content: [''] },
        { uri: engine, local: 'ProtocolCapabilities', attributes: [], content: ['sx', 'xpress'] },
      ],
      sessionToken: false,
      unexpected: undefined,
    });
  });

  test('that a token of the session is wanted', () => {
    const token =
      '<BeginGetSessionToken xmlns="http://schemas.microsoft.com/analysisservices/2003/xmla"/>';
    expect(understood(withHeader(token)).sessionToken).toBe(true);
  });

  test.each([
    'http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd',
    'http://schemas.xmlsoap.org/ws/2002/04/secext',
    XMLA,
  ])('Security of %s', (namespace) => {
    const security = `<Security xmlns="${namespace}"><UsernameToken/></Security>`;
    expect(understood(withHeader(security)).security).toBe(true);
  });
});

test('commands are named and their content is left alone', () => {
  const engine = 'http://schemas.microsoft.com/analysisservices/2003/engine';
  const text = executeOf(
    `<Command><ClearCache xmlns="${engine}"><Object a="b"/></ClearCache></Command>${PROPERTIES}`,
  );
  expect(understood(text)).toMatchObject({
    commands: ['ClearCache'],
    statement: '',
    unexpected: undefined,
  });
});

describe('the text of an element', () => {
  test.each([
    ['is not trimmed', ' \n a ', ' \n a '],
    ['is text and CDATA together', 'a<![CDATA[<b>]]>c<![CDATA[]]>', 'a<b>c'],
    ['has its references resolved', '&lt;&#x41;&#66;&amp;lt;', '<AB&lt;'],
    ['has the line ends of XML', 'a\r\nb\rc\n', 'a\nb\nc\n'],
    ['keeps a carriage return that is a reference', 'a&#13;\nb', 'a\r\nb'],
    [
      'keeps what only looks like a tag',
      '<![CDATA[</Statement><!-- x -->]]>',
      '</Statement><!-- x -->',
    ],
  ])('%s', (_, content, expected) => {
    expect(statementOf(content)).toBe(expected);
  });
});

describe('spellings that mean the same give equal requests', () => {
  const plain = understood(
    discoverOf(
      `${TYPE}<Restrictions><RestrictionList><A>1</A></RestrictionList></Restrictions>${PROPERTIES}`,
    ),
  );
  test.each([
    [
      'prefixes',
      `<e:Envelope xmlns:e="${SOAP}" xmlns:x="${XMLA}"><e:Body><x:Discover><x:RequestType>MDSCHEMA_CUBES</x:RequestType><x:Restrictions><x:RestrictionList><x:A>1</x:A></x:RestrictionList></x:Restrictions><x:Properties><x:PropertyList><x:Catalog>A</x:Catalog></x:PropertyList></x:Properties></x:Discover></e:Body></e:Envelope>`,
    ],
    [
      'default namespaces and other quotes',
      `<?xml version='1.0'?><Envelope xmlns='${SOAP}'><Header/><Body><Discover xmlns='${XMLA}'>${TYPE}<Restrictions xmlns="${XMLA}"><q:RestrictionList xmlns:q="${XMLA}"><q:A>1</q:A></q:RestrictionList></Restrictions>${PROPERTIES}</Discover></Body></Envelope>`,
    ],
    [
      'white space between elements',
      `\n<s:Envelope\n xmlns:s="${SOAP}" >\n <s:Header> </s:Header>\t<s:Body>\r\n<Discover xmlns="${XMLA}">\n${TYPE} <Restrictions>\n<RestrictionList>\n <A>1</A >\n</RestrictionList>\n</Restrictions>\n<Properties>\n<PropertyList>\n<Catalog>A</Catalog>\n</PropertyList></Properties></Discover></s:Body></s:Envelope>\n`,
    ],
    [
      'encodingStyle, as olap4j and xmla4js write it',
      `<s:Envelope xmlns:s="${SOAP}" s:encodingStyle="http://schemas.xmlsoap.org/soap/encoding/"><s:Body><Discover xmlns="${XMLA}" s:encodingStyle="http://schemas.xmlsoap.org/soap/encoding/">${TYPE}<Restrictions><RestrictionList><A>1</A></RestrictionList></Restrictions>${PROPERTIES}</Discover></s:Body></s:Envelope>`,
    ],
    [
      'namespaces that are declared and not used',
      discoverOf(
        `${TYPE}<Restrictions xmlns:xsi="${XSI}"><RestrictionList><A>&#49;</A></RestrictionList></Restrictions>${PROPERTIES}`,
      ),
    ],
  ])('%s', (_, text) => {
    expect(understood(text)).toEqual(plain);
    expect(plain.unexpected).toBeUndefined();
  });

  test('no list and an empty list', () => {
    const none = understood(discoverOf(`${TYPE}<Restrictions/><Properties/>`));
    const empty = understood(
      discoverOf(`${TYPE}${RESTRICTIONS}<Properties><PropertyList></PropertyList></Properties>`),
    );
    expect(none).toEqual(empty);
    expect(none.unexpected).toBeUndefined();
  });

  test('UTF-8 and UTF-16', () => {
    const text = discoverOf(`${TYPE}${RESTRICTIONS}${PROPERTIES}`);
    const utf16 = readRequest(Buffer.from(`\uFEFF${text}`, 'utf16le'), 'text/xml');
    expect(read(`\uFEFF${text}`)).toEqual(read(text));
    expect(utf16).toEqual({ ...read(text), encoding: 'utf-16le' });
  });
});

describe('what the known shape does not name makes a request unexpected', () => {
  const type = (
    value: string,
    declared = `xmlns:xsi="${XSI}" xmlns:xsd="http://www.w3.org/2001/XMLSchema"`,
  ) =>
    executeOf(
      `${QUERY}${PROPERTIES}<Parameters ${declared}><Parameter><Name>p</Name><Value xsi:type="${value}">1</Value></Parameter></Parameters>`,
    );
  test.each([
    ['an unknown element', executeOf(`${QUERY}${PROPERTIES}<Other/>`)],
    [
      'a known element in another namespace',
      executeOf(`${QUERY}${PROPERTIES}<Parameters xmlns="urn:x"/>`),
    ],
    ['elements out of order', executeOf(`${PROPERTIES}${QUERY}`)],
    ['a second Properties', executeOf(`${QUERY}${PROPERTIES}${PROPERTIES}`)],
    [
      'a second PropertyList',
      executeOf(`${QUERY}<Properties><PropertyList/><PropertyList/></Properties>`),
    ],
    ['no Properties', executeOf(QUERY)],
    ['no Command', executeOf(PROPERTIES)],
    ['no Restrictions', discoverOf(`${TYPE}${PROPERTIES}`)],
    ['no RequestType', discoverOf(`${RESTRICTIONS}${PROPERTIES}`)],
    ['a second RequestType', discoverOf(`${TYPE}${TYPE}${RESTRICTIONS}${PROPERTIES}`)],
    [
      'a child of RequestType',
      discoverOf(`<RequestType>A<b/></RequestType>${RESTRICTIONS}${PROPERTIES}`),
    ],
    ['text between elements', executeOf(`${QUERY}x${PROPERTIES}`)],
    ['a no-break space between elements', executeOf(`${QUERY}\u00A0${PROPERTIES}`)],
    ['CDATA between elements', executeOf(`${QUERY}<![CDATA[]]>${PROPERTIES}`)],
    ['text in Command', executeOf(`<Command>x<Statement>y</Statement></Command>${PROPERTIES}`)],
    [
      'an attribute of Statement',
      executeOf(`<Command><Statement a="b">y</Statement></Command>${PROPERTIES}`),
    ],
    [
      'xml:space',
      executeOf(`<Command><Statement xml:space="preserve">y</Statement></Command>${PROPERTIES}`),
    ],
    [
      'an attribute of Command',
      executeOf(`<Command a="b"><Statement>y</Statement></Command>${PROPERTIES}`),
    ],
    [
      'a child of Statement',
      executeOf(`<Command><Statement>y<b/></Statement></Command>${PROPERTIES}`),
    ],
    [
      'Statement in another namespace',
      executeOf(`<Command><Statement xmlns="urn:x">y</Statement></Command>${PROPERTIES}`),
    ],
    [
      'a comment in a statement',
      executeOf(`<Command><Statement>a<!-- b -->c</Statement></Command>${PROPERTIES}`),
    ],
    ['a comment between elements', executeOf(`${QUERY}<!-- x -->${PROPERTIES}`)],
    ['a comment before the root', `<!-- x -->${executeOf(`${QUERY}${PROPERTIES}`)}`],
    ['a comment after the root', `${executeOf(`${QUERY}${PROPERTIES}`)}<!-- x -->`],
    ['a processing instruction', executeOf(`${QUERY}<?x y?>${PROPERTIES}`)],
    ['a processing instruction after the root', `${executeOf(`${QUERY}${PROPERTIES}`)}<?x?>`],
    ['a stylesheet', `<?xml-stylesheet href="x"?>${executeOf(`${QUERY}${PROPERTIES}`)}`],
    [
      'a child of a property',
      executeOf(`${QUERY}<Properties><PropertyList><A>1<b/></A></PropertyList></Properties>`),
    ],
    [
      'an attribute of a property',
      executeOf(`${QUERY}<Properties><PropertyList><A b="c">1</A></PropertyList></Properties>`),
    ],
    [
      'xsi:type of a property',
      executeOf(
        `${QUERY}<Properties><PropertyList><A xmlns:i="${XSI}" i:type="x">1</A></PropertyList></Properties>`,
      ),
    ],
    [
      'a property in another namespace',
      executeOf(
        `${QUERY}<Properties><PropertyList><A xmlns="urn:x">1</A></PropertyList></Properties>`,
      ),
    ],
    [
      'a property in no namespace',
      executeOf(`${QUERY}<Properties><PropertyList><A xmlns="">1</A></PropertyList></Properties>`),
    ],
    [
      'an attribute of a restriction',
      discoverOf(
        `${TYPE}<Restrictions><RestrictionList><A b="c"/></RestrictionList></Restrictions>${PROPERTIES}`,
      ),
    ],
    [
      'text beside a value',
      discoverOf(
        `${TYPE}<Restrictions><RestrictionList><A> <Value>1</Value></A></RestrictionList></Restrictions>${PROPERTIES}`,
      ),
    ],
    [
      'another child of a restriction',
      discoverOf(
        `${TYPE}<Restrictions><RestrictionList><A><Val>1</Val></A></RestrictionList></Restrictions>${PROPERTIES}`,
      ),
    ],
    [
      'a value in another namespace',
      discoverOf(
        `${TYPE}<Restrictions><RestrictionList><A><Value xmlns="urn:x">1</Value></A></RestrictionList></Restrictions>${PROPERTIES}`,
      ),
    ],
    [
      'a value in a value',
      discoverOf(
        `${TYPE}<Restrictions><RestrictionList><A><Value><Value>1</Value></Value></A></RestrictionList></Restrictions>${PROPERTIES}`,
      ),
    ],
    ['a type without prefix', type('int')],
    ['a type of another namespace', type('xsd:int', `xmlns:xsi="${XSI}" xmlns:xsd="urn:x"`)],
    ['a type of an unknown prefix', type('y:int')],
    [
      'a parameter without value',
      executeOf(
        `${QUERY}${PROPERTIES}<Parameters><Parameter><Name>a</Name></Parameter></Parameters>`,
      ),
    ],
    [
      'another child of Parameters',
      executeOf(`${QUERY}${PROPERTIES}<Parameters><Para/></Parameters>`),
    ],
    [
      'another encodingStyle',
      enveloped(`<Execute xmlns="${XMLA}" s:encodingStyle="urn:x">${QUERY}${PROPERTIES}</Execute>`),
    ],
    [
      'an encodingStyle without namespace',
      enveloped(
        `<Execute xmlns="${XMLA}" encodingStyle="http://schemas.xmlsoap.org/soap/encoding/">${QUERY}${PROPERTIES}</Execute>`,
      ),
    ],
    ['text in Body', enveloped(`x<Execute xmlns="${XMLA}">${QUERY}${PROPERTIES}</Execute>`)],
    [
      'an element after Body',
      executeOf(`${QUERY}${PROPERTIES}`).replace('</s:Envelope>', '<x/></s:Envelope>'),
    ],
    [
      'Header after Body',
      executeOf(`${QUERY}${PROPERTIES}`).replace('</s:Envelope>', '<s:Header/></s:Envelope>'),
    ],
    [
      'a second Header',
      enveloped(
        `<Execute xmlns="${XMLA}">${QUERY}${PROPERTIES}</Execute>`,
        '<s:Header/><s:Header/>',
      ),
    ],
    [
      'a Header in another namespace',
      enveloped(`<Execute xmlns="${XMLA}">${QUERY}${PROPERTIES}</Execute>`, '<Header/>'),
    ],
    ['an unknown SOAP header', withHeader('<x/>')],
    ['Version in another namespace', withHeader('<Version Sequence="400"/>')],
    [
      'capabilities that are none',
      withHeader(
        '<ProtocolCapabilities xmlns="http://schemas.microsoft.com/analysisservices/2003/engine"><Wish>sx</Wish></ProtocolCapabilities>',
      ),
    ],
    ['a session element in another namespace', withHeader('<Session SessionId="1"/>')],
    ['a session without id', withHeader(`<Session xmlns="${XMLA}"/>`)],
    ['a session id in another case', withHeader(`<Session xmlns="${XMLA}" SessionID="1"/>`)],
    ['a session id with prefix', withHeader(`<x:Session xmlns:x="${XMLA}" x:SessionId="1"/>`)],
    ['a session with content', withHeader(`<Session xmlns="${XMLA}" SessionId="1">x</Session>`)],
    [
      'two session elements',
      withHeader(
        `<Session xmlns="${XMLA}" SessionId="1"/><EndSession xmlns="${XMLA}" SessionId="1"/>`,
      ),
    ],
    [
      'the text that Kylin looks for, in a prefix',
      `<DbpropMsmdMDXCompatibility:Envelope xmlns:DbpropMsmdMDXCompatibility="${SOAP}"><DbpropMsmdMDXCompatibility:Body><Execute xmlns="${XMLA}">${QUERY}${PROPERTIES}</Execute></DbpropMsmdMDXCompatibility:Body></DbpropMsmdMDXCompatibility:Envelope>`,
    ],
    [
      'the text that Kylin looks for, in an ignored property',
      executeOf(
        `${QUERY}<Properties><PropertyList><Timeout>DbpropMsmdMDXCompatibility</Timeout></PropertyList></Properties>`,
      ),
    ],
    [
      'the text that Kylin looks for, in a namespace',
      executeOf(`${QUERY}${PROPERTIES}`).replace(
        '<s:Body',
        '<s:Body xmlns:y="urn:DbpropMsmdMDXCompatibility"',
      ),
    ],
    [
      'the text that Kylin looks for, in the value of its property',
      executeOf(
        `${QUERY}<Properties><PropertyList><DbpropMsmdMDXCompatibility>DbpropMsmdMDXCompatibility</DbpropMsmdMDXCompatibility></PropertyList></Properties>`,
      ),
    ],
  ])('%s', (_, text) => {
    const { unexpected } = understood(text);
    expect(unexpected).toEqual(expect.any(String));
    expect(unexpected).not.toBe('');
  });

  test('but DbpropMsmdMDXCompatibility may be a property', () => {
    const property = withProperty('<DbpropMsmdMDXCompatibility>1</DbpropMsmdMDXCompatibility>');
    expect(understood(property).unexpected).toBeUndefined();
    expect(understood(withProperty('<DbpropMsmdMDXCompatibility/>')).unexpected).toBeUndefined();
    // An engine that searches bytes does not find it in UTF-16.
    expect(readRequest(Buffer.from(`\uFEFF${property}`, 'utf16le'), undefined)).toMatchObject({
      request: { unexpected: expect.any(String) },
    });
  });

  test('and what is said of it is short', () => {
    const text = executeOf(`${QUERY}${PROPERTIES}<${'x'.repeat(10_000)}/>`);
    expect(understood(text).unexpected?.length).toBeLessThan(200);
  });
});

describe('what is not understood is told from what is refused', () => {
  const good = executeOf(`${QUERY}${PROPERTIES}`);
  test.each([
    ['malformed', 'nothing', ''],
    ['malformed', 'no XML', 'SELECT'],
    ['malformed', 'an open tag', good.slice(0, -5)],
    ['malformed', 'a second root', `${good}<a/>`],
    ['malformed', 'text behind the root', `${good}x`],
    ['malformed', 'an unknown entity', good.replace('SELECT', '&nbsp;')],
    ['malformed', 'a forbidden character', good.replace('SELECT', '\u0001')],
    ['malformed', 'a reference to a forbidden character', good.replace('SELECT', '&#0;')],
    ['malformed', 'a null character', good.replace('SELECT', '\0')],
    ['malformed', 'an unbound prefix', good.replace('<Command>', '<y:z/><Command>')],
    ['malformed', 'two equal attributes', good.replace('<Execute', '<Execute a="1" a="2"')],
    [
      'malformed',
      'a local name that begins with a digit',
      good.replace('<Command>', '<s:1/><Command>'),
    ],
    [
      'malformed',
      'a prefix that begins with a digit',
      good.replace('<Execute', '<Execute xmlns:1="urn:x"'),
    ],
    ['malformed', 'a second byte order mark', `\uFEFF\uFEFF${good}`],
    ['malformed', 'a late XML declaration', ` <?xml version="1.0"?>${good}`],
    ['malformed', 'a target that ends in no space', `<?x?y?>${good}`],
    ['unknown-shape', 'XML 1.1', `<?xml version="1.1"?>${good}`],
    ['unknown-shape', 'a namespace with space', good.replace(`"${XMLA}"`, `" ${XMLA}"`)],
    ['unknown-shape', 'a namespace in other case', good.replace(XMLA, XMLA.toUpperCase())],
    ['unknown-shape', 'SOAP 1.2', good.replace(SOAP, 'http://www.w3.org/2003/05/soap-envelope')],
    ['unknown-shape', 'another root', '<a/>'],
    ['unknown-shape', 'no Body', `<s:Envelope xmlns:s="${SOAP}"/>`],
    ['unknown-shape', 'an empty Body', enveloped('')],
    [
      'unknown-shape',
      'two methods',
      enveloped(`<Execute xmlns="${XMLA}"/><Discover xmlns="${XMLA}"/>`),
    ],
    ['unknown-shape', 'two Bodies', good.replace('<s:Body>', '<s:Body/><s:Body>')],
    ['unknown-shape', 'another method', enveloped(`<Cancel xmlns="${XMLA}"/>`)],
    ['unknown-shape', 'a method in another namespace', enveloped('<Execute/>')],
    ['unknown-shape', 'a method in another case', enveloped(`<execute xmlns="${XMLA}"/>`)],
    [
      'unknown-shape',
      'too many elements',
      good.replace('<Command>', `${'<a/>'.repeat(MAX_NODES)}<Command>`),
    ],
    [
      'encoding',
      'a declared encoding that it has not',
      `<?xml version="1.0" encoding="utf-16"?>${good}`,
    ],
  ])('%s: %s', (reason, _, text) => {
    expect(read(text)).toMatchObject({
      kind: 'not-understood',
      reason,
      detail: expect.any(String),
    });
  });

  describe('declarations of namespaces', () => {
    const kindOf = (text: string) => readTree(Buffer.from(text)).kind;
    const declared = good.match(/xmlns[:=]/g)?.length ?? 0;

    test('more of them in scope than anybody needs, and no fewer', () => {
      const declaring = (count: number) => {
        const [outer, inner] = [count >> 1, count - (count >> 1)].map((part) =>
          Array.from({ length: part }, (_, i) => `xmlns:p${i}="urn:a"`).join(' '),
        );
        return good
          .replace('<Execute', `<Execute ${outer}`)
          .replace('<Command>', `<x ${inner}/><x ${inner}/><Command>`);
      };
      expect(kindOf(declaring(256 - declared))).toBe('tree');
      expect(kindOf(declaring(257 - declared))).toBe('unread');
      expect(read(declaring(257 - declared))).toMatchObject({ reason: 'unknown-shape' });
      expect(read(`<!DOCTYPE a>${declaring(257)}`)).toMatchObject({ kind: 'refused' });
      expect(read(`${declaring(257)}<!DOCTYPE a>`)).toMatchObject({ kind: 'refused' });
    });

    test('are read where toolkits repeat them, or make up a prefix, for each part', () => {
      const part = (i: number) =>
        `<q:a xmlns:q="urn:${i}"><p${i}:b xmlns:p${i}="urn:a"/><q:c/></q:a>`;
      const parts = Array.from({ length: 1_000 }, (_, i) => part(i)).join('');
      expect(kindOf(good.replace('<Command>', `<Command>${parts}`))).toBe('tree');
    });

    test('a name longer than any namespace has', () => {
      const named = (length: number) =>
        good.replace('<Execute', `<Execute xmlns:p="${'urn:'.padEnd(length, 'u')}"`);
      expect(kindOf(named(256))).toBe('tree');
      expect(kindOf(named(257))).toBe('unread');
    });
  });

  test('too many attributes', () => {
    const many = Array.from({ length: MAX_NODES + 1 }, (_, i) => `a${i}=""`).join(' ');
    expect(read(good.replace('<Execute', `<Execute ${many}`))).toMatchObject({
      reason: 'unknown-shape',
    });
  });

  test('an unknown charset', () => {
    expect(read(good, 'text/xml; charset=utf-7')).toMatchObject({ reason: 'encoding' });
  });

  test.each([
    ['a document type', `<!DOCTYPE a>${good}`],
    ['a document type that is not well-formed', `<!DOCTYPE a [<!ENTITY b "c"${good}`],
    ['a document type in another case', `<!doctype a>${good}`],
    ['a document type behind something malformed', `<a b='<'/><!DOCTYPE a>${good}`],
    ['an entity in use', `<!DOCTYPE a [<!ENTITY b "c">]>${good.replace('SELECT', '&b;')}`],
    ['a document type behind XML 1.1', `<?xml version="1.1"?><!DOCTYPE a>${good}`],
    [
      'nesting',
      good.replace('<Command>', `${'<a>'.repeat(MAX_DEPTH)}${'</a>'.repeat(MAX_DEPTH)}<Command>`),
    ],
    ['deep nesting that never ends', '<a>'.repeat(100_000)],
  ])('refused: %s', (_, text) => {
    expect(read(text)).toEqual({ kind: 'refused', detail: expect.any(String) });
  });

  test.each([
    [
      'an encoding that is not read',
      Buffer.from(`<!DOCTYPE a>${good}`),
      'text/xml; charset=koi8-r',
    ],
    [
      'UTF-16 that nothing declares',
      Buffer.from(`<!DOCTYPE a>${good}`, 'utf16le'),
      'text/xml; charset=utf-16',
    ],
    // Both are decoded, to what is no XML; engines that go by the first bytes read them all the same.
    ['UTF-16 that nothing names', Buffer.from(`<!DOCTYPE a>${good}`, 'utf16le'), 'text/xml'],
    [
      'UTF-8 that is called UTF-16',
      Buffer.from(`<!DOCTYPE a>${good}`.padEnd(4_000)),
      'text/xml; charset=utf-16be',
    ],
    [
      'UTF-32',
      Buffer.from([
        0xff,
        0xfe,
        0,
        0,
        ...[...'<!DOCTYPE'].flatMap((c) => [c.charCodeAt(0), 0, 0, 0]),
      ]),
      undefined,
    ],
  ])('refused: a document type in %s', (_, body, contentType) => {
    expect(readRequest(body, contentType).kind).toBe('refused');
  });

  test('a document type in a statement is only text', () => {
    const statement = '<!DOCTYPE a>';
    expect(understood(execute({ statement }))).toMatchObject({ statement, unexpected: undefined });
  });

  test('depth within the limit is no reason', () => {
    expect(read(good.replace('<Command>', '<a><b/></a><Command>')).kind).toBe('understood');
  });
});

describe('by property', () => {
  const text = fc.string({ unit: 'grapheme' });
  const name = fc.constantFrom('Catalog', 'Format', 'CUBE_NAME', 'Größe', 'Value');
  const pairs = fc.array(fc.record({ name, value: text }), { maxLength: 4 });
  const restrictions = fc.array(
    fc.oneof(
      fc.record({ name, form: fc.constant('plain' as const), values: fc.tuple(text) }),
      fc.record({
        name,
        form: fc.constant('value' as const),
        values: fc.array(text, { minLength: 1, maxLength: 3 }),
      }),
    ),
    { maxLength: 3 },
  );
  const parameters = fc.array(
    fc.record({ name: text, type: fc.constantFrom('', 'xsd:int', 'xsd:string'), value: text }),
    { maxLength: 3 },
  );
  const prefix = fc.constantFrom('', 's', 'SOAP-ENV', 'soap');
  const runs = { numRuns: sizes.propertyRuns };

  test('an Execute gives back exactly what was written, whatever the prefix', () => {
    fc.assert(
      fc.property(text, pairs, parameters, prefix, (statement, properties, parameters, prefix) => {
        const request = understood(execute({ statement, properties, parameters, prefix }));
        expect(request).toEqual({
          method: 'Execute',
          commands: ['Statement'],
          statement,
          parameters,
          properties,
          session: { kind: 'none' },
          sessionIds: [],
          sessionToken: false,
          headers: [],
          forms: [],
          security: false,
          unexpected: undefined,
        });
      }),
      runs,
    );
  });

  test('a Discover gives back exactly what was written', () => {
    fc.assert(
      fc.property(
        text,
        pairs,
        restrictions,
        prefix,
        (requestType, properties, restrictions, prefix) => {
          const request = understood(discover({ requestType, properties, restrictions, prefix }));
          expect(request).toEqual({
            method: 'Discover',
            requestType,
            restrictions,
            properties,
            session: { kind: 'none' },
            sessionIds: [],
            sessionToken: false,
            headers: [],
            forms: [],
            security: false,
            unexpected: undefined,
          });
        },
      ),
      runs,
    );
  });

  test('no bytes make it throw', () => {
    const pieces = fc
      .array(
        fc.constantFrom(
          '<',
          '>',
          '/',
          '=',
          '"',
          '&',
          ';',
          '<!--',
          '-->',
          '<![CDATA[',
          ']]>',
          '<?',
          '?>',
          '<!DOCTYPE',
          '[',
          ']',
          'a',
          ':',
          'xmlns',
          '\r',
          '\uFEFF',
          '<?xml version="1.0"?>',
          '\uD800',
        ),
      )
      .map((parts) => Buffer.from(parts.join('')));
    const bytes = fc.uint8Array().map((array) => Buffer.from(array));
    fc.assert(
      fc.property(
        fc.oneof(pieces, bytes),
        fc.option(fc.string(), { nil: undefined }),
        (body, header) => {
          expect(['not-understood', 'refused']).toContain(readRequest(body, header).kind);
        },
      ),
      { numRuns: sizes.propertyRuns * 5 },
    );
  });
});
