import { beforeEach, describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { mddatasetAnswer } from '../support/answers.ts';
import { checkedSupertest } from '../support/checked-requests.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus } from '../support/http-client.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const ALL = '/mdx/xmla/clearCache';

const engine = shared(() => startStubEngine(sendXml(mddatasetAnswer())));
const gateway = shared(() =>
  startTestGateway({ engine: { url: engine.url }, auth: { purgers: ['bob'] } }),
);
const query = execute({ statement: 'SELECT FROM [Sales]', properties: { Catalog: 'FoodMart' } });
const inProject = { path: '/mdx/xmla/FoodMart' };

/** Every test begins with one stored answer. */
beforeEach(async () => {
  await askXmla(gateway.url, query, inProject);
});

/** Of the receipt that docs/PURGE.md shows. */
function documentedFields(): readonly string[] {
  const text = readFileSync(new URL('../../docs/PURGE.md', import.meta.url), 'utf8');
  return Object.keys(JSON.parse(/^\{"status":"cleared".*$/m.exec(text)?.[0] ?? '') as object);
}

const isStillCached = async () =>
  shortStatus(await askXmla(gateway.url, query, inProject)) === 'hit';
const purges = () => gateway.events.filter(({ type }) => type === 'purged').length;

describe('clearCache', () => {
  test.each([
    ['GET', ALL, 'Cache has been cleared.'],
    ['POST', ALL, 'Cache has been cleared.'],
    ['GET', `${ALL}/`, 'Cache has been cleared.'],
    ['GET', `${ALL}?`, 'Cache has been cleared.'],
    ['GET', '/mdx/xmla/FoodMart/clearCache', 'FoodMart Cache has been cleared.'],
    ['POST', '/mdx/xmla/FoodMart/clearCache', 'FoodMart Cache has been cleared.'],
    ['GET', '/mdx/xmla/foodmart/clearCache', 'foodmart Cache has been cleared.'],
    ['GET', '/mdx/xmla/%20FoodMart/clearCache', ' FoodMart Cache has been cleared.'],
  ])('%s %s purges and says so in plain text', async (method, path, text) => {
    expect(await isStillCached()).toBe(true);
    const answer = await send(gateway.url, {
      method,
      path,
      headers: { authorization: basic('ADMIN'), 'content-type': 'application/json;charset=utf8' },
    });
    expect([answer.status, answer.text]).toEqual([200, text]);
    expect(answer.headers).toMatchObject({
      'content-type': 'text/plain; charset=utf-8',
      'content-length': String(Buffer.byteLength(text)),
      'cache-control': 'no-store',
    });
    expect(await isStillCached()).toBe(false);
  });

  test('names a project in the language of its name', async () => {
    const answer = await send(gateway.url, {
      path: `/mdx/xmla/${encodeURIComponent('销售 "a/b"')}/clearCache`,
      headers: { authorization: basic('ADMIN') },
    });
    expect(answer.text).toBe('销售 "a/b" Cache has been cleared.');
  });

  test('of another project leaves this one alone', async () => {
    await send(gateway.url, {
      path: '/mdx/xmla/Other/clearCache',
      headers: { authorization: basic('ADMIN') },
    });
    expect(await isStillCached()).toBe(true);
  });

  test.each(['HEAD', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'TRACE'])(
    'by %s is refused and purges nothing',
    async (method) => {
      const before = purges();
      const answer = await send(gateway.url, {
        method,
        path: ALL,
        headers: { authorization: basic('ADMIN') },
      });
      expect([answer.status, answer.headers.allow]).toEqual([405, 'GET, POST']);
      expect(purges()).toBe(before);
      expect(await isStillCached()).toBe(true);
    },
  );

  test.each([
    [`${ALL}?project=Food%20Mart`, '/mdx/xmla/Food%20Mart/clearCache'],
    [`${ALL}?x=1&PROJECT=a%2Fb`, '/mdx/xmla/a%2Fb/clearCache'],
    [`${ALL}?project=..`, '/mdx/xmla/{project}/clearCache'],
    [`${ALL}?project=a&project=b`, '/mdx/xmla/{project}/clearCache'],
    [`${ALL}?Cache%20has%20been%20cleared.`, '/mdx/xmla/{project}/clearCache'],
    [`${ALL}/?userid=bob`, '/mdx/xmla/{project}/clearCache'],
    ['/mdx/xmla/FoodMart/clearCache?project=Other', '/mdx/xmla/Other/clearCache'],
    ['/mdx/xmla/FoodMart/clearCache?x', '/mdx/xmla/{project}/clearCache'],
  ])('%s is refused, says what was meant, and purges nothing', async (path, meant) => {
    const before = purges();
    for (const accept of ['*/*', 'application/json']) {
      const headers = { authorization: basic('ADMIN'), accept };
      const answer = await send(gateway.url, { path, headers });
      expect(answer.status).toBe(400);
      expect(answer.text).toContain('Nothing was done: clearCache takes no query parameters;');
      expect(answer.text).toContain(`in the path: ${meant}`);
      expect(answer.text).not.toMatch(/has been cleared/i);
    }
    expect([purges(), await isStillCached()]).toEqual([before, true]);
  });

  test('may be called by those in auth.purgers', async () => {
    const answer = await send(gateway.url, { path: ALL, headers: { authorization: basic('bob') } });
    expect([answer.status, await isStillCached()]).toEqual([200, false]);
  });

  test('by a user without the right is refused by 403, names the lists, and tells the log', async () => {
    const answer = await send(gateway.url, {
      path: ALL,
      headers: { authorization: basic('alice') },
    });
    expect([answer.status, await isStillCached()]).toEqual([403, true]);
    expect(answer.text).toContain('auth.admins');
    expect(gateway.events).toContainEqual({
      type: 'purge-refused',
      principal: 'alice',
      why: expect.stringContaining('auth.purgers'),
    });
  });

  test.each([
    ['no credentials', undefined],
    ['a wrong password', `Basic ${Buffer.from('ADMIN:wrong').toString('base64')}`],
    ['another scheme', 'Bearer abc'],
  ])('with %s is refused by 401 and purges nothing', async (_what, authorization) => {
    const answer = await send(gateway.url, {
      path: ALL,
      headers: authorization === undefined ? {} : { authorization },
    });
    expect(answer.status).toBe(401);
    expect(answer.headers['www-authenticate']).toMatch(/^Basic realm="/);
    expect(answer.headers['content-type']).toBe('text/plain; charset=utf-8');
    expect(await isStillCached()).toBe(true);
  });

  test.each([
    ['another site', { 'sec-fetch-site': 'cross-site' }],
    ['a sister site', { 'sec-fetch-site': 'same-site' }],
    ['a word of tomorrow', { 'sec-fetch-site': 'something' }],
    ['a prefetch', { purpose: 'prefetch' }],
    ['a prefetch', { 'sec-purpose': 'prefetch' }],
    ['a prerender', { 'sec-purpose': 'prefetch;prerender' }],
    ['a prefetch of old browsers', { 'x-moz': 'prefetch' }],
    ['a preview', { purpose: 'Preview' }],
    ['another origin', { origin: 'https://evil.example' }],
    ['a hidden origin', { origin: 'null' }],
    ['another port of this host', { origin: 'http://127.0.0.1:1' }],
    ['a page that is not named, by a link', { 'upgrade-insecure-requests': '1' }],
  ] as readonly (readonly [string, Record<string, string>])[])(
    'that comes from %s is refused, however it is asked: %j',
    async (_what, headers) => {
      for (const method of ['GET', 'POST']) {
        const answer = await send(gateway.url, {
          method,
          path: ALL,
          headers: { authorization: basic('ADMIN'), ...headers },
        });
        expect(answer.status).toBe(403);
        expect(await isStillCached()).toBe(true);
      }
    },
  );

  test.each([
    ['typed into the address bar', () => ({ 'sec-fetch-site': 'none' })],
    [
      'called by a page of the gateway',
      () => ({
        'sec-fetch-site': 'same-origin',
        origin: gateway.url,
      }),
    ],
  ])('%s purges', async (_what, headers) => {
    const answer = await send(gateway.url, {
      method: 'POST',
      path: ALL,
      headers: { authorization: basic('ADMIN'), ...headers() },
    });
    expect([answer.status, await isStillCached()]).toEqual([200, false]);
  });
});

describe('what is nearly clearCache', () => {
  test.each([
    ['GET', '/mdx/xmla/clearcache', {}],
    ['GET', '/mdx/xmla/ClearCache/?x=1', {}],
    ['GET', '/mdx/xmla/FoodMart/CLEARCACHE', {}],
    ['GET', '/mdx/xmla/a/FoodMart/clearCache', {}],
    ['GET', '/mdx/xmla/clearcache', { 'content-type': 'text/xml' }],
    ['PUT', '/mdx/xmla/clearcache', {}],
    ['POST', '/mdx/xmla/clearcache', {}],
    ['POST', '/mdx/xmla/clearcache', { 'content-type': 'text/xml' }],
    ['POST', '/mdx/xmla/clearcache', { 'content-type': 'application/json', body: '{}' }],
  ])('%s %s %j is no 200 of the engine but a 404 with a hint', async (method, path, given) => {
    const { body, ...headers } = given as Record<string, string>;
    const seen = engine.seen.length;
    const answer = await send(gateway.url, {
      method,
      path,
      headers: { authorization: basic('ADMIN'), ...headers },
      ...(body !== undefined && { body }),
    });
    expect(answer.status).toBe(404);
    expect(answer.headers['content-type']).toBe('text/plain; charset=utf-8');
    expect(answer.text).toContain('Did you mean clearCache?');
    expect(answer.text).not.toContain('has been cleared');
    expect(engine.seen).toHaveLength(seen);
    expect(await isStillCached()).toBe(true);
  });

  test('is a 404 without a body to HEAD', async () => {
    const answer = await send(gateway.url, { method: 'HEAD', path: '/mdx/xmla/clearcache' });
    expect([answer.status, answer.text]).toEqual([404, '']);
  });

  test('is XMLA when a project has that name', async () => {
    const answer = await askXmla(gateway.url, query, { path: '/mdx/xmla/clearcache' });
    expect([answer.status, shortStatus(answer)]).toEqual([200, 'miss stored']);
  });

  test.each([
    ['/mdx/xmla/..%2f../clearCache', 400, 'bad-request'],
    ['/mdx/xmla/%zz/clearCache', 400, 'bad-request'],
    ['/mdx/xmla/clearcache', 404, 'not-found'],
  ])('%s is refused in the form that is asked for', async (path, status, error) => {
    const call = (accept: string) =>
      send(gateway.url, {
        path,
        headers: { authorization: basic('ADMIN'), accept, 'x-request-id': 'R-1' },
      });
    const asText = await call('*/*');
    expect([asText.status, asText.headers['content-type']]).toEqual([
      status,
      'text/plain; charset=utf-8',
    ]);
    const asJson = await call('application/json');
    expect(asJson.status).toBe(status);
    expect(JSON.parse(asJson.text)).toEqual({ error, message: asText.text.trimEnd() });
  });
});

describe('the receipt of a purge', () => {
  const call = (path: string) =>
    checkedSupertest(gateway.url)
      .get(path)
      .auth('ADMIN', 'admin')
      .accept('application/json')
      .expect('content-type', 'application/json');

  test('comes as JSON to those who ask for it', async () => {
    const { body } = await call('/mdx/xmla/FoodMart/clearCache').expect(200);
    expect(Object.keys(body)).toEqual(documentedFields());
    expect(body).toEqual({
      status: 'cleared',
      scope: { project: 'FoodMart' },
      id: expect.stringMatching(/^[\w-]{22}$/),
      epochs_renewed: ['project:foodmart', 'unassigned'],
      replicas: 1,
      waited: 0,
      known: true,
      engine_calls: 0,
    });
    expect(await isStillCached()).toBe(false);
  });

  test('names everything when everything was purged', async () => {
    const { body } = await call(ALL).expect(200);
    expect(body).toMatchObject({
      scope: 'everything',
      epochs_renewed: ['everything', 'unassigned'],
    });
  });

  test('is replaced by an error in JSON when nothing was done', async () => {
    const { body } = await call(ALL).auth('alice', 'alice').expect(403);
    expect(body).toEqual({
      error: 'forbidden',
      message: expect.stringContaining('Nothing was done'),
    });
  });

  test.each(['*/*', 'text/plain', 'text/plain, application/json', 'text/html,*/*;q=0.8', ''])(
    'gives way to the plain text for Accept: %s',
    async (accept) => {
      const answer = await send(gateway.url, {
        path: ALL,
        headers: { authorization: basic('ADMIN'), accept },
      });
      expect(answer.text).toBe('Cache has been cleared.');
    },
  );
});
