import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { Agent } from 'node:http';
import { untilRemembered } from '../support/remembered.ts';
import { faultAnswer, mddatasetAnswer, rowsetAnswer } from '../support/answers.ts';
import { discover, execute } from '../support/envelopes.ts';
import {
  type Answer,
  askXmla,
  portOf,
  send,
  sendRaw,
  shortStatus,
  until,
} from '../support/http-client.ts';
import { startSessionEngine } from '../support/session-engine.ts';
import { beginSession, inSession } from '../support/stamped-client.ts';
import { gate, sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

type Headers = Readonly<Record<string, string | readonly string[]>>;

const PAGE = 'https://bi.example';
const OTHER_PAGE = 'http://localhost:3000';
const UNLISTED: readonly (readonly [string, Headers])[] = [
  ['another site', { origin: 'https://evil.example' }],
  ['a hidden origin', { origin: 'null' }],
  ['the same host by another scheme', { origin: 'http://bi.example' }],
  ['the same host at another port', { origin: 'https://bi.example:8443' }],
  ['a host above', { origin: 'https://example' }],
  ['a host below', { origin: 'https://www.bi.example' }],
  ['a host that begins alike', { origin: 'https://bi.example.evil' }],
  ['another spelling', { origin: 'https://BI.example' }],
  ['a slash behind it', { origin: 'https://bi.example/' }],
  ['a listed origin twice', { origin: [PAGE, PAGE] }],
  ['two listed origins', { origin: [PAGE, OTHER_PAGE] }],
];

/** What an engine says that judges origins by itself. */
const OF_ENGINE = {
  'access-control-allow-origin': 'https://engine.example',
  'access-control-allow-credentials': 'false',
  'access-control-expose-headers': '*',
  'access-control-allow-private-network': 'true',
};

const DATA = mddatasetAnswer({ cells: 100 });
const query = (name: string) =>
  execute({ statement: `SELECT FROM [${name}]`, properties: { Catalog: 'Sales' } });
const statement = (text: string) => execute({ statement: text, properties: { Catalog: 'Sales' } });
const command = (xml: string) =>
  Buffer.from(statement('X').toString().replace('<Statement>X</Statement>', xml));

const altered = (from: string, to: string, text = 'SELECT') =>
  Buffer.from(statement(text).toString().replace(from, to));
const inHeader = (block: string): [from: string, to: string] => [
  '<SOAP-ENV:Body>',
  `<SOAP-ENV:Header>${block}</SOAP-ENV:Header><SOAP-ENV:Body>`,
];

/** All that an answer says of origins. */
const corsOf = ({ headers }: Pick<Answer, 'headers'>) =>
  Object.fromEntries(
    Object.entries(headers).filter(
      ([name]) => name.startsWith('access-control-') || name === 'vary',
    ),
  );
/** @param vary what else the answer varies by */
const forPage = (origin: string, vary = '') => ({
  'access-control-allow-origin': origin,
  'access-control-allow-credentials': 'true',
  'access-control-expose-headers': 'Cache-Status, Age, Retry-After, X-Request-Id',
  vary: `${vary}origin`,
});
const NO_PAGE = { vary: 'origin' };

const engine = shared(() => startStubEngine(() => {}));
beforeEach(() => {
  engine.seen.length = 0;
  engine.answerWith((response, seen) => {
    const isFault = seen.body.includes('[Fault]');
    sendXml(isFault ? faultAnswer() : DATA, {
      headers: { ...OF_ENGINE, vary: 'Accept-Language, Origin' },
    })(response, seen);
  });
});

const settings = (origins: readonly string[], more: object = {}) => ({
  engine: { url: engine.url },
  listen: { cors: { origins } },
  ...more,
});

const preflight = (gateway: TestGateway, headers: Headers, path = '/mdx/xmla') =>
  send(gateway.url, {
    method: 'OPTIONS',
    path,
    headers: {
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization,content-type,soapaction',
      ...headers,
    },
  });

describe('where no origin is listed', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await startTestGateway({ engine: { url: engine.url } });
  });
  afterAll(() => gateway.close());

  test('no answer speaks of origins, and hits vary by nothing else', async () => {
    engine.answerWith(sendXml(DATA));
    const own = { origin: gateway.url };
    const asked = [
      await askXmla(gateway.url, query('A'), { headers: own }),
      await askXmla(gateway.url, query('A'), { headers: own }),
      await askXmla(gateway.url, statement('DRILLTHROUGH SELECT'), { headers: own }),
      await askXmla(gateway.url, query('A'), { headers: { origin: PAGE } }),
      await askXmla(gateway.url, query('A'), { headers: { authorization: '' } }),
    ];
    expect(asked.map((one) => [one.status, shortStatus(one), corsOf(one)])).toEqual([
      [200, 'miss stored', {}],
      [200, 'hit', { vary: 'accept-encoding' }],
      [200, 'bypass drillthrough', {}],
      [403, 'gateway forbidden', {}],
      [401, 'gateway unauthenticated', {}],
    ]);
  });

  test('what the engine says of origins crosses as it is', async () => {
    const answer = await askXmla(gateway.url, statement('DRILLTHROUGH SELECT'));
    expect(corsOf(answer)).toEqual({ ...OF_ENGINE, vary: 'Accept-Language, Origin' });
  });

  test('a browser that asks first is asked for a login, as any client', async () => {
    const answer = await preflight(gateway, { origin: PAGE });
    expect([answer.status, corsOf(answer)]).toEqual([401, {}]);
  });
});

