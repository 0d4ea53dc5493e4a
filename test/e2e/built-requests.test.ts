import { expect, test } from '@jest/globals';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, shortStatus, type XmlaMessage } from '../support/http-client.ts';
import { sendXml, startStubEngine, type SeenRequest } from '../support/stub-engine.ts';
import { basic, startTestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

/**
 * A cacheable request goes to the engine with headers that are built, not passed on. Every way that a client
 * might find to reach the engine beside them has its own case, named after it.
 */

const engine = shared(() => startStubEngine(sendXml(mddatasetAnswer())));
const gateway = shared(() =>
  startTestGateway({
    engine: { url: `${engine.url}/{project}`, login: 'forward' },
  }),
);
let count = 0;

/** What the engine sees of a request, in full: the request line, every header as written, the body. */
const whole = ({ method, url, rawHeaders, body }: SeenRequest) => ({
  method,
  url,
  headers: rawHeaders,
  body: body.toString(),
});

const query = (statement: string) => execute({ statement });

test('the engine sees of a cacheable request exactly the built headers', async () => {
  engine.seen.length = 0;
  const body = query('SELECT FROM [Sales]');
  await askXmla(gateway.url, body, {
    path: '/mdx/xmla/FoodMart?b=2&a=1',
    headers: {
      'content-type': 'Text/XML;Charset="UTF-8"',
      soapaction: 'urn:schemas-microsoft-com:xml-analysis:Execute',
      accept: 'text/xml;q=0.9, */*;q=0.1',
      'accept-encoding': 'gzip, deflate',
      'accept-language': 'de',
      'user-agent': 'MSOLAP 16.0 Client',
      'cache-control': 'no-cache',
      connection: 'close',
      cookie: 'a=b',
      'if-none-match': '"x"',
      range: 'bytes=0-9',
      'x-forwarded-for': '192.0.2.1',
      'x-as-activityid': 'one',
      'x-anything': 'else',
    },
  });
  expect(engine.seen.map(whole)).toEqual([
    {
      method: 'POST',
      url: '/xmla/FoodMart?a=1&b=2',
      headers: [
        ...['content-type', 'text/xml; charset=utf-8'],
        ...['soapaction', '"urn:schemas-microsoft-com:xml-analysis:Execute"'],
        ...['accept', 'text/xml'],
        ...['user-agent', 'MSOLAP'],
        ...['accept-encoding', 'identity'],
        ...['authorization', basic('alice')],
        ...['content-length', String(body.length)],
        ...['host', `127.0.0.1:${engine.port}`],
        ...['Connection', 'keep-alive'],
      ],
      body: body.toString(),
    },
  ]);
});

test('the engine sees no Accept and no User-Agent that the client did not send', async () => {
  engine.seen.length = 0;
  await askXmla(gateway.url, query('SELECT FROM [Bare]'));
  expect(Object.keys(engine.seen[0]?.headers ?? {}).sort()).toEqual([
    'accept-encoding',
    'authorization',
    'connection',
    'content-length',
    'content-type',
    'host',
    'soapaction',
  ]);
});

/** Each tries to change what the engine answers without changing the key, or the other way round. */
const ATTACKS: readonly (readonly [what: string, message: XmlaMessage])[] = [
  ['a cookie of an engine session', { headers: { cookie: 'JSESSIONID=bob; MDXAUTH=bob' } }],
  ['GatewayAuth', { headers: { GatewayAuth: 'bob' } }],
  ['X-Forwarded-User', { headers: { 'x-forwarded-user': 'bob' } }],
  ['X-Forwarded-Groups', { headers: { 'x-forwarded-groups': 'admins' } }],
  ['the user in the query', { path: '/mdx/xmla?username=bob&password=bob' }],
  ['the user in the query, disguised', { path: '/mdx/xmla?%55serName=bob' }],
  ['the user id in the query', { path: '/mdx/xmla?userId=7' }],
  ['a language', { headers: { 'accept-language': 'fr' } }],
  ['a coding', { headers: { 'accept-encoding': 'br' } }],
  ['a charset asked for', { headers: { 'accept-charset': 'iso-8859-1' } }],
  ['binary XML', { headers: { 'x-transport-caps-negotiation-flags': '1,1,1,1,1' } }],
  ['a range', { headers: { range: 'bytes=0-9' } }],
  ['a condition', { headers: { 'if-none-match': '*', 'if-modified-since': 'x' } }],
  ['another method by header', { headers: { 'x-http-method-override': 'DELETE' } }],
  [
    'another host',
    { headers: { host: 'elsewhere.example', 'x-forwarded-host': 'elsewhere.example' } },
  ],
  [
    'another path by header',
    { headers: { 'x-original-url': '/admin', 'x-rewrite-url': '/admin' } },
  ],
  ['another protocol by header', { headers: { 'x-forwarded-proto': 'https' } }],
  ['another version of a program', { headers: { 'user-agent': 'MSOLAP 15' } }],
  [
    'a header that Connection names',
    { headers: { connection: 'close, content-type, soapaction' } },
  ],
  ['a header with an odd name', { headers: { 'x!#$%&': '1' } }],
];

test.each(ATTACKS)(
  '%s reaches no engine, and is answered from the entry',
  async (_what, message) => {
    const body = query(`SELECT FROM [Attack ${(count += 1)}]`);
    const agent = { 'user-agent': 'MSOLAP 16' };
    engine.seen.length = 0;
    const attacked = await askXmla(gateway.url, body, {
      ...message,
      headers: { ...agent, ...message.headers },
    });
    expect(shortStatus(attacked)).toBe('miss stored');
    expect(shortStatus(await askXmla(gateway.url, body, { headers: agent }))).toBe('hit');
    // Beside another query that nobody attacked, the engine saw nothing that was different.
    const other = body.toString().replace('Attack', 'Normal');
    await askXmla(gateway.url, Buffer.from(other), { headers: agent });
    const [first, second] = engine.seen.map(whole);
    expect({ ...first, body: '' }).toEqual({ ...second, body: '' });
  },
);

/** Each must not be answered from the entry of the plain request, nor make one. */
const NEVER_CACHED: readonly (readonly [what: string, message: XmlaMessage, detail: string])[] = [
  ['a session token by header', { headers: { 'x-as-getsessiontoken': '1' } }, 'session'],
  [
    'a SOAPAction of another method',
    { headers: { soapaction: '"urn:schemas-microsoft-com:xml-analysis:Discover"' } },
    'soap-action',
  ],
  ['two SOAPActions', { headers: { soapaction: ['"urn:a"', '"urn:b"'] } }, 'soap-action'],
  [
    'a media type that is not XML',
    { headers: { 'content-type': 'application/json' } },
    'content-type',
  ],
  [
    'a media type that says more',
    { headers: { 'content-type': 'text/xml; action=x' } },
    'content-type',
  ],
  ['no media type', { headers: { 'content-type': '' } }, 'content-type'],
  [
    'two charsets',
    { headers: { 'content-type': 'text/xml; charset=utf-8; charset=utf-16' } },
    'encoding',
  ],
  ['an answer that is not XML', { headers: { accept: 'application/json' } }, 'accept'],
  ['an answer that is not acceptable', { headers: { accept: 'text/xml;q=0' } }, 'accept'],
];

test.each(NEVER_CACHED)('%s is never answered from an entry', async (_what, message, detail) => {
  const body = query(`SELECT FROM [Never ${(count += 1)}]`);
  await askXmla(gateway.url, body);
  for (let turn = 0; turn < 2; turn += 1) {
    expect(shortStatus(await askXmla(gateway.url, body, message))).toBe(`bypass ${detail}`);
  }
  expect(shortStatus(await askXmla(gateway.url, body))).toBe('hit');
});
