import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { faultAnswer, mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, portOf, send, sendRaw, shortStatus } from '../support/http-client.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const CAPS = 'x-transport-caps-negotiation-flags';

let engine: StubEngine;
let gateway: TestGateway;
let count = 0;
const passedThrough = execute({ statement: 'ALTER CUBE [Sales]' });
/** A query that nobody asked before. */
const newQuery = () => execute({ statement: `SELECT FROM [Sales ${(count += 1)}]` });

beforeAll(async () => {
  engine = await startStubEngine(sendXml(mddatasetAnswer()));
  // Its sessions hold no state, so that any id goes through.
  gateway = await startTestGateway({ engine: { url: engine.url, kind: 'mondrian' } });
});
afterAll(async () => {
  await gateway.close();
  await engine.close();
});
beforeEach(() => {
  engine.seen.length = 0;
  engine.answerWith(sendXml(mddatasetAnswer()));
});

const lastSeen = () => {
  const last = engine.seen.at(-1);
  if (last === undefined) throw new Error('nothing reached the engine');
  return last;
};

/** Header names that no client may bring to the engine. */
const NEVER_FORWARDED: readonly (readonly [name: string, value: string])[] = [
  ['cookie', 'MDXAUTH=alice'],
  ['gatewayauth', 'bob'],
  ['GatewayAuth', 'bob'],
  ['x-forwarded-user', 'bob'],
  ['X-Forwarded-User', 'bob'],
  ['x-forwarded-groups', 'admins'],
  ['x-remote-user', 'bob'],
  ['remote-user', 'bob'],
  ['x-auth-user', 'bob'],
  ['x-forwarded-email', 'bob@example.org'],
  ['x-forwarded-roles', 'admins'],
  ['accept-language', 'de'],
  ['content-language', 'de'],
  ['x-tenant', 'bob'],
  ['x_forwarded_user', 'bob'],
  ['X_Remote-User', 'bob'],
  ['X.Forwarded.User', 'bob'],
  ['GATEWAYAUTH', 'bob'],
  ['Proxy_Authorization', 'Basic Ym9iOmJvYg=='],
  [CAPS, '0,1,0,1,1'],
  ['proxy-authorization', 'Basic Ym9iOmJvYg=='],
  ['keep-alive', 'timeout=9'],
  ['te', 'trailers'],
  ['upgrade', 'websocket'],
  ['proxy-connection', 'keep-alive'],
  ['expect', '100-continue'],
];

describe('a request that is passed through', () => {
  test.each(NEVER_FORWARDED)('leaves the header %s behind', async (name, value) => {
    const answer = await askXmla(gateway.url, passedThrough, { headers: { [name]: value } });
    expect(answer.status).toBe(200);
    expect(lastSeen().headers[name.toLowerCase()]).toBeUndefined();
  });

  test('leaves the login of the client behind when the engine needs none', async () => {
    await askXmla(gateway.url, passedThrough);
    expect(lastSeen().headers.authorization).toBeUndefined();
  });

  test('leaves behind what its header Connection names', async () => {
    await askXmla(gateway.url, passedThrough, {
      headers: {
        connection: 'close, X-AS-Mine , x-as-other',
        'x-as-mine': '1',
        'x-as-other': '2',
        'x-as-kept': '3',
      },
    });
    expect(lastSeen().headers).toMatchObject({ 'x-as-kept': '3' });
    expect(lastSeen().headers).not.toHaveProperty('x-as-mine');
    expect(lastSeen().headers).not.toHaveProperty('x-as-other');
  });

  test('keeps the other headers, and is told the host of the engine', async () => {
    await askXmla(gateway.url, passedThrough, {
      headers: {
        'user-agent': 'MSOLAP 16.0',
        'x-as-activityid': 'one',
        'x-as-sessionid': 'two',
        soapaction: '"urn:schemas-microsoft-com:xml-analysis:Execute"',
        accept: 'text/xml;q=1',
      },
    });
    expect(lastSeen().headers).toMatchObject({
      'user-agent': 'MSOLAP 16.0',
      'x-as-activityid': 'one',
      'x-as-sessionid': 'two',
      soapaction: '"urn:schemas-microsoft-com:xml-analysis:Execute"',
      accept: 'text/xml;q=1',
      host: `127.0.0.1:${engine.port}`,
    });
  });
});

describe('query parameters', () => {
  test.each([
    'UserName=bob',
    'username=bob',
    'USERNAME',
    '%75sername=bob',
    'user%4eame=bob',
    'password=x',
    'PassWord=x',
    'p%61ssword=x',
    'userid=7',
    'UserID=7',
    'username=bob&username=alice',
    'u%C5%BFername=bob',
    '?username=bob',
    '&&username=bob',
  ])('that name a login never reach the engine: %s', async (search) => {
    for (const asked of [passedThrough, newQuery()]) {
      await askXmla(gateway.url, asked, { path: `/mdx/xmla?a=1&${search}&b=2` });
      expect(lastSeen().url).toBe('/xmla?a=1&b=2');
    }
  });

  test('keep their order and spelling on the way through', async () => {
    await askXmla(gateway.url, passedThrough, { path: '/mdx/xmla?b=%41&a=x+y&c&b=2?3' });
    expect(lastSeen().url).toBe('/xmla?b=%41&a=x+y&c&b=2?3');
  });
});

