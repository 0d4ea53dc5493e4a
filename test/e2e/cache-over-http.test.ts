import { beforeEach, describe, expect, test } from '@jest/globals';
import { gzipSync } from 'node:zlib';
import { encodeAnswer, mddatasetAnswer, rowsetAnswer } from '../support/answers.ts';
import { discover, execute } from '../support/envelopes.ts';
import {
  askXmla,
  cacheStatusOf,
  shortStatus,
  until,
  type XmlaMessage,
} from '../support/http-client.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const engine = shared(() => startStubEngine(() => {}));
const gateway = shared(() =>
  startTestGateway({
    engine: { url: engine.url },
    projects: { Off: { cache: 'off' }, Common: { share: 'everyone' } },
  }),
);
let count = 0;
/** Names its catalog: without one, the strictest project counts, since the engine might choose it. */
const newQuery = (catalog = 'Sales') =>
  execute({ statement: `SELECT FROM [Sales ${(count += 1)}]`, properties: { Catalog: catalog } });

beforeEach(() => {
  engine.seen.length = 0;
  engine.answerWith(sendXml(mddatasetAnswer()));
});

describe('a query that is asked again', () => {
  test.each([
    ['UTF-8', 'text/xml; charset=utf-8', encodeAnswer(mddatasetAnswer(), 'utf-8')],
    ['odd spelling', 'Text/XML ;charset="UTF-8"', encodeAnswer(mddatasetAnswer(), 'utf-8')],
    ['no charset', 'application/xml', encodeAnswer(mddatasetAnswer({ style: 'ssas' }), 'utf-8')],
    [
      'ISO-8859-1',
      'text/xml',
      encodeAnswer(mddatasetAnswer({ encoding: 'ISO-8859-1', members: ['Käse'] }), 'iso-8859-1'),
    ],
    ['300 cells', 'text/xml', Buffer.from(mddatasetAnswer({ cells: 300 }))],
  ])('is answered by the same bytes and the same Content-Type (%s)', async (_what, type, bytes) => {
    engine.answerWith(
      sendXml(bytes, { headers: { 'content-type': type, 'content-language': 'de-CH, en' } }),
    );
    const query = newQuery();
    const first = await askXmla(gateway.url, query);
    const second = await askXmla(gateway.url, query);
    expect([shortStatus(first), shortStatus(second)]).toEqual(['miss stored', 'hit']);
    expect(engine.seen).toHaveLength(1);
    for (const answer of [first, second]) {
      expect(answer.status).toBe(200);
      expect(answer.body).toEqual(bytes);
      expect(answer.headers).toMatchObject({
        'content-type': type,
        'content-language': 'de-CH, en',
        'content-length': String(bytes.length),
        age: expect.stringMatching(/^\d+$/),
      });
    }
    expect(cacheStatusOf(second.headers)).toMatchObject({
      hit: true,
      detail: 'memory',
      ttl: expect.any(Number),
    });
  });

  test.each([
    ['kept', 'Sales', 1],
    ['kept', 'Sales', 300],
    ['passed through', 'Off', 1],
    ['passed through', 'Off', 300],
  ])(
    'is told with the bytes that its client had (%s, catalog %s, %d cells)',
    async (_, catalog, cells) => {
      const bytes = Buffer.from(mddatasetAnswer({ cells }));
      engine.answerWith(sendXml(bytes));
      const told = () => gateway.events.filter(({ type }) => type === 'xmla-answered');
      const before = told().length;
      const query = newQuery(catalog);
      const answers = [await askXmla(gateway.url, query), await askXmla(gateway.url, query)];
      expect(answers.every(({ body }) => body.equals(bytes))).toBe(true);
      await until(() => told().length === before + 2);
      expect(told().slice(before)).toMatchObject([
        { bytes: bytes.length },
        { bytes: bytes.length },
      ]);
    },
  );

  test('is answered with nothing that the engine said to the first one alone', async () => {
    engine.answerWith(
      sendXml(mddatasetAnswer(), {
        headers: {
          'set-cookie': 'MDXAUTH=x',
          'www-authenticate': 'Basic',
          'mdx-query-id': '1',
          'mdx-execute-node': '2',
          queryid: '3',
          'x-as-sessionid': '4',
          'x-as-activityid': '5',
          etag: '"6"',
          'last-modified': 'Mon, 05 Jan 2026 10:00:00 GMT',
          'cache-control': 'private',
          server: 'engine',
          vary: '*',
          success: 'true',
        },
      }),
    );
    const query = newQuery();
    await askXmla(gateway.url, query);
    const { headers } = await askXmla(gateway.url, query);
    expect(Object.keys(headers).sort()).toEqual([
      'age',
      'cache-status',
      'connection',
      'content-length',
      'content-type',
      'date',
      // The gateway's own: it compresses answers as long as this one.
      'vary',
      'x-request-id',
    ]);
    expect(headers.vary).toBe('accept-encoding');
  });

  test('is answered by the same bytes when the engine compressed them unasked', async () => {
    const bytes = Buffer.from(mddatasetAnswer());
    engine.answerWith(sendXml(gzipSync(bytes), { headers: { 'content-encoding': 'gzip' } }));
    let query = newQuery();
    let first = await askXmla(gateway.url, query);
    // The head does not wait for a thread that takes long to decompress the rest.
    while (shortStatus(first) === 'miss') {
      query = newQuery();
      first = await askXmla(gateway.url, query);
    }
    const second = await askXmla(gateway.url, query);
    expect([shortStatus(first), shortStatus(second)]).toEqual(['miss stored', 'hit']);
    for (const answer of [first, second]) {
      expect(answer.headers['content-encoding']).toBeUndefined();
      expect(answer.body).toEqual(bytes);
    }
  });

  test('is a Discover that differs only in what is new each time', async () => {
    engine.answerWith(sendXml(rowsetAnswer()));
    const ask = (id: string) =>
      askXmla(
        gateway.url,
        discover({
          requestType: 'MDSCHEMA_CUBES',
          restrictions: { CATALOG_NAME: 'A' },
          properties: { Catalog: 'A', DbpropMsmdActivityID: id, ClientProcessID: id },
        }),
      );
    expect([shortStatus(await ask('1')), shortStatus(await ask('2'))]).toEqual([
      'miss stored',
      'hit',
    ]);
  });
});

