import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { asksForOtherIdentity } from '../../../../src/xmla/request/delegation.ts';
import { readRequest } from '../../../../src/xmla/request/read-request.ts';
import { discover, execute } from '../../../support/envelopes.ts';
import { sizes } from '../../../support/sizes.ts';

const SOAP = 'http://schemas.xmlsoap.org/soap/envelope/';
const XMLA = 'urn:schemas-microsoft-com:xml-analysis';
const NAMES = [
  'EffectiveUserName',
  'Roles',
  'EffectiveRoles',
  'CustomData',
  'UserName',
  'Password',
];

async function asks(body: Uint8Array | string, contentType?: string): Promise<boolean> {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  const reading = readRequest(bytes, contentType);
  return asksForOtherIdentity(bytes, contentType, reading, () => undefined);
}

/** An Execute with these elements in its PropertyList. */
function envelope(properties: string, header = '', statement = 'SELECT FROM [Sales]'): string {
  return (
    `<s:Envelope xmlns:s="${SOAP}">${header}<s:Body><Execute xmlns="${XMLA}" xmlns:p="urn:p">` +
    `<Command><Statement>${statement}</Statement></Command>` +
    `<Properties><PropertyList>${properties}</PropertyList></Properties></Execute></s:Body></s:Envelope>`
  );
}

const utf16 = (text: string, order: 'le' | 'be', mark: boolean): Buffer => {
  const bytes = Buffer.from((mark ? '\uFEFF' : '') + text, 'utf16le');
  return order === 'le' ? bytes : bytes.swap16();
};

/** Letters of EBCDIC (IBM037), as far as an envelope needs them. */
function ebcdic(text: string): Buffer {
  const table = new Map<string, number>([
    ...[...'abcdefghi'].map((c, i): [string, number] => [c, 0x81 + i]),
    ...[...'jklmnopqr'].map((c, i): [string, number] => [c, 0x91 + i]),
    ...[...'stuvwxyz'].map((c, i): [string, number] => [c, 0xa2 + i]),
    ...[...'ABCDEFGHI'].map((c, i): [string, number] => [c, 0xc1 + i]),
    ...[...'JKLMNOPQR'].map((c, i): [string, number] => [c, 0xd1 + i]),
    ...[...'STUVWXYZ'].map((c, i): [string, number] => [c, 0xe2 + i]),
    ['<', 0x4c],
    ['>', 0x6e],
    ['/', 0x61],
    [':', 0x7a],
    ['"', 0x7f],
    ['=', 0x7e],
  ]);
  return Buffer.from([...text].map((c) => table.get(c) ?? 0x40));
}