describe('EXECUTE_AS_USER_ID', () => {
  test.each([
    ['a header', { headers: { EXECUTE_AS_USER_ID: 'bob' } }],
    ['an empty header', { headers: { execute_as_user_id: '' } }],
    ['a parameter', { path: '/mdx/xmla?EXECUTE_AS_USER_ID=bob' }],
    ['an encoded parameter', { path: '/mdx/xmla?execute%5Fas_user_id=bob' }],
    ['a parameter without a value', { path: '/mdx/xmla/FoodMart?a=1&Execute_As_User_Id' }],
  ])('as %s is refused', async (_what, message) => {
    for (const asked of [passedThrough, newQuery()]) {
      const answer = await askXmla(gateway.url, asked, message);
      expect([answer.status, shortStatus(answer)]).toEqual([403, 'gateway identity-refused']);
      expect(answer.text).toContain('<SOAP-ENV:Fault>');
      expect(engine.seen).toEqual([]);
    }
  });
});

describe('the transport flags of SSAS clients', () => {
  const asked = { headers: { [CAPS]: '0,1,0,1,1' } };

  test('are answered by zeros on every reply', async () => {
    const query = newQuery();
    const replies = {
      passedThrough: await askXmla(gateway.url, passedThrough, asked),
      miss: await askXmla(gateway.url, query, asked),
      hit: await askXmla(gateway.url, query, asked),
      unauthenticated: await askXmla(gateway.url, query, {
        headers: { ...asked.headers, authorization: '' },
      }),
      refused: await askXmla(gateway.url, query, {
        headers: { ...asked.headers, execute_as_user_id: 'bob' },
      }),
      badPath: await askXmla(gateway.url, query, { ...asked, path: '/mdx/xmla/%ff' }),
      notFound: await askXmla(gateway.url, query, { ...asked, path: '/mdx/xmla/a/b' }),
    };
    expect(Object.values(replies).map(({ status }) => status)).toEqual([
      200, 200, 200, 401, 403, 400, 404,
    ]);
    for (const [what, { headers }] of Object.entries(replies)) {
      expect([what, headers[CAPS]]).toEqual([what, '0,0,0,0,0']);
    }
  });

  test('are answered by zeros when the engine is gone', async () => {
    const other = await startTestGateway({ engine: { url: 'http://127.0.0.1:1/xmla' } });
    for (const body of [passedThrough, newQuery()]) {
      const answer = await askXmla(other.url, body, asked);
      expect([answer.status, answer.headers[CAPS]]).toEqual([502, '0,0,0,0,0']);
    }
    await other.close();
  });

  test('are not mentioned to those who did not', async () => {
    const answer = await askXmla(gateway.url, passedThrough);
    expect(answer.headers).not.toHaveProperty(CAPS);
  });
});

describe('an answer', () => {
  test('that is passed on leaves the hop-by-hop headers and the cookies of the engine behind', async () => {
    engine.answerWith((response) => {
      response.writeHead(200, {
        'content-type': 'text/xml',
        'set-cookie': ['MDXAUTH=alice', 'JSESSIONID=1'],
        connection: 'keep-alive, X-Hop',
        'keep-alive': 'timeout=99',
        'x-hop': '1',
        'proxy-authenticate': 'Basic',
        trailer: 'x-late',
        upgrade: 'h2c',
        'x-kept': '1',
      });
      response.end(faultAnswer());
    });
    for (const asked of [passedThrough, newQuery()]) {
      const { headers } = await askXmla(gateway.url, asked);
      expect(headers).toMatchObject({ 'x-kept': '1' });
      for (const name of ['set-cookie', 'x-hop', 'proxy-authenticate', 'trailer', 'upgrade']) {
        expect(headers).not.toHaveProperty(name);
      }
      expect(headers['keep-alive']).not.toBe('timeout=99');
    }
  });

  test.each(['GET', 'POST', 'PATCH'])('to %s says Cache-Status and Age', async (method) => {
    const { headers } = await send(gateway.url, {
      method,
      headers: { authorization: basic('alice') },
    });
    expect(headers).toMatchObject({ age: '0' });
    expect(headers['cache-status']).toMatch(/^mdx-gateway; fwd=bypass; detail=[a-z-]+$/);
  });

  test('has one Cache-Status and one Age, also when the engine sends its own', async () => {
    engine.answerWith(
      sendXml(mddatasetAnswer(), { headers: { age: '99', 'cache-status': 'x; hit' } }),
    );
    const raw = await sendRaw(
      portOf(gateway.url),
      `POST /mdx/xmla HTTP/1.1\r\nhost: x\r\nauthorization: ${basic('alice')}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`,
    );
    const head = raw.bytes.toString('latin1').split('\r\n\r\n')[0] ?? '';
    expect(head.match(/^cache-status:.*$/gim)).toEqual([
      'cache-status: mdx-gateway; fwd=bypass; detail=malformed',
    ]);
    expect(head.match(/^age:.*$/gim)).toEqual(['age: 0']);
  });
});
