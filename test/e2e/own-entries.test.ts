import { beforeEach, describe, expect, test } from '@jest/globals';
import { newCube, question, startAttackedHouse, withHeader } from '../support/attacked-house.ts';
import { discover, type DiscoverSpec } from '../support/envelopes.ts';
import { askXmla, shortStatus, type XmlaMessage } from '../support/http-client.ts';
import { beginSession } from '../support/stamped-client.ts';
import { shared } from '../support/opened.ts';

/** What reaches the engine with a cacheable request and may shape its answer makes an entry of its own. */

const house = shared(() => startAttackedHouse());
beforeEach(() => {
  house.engine.seen.length = 0;
});

const AS = 'http://schemas.microsoft.com/analysisservices/2003';

/** Two requests that must not be answered from one entry. */
async function twoEntries(
  one: readonly [body: Buffer, message?: XmlaMessage],
  other: readonly [body: Buffer, message?: XmlaMessage],
): Promise<void> {
  const url = house.urlOf();
  const told: string[] = [];
  for (const [body, message] of [one, other, one, other]) {
    told.push(shortStatus(await askXmla(url, body, message)));
  }
  expect(told).toEqual(['miss stored', 'miss stored', 'hit', 'hit']);
  expect(house.engine.seen).toHaveLength(2);
}

