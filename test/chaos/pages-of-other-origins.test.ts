import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { untilRemembered } from '../support/remembered.ts';
import { faultAnswer, mddatasetAnswer, rowsetAnswer } from '../support/answers.ts';
import { startBrowser, type TestBrowser } from '../support/browser.ts';
import { discover, execute } from '../support/envelopes.ts';
import { type Answer, shortStatus } from '../support/http-client.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const DATA = mddatasetAnswer({ cells: 100, members: ['Käse'] });
const CUBES = discover({ requestType: 'MDSCHEMA_CUBES', restrictions: { CATALOG_NAME: 'Sales' } });
const query = (name: string) =>
  execute({ statement: `SELECT FROM [${name}]`, properties: { Catalog: 'Sales' } });

const servers: Server[] = [];
let engine: StubEngine;
let gateway: TestGateway;
let browser: TestBrowser;
/** Of listed origins: on another port of the gateway's host, and on another host. */
let near: Page;
let far: Page;
/** Of an origin that is not listed. */
let unlisted: Page;

/** Serves an empty page on a port of its own, and resolves to that. */
async function startPages(head = ''): Promise<number> {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/html' });
    response.end('<!doctype html><link rel="icon" href="data:,"><title>A page</title>' + head);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

beforeAll(async () => {
  const port = await startPages();
  const [ofNear, ofFar] = [`http://127.0.0.1:${port}`, `http://localhost:${port}`];
  engine = await startStubEngine((response, seen) => {
    const isFault = seen.body.includes('[Fault]');
    const data = seen.body.includes('<Discover') ? rowsetAnswer({ names: ['Sales'] }) : DATA;
    // As an engine that judges origins by itself.
    const headers = { 'access-control-allow-origin': 'https://engine.example', vary: 'Origin' };
    sendXml(isFault ? faultAnswer() : data, { headers })(response, seen);
  });
  gateway = await startTestGateway({
    engine: { url: engine.url },
    listen: { cors: { origins: [ofNear, ofFar] } },
    cache: { purge_on_refresh_cube: true },
  });
  browser = await startBrowser();
  near = (await browser.open(`${ofNear}/`)).page;
  far = (await browser.open(`${ofFar}/`)).page;
  unlisted = (await browser.open(`http://127.0.0.1:${await startPages()}/`)).page;
}, 600_000);
afterAll(async () => {
  await browser?.close();
  await gateway?.close();
  await engine?.close();
  for (const server of servers) server.close();
});
beforeEach(() => void engine.seen.splice(0));

interface Seen extends Pick<Answer, 'status' | 'headers' | 'text'> {
  /** What the browser said in place of an answer; '' where the page had one. */
  readonly blocked: string;
}

interface Request {
  /** A name, or what stands in the header Authorization; '' for the login that the browser remembers. */
  readonly user?: string;
  readonly path?: string;
  readonly method?: string;
  readonly mode?: 'cors' | 'no-cors';
  readonly headers?: Readonly<Record<string, string>>;
}

/** Has a page send a request, as alice unless it is said otherwise. */
async function ask(
  page: Page,
  body: Buffer | undefined,
  { user = 'alice', path = '/mdx/xmla', ...init }: Request = {},
): Promise<Seen> {
  const sent = {
    method: 'POST',
    credentials: 'include' as const,
    ...(body && { body: body.toString() }),
    headers: {
      'content-type': 'text/xml; charset=utf-8',
      soapaction: '"urn:schemas-microsoft-com:xml-analysis:Execute"',
      'x-request-id': 'page-1',
      ...(user !== '' && { authorization: user.includes(' ') ? user : basic(user) }),
    },
    ...init,
  };
  return page.evaluate(
    async ([url, asked]) => {
      try {
        const answer = await fetch(url, asked);
        const headers = Object.fromEntries(answer.headers);
        return { status: answer.status, headers, text: await answer.text(), blocked: '' };
      } catch (error) {
        return { status: 0, headers: {}, text: '', blocked: String(error) };
      }
    },
    [`${gateway.url}${path}`, sent] as const,
  );
}

const inShort = (seen: Seen) => [seen.status, shortStatus(seen)];
const BLOCKED = { status: 0, blocked: 'TypeError: Failed to fetch' };
const askedFirst = () =>
  gateway.events.filter(
    (event) => event.type === 'xmla-answered' && event.outcome.detail === 'preflight',
  ).length;

describe('a page of a listed origin reads', () => {
  test.each([
    ['an Execute', query('Sales'), DATA],
    ['a Discover', CUBES, rowsetAnswer({ names: ['Sales'] })],
  ])(
    '%s, from the engine and from the cache, with what the heads say',
    async (_what, body, text) => {
      // Where the header contradicts the body, nothing is cached.
      const method = body.includes('<Discover') ? 'Discover' : 'Execute';
      const soapaction = `"urn:schemas-microsoft-com:xml-analysis:${method}"`;
      const headers = { authorization: basic('alice'), 'content-type': 'text/xml', soapaction };
      const [miss, hit] = [
        await ask(near, body, { headers: { ...headers, 'x-request-id': 'page-1' } }),
        await ask(near, body, { headers: { ...headers, 'x-request-id': 'page-2' } }),
      ];
      expect([inShort(miss), inShort(hit)]).toEqual([
        [200, 'miss stored'],
        [200, 'hit'],
      ]);
      expect([miss.text, hit.text]).toEqual([text, text]);
      expect(miss.headers).toMatchObject({ age: '0', 'x-request-id': 'page-1' });
      expect(hit.headers).toMatchObject({
        age: expect.stringMatching(/^\d+$/),
        'cache-status': expect.stringMatching(/^mdx-gateway; hit; ttl=\d+; detail=memory$/),
        'x-request-id': 'page-2',
      });
    },
  );

  test('a Fault of the engine', async () => {
    const { status, text } = await ask(far, query('Fault'));
    expect([status, text]).toEqual([200, faultAnswer()]);
  });

  test('what passes through', async () => {
    const drill = execute({ statement: 'DRILLTHROUGH SELECT FROM [Sales]' });
    const seen = await ask(far, drill);
    expect([inShort(seen), seen.text]).toEqual([[200, 'bypass drillthrough'], DATA]);
  });

  test('that its password is wrong, and after several times when to come again', async () => {
    const guess = () => ask(near, query('Sales'), { user: `Basic ${btoa('bob:wrong')}` });
    let seen = await guess();
    expect(inShort(seen)).toEqual([401, 'gateway unauthenticated']);
    expect(seen.text).toContain('A valid user name and password are needed');
    while (seen.status === 401) seen = await guess();
    expect(inShort(seen)).toEqual([429, 'gateway throttled']);
    expect(seen.text).toContain('Too many failed logins');
    expect(seen.headers['retry-after']).toMatch(/^\d+$/);
  });

  test('what is wrong with its path, where its browser need not ask first', async () => {
    const headers = { 'content-type': 'text/plain' };
    const seen = await ask(near, query('Sales'), { path: '/mdx/xmla/a/b', headers });
    expect([inShort(seen), seen.text]).toEqual([
      [404, 'gateway not-found'],
      expect.stringContaining('Nothing is served under this path'),
    ]);
  });
});

test('a browser asks first once, and then believes that for a while', async () => {
  const page = await browser.open(near.url());
  const before = askedFirst();
  for (const name of ['One', 'Two', 'Three']) {
    expect((await ask(page.page, query(name))).status).toBe(200);
  }
  expect(askedFirst() - before).toBe(1);
});

test('pages of two origins read one entry in turn, remembered and not', async () => {
  const body = query('Shared');
  expect(inShort(await ask(near, body))).toEqual([200, 'miss stored']);
  expect(inShort(await ask(far, body))).toEqual([200, 'hit']);
  let turn = 0;
  const hits = await untilRemembered(async () => {
    turn += 1;
    return (await ask(turn % 2 === 0 ? near : far, body)) as Answer & Seen;
  });
  const more = [(await ask(far, body)) as Answer & Seen, (await ask(near, body)) as Answer & Seen];
  expect(new Set([...hits, ...more].map(({ text }) => text))).toEqual(new Set([DATA]));
  expect(engine.seen).toHaveLength(1);
});

test('a page of another origin is blocked, and the engine is asked nothing', async () => {
  expect(await ask(unlisted, query('Sales'))).toMatchObject(BLOCKED);
  expect(engine.seen).toEqual([]);
});

describe('with the login that the browser remembers', () => {
  let trusted: Page;
  let evil: Page;
  beforeAll(async () => {
    [trusted, evil] = await Promise.all([loggedIn(near.url()), loggedIn(unlisted.url())]);
    await ask(trusted, query('Kept'), { user: '' });
    engine.seen.splice(0);
  });

  /** A page in a browser whose user has logged in at the gateway. */
  async function loggedIn(url: string): Promise<Page> {
    const { page } = await browser.open(gateway.url.replace('://', '://ADMIN:admin@') + '/metrics');
    await page.goto(url);
    return page;
  }
  const isKept = async () => shortStatus(await ask(trusted, query('Kept'), { user: '' }));
  const statement = (text: string) =>
    execute({ statement: text, properties: { Catalog: 'Sales' } });

  test('a page of a listed origin reads', async () => {
    expect(await isKept()).toBe('hit');
  });

  test.each(['REFRESH CUBE [Sales]', 'UPDATE CUBE [Sales] SET ([A]) = 1', 'COMMIT'])(
    'it does not purge by %s, and is told so',
    async (text) => {
      const seen = await ask(trusted, statement(text), { user: '' });
      expect(inShort(seen)).toEqual([403, 'gateway forbidden']);
      expect(seen.text).toContain('a page of another origin may ask');
      expect([await isKept(), engine.seen]).toEqual(['hit', []]);
    },
  );

  test.each([
    ['clearCache', '/mdx/xmla/clearCache', 'GET'],
    ['clearCache of a project', '/mdx/xmla/Sales/clearCache', 'POST'],
    ['explain', '/admin/explain', 'POST'],
    ['the log of purges', '/admin/purges', 'GET'],
    ['roles', '/api/roles?pageNum=0&pageSize=9&containsDesc=false', 'GET'],
    ['metrics', '/metrics', 'GET'],
  ])('it has no answer of %s, and nothing is purged', async (_what, path, method) => {
    const init = { user: '', path, method, headers: {} };
    expect(await ask(trusted, undefined, init)).toMatchObject(BLOCKED);
    // Without reading the answer a page may send it.
    await ask(trusted, undefined, { ...init, mode: 'no-cors' });
    expect([await isKept(), engine.seen]).toEqual(['hit', []]);
    expect(gateway.events.filter(({ type }) => type === 'purged')).toEqual([]);
  });

  test('a page of another origin does nothing, also by what needs no question first', async () => {
    for (const mode of ['cors', 'no-cors'] as const) {
      const headers = { 'content-type': 'text/plain' };
      await ask(evil, statement('COMMIT'), { user: '', mode, headers });
      await ask(evil, query('Kept'), { user: '', mode, headers });
    }
    expect([await isKept(), engine.seen]).toEqual(['hit', []]);
    // The browser did add the login.
    const outcome = { kind: 'gateway', detail: 'forbidden' };
    expect(gateway.events).toContainEqual(
      expect.objectContaining({ principal: 'ADMIN', outcome, why: expect.stringMatching(/site$/) }),
    );
  });
});

describe('over plain HTTP, where browsers do not say by Fetch Metadata who asks', () => {
  const CLEAR = '/mdx/xmla/clearCache';
  let ofGateway: string;
  let page: Page;
  /** A page that asks its browser to keep quiet about it. */
  let silent: string;
  beforeAll(async () => {
    ofGateway = gateway.url.replace('127.0.0.1', 'gateway.test');
    silent = `http://evil.test:${await startPages('<meta name="referrer" content="no-referrer">')}/`;
    ({ page } = await browser.open(`${ofGateway.replace('://', '://ADMIN:admin@')}/metrics`));
  });
  const purges = () => gateway.events.filter(({ type }) => type === 'purged').length;
  const text = () => page.evaluate('document.body.textContent');

  test.each([
    [
      'a link',
      `const a = document.body.appendChild(document.createElement('a')); a.href = URL_; a.click()`,
    ],
    [
      'a refresh',
      `const m = document.head.appendChild(document.createElement('meta')); m.httpEquiv = 'refresh'; m.content = '0;url=' + URL_`,
    ],
  ])('a page of another site that is not named purges nothing by %s', async (_what, script) => {
    await page.goto(silent);
    const before = purges();
    await page.evaluate(script.replace('URL_', JSON.stringify(ofGateway + CLEAR)));
    await page.waitForURL(ofGateway + CLEAR);
    expect(await text()).toContain('Nothing was done: a browser does not say');
    // The browser did add the login.
    expect(gateway.events).toContainEqual(
      expect.objectContaining({ type: 'purge-refused', principal: 'ADMIN' }),
    );
    expect(purges()).toBe(before);
  });

  test('who types the address is told what to do instead', async () => {
    const answer = await page.goto(ofGateway + CLEAR);
    expect(answer?.status()).toBe(403);
    expect(await text()).toContain('use the console, a program such as curl, or HTTPS');
  });

  test('the console purges and saves a diagnosis, and the address of the engine can be typed', async () => {
    await page.goto(`${ofGateway}/console/purges`, { waitUntil: 'networkidle' });
    const before = purges();
    await page.getByRole('button', { name: 'Purge everything …' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox').fill('everything');
    await dialog.getByRole('button', { name: 'Purge' }).click();
    await page.getByText(/everything is purged/).waitFor();
    expect(purges()).toBe(before + 1);
    await page.goto(`${ofGateway}/console/system`, { waitUntil: 'networkidle' });
    const saving = page.waitForEvent('download');
    await page.getByRole('link', { name: 'Save diagnosis.json' }).click();
    expect((await saving).suggestedFilename()).toBe('diagnosis.json');
    expect((await page.goto(`${ofGateway}/mdx/xmla`))?.status()).toBe(200);
  });
});
