import { beforeEach, describe, expect, test } from '@jest/globals';
import {
  IDENTITIES,
  newCube,
  question,
  SECURITY,
  startAttackedHouse,
  withHeader,
} from '../support/attacked-house.ts';
import { askXmla, send, shortStatus, type XmlaMessage } from '../support/http-client.ts';
import { beginSession } from '../support/stamped-client.ts';
import { basic } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

/** What no key can stand for never uses an entry, makes one, or touches that of another. */

const house = shared(() => startAttackedHouse());
beforeEach(() => {
  house.engine.seen.length = 0;
});

const AS = 'http://schemas.microsoft.com/analysisservices/2003';
const XSI = 'http://www.w3.org/2001/XMLSchema-instance';

/** A request that goes past the entry of another, and leaves it as it was. */
async function pastTheCache(
  plain: Buffer,
  reason: string,
  message: XmlaMessage,
  attacked = plain,
  calm: XmlaMessage = {},
): Promise<void> {
  const url = house.urlOf();
  expect(shortStatus(await askXmla(url, plain, calm))).toBe('miss stored');
  for (let turn = 0; turn < 2; turn += 1) {
    expect(shortStatus(await askXmla(url, attacked, message))).toBe(`bypass ${reason}`);
  }
  expect(house.engine.seen).toHaveLength(3);
  expect(house.engine.seen.at(-1)?.body).toEqual(attacked);
  expect(shortStatus(await askXmla(url, plain, calm))).toBe('hit');
}

describe('the cache is never asked nor filled by', () => {
  test.each(IDENTITIES.map((name) => [name]))('the property %s', async (name) => {
    const cube = newCube();
    const attacked = question(cube, { properties: { [name]: 'bob' } });
    await pastTheCache(question(cube), 'identity-property', {}, attacked);
  });

  test('the property RealTimeOlap', async () => {
    const cube = newCube();
    const attacked = question(cube, { properties: { RealTimeOlap: 'true' } });
    await pastTheCache(question(cube), 'real-time', {}, attacked);
  });

  test.each([
    ['twice', 'Catalog', 'Catalog'],
    ['in two spellings', 'Catalog', 'catalog'],
    ['of the ignore-list twice', 'Timeout', 'Timeout'],
  ])('a property %s', async (_how, one, other) => {
    const cube = newCube();
    const properties = [one, other].map((name, at) => ({ name, value: `${at}` }));
    await pastTheCache(question(cube), 'duplicate-property', {}, question(cube, { properties }));
  });

  test('WS-Security', async () => {
    const plain = question(newCube());
    await pastTheCache(plain, 'security', {}, withHeader(plain, SECURITY));
  });

  test('a header block that no one knows', async () => {
    const plain = question(newCube());
    const block = `<Impersonate xmlns="${AS}/engine">bob</Impersonate>`;
    await pastTheCache(plain, 'unknown-shape', {}, withHeader(plain, block));
  });

  test.each([
    ['a comment', (text: string) => text.replace('<Execute', '<!-- TEXT -->$&')],
    ['an ignored property', (text: string) => inProperty(text, 'ApplicationContext', 'TEXT')],
    ['an attribute', (text: string) => text.replace('<Execute', '<Execute a="TEXT"')],
  ])('the text that changes the numbers of Kylin, in %s', async (_where, put) => {
    const plain = question(newCube());
    const text = put(plain.toString()).replace('TEXT', 'DbpropMsmdMDXCompatibility');
    expect(text).toContain('DbpropMsmdMDXCompatibility');
    await pastTheCache(plain, 'unknown-shape', {}, Buffer.from(text));
  });

  test('a type of a parameter that is not of XML Schema', async () => {
    const cube = newCube();
    const spec = { parameters: [{ name: 'p', type: 'xsd:string', value: '1' }] };
    const plain = question(cube, spec);
    const attacked = plain
      .toString()
      .replace('xmlns:xsd="http://www.w3.org/2001/XMLSchema"', 'xmlns:xsd="urn:other"');
    expect(attacked).toContain(`xmlns:xsi="${XSI}"`);
    await pastTheCache(plain, 'unknown-shape', {}, Buffer.from(attacked));
  });

  test.each([
    ['json', 'application/json'],
    ['json before XML', 'application/json, text/xml'],
    ['a picture', 'image/png'],
    ['no XML at all', 'text/xml;q=0'],
  ])('an Accept for %s', async (_what, accept) => {
    await pastTheCache(question(newCube()), 'accept', { headers: { accept } });
  });

  test.each([
    ['GET', '/mdx/xmla?a=1&username=bob'],
    ['PUT', '/mdx/xmla?username=bob'],
  ])('%s', async (method, path) => {
    const url = house.urlOf();
    const headers = { authorization: basic('alice'), cookie: 'MDXAUTH=bob', gatewayauth: 'bob' };
    const passed = await send(url, { method, path, headers });
    expect(shortStatus(passed)).toBe('bypass method');
    for (const { headers: reached } of house.engine.seen) {
      expect(reached).not.toHaveProperty('cookie');
      expect(reached).not.toHaveProperty('gatewayauth');
    }
    expect(house.engine.seen.map(({ url: target }) => target).join()).not.toContain('bob');
  });
});

describe('headers of SSAS', () => {
  test.each([['X-AS-ActivityID'], ['X-AS-RequestID']])(
    '%s, new with every request, makes no key and reaches the engine with no query',
    async (name) => {
      const url = house.urlOf();
      const cube = newCube();
      await askXmla(url, question(cube), { headers: { [name]: 'one' } });
      const again = await askXmla(url, question(cube), { headers: { [name]: 'two' } });
      expect(shortStatus(again)).toBe('hit');
      expect(house.engine.seen.map(({ headers }) => headers[name.toLowerCase()])).toEqual([
        undefined,
      ]);
    },
  );

  test('X-AS-SessionID of another user never uses or makes an entry', async () => {
    const url = house.urlOf();
    const cube = newCube();
    const id = await beginSession(url, { user: 'bob' });
    const headers = { 'x-as-sessionid': id };
    const first = await askXmla(url, question(cube), { user: 'bob', headers });
    expect(shortStatus(first)).toBe('miss stored');
    house.engine.seen.length = 0;
    for (let turn = 0; turn < 2; turn += 1) {
      const stolen = await askXmla(url, question(cube), { headers });
      expect(shortStatus(stolen)).toBe('gateway unknown-session');
      expect(stolen.headers['x-as-sessionid']).toBeUndefined();
    }
    expect(house.engine.seen).toEqual([]);
    const own = await askXmla(url, question(cube), { user: 'bob', headers });
    expect(shortStatus(own)).toBe('hit');
  });

  test('X-AS-SessionID that contradicts the envelope never uses or makes an entry', async () => {
    const url = house.urlOf();
    const cube = newCube();
    const [one, other] = [await beginSession(url), await beginSession(url)];
    const body = question(cube, { session: { kind: 'in', id: one } });
    expect(shortStatus(await askXmla(url, body))).toBe('miss stored');
    const torn = await askXmla(url, body, { headers: { 'x-as-sessionid': other } });
    expect(shortStatus(torn)).toBe('bypass session');
  });

  test('X-AS-GetSessionToken never uses or makes an entry', async () => {
    await pastTheCache(question(newCube()), 'session', {
      headers: { 'X-AS-GetSessionToken': 'x' },
    });
  });
});

function inProperty(text: string, name: string, value: string): string {
  const list = `<PropertyList><${name}>${value}</${name}></PropertyList>`;
  return text.replace(/<PropertyList>.*<\/PropertyList>|<PropertyList\/>/, () => list);
}