describe('two entries are made by', () => {
  test.each([
    ['a parameter that no one knows', 'a=1'],
    ['a parameter without a value', 'a'],
    ['a name beside that of a login', 'username2=bob'],
    ['a login as a value', 'a=username'],
    ['roles in the query', 'roles=admin'],
    ['a catalog in the query', 'catalog=Sales'],
  ])('%s', async (_what, search) => {
    const body = question(newCube());
    await twoEntries([body], [body, { path: `/mdx/xmla?${search}` }]);
    expect(house.engine.seen[1]?.url).toBe(`/xmla?${search}`);
  });

  test('the two spellings of a parameter', async () => {
    const body = question(newCube());
    await twoEntries([body, { path: '/mdx/xmla?a=1' }], [body, { path: '/mdx/xmla?%61=1' }]);
  });

  test.each([
    ['utf16le', 'utf-16le'],
    ['utf16le', 'utf-16'],
  ] as const)(
    'UTF-8 and %s that only its mark tells, or the charset %s',
    async (coding, charset) => {
      const plain = question(newCube());
      const text = plain.toString().replace('encoding="UTF-8"', 'encoding="UTF-16"');
      const marked = Buffer.from(`\uFEFF${text}`, coding);
      const typed = (type: string): XmlaMessage => ({ headers: { 'content-type': type } });
      await twoEntries([plain, typed('text/xml')], [marked, typed('text/xml')]);
      const named = await askXmla(house.urlOf(), marked, typed(`text/xml; charset=${charset}`));
      expect(shortStatus(named)).toBe('miss stored');
    },
  );

  test('the two orders of bytes of UTF-16', async () => {
    const text = question(newCube()).toString().replace('encoding="UTF-8"', 'encoding="UTF-16"');
    const little = Buffer.from(`\uFEFF${text}`, 'utf16le');
    const big = Buffer.from(little).swap16();
    const message: XmlaMessage = { headers: { 'content-type': 'text/xml; charset=utf-16' } };
    await twoEntries([little, message], [big, message]);
  });

  test('two users', async () => {
    const body = question(newCube());
    await twoEntries([body], [body, { user: 'bob' }]);
  });

  test('two projects of one name in other letters', async () => {
    const body = question(newCube());
    await twoEntries([body, { path: '/mdx/xmla/p' }], [body, { path: '/mdx/xmla/P' }]);
  });

  test.each([
    ['MSOLAP 16', 'ADOMD.NET'],
    ['Java/17', 'Olap4j(1.2.0)'],
    ['gSOAP/2.8', 'curl/8'],
    ['MicroStrategy/9', 'Apache-HttpClient/4'],
    ['XmlaClient', ''],
  ])('the client programs %s and %s', async (one, other) => {
    const body = question(newCube());
    await twoEntries(
      [body, { headers: { 'user-agent': one } }],
      [body, { headers: { 'user-agent': other } }],
    );
  });

  test.each([
    ['text/xml', 'application/xml'],
    ['*/*', 'application/soap+xml'],
  ])('Accept %s and %s', async (one, other) => {
    const body = question(newCube());
    await twoEntries([body, { headers: { accept: one } }], [body, { headers: { accept: other } }]);
  });

  test.each([
    ['an ignored property in other letters', { timeout: '1' }, { timeout: '2' }],
    ['an ignored property in capitals', { CLIENTPROCESSID: '1' }, { CLIENTPROCESSID: '2' }],
    ['an ignored property with a tail', { TimeoutX: '1' }, {}],
    ['a property that no one knows', { Unknown: '1' }, {}],
    ['a property without a value', { Unknown: '' }, {}],
    ['a format', { Format: 'Tabular' }, { Format: 'Multidimensional' }],
    ['a language', { LocaleIdentifier: '1031' }, { LocaleIdentifier: '1033' }],
    ['a number format of Kylin', { DbpropMsmdMDXCompatibility: '1' }, {}],
    ['RealTimeOlap that asks for nothing', { RealTimeOlap: 'false' }, {}],
  ] satisfies readonly (readonly [string, Record<string, string>, Record<string, string>])[])(
    '%s',
    async (_what, one, other) => {
      const cube = newCube();
      await twoEntries(
        [question(cube, { properties: one })],
        [question(cube, { properties: other })],
      );
    },
  );

  test.each([
    ['Version', `<Version xmlns="${AS}/engine/2" Sequence="400"/>`],
    ['NamespaceCompatibility', `<NamespaceCompatibility xmlns="${AS}/xmla"/>`],
    [
      'ProtocolCapabilities',
      `<ProtocolCapabilities xmlns="${AS}/engine"><Capability>sx</Capability></ProtocolCapabilities>`,
    ],
  ])('the header block %s', async (_name, block) => {
    const plain = question(newCube());
    await twoEntries([plain], [withHeader(plain, block)]);
  });

  test('a session with mustUnderstand and without, of which Mondrian heeds one', async () => {
    const url = house.urlOf();
    const id = await beginSession(url);
    house.engine.seen.length = 0;
    const understood = question(newCube(), { session: { kind: 'in', id } });
    const ignored = understood.toString().replace(' mustUnderstand="1"', '');
    const lax = understood.toString().replace('mustUnderstand="1"', 'mustUnderstand="0"');
    await twoEntries([understood], [Buffer.from(ignored)]);
    house.engine.seen.length = 0;
    expect(shortStatus(await askXmla(url, Buffer.from(lax)))).toBe('miss stored');
  });

  test.each([
    ['one value', ['a']],
    ['two values', ['a', 'b']],
  ])('the two forms of a restriction with %s', async (_how, values) => {
    const cube = newCube();
    const form = (one: 'plain' | 'value') => cubes([{ name: cube, form: one, values }]);
    await twoEntries([form('plain')], [form('value')]);
  });

  test('the order of the values of a restriction', async () => {
    const cube = newCube();
    const values = (...all: string[]) => cubes([{ name: cube, form: 'plain', values: all }]);
    await twoEntries([values('a', 'b')], [values('b', 'a')]);
  });

  test.each([
    ['xsd:string', 'xsd:int'],
    ['xsd:string', ''],
  ])('a parameter of the statement as %s and as "%s"', async (one, other) => {
    const cube = newCube();
    const typed = (type: string) =>
      question(cube, { parameters: [{ name: 'p', type, value: '1' }] });
    await twoEntries([typed(one)], [typed(other)]);
  });
});

function cubes(restrictions: DiscoverSpec['restrictions']): Buffer {
  const [first] = Array.isArray(restrictions) ? restrictions : [];
  return discover({
    requestType: 'MDSCHEMA_CUBES',
    restrictions: [
      { name: 'CATALOG_NAME', form: 'plain', values: [first?.name ?? ''] },
      { name: 'CUBE_NAME', form: first?.form ?? 'plain', values: first?.values ?? [] },
    ],
  });
}