describe('a request asks for the rights of another identity', () => {
  test.each(NAMES)('by the property %s', async (name) => {
    const body = execute({ statement: 'SELECT FROM [Sales]', properties: { [name]: 'bob' } });
    expect(await asks(body)).toBe(true);
  });

  test.each([
    ['in other letter case', '<rOLES>Admin</rOLES>'],
    ['in another namespace', '<p:Roles>Admin</p:Roles>'],
    ['in CDATA', '<Roles><![CDATA[Admin]]></Roles>'],
    ['in white space, which may be somebody’s name', '<Roles> </Roles>'],
    ['as a child', '<Roles><Role>Admin</Role></Roles>'],
    ['in an attribute', '<Roles name="Admin"/>'],
    ['with a long s, which is an S in upper case', '<Role\u017F>Admin</Role\u017F>'],
    [
      'with a dotless i, which is an I in upper case',
      '<Effect\u0131veUserName>bob</Effect\u0131veUserName>',
    ],
    ['with a sharp s, which is SS in upper case', '<Pa\u00DFword>x</Pa\u00DFword>'],
    ['behind an empty one', '<Roles/><Roles>Admin</Roles>'],
    ['below another property', '<Catalog><CustomData>42</CustomData></Catalog>'],
  ])('%s', async (_case, property) => {
    expect(await asks(envelope(property))).toBe(true);
  });

  test.each([
    ['in the restrictions', discover({ requestType: 'X', restrictions: { UserName: 'bob' } })],
    ['beside the method', envelope('').replace('<s:Body>', '<s:Body><Roles>Admin</Roles>')],
    ['beside the body', envelope('').replace('<s:Body>', '<Roles>Admin</Roles><s:Body>')],
    [
      'in a command',
      envelope('').replace(/<Statement>.*<\/Statement>/, '<Alter><Roles>A</Roles></Alter>'),
    ],
    [
      'in an envelope of SOAP 1.2',
      envelope('<Roles>A</Roles>').replace(SOAP, 'http://www.w3.org/2003/05/soap-envelope'),
    ],
    ['without an envelope', '<Roles>Admin</Roles>'],
  ])('by an identity property %s', async (_case, body) => {
    expect(await asks(body)).toBe(true);
  });

  test.each([
    ['1.0', '<w:Security xmlns:w="http://schemas.xmlsoap.org/ws/2002/04/secext"/>'],
    ['of any namespace', '<Security xmlns="urn:x" s:mustUnderstand="1">x</Security>'],
    ['in other letter case', '<SECURITY/>'],
    [
      'with a token',
      '<Security><UsernameToken><Username>bob</Username></UsernameToken></Security>',
    ],
  ])('by WS-Security %s, also an empty one', async (_case, block) => {
    expect(await asks(envelope('', `<s:Header>${block}</s:Header>`))).toBe(true);
  });

  test.each([
    ['that breaks off', envelope('<Roles>Admin</Roles>').slice(0, -20)],
    ['with a second root', `${envelope('<p:roles>Admin</p:roles>')}<a/>`],
    ['that declares XML 1.1', `<?xml version="1.1"?>${envelope('<Roles>Admin</Roles>')}`],
    [
      'that declares XML 1.1, in which U+0085 is white space',
      `<?xml version="1.1"?>${envelope('<Roles\u0085>Admin</Roles>')}`,
    ],
    ['with WS-Security', envelope('', '<s:Header><w:Security/></s:Header>')],
    ['of a prefix that nobody declared', envelope('<q:Roles>Admin</q:Roles>')],
    ['that breaks off after an empty one', envelope('<Roles/><Roles>Admin').slice(0, -20)],
    ['of too many tags', `<a>${'<b/>'.repeat(200_001)}</a>`],
  ])('in a text that cannot be parsed: %s', async (_case, body) => {
    expect(await asks(body)).toBe(true);
  });

  test('in a body that is too long to be parsed', async () => {
    const padding = ' '.repeat(4 * 1024 * 1024);
    expect(await asks(envelope(`${padding}<Roles>Admin</Roles>`))).toBe(true);
    expect(await asks(envelope(`${padding}<p:CUSTOMDATA >1</p:CUSTOMDATA >`))).toBe(true);
    expect(await asks(envelope(padding, '<s:Header><w:Security/></s:Header>'))).toBe(true);
  });
});

