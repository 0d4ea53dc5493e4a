import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { connect } from 'node:net';
import { untilRemembered } from '../support/remembered.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, portOf, send, shortStatus } from '../support/http-client.ts';
import { startSessionEngine } from '../support/session-engine.ts';
import { beginSession, inSession } from '../support/stamped-client.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

type Headers = Readonly<Record<string, string | readonly string[]>>;

const PROPERTIES = { Catalog: 'Sales' };
const STATEMENT = 'SELECT FROM [Sales]';
const CHANGE = 'UPDATE CUBE [Sales] SET ([A]) = 1';
const QUERY = execute({ statement: STATEMENT, properties: PROPERTIES });
const UPDATE = execute({ statement: CHANGE });
/** What a browser sends of a form with one field and the enctype text/plain. */
const FORM_BODY = Buffer.from(`${UPDATE.toString()}\r\n`);

/** What browsers say of a request that their user did not ask for. */
const FORGED: readonly (readonly [string, Headers])[] = [
  ['another site', { 'sec-fetch-site': 'cross-site' }],
  ['a sister site', { 'sec-fetch-site': 'same-site' }],
  ['a page of another origin', { origin: 'https://evil.example' }],
  ['a page of a hidden origin', { origin: 'null' }],
  ['another port of this machine', { origin: 'http://127.0.0.1:1' }],
  ['two origins', { origin: ['https://evil.example', 'https://evil.example'] }],
  ['a page that only Referer names', { referer: 'https://evil.example/page' }],
  ['a prefetch', { 'sec-purpose': 'prefetch;prerender' }],
];
const [, FORGED_HEADERS] = FORGED[2] ?? ['', {}];

const engine = shared(() => startSessionEngine({ kind: 'generic' }));