describe('one answer for several users', () => {
  test('is never given where it is shared by nobody', async () => {
    const query = newQuery();
    const statuses = [];
    for (const user of ['alice', 'bob', 'alice', 'bob'] as const) {
      statuses.push(shortStatus(await askXmla(gateway.url, query, { user })));
    }
    expect(statuses).toEqual(['miss stored', 'miss stored', 'hit', 'hit']);
  });

  test('is given where it is shared by everyone', async () => {
    const query = newQuery('Common');
    const path = '/mdx/xmla/Common';
    const statuses = [];
    for (const user of ['alice', 'bob', 'ADMIN'] as const) {
      statuses.push(shortStatus(await askXmla(gateway.url, query, { user, path })));
    }
    expect(statuses).toEqual(['miss stored', 'hit', 'hit']);
  });
});

test.each([
  ['the path', () => newQuery(), { path: '/mdx/xmla/Off' }],
  ['nothing', () => discover({ requestType: 'MDSCHEMA_CUBES' }), {}],
  ['the path, spelt otherwise', () => newQuery(), { path: '/mdx/xmla/%20oFF' }],
  [
    'the property Catalog',
    () =>
      execute({ statement: `SELECT FROM [Off ${(count += 1)}]`, properties: { Catalog: 'Off' } }),
    {},
  ],
] as const)(
  'a project whose cache is off is never cached, when %s names it',
  async (_w, query, where) => {
    const body = query();
    for (let turn = 0; turn < 2; turn += 1) {
      expect(shortStatus(await askXmla(gateway.url, body, where))).toBe('bypass cache-off');
    }
    expect(engine.seen).toHaveLength(2);
  },
);

/** Each differs from a plain request in one thing that can change the answer. */
const DIFFERENT: readonly (readonly [what: string, message: XmlaMessage])[] = [
  ['another project', { path: '/mdx/xmla/Another' }],
  ['another spelling of that project', { path: '/mdx/xmla/another' }],
  ['a query parameter', { path: '/mdx/xmla?locale=de' }],
  ['another value of it', { path: '/mdx/xmla?locale=en' }],
  ['it twice', { path: '/mdx/xmla?locale=en&locale=de' }],
  ['it twice, in another order', { path: '/mdx/xmla?locale=de&locale=en' }],
  ['another encoding of it', { path: '/mdx/xmla?%6cocale=de' }],
  ['another media type asked for', { headers: { accept: 'application/soap+xml' } }],
  ['another kind of program', { headers: { 'user-agent': 'MSOLAP 16.0' } }],
  ['yet another kind of program', { headers: { 'user-agent': 'ADOMD.NET' } }],
  ['a program that no engine knows', { headers: { 'user-agent': 'curl/8' } }],
  ['another charset', { headers: { 'content-type': 'text/xml; charset=utf8' } }],
  ['no charset', { headers: { 'content-type': 'text/xml' } }],
  ['another type of XML', { headers: { 'content-type': 'application/xml; charset=utf-8' } }],
];

test('requests that an engine could answer otherwise have entries of their own', async () => {
  const query = newQuery();
  await askXmla(gateway.url, query);
  for (const [what, message] of DIFFERENT) {
    expect([what, shortStatus(await askXmla(gateway.url, query, message))]).toEqual([
      what,
      'miss stored',
    ]);
  }
  for (const [what, message] of DIFFERENT) {
    expect([what, shortStatus(await askXmla(gateway.url, query, message))]).toEqual([what, 'hit']);
  }
});

test('another catalog has an entry of its own', async () => {
  const statement = `SELECT FROM [Catalogs ${(count += 1)}]`;
  const ask = async (Catalog: string) =>
    shortStatus(await askXmla(gateway.url, execute({ statement, properties: { Catalog } })));
  expect([await ask('A'), await ask('B'), await ask('a'), await ask('A')]).toEqual([
    'miss stored',
    'miss stored',
    'miss stored',
    'hit',
  ]);
});

test('a hit says how old it is and how long it lasts', async () => {
  const wall = { at: Date.parse('2026-01-05T10:00:00Z') };
  const held = await startTestGateway(
    { engine: { url: engine.url }, cache: { ttl: '100s' } },
    { clock: { now: () => performance.now(), wall: () => wall.at }, random: () => 0 },
  );
  const query = newQuery();
  await askXmla(held.url, query);
  wall.at += 30_900;
  const { headers } = await askXmla(held.url, query);
  expect(headers).toMatchObject({
    age: '30',
    'cache-status': 'mdx-gateway; hit; ttl=69; detail=memory',
  });
  wall.at += 70_000;
  expect(shortStatus(await askXmla(held.url, query))).toBe('miss stored');
  await held.close();
});

test('Authorization of a hit is checked like that of a miss', async () => {
  const query = newQuery();
  await askXmla(gateway.url, query);
  const answer = await askXmla(gateway.url, query, {
    headers: { authorization: `${basic('alice')}x` },
  });
  expect(answer.status).toBe(401);
});