describe('a request could hide that it asks', () => {
  const plain = envelope('');
  const asking = envelope('<Roles>Admin</Roles>');

  test.each<[string, Buffer | string, string?]>([
    ['EBCDIC', ebcdic(asking)],
    ['EBCDIC that is named', ebcdic(plain), 'text/xml; charset=ibm037'],
    ['EBCDIC whose bytes are UTF-8', ebcdic('<<<<').fill(0x4c)],
    ['UTF-7 that begins like XML', `<?xml version="1.0" encoding="utf-7"?>${plain}`],
    ['UTF-7 that the Content-Type names', plain, 'text/xml; charset=utf-7'],
    ['UTF-7 without a letter of ASCII', '+ADw-Roles+AD4-Admin+ADw-/Roles+AD4-'],
    ['an encoding that nobody knows', plain, 'text/xml; charset=x-own'],
    ['an encoding that is named in a way of its own', plain, "text/xml; charset*=utf-8''utf-8"],
    ['ISO-2022, which switches', `<?xml version="1.0" encoding="iso-2022-jp"?>${plain}`],
    [
      'a declaration that cannot be read',
      `<?xml version="1.0" encoding=ISO-8859-1?>${plain}`,
      'text/xml; charset=koi8-r',
    ],
    ['JSON', '{"Roles":"Admin"}'],
    ['binary XML', Buffer.from([0xdf, 0xff, 0x01, 0xb0, 0x04])],
    ['a multipart', `--b\r\n\r\n${plain}`],
    [
      'a name with bytes that nobody knows',
      Buffer.from(envelope('<Role\u00FE>A</Role\u00FE>'), 'latin1'),
      'text/xml; charset=iso-8859-9',
    ],
    [
      'UTF-16 without a mark, with a long s',
      utf16(envelope('<Role\u017F>A</Role\u017F>'), 'le', false),
    ],
    ['the name, in ISO-8859-1', asking, 'text/xml; charset=iso-8859-1'],
    [
      'the name, in UTF-16 that says to be UTF-8',
      utf16(asking, 'be', true),
      'text/xml; charset=utf-8',
    ],
    ['the name, in UTF-32', Buffer.from([...asking].flatMap((c) => [0, 0, 0, c.charCodeAt(0)]))],
  ])('in %s', async (...[, body, contentType]) => {
    expect(await asks(body, contentType)).toBe(true);
  });
});

describe('a request asks for nothing', () => {
  test.each([
    ['without any of the properties', envelope('<Catalog>A</Catalog>')],
    ['with empty ones', envelope('<Roles/><CustomData></CustomData><p:EffectiveUserName />')],
    [
      'with names that only begin like one',
      envelope('<RolesOfUsers>A</RolesOfUsers><UserNames>b</UserNames>'),
    ],
    ['with a name in its values', envelope('<Catalog>Roles</Catalog>')],
    [
      'with a name in its statement',
      envelope('', '', 'SELECT [Roles].[UserName] ON 0 FROM [Password]'),
    ],
    [
      'with a tag in its statement',
      envelope('', '', '<![CDATA[SELECT [<Roles>Admin</Roles>] ON 0 FROM s]]>'),
    ],
    ['with a tag in a comment', envelope('<!-- <Roles>Admin</Roles> -->')],
    ['with a session', envelope('', `<s:Header><BeginSession xmlns="${XMLA}"/></s:Header>`)],
    [
      'with a header that only ends like Security',
      envelope('', '<s:Header><NoSecurity/></s:Header>'),
    ],
    [
      'that breaks off, with empty ones',
      envelope('<Roles/><p:CustomData></p:CustomData>').slice(0, -20),
    ],
    ['that is long, with empty ones', envelope(`<Roles/>${' '.repeat(1024 * 1024)}`)],
    ['that is empty', ''],
  ])('%s', async (_case, body) => {
    expect(await asks(body)).toBe(false);
  });

  test.each<[string, Buffer, string?]>([
    ['GBK', Buffer.from(envelope('<Catalog>éé</Catalog>'), 'latin1'), 'text/xml; charset=gbk'],
    [
      'windows-1252 that contradicts itself',
      Buffer.from(
        `<?xml version="1.0" encoding='windows-1252'?>${envelope('<Catalog>é</Catalog>')}`,
        'latin1',
      ),
      'text/xml; charset=koi8-r',
    ],
    ['UTF-16 without a mark', utf16(envelope('<Catalog>A</Catalog>'), 'le', false)],
    [
      'a declaration that contradicts the mark',
      utf16(`<?xml version="1.0" encoding="utf-8"?>${envelope('')}`, 'be', true),
    ],
  ])('in %s, which is not read but keeps its letters', async (...[, body, contentType]) => {
    expect(readRequest(body, contentType).kind).toBe('not-understood');
    expect(await asks(body, contentType)).toBe(false);
  });

  test.each(['windows-1252', 'koi8-r'])('in %s, which is read to be judged', async (charset) => {
    const body = Buffer.from(envelope('<Catalog>é</Catalog>'), 'latin1');
    expect(await asks(body, `text/xml; charset=${charset}`)).toBe(false);
  });

  test.each(['iso-8859-1', 'us-ascii', 'gb2312'])('in %s, with empty ones', async (charset) => {
    const body = Buffer.from(envelope('<Catalog>A</Catalog><Roles/>'));
    expect(await asks(body, `text/xml; charset=${charset}`)).toBe(false);
  });
});