describe('where origins are listed', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await startTestGateway(
      settings([PAGE, OTHER_PAGE], { cache: { purge_on_refresh_cube: true } }),
    );
  });
  afterAll(() => gateway.close());

  const ask = (body: Buffer, headers: Headers = {}, more: object = {}) =>
    askXmla(gateway.url, body, { headers: { origin: PAGE, ...headers } as never, ...more });

  describe('a browser that asks first', () => {
    test.each(['/mdx/xmla', '/mdx/xmla/', '/mdx/xmla/Sales', '/mdx/xmla/S%2Fales?a=b'])(
      'is told without a login what a page may send to %s',
      async (path) => {
        const { status, body, headers } = await preflight(gateway, { origin: PAGE }, path);
        expect({ status, body: body.toString() }).toEqual({ status: 204, body: '' });
        expect(headers).toMatchObject({
          'access-control-allow-origin': PAGE,
          'access-control-allow-credentials': 'true',
          'access-control-allow-methods': 'POST',
          'access-control-allow-headers':
            'authorization, content-type, soapaction, cache-control, x-request-id, x-as-sessionid, traceparent, x-requested-with',
          'access-control-max-age': '7200',
          'x-request-id': expect.stringMatching(/./),
          vary: 'origin',
        });
        expect(engine.seen).toEqual([]);
      },
    );

    test('is told the same whatever it asks for: it refuses the rest by itself', async () => {
      const usual = corsOf(await preflight(gateway, { origin: PAGE }));
      const asks = [
        { 'access-control-request-method': 'DELETE' },
        { 'access-control-request-method': 'GET' },
        { 'access-control-request-headers': 'x-as-sessionid' },
        { 'access-control-request-private-network': 'true' },
        { authorization: 'Basic wrong' },
      ];
      for (const one of asks) {
        const answer = await preflight(gateway, { origin: PAGE, ...one });
        expect([one, answer.status, corsOf(answer)]).toEqual([one, 204, usual]);
      }
    });

    test.each(UNLISTED)('for %s is refused', async (_who, headers) => {
      const answer = await preflight(gateway, headers);
      expect([answer.status, corsOf(answer)]).toEqual([403, NO_PAGE]);
      expect(answer.text).toContain('the origin of the page is not listed');
      expect(engine.seen).toEqual([]);
    });

    test('is told to the log, without a user and a project', async () => {
      await preflight(gateway, { origin: PAGE }, '/mdx/xmla/Sales');
      await until(() => gateway.events.at(-1)?.type === 'xmla-answered');
      const outcome = { kind: 'gateway', detail: 'preflight' };
      const told = { status: 204, outcome, principal: '', project: '', complete: true };
      expect(gateway.events.at(-1)).toMatchObject(told);
    });

    test.each(['/mdx/xmla/clearCache', '/mdx/xmla/Sales/clearCache'])(
      'is told nothing of %s',
      async (path) => {
        const answer = await preflight(gateway, { origin: PAGE }, path);
        expect([answer.status, corsOf(answer)]).toEqual([405, {}]);
      },
    );

    test.each(['/admin/explain', '/api/roles', '/health/live', '/docs', '/nothing', '/console'])(
      'is told nothing of %s',
      async (path) => {
        expect(corsOf(await preflight(gateway, { origin: PAGE }, path))).toEqual({});
      },
    );

    test('an OPTIONS that asks for nothing goes as it did', async () => {
      const plain = { 'access-control-request-method': [] };
      expect((await preflight(gateway, { origin: PAGE, ...plain })).status).toBe(401);
      const authorization = basic('alice');
      expect((await preflight(gateway, { origin: PAGE, ...plain, authorization })).status).toBe(
        403,
      );
      expect((await preflight(gateway, { ...plain, authorization })).status).toBe(200);
      expect(engine.seen.map(({ method }) => method)).toEqual(['OPTIONS']);
    });
  });

  describe('a page of a listed origin may read', () => {
    /** What it asks, its status, what became of it, and what the answer varies by beside the origin. */
    const ANSWERS: readonly (readonly [string, () => Promise<Answer>, number, string, string?])[] =
      [
        ['a miss', () => ask(query('miss')), 200, 'miss stored', 'Accept-Language, '],
        ['a hit', () => ask(query('miss')), 200, 'hit', 'accept-encoding, '],
        [
          'an answer that passes through',
          () => ask(statement('DRILLTHROUGH SELECT')),
          200,
          'bypass drillthrough',
          'Accept-Language, ',
        ],
        [
          'a Fault of the engine',
          () => ask(query('Fault')),
          200,
          'miss fault',
          'Accept-Language, ',
        ],
        [
          'a wrong password',
          () => ask(query('miss'), { authorization: `Basic ${btoa('bob:wrong')}` }),
          401,
          'gateway unauthenticated',
        ],
        [
          'no login',
          () => ask(query('miss'), { authorization: [] }),
          401,
          'gateway unauthenticated',
        ],
        ['a wrong Host', () => ask(query('miss'), { host: 'a b' }), 400, 'gateway bad-request'],
        [
          'a wrong project',
          () => ask(query('miss'), {}, { path: '/mdx/xmla/%ff' }),
          400,
          'gateway bad-request',
        ],
        [
          'a wrong path',
          () => ask(query('miss'), {}, { path: '/mdx/xmla/a/b' }),
          404,
          'gateway not-found',
        ],
        ['a body too long', () => ask(Buffer.alloc(11_000_000)), 413, 'gateway too-big'],
        [
          'a prefetch',
          () => ask(query('miss'), { 'sec-purpose': 'prefetch' }),
          403,
          'gateway forbidden',
        ],
        [
          'another method',
          () => ask(Buffer.alloc(0), {}, { method: 'GET' }),
          403,
          'gateway forbidden',
        ],
        [
          'a method that no browser would send',
          () => ask(query('miss'), {}, { method: 'PUT' }),
          403,
          'gateway forbidden',
        ],
      ];

    test.each(ANSWERS)('%s', async (...[, asking, status, said, vary = '']) => {
      const answer = await asking();
      expect([answer.status, shortStatus(answer)]).toEqual([status, said]);
      expect(corsOf(answer)).toEqual(forPage(PAGE, vary));
    });

    test('that its login is wrong, without a dialog of the browser; without one it is asked as ever', async () => {
      const challengeFor = async (headers: Headers) =>
        (await ask(query('miss'), headers)).headers['www-authenticate'];
      const wrong = { authorization: `Basic ${btoa('carol:wrong')}` };
      const rest = 'realm="mdx-gateway", charset="UTF-8"';
      expect(await challengeFor(wrong)).toBe(`xBasic ${rest}`);
      expect(await challengeFor({ authorization: [] })).toBe(`Basic ${rest}`);
      expect(await challengeFor({ ...wrong, origin: [] })).toBe(`Basic ${rest}`);
      expect(await challengeFor({ ...wrong, origin: 'https://evil.example' })).toBe(
        `Basic ${rest}`,
      );
    });

    test('that the engine refuses its login, without a dialog too', async () => {
      const { url, close } = await startTestGateway({
        ...settings([PAGE]),
        engine: { url: engine.url, login: 'forward' },
      });
      const challenge = { 'www-authenticate': 'Basic realm="engine"' };
      engine.answerWith(sendXml('no', { status: 401, headers: challenge }));
      const answer = await askXmla(url, query('x'), { headers: { origin: PAGE } });
      const program = await askXmla(url, query('x'));
      await close();
      expect([answer.status, answer.text, corsOf(answer)]).toEqual([401, 'no', forPage(PAGE)]);
      expect(answer.headers['www-authenticate']).toMatch(/^xBasic /);
      expect(program.headers['www-authenticate']).toBe(challenge['www-authenticate']);
    });

    test('that it must wait, after too many wrong passwords', async () => {
      const guess = () =>
        ask(query('miss'), { authorization: `Basic ${btoa('nobody-here:wrong')}` });
      let answer = await guess();
      while (answer.status === 401) answer = await guess();
      expect([answer.status, corsOf(answer)]).toEqual([429, forPage(PAGE)]);
      expect(answer.headers['retry-after']).toMatch(/^\d+$/);
    });

    test('by HTTP/1.0 too, in one header Vary', async () => {
      const body = query('old client');
      const { bytes } = await sendRaw(
        portOf(gateway.url),
        `POST /mdx/xmla HTTP/1.0\r\nOrigin: ${PAGE}\r\nAuthorization: ${basic('alice')}\r\n` +
          `Content-Type: text/xml\r\nContent-Length: ${body.length}\r\n\r\n${body.toString()}`,
      );
      const [head = ''] = bytes.toString().split('\r\n\r\n');
      expect(head.match(/^(?:vary|access-control-allow-origin): .*$/gim)?.sort()).toEqual([
        `access-control-allow-origin: ${PAGE}`,
        'vary: Accept-Language, origin',
      ]);
    });

    test('as a browser sends it over HTTPS, and the engine is not told of the page', async () => {
      const answer = await ask(statement('DRILLTHROUGH SELECT'), {
        'sec-fetch-site': 'cross-site',
        'sec-fetch-mode': 'cors',
        'sec-fetch-dest': 'empty',
        'sec-fetch-storage-access': 'active',
        referer: `${PAGE}/report?id=7`,
        'accept-charset': 'utf-8',
      });
      expect(answer.status).toBe(200);
      const told = engine.seen.at(-1)?.headers ?? {};
      expect(told['accept-charset']).toBe('utf-8');
      expect(Object.keys(told).filter((name) => /^(?:origin|referer|sec-)/.test(name))).toEqual([]);
    });
  });

  test('an engine that cannot be reached, or has too much to do, is told to the page', async () => {
    const opened = gate();
    const busy = await startTestGateway(
      settings([PAGE], { limits: { concurrency: 1, per_user: 1, queue: 0 } }),
    );
    engine.answerWith(async (response, seen) => {
      await opened.opened;
      sendXml(DATA)(response, seen);
    });
    const first = askXmla(busy.url, query('first'), { headers: { origin: PAGE } });
    await until(() => engine.seen.length === 1);
    const second = await askXmla(busy.url, query('second'), { headers: { origin: PAGE } });
    opened.open();
    expect([second.status, corsOf(second)]).toEqual([503, forPage(PAGE)]);
    expect((await first).status).toBe(200);
    await busy.reload({ ...settings([PAGE]), engine: { url: 'http://127.0.0.1:1/' } });
    const third = await askXmla(busy.url, query('third'), { headers: { origin: PAGE } });
    expect([third.status, corsOf(third)]).toEqual([502, forPage(PAGE)]);
    await busy.close();
  });

  describe('one entry', () => {
    test('serves pages of both origins, and programs; each is told its own', async () => {
      const body = query('shared');
      expect(shortStatus(await ask(body))).toBe('miss stored');
      for (const origin of [OTHER_PAGE, PAGE, OTHER_PAGE]) {
        const answer = await ask(body, { origin });
        expect([shortStatus(answer), corsOf(answer)]).toEqual([
          'hit',
          forPage(origin, 'accept-encoding, '),
        ]);
      }
      for (const headers of [{ origin: [] }, { origin: gateway.url }]) {
        const answer = await ask(body, headers);
        expect([shortStatus(answer), corsOf(answer)]).toEqual([
          'hit',
          { vary: 'accept-encoding, origin' },
        ]);
      }
      expect(engine.seen).toHaveLength(1);
    });

    test('is told so too when the request is remembered, on one connection and on another', async () => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      const body = query('remembered');
      await ask(body);
      for (const origin of [PAGE, OTHER_PAGE]) {
        const hit = () => ask(body, { origin }, { agent });
        const hits = await untilRemembered(hit);
        const elsewhere = await untilRemembered(() => ask(body, { origin }));
        for (const one of [...hits, ...elsewhere]) {
          expect(corsOf(one)).toEqual(forPage(origin, 'accept-encoding, '));
        }
      }
      agent.destroy();
      for (const [, headers] of UNLISTED) {
        const answer = await ask(body, headers);
        expect([answer.status, corsOf(answer)]).toEqual([403, NO_PAGE]);
      }
    });

    test('is told so too when it is compressed', async () => {
      const body = query('compressed');
      const zipped = { 'accept-encoding': 'gzip' };
      let answer = await ask(body, zipped);
      while (answer.headers['content-encoding'] === undefined) answer = await ask(body, zipped);
      expect(corsOf(answer)).toEqual(forPage(PAGE, 'accept-encoding, '));
      const other = await ask(body, { ...zipped, origin: OTHER_PAGE });
      expect(corsOf(other)).toEqual(forPage(OTHER_PAGE, 'accept-encoding, '));
    });

    test('is told so too when it is short', async () => {
      engine.answerWith(sendXml(rowsetAnswer({ names: [], style: 'ssas' })));
      const short = discover({ requestType: 'MDSCHEMA_CUBES' });
      await ask(short);
      const hit = await ask(short, { origin: OTHER_PAGE });
      expect([shortStatus(hit), corsOf(hit)]).toEqual(['hit', forPage(OTHER_PAGE)]);
    });

    test('is told so too in a session', async () => {
      const sessions = await startSessionEngine({ kind: 'generic' });
      const own = { ...settings([PAGE, OTHER_PAGE]), engine: { url: sessions.url } };
      const { url, close } = await startTestGateway(own);
      const properties = { Catalog: 'Sales' };
      const id = await beginSession(url, { properties, headers: { origin: PAGE } });
      const body = execute({ statement: 'SELECT FROM [S]', properties, session: inSession(id) });
      await askXmla(url, body, { headers: { origin: PAGE } });
      const hit = await askXmla(url, body, { headers: { origin: OTHER_PAGE } });
      await close();
      await sessions.close();
      expect([shortStatus(hit), corsOf(hit)]).toEqual([
        'hit',
        forPage(OTHER_PAGE, 'accept-encoding, '),
      ]);
    });
  });

  test.each(UNLISTED)('what a page of %s sends reaches no engine', async (_who, headers) => {
    const answer = await ask(query('unlisted'), headers);
    expect([answer.status, corsOf(answer)]).toEqual([403, NO_PAGE]);
    const refused = await ask(query('unlisted'), { ...headers, authorization: [] });
    expect([refused.status, corsOf(refused)]).toEqual([401, NO_PAGE]);
    expect(engine.seen).toEqual([]);
  });

  test('a listed origin does not help what Fetch Metadata says of a page without one', async () => {
    const answer = await ask(query('x'), {
      origin: [],
      referer: `${PAGE}/`,
      'sec-fetch-site': 'cross-site',
    });
    expect([answer.status, corsOf(answer)]).toEqual([403, NO_PAGE]);
  });

  describe('a page of a listed origin may not, though its user may,', () => {
    const PURGING: readonly (readonly [string, Buffer])[] = [
      ['refresh a cube', statement('REFRESH CUBE [Sales]')],
      ['write', statement('UPDATE CUBE [Sales] SET ([A]) = 1')],
      ['commit', statement('COMMIT')],
      ['call a procedure', statement('CALL x()')],
      ['have the engine clear its cache', command('<ClearCache/>')],
      ['process', command('<Process/>')],
      ['send TMSL', statement('{ "refresh": {} }')],
      ['send several statements', statement('SELECT 1; COMMIT')],
      ['send what is not understood', Buffer.from('<Envelope')],
      ['send a statement too long to be searched', statement(`SELECT ${' '.repeat(1_100_000)}`)],
      ['drop a mining model', statement('DROP MINING MODEL [M]')],
      ['export to a file', statement("EXPORT MINING MODEL [M] TO 'c:/x'")],
      ['make a model by SELECT', statement('SELECT * INTO [x] FROM [y]')],
      ['take another identity', statement('EXECUTE AS x')],
      ['hide a statement in parentheses', statement('(CALL x())')],
      ['say what is not known', statement('WHATEVER')],
      ['send two commands', altered('</Command>', '</Command><Command><Process/></Command>')],
      ['hide a statement in an element', altered('SELECT', '<x>UPDATE CUBE [x]</x>')],
      ['hide a statement beside another', altered('<Statement>', 'UPDATE CUBE [x]<Statement>')],
      ['send an unknown header with a change', altered(...inHeader('<Alter/>'), 'COMMIT')],
      [
        'send an unknown element beside Properties',
        altered('</Properties>', '</Properties><Alter/>'),
      ],
    ];
    const MORE: readonly (readonly [string, Buffer])[] = [
      ['send a login of its own', altered(...inHeader('<Security/>'))],
      [
        'send a command in a Discover',
        Buffer.from(
          discover({ requestType: 'MDSCHEMA_CUBES' })
            .toString()
            .replace('</Discover>', '<Command><Statement>COMMIT</Statement></Command></Discover>'),
        ),
      ],
      ['cancel what others ask', command('<Cancel/>')],
      ['back up', command('<Backup/>')],
      ['lock', command('<Lock/>')],
    ];

    const refused = (answer: Answer) => ({
      status: answer.status,
      said: shortStatus(answer),
      cors: corsOf(answer),
      fault: /<faultstring>([^<(]*)/.exec(answer.text)?.[1],
    });
    const REFUSED = {
      status: 403,
      said: 'gateway forbidden',
      cors: forPage(PAGE),
      fault: expect.stringMatching(/^Nothing was done: a page of another origin may ask, and/),
    };

    test.each([...PURGING, ...MORE])('%s', async (_what, body) => {
      const kept = query('kept');
      await ask(kept, {}, { user: 'ADMIN' });
      const atEngine = engine.seen.length;
      const purged = () => gateway.events.filter(({ type }) => type === 'purged').length;
      const before = purged();
      // What passes is remembered when it comes again.
      for (let i = 0; i < 3; i += 1) {
        expect(refused(await ask(body, {}, { user: 'ADMIN' }))).toEqual(REFUSED);
      }
      expect([engine.seen.length, purged()]).toEqual([atEngine, before]);
      expect(shortStatus(await ask(kept, {}, { user: 'ADMIN' }))).toBe('hit');
    });

    test.each([...PURGING.slice(1), ...MORE])(
      '%s, also where that would clear nothing',
      async (_what, body) => {
        expect(refused(await ask(body))).toEqual(REFUSED);
        expect(engine.seen).toEqual([]);
      },
    );

    test.each([
      '',
      'DRILLTHROUGH SELECT FROM [a]',
      "EVALUATE 'a'",
      "DEFINE MEASURE 'a'[b] = 1 EVALUATE 'a'",
      'CREATE SESSION MEMBER [a].[b] AS 1',
      'SELECT Now() ON 0 FROM [a]; SELECT FROM [b]',
    ])('but %j it may send', async (text) => {
      const { status, headers } = await ask(statement(text), {}, { user: 'ADMIN' });
      expect([status, headers['cache-status']]).toEqual([200, expect.stringMatching(/fwd=bypass/)]);
    });

    test('a refresh that clears nothing passes, as it does for programs', async () => {
      const refresh = statement('REFRESH CUBE [Sales]');
      expect(shortStatus(await ask(refresh))).toBe('bypass not-a-query');
      const { url, close } = await startTestGateway(settings([PAGE]));
      const answer = await askXmla(url, refresh, { user: 'ADMIN', headers: { origin: PAGE } });
      await close();
      expect(shortStatus(answer)).toBe('bypass not-a-query');
    });

    test('a page of the gateway itself may, also when its origin is listed', async () => {
      const { url, close } = await startTestGateway(settings([PAGE, 'http://gateway.example']));
      const answer = await askXmla(url, statement('UPDATE CUBE [Sales] SET ([A]) = 1'), {
        user: 'ADMIN',
        headers: { origin: 'http://gateway.example', host: 'gateway.example' },
      });
      await close();
      expect([answer.status, shortStatus(answer)]).toEqual([200, 'bypass not-a-query']);
    });
  });

  test.each([
    ['GET', '/mdx/xmla/clearCache', 403],
    ['POST', '/mdx/xmla/clearCache', 403],
    ['POST', '/mdx/xmla/Sales/clearCache', 403],
    ['POST', '/admin/explain', 403],
    ['POST', '/api/role', 403],
    ['GET', '/api/datasets/MDX/Sales', 200],
    ['GET', '/admin/purges', 200],
    ['GET', '/metrics', 200],
    ['GET', '/health/live', 200],
  ])('%s %s is for no page of another origin', async (method, path, status) => {
    await ask(query('kept'), {}, { user: 'ADMIN' });
    const answer = await send(gateway.url, {
      method,
      path,
      headers: { origin: PAGE, authorization: basic('ADMIN') },
    });
    expect([answer.status, corsOf(answer)]).toEqual([status, {}]);
    expect(shortStatus(await ask(query('kept'), {}, { user: 'ADMIN' }))).toBe('hit');
  });
});

test('a reload lists an origin and takes one away, also on a connection that stays', async () => {
  const gateway = await startTestGateway(settings([PAGE]));
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const ask = (origin: string) =>
    askXmla(gateway.url, query('reloaded'), { headers: { origin }, agent });
  await ask(PAGE);
  await untilRemembered(() => ask(PAGE));
  expect((await ask(OTHER_PAGE)).status).toBe(403);

  await gateway.reload(
    settings([OTHER_PAGE], { listen: { cors: { origins: [OTHER_PAGE], max_age: '1m' } } }),
  );
  const gone = await ask(PAGE);
  expect([gone.status, corsOf(gone)]).toEqual([403, NO_PAGE]);
  const listed = await ask(OTHER_PAGE);
  expect([shortStatus(listed), corsOf(listed)]).toEqual([
    'hit',
    forPage(OTHER_PAGE, 'accept-encoding, '),
  ]);
  const asked = await preflight(gateway, { origin: OTHER_PAGE });
  expect(asked.headers['access-control-max-age']).toBe('60');

  await gateway.reload({ engine: { url: engine.url } });
  const none = await ask(OTHER_PAGE);
  expect([none.status, corsOf(none)]).toEqual([403, {}]);
  agent.destroy();
  await gateway.close();
});