describe('a request that another site forged', () => {
  let gateway: TestGateway;

  beforeAll(async () => {
    gateway = await startTestGateway({ engine: { url: engine.url }, auth: { admins: ['ADMIN'] } });
    await ask(QUERY);
  });
  afterAll(() => gateway.close());

  const ask = (
    body: Buffer,
    headers: Headers = {},
    rest: { method?: string; path?: string } = {},
  ) =>
    askXmla(gateway.url, body, {
      user: 'ADMIN',
      ...rest,
      headers: headers as Record<string, string>,
    });

  /** Sends a request as a browser does; says what became of it, and whether it did anything. */
  async function forge(...asked: Parameters<typeof ask>) {
    const atEngine = engine.seen.length;
    const { status, headers, text } = await ask(...asked);
    const kept = shortStatus(await ask(QUERY));
    return {
      status,
      type: headers['content-type'],
      said: headers['cache-status'],
      fault: /<faultstring>([^<]*)/.exec(text)?.[1],
      reached: engine.seen.length - atEngine,
      kept,
    };
  }

  const REFUSED = {
    status: 403,
    type: 'text/xml; charset=utf-8',
    said: 'mdx-gateway; detail=forbidden',
    fault: expect.stringMatching(/^Nothing was done: the request (comes from another|is a pre)/),
    reached: 0,
    kept: 'hit',
  };

  test.each(FORGED)('by %s executes nothing and purges nothing', async (_who, headers) => {
    expect(await forge(FORM_BODY, { ...headers, 'content-type': 'text/plain' })).toEqual(REFUSED);
  });

  test.each([
    ['text/plain'],
    ['text/xml; charset=utf-8'],
    ['application/x-www-form-urlencoded'],
    ['multipart/form-data; boundary=x'],
    ['application/sql'],
    [[]],
  ] as readonly (readonly [string | readonly string[]])[])(
    'is refused with the Content-Type %j',
    async (type) => {
      const headers = { ...FORGED_HEADERS, 'content-type': type };
      expect(await forge(FORM_BODY, headers)).toEqual(REFUSED);
    },
  );

  test.each([['GET'], ['POST'], ['PUT'], ['DELETE'], ['OPTIONS'], ['PATCH']])(
    'is refused with the method %s',
    async (method) => {
      expect(await forge(UPDATE, FORGED_HEADERS, { method })).toEqual(REFUSED);
    },
  );

  test.each([
    ['/mdx/xmla/'],
    ['/mdx/xmla/Sales'],
    ['/mdx/xmla/S%61les/?a=b'],
    ['/mdx/xmla/Sales/'],
    ['http://gateway.example/mdx/xmla'],
  ])('is refused at %s', async (path) => {
    expect(await forge(UPDATE, FORGED_HEADERS, { path })).toEqual(REFUSED);
  });

  test('is told to the log with what spoke against it, and to the metrics', async () => {
    await forge(UPDATE, FORGED_HEADERS);
    expect(gateway.events).toContainEqual(
      expect.objectContaining({
        type: 'xmla-answered',
        principal: 'ADMIN',
        outcome: { kind: 'gateway', detail: 'forbidden' },
        status: 403,
        why: 'the request comes from another origin',
      }),
    );
    const { text } = await send(gateway.url, {
      path: '/metrics',
      headers: { authorization: basic('ADMIN') },
    });
    expect(text).toMatch(/reason="forbidden"/);
  });

  test('is answered before its body has come', async () => {
    const socket = connect(portOf(gateway.url), '127.0.0.1');
    socket.write(
      `POST /mdx/xmla HTTP/1.1\r\nHost: gateway\r\nOrigin: null\r\nContent-Length: 1000000\r\n` +
        `Authorization: ${basic('ADMIN')}\r\n\r\n`,
    );
    const [bytes] = (await once(socket, 'data')) as [Buffer];
    socket.destroy();
    expect(bytes.toString()).toMatch(/^HTTP\/1\.1 403 /);
  });

  test('is not answered from the cache, though its head and body are remembered', async () => {
    // By a page of the gateway itself, so that the head differs in one value alone.
    const own = { origin: gateway.url };
    await ask(QUERY, own);
    await untilRemembered(() => ask(QUERY, own));
    for (const [, headers] of FORGED) {
      expect(await forge(QUERY, { ...own, ...headers })).toEqual(REFUSED);
    }
    await untilRemembered(() => ask(QUERY, own));
  });

  test('leaves the session that it names as it was', async () => {
    const id = await beginSession(gateway.url, { properties: PROPERTIES, user: 'ADMIN' });
    const query = execute({
      statement: STATEMENT,
      properties: PROPERTIES,
      session: inSession(id),
    });
    await ask(query);
    const change = execute({ statement: CHANGE, session: inSession(id) });
    expect(await forge(change, FORGED_HEADERS)).toEqual(REFUSED);
    const end = execute({ statement: '', session: { kind: 'end', id } });
    expect(await forge(end, FORGED_HEADERS)).toEqual(REFUSED);
    expect(shortStatus(await ask(query))).toBe('hit');
  });

  test.each([
    ['without credentials', []],
    ['with a wrong password', `Basic ${btoa('bob:wrong')}`],
  ] as readonly (readonly [string, string | readonly string[]])[])(
    '%s is told no more than that',
    async (_how, authorization) => {
      const answer = await forge(UPDATE, { ...FORGED_HEADERS, authorization });
      expect(answer).toMatchObject({ status: 401, reached: 0, kept: 'hit' });
    },
  );
});

describe('a request that no other site forged goes on', () => {
  let gateway: TestGateway;

  beforeAll(async () => {
    gateway = await startTestGateway({ engine: { url: engine.url } });
  });
  afterAll(() => gateway.close());

  test.each<[string, () => Record<string, string>]>([
    ['of a program, which says nothing of an origin', () => ({})],
    ['of a page of the gateway', () => ({ origin: gateway.url, referer: `${gateway.url}/docs` })],
    [
      'of its page behind a proxy that ends TLS and keeps the Host',
      () => ({
        host: 'olap.example',
        origin: 'https://olap.example',
        referer: 'https://olap.example/',
      }),
    ],
    [
      'of its page behind a proxy that adds the port to the Host',
      () => ({ host: 'olap.example:443', origin: 'https://olap.example' }),
    ],
    [
      'of its page behind a proxy that gives the Host another name',
      () => ({
        host: 'backend:8080',
        origin: 'https://olap.example',
        'sec-fetch-site': 'same-origin',
      }),
    ],
  ])('%s', async (_who, headers) => {
    const { status } = await askXmla(gateway.url, UPDATE, { headers: headers() });
    expect(status).toBe(200);
    expect(engine.seen.at(-1)?.body.equals(UPDATE)).toBe(true);
  });
});