test('letters that only a reader of UTF-8 takes for a name count in ISO-8859-1 too', async () => {
  const body = Buffer.from(envelope('<Role\u017F>x</Role\u017F>'));
  const type = 'text/xml; charset=iso-8859-1';
  expect(await asks(body, type)).toBe(true);
  expect(await asks(Buffer.from(envelope('<Catalog>\u00E9</Catalog>'), 'latin1'), type)).toBe(
    false,
  );
});

/** Every letter of a name in one of its two cases. */
const spelling = (name: string) =>
  fc
    .array(fc.boolean(), { minLength: name.length, maxLength: name.length })
    .map((upper) =>
      [...name].map((c, i) => (upper[i] ? c.toUpperCase() : c.toLowerCase())).join(''),
    );

const encodings = fc.constantFrom<(text: string) => { body: Buffer; contentType?: string }>(
  (text) => ({ body: Buffer.from(text) }),
  (text) => ({ body: Buffer.from(`\uFEFF${text}`) }),
  (text) => ({ body: utf16(text, 'le', true) }),
  (text) => ({ body: utf16(text, 'be', true) }),
  (text) => ({ body: utf16(text, 'le', false), contentType: 'text/xml; charset=utf-16le' }),
  (text) => ({ body: utf16(text, 'be', false), contentType: 'text/xml; charset=utf-16be' }),
  // These are not read.
  (text) => ({ body: utf16(text, 'le', false) }),
  (text) => ({ body: utf16(text, 'be', false), contentType: 'text/xml; charset=utf-16' }),
  (text) => ({ body: Buffer.from(text), contentType: 'text/xml; charset=iso-8859-1' }),
);

describe('in every spelling, with every prefix, in every encoding', () => {
  const question = fc.record({
    name: fc.constantFrom(...NAMES).chain(spelling),
    prefix: fc.constantFrom('', 'p:', 's:', 'undeclared:'),
    space: fc.constantFrom('', ' ', '\n', '\t\r\n'),
    value: fc.constantFrom('bob', '<![CDATA[bob]]>', '&#98;ob', ' ', '<a/>', '<!-- --> b'),
    encode: encodings,
    cut: fc.boolean(),
  });

  test('a property with a value is found', async () => {
    await fc.assert(
      fc.asyncProperty(question, async ({ name, prefix, space, value, encode, cut }) => {
        const text = envelope(`<${prefix}${name}${space}>${value}</${prefix}${name}>`);
        const { body, contentType } = encode(cut ? text.slice(0, -30) : text);
        expect(await asks(body, contentType)).toBe(true);
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('what has another name is none', async () => {
    await fc.assert(
      fc.asyncProperty(question, async ({ name, prefix, space, value, encode, cut }) => {
        const text = envelope(`<${prefix}x${name}${space}>${value}</${prefix}x${name}>`);
        const { body, contentType } = encode(cut ? text.slice(0, -30) : text);
        expect(await asks(body, contentType)).toBe(false);
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('any bytes are decided without an error', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), async (body) => {
        expect(typeof (await asks(body))).toBe('boolean');
      }),
      { numRuns: sizes.propertyRuns },
    );
  });
});
