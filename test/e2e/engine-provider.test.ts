import { afterAll, beforeEach, describe, expect, test } from '@jest/globals';
import { faultAnswer, mddatasetAnswer, rowsetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus } from '../support/http-client.ts';
import { sendXml, startStubEngine, type StubAnswer } from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const engine = shared(() => startStubEngine(checkingEngine));
let gateway: TestGateway;
let users: Map<string, string>;
const query = execute({ statement: 'SELECT FROM [Sales]' });

/** Refuses a login in the way of MDX for Kylin: by a Fault with status 200. */
const checkingEngine: StubAnswer = (response, request) => {
  const [name = '', password] = credentialsOf(request.headers.authorization);
  if (users.get(name) !== password || password === undefined) {
    return sendXml(faultAnswer())(response, request);
  }
  const body = request.body.includes('DISCOVER_DATASOURCES') ? rowsetAnswer() : mddatasetAnswer();
  return sendXml(body)(response, request);
};

function credentialsOf(authorization = ''): string[] {
  return Buffer.from(authorization.slice(6), 'base64').toString().split(/:(.*)/s);
}

const settings = (auth: Record<string, unknown> = {}) => ({
  engine: { url: engine.url, login: 'forward' },
  auth: { provider: 'engine', users: './there-is-none', admins: ['ADMIN'], ...auth },
});

/** A new one each time, so that nobody is remembered or throttled from the test before. */
beforeEach(async () => {
  // alice is in the users file of the test gateway too, with another password.
  users = new Map([
    ['alice', 'known to the engine'],
    ['ADMIN', 'admin'],
  ]);
  engine.answerWith(checkingEngine);
  await gateway?.close();
  gateway = await startTestGateway(settings());
  engine.seen.length = 0;
});
afterAll(() => gateway.close());

const authorization = (name: string, password: string) =>
  `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`;
const ALICE = authorization('alice', 'known to the engine');
const ADMIN = authorization('ADMIN', 'admin');
const ask = (header: string) => askXmla(gateway.url, query, { headers: { authorization: header } });
const queriesAtEngine = () => engine.seen.filter(({ body }) => body.equals(query)).length;
const trialsOf = (name: string) =>
  engine.seen.filter(
    ({ body, headers }) =>
      body.includes('DISCOVER_DATASOURCES') && credentialsOf(headers.authorization)[0] === name,
  ).length;

describe('with auth.provider: engine', () => {
  test('who the engine lets in is let in, and is tried once for many requests', async () => {
    expect(shortStatus(await ask(ALICE))).toBe('miss stored');
    expect(shortStatus(await ask(ALICE))).toBe('hit');
    expect(
      (await send(gateway.url, { path: '/metrics', headers: { authorization: ALICE } })).status,
    ).toBe(200);
    expect(trialsOf('alice')).toBe(1);
    expect(queriesAtEngine()).toBe(1);
  });

  test.each([
    ['a wrong password', authorization('alice', 'wrong')],
    ['the password of the users file', authorization('alice', 'alice')],
    ['an unknown user', authorization('nobody', 'x')],
    ['no password', authorization('alice', '')],
    ['another letter case', authorization('Alice', 'known to the engine')],
  ])(
    'a login with %s is answered by 401, and no query of it reaches the engine',
    async (_case, header) => {
      users.set('nobody-without-a-password', '');
      await ask(ALICE);
      const refused = await ask(header);
      expect(refused.status).toBe(401);
      expect(refused.headers['www-authenticate']).toBe(
        'Basic realm="mdx-gateway", charset="UTF-8"',
      );
      expect(queriesAtEngine()).toBe(1);
    },
  );

  test('users whose names differ in letter case share nothing and have their own permissions', async () => {
    users.set('admin', 'admin');
    await ask(ADMIN);
    expect(shortStatus(await ask(authorization('admin', 'admin')))).toBe('miss stored');
    const clear = (header: string) =>
      send(gateway.url, { path: '/mdx/xmla/clearCache', headers: { authorization: header } });
    expect((await clear(authorization('admin', 'admin'))).status).toBe(403);
    expect((await clear(ADMIN)).status).toBe(200);
  });

  test('the pages of the gateway use the same login', async () => {
    for (const path of [
      '/api/roles?containsDesc=true&pageNum=0&pageSize=9&RoleName=',
      '/metrics',
      '/health/ready',
      '/mdx/xmla/clearCache',
    ]) {
      const get = async (header: string) =>
        (await send(gateway.url, { path, headers: { authorization: header } })).status;
      expect([path, await get(authorization('ADMIN', 'wrong'))]).toEqual([path, 401]);
      expect([path, await get(ADMIN)]).toEqual([path, 200]);
    }
  });

  test('an engine that cannot say is answered by 502, and nobody is asked for another password', async () => {
    engine.answerWith(sendXml('', { status: 503 }));
    for (const path of ['/mdx/xmla', '/api/roles', '/metrics', '/mdx/xmla/clearCache']) {
      const answer = await send(gateway.url, {
        method: path === '/mdx/xmla' ? 'POST' : 'GET',
        path,
        headers: { authorization: ALICE, 'content-type': 'text/xml' },
        ...(path === '/mdx/xmla' && { body: query }),
      });
      expect([path, answer.status]).toEqual([path, 502]);
      expect(answer.headers).not.toHaveProperty('www-authenticate');
      expect(answer.text).toContain('could not be checked');
    }
    expect(shortStatus(await ask(ALICE))).toBe('gateway engine-unreachable');
  });

  test('an engine that is down leaves those their cache who were verified, and nobody else', async () => {
    await ask(ALICE);
    engine.answerWith((response) => {
      response.destroy();
    });
    expect(shortStatus(await ask(ALICE))).toBe('hit');
    expect((await ask(ADMIN)).status).toBe(502);
    await gateway.reload(settings({ verified_for: 0 }));
    expect((await ask(ALICE)).status).toBe(502);
  });

  test('an engine that checks no logins lets nobody in, and the operator is told why', async () => {
    engine.answerWith(sendXml(rowsetAnswer()));
    expect((await ask(authorization('ADMIN', 'anything'))).status).toBe(502);
    expect(gateway.events).toContainEqual({
      type: 'warning',
      message: expect.stringContaining('all logins are refused'),
    });
    expect(queriesAtEngine()).toBe(0);
  });

  test('guessing is answered by 429 and no longer reaches the engine', async () => {
    const statuses: number[] = [];
    for (let n = 0; n < 12; n += 1) {
      statuses.push((await ask(authorization('alice', `guess ${n}`))).status);
    }
    expect(statuses).toEqual([...Array<number>(10).fill(401), 429, 429]);
    expect(trialsOf('alice')).toBe(10);
  });
});

test('the users file counts again when the provider is changed back', async () => {
  await ask(ALICE);
  await gateway.reload({ engine: { url: engine.url, login: 'none' } });
  expect((await ask(ALICE)).status).toBe(401);
  expect((await ask(authorization('alice', 'alice'))).status).toBe(200);
});
