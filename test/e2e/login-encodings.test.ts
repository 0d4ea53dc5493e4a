import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { faultAnswer, mddatasetAnswer, rowsetAnswer, SESSION_HEADER } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus } from '../support/http-client.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/** An engine that takes different bytes for different users, as one that reads ISO-8859-1 does. */
let engine: StubEngine;
let gateway: TestGateway;

const SESSION = /SessionId="([^"]+)"/.exec(SESSION_HEADER)?.[1] ?? '';
const login = (text: string, encoding: 'utf8' | 'latin1') =>
  `Basic ${Buffer.from(text, encoding).toString('base64')}`;
const UTF8 = login('müller:müller', 'utf8');
const LATIN1 = login('müller:müller', 'latin1');
const KNOWN = new Set([UTF8, LATIN1, login('alice:alice', 'utf8')]);
const bytesOf = (header = '') => Buffer.from(header.slice(6), 'base64').toString('hex');

beforeAll(async () => {
  engine = await startStubEngine((response, request) => {
    const { authorization = 'none' } = request.headers;
    const isKnown = authorization === 'none' || KNOWN.has(authorization);
    if (!isKnown) return sendXml(faultAnswer())(response, request);
    if (request.body.includes('DISCOVER_')) return sendXml(rowsetAnswer())(response, request);
    const header = request.body.includes('Session') ? SESSION_HEADER : '';
    const answer = mddatasetAnswer({ members: [bytesOf(authorization)], header });
    return sendXml(answer)(response, request);
  });
});
afterEach(() => gateway.close());
afterAll(() => engine.close());

const start = async (provider: 'file' | 'engine', forwards: boolean) => {
  const admins = ['ADMIN', 'müller'];
  gateway = await startTestGateway(
    {
      engine: { url: engine.url, kind: 'ssas', login: forwards ? 'forward' : 'none' },
      auth: { provider, admins },
      cache: { engine_permissions_ignored: false },
    },
    {},
    ['müller'],
  );
  engine.seen.length = 0;
};
const query = execute({ statement: 'SELECT FROM [Sales]' });
const ask = (authorization: string, body = query) =>
  askXmla(gateway.url, body, { headers: { authorization } });
const statuses = async (...logins: readonly string[]) => {
  const all: string[] = [];
  for (const one of logins) all.push(shortStatus(await ask(one)));
  return all;
};
const clear = async (authorization: string) =>
  (await send(gateway.url, { path: '/mdx/xmla/clearCache', headers: { authorization } })).status;
const principals = () =>
  gateway.events.flatMap((one) => (one.type === 'xmla-answered' ? one.principal : []));
const begin = execute({ statement: '', session: { kind: 'begin' } });
const inSession = execute({
  statement: 'SELECT FROM [Sales]',
  session: { kind: 'in', id: SESSION },
});

describe('a login in ISO-8859-1', () => {
  test('is that of the same user of the users file as in UTF-8, where the engine gets neither', async () => {
    await start('file', false);
    expect(await statuses(UTF8, LATIN1)).toEqual(['miss stored', 'hit']);
    expect(new Set(principals())).toEqual(new Set(['müller']));
    expect(shortStatus(await ask(UTF8, begin))).toBe('bypass not-a-query');
    expect(shortStatus(await ask(LATIN1, inSession))).toBe('miss stored');
    expect(shortStatus(await ask(UTF8, inSession))).toBe('hit');
    expect(await clear(LATIN1)).toBe(200);
  });

  test('goes on as it came, and is answered as the engine answers these bytes', async () => {
    await start('file', true);
    for (const status of ['miss stored', 'hit']) {
      for (const one of [UTF8, LATIN1]) {
        const answer = await ask(one);
        expect(shortStatus(answer)).toBe(status);
        expect(answer.text).toContain(`>${bytesOf(one)}<`);
      }
    }
    expect(engine.seen.map(({ headers }) => headers.authorization)).toEqual([UTF8, LATIN1]);
    // One user all the same.
    expect(new Set(principals())).toEqual(new Set(['müller']));
    expect(await clear(LATIN1)).toBe(200);
  });

  test('has no part in the session that the other one began at the engine', async () => {
    await start('file', true);
    await ask(UTF8, begin);
    expect(shortStatus(await ask(UTF8, inSession))).toBe('miss stored');
    expect(shortStatus(await ask(LATIN1, inSession))).toBe('bypass unknown-session');
  });

  test('is another principal where the engine checks, with no right that a list gives to the name in UTF-8', async () => {
    await start('engine', true);
    for (const status of ['miss stored', 'hit']) {
      for (const one of [UTF8, LATIN1]) {
        const answer = await ask(one);
        expect(shortStatus(answer)).toBe(status);
        expect(answer.text).toContain(`>${bytesOf(one)}<`);
      }
    }
    expect(principals()).toEqual(['müller', 'iso-8859-1:müller', 'müller', 'iso-8859-1:müller']);
    await ask(UTF8, begin);
    expect(shortStatus(await ask(LATIN1, inSession))).toBe('bypass unknown-session');
    expect([await clear(LATIN1), await clear(UTF8)]).toEqual([403, 200]);
  });

  test('of a password alone has the name’s own bytes, and so the same principal', async () => {
    KNOWN.add(login('alice:pässe', 'latin1'));
    await start('engine', true);
    expect(await statuses(login('alice:alice', 'utf8'), login('alice:pässe', 'latin1'))).toEqual([
      'miss stored',
      'hit',
    ]);
    expect(new Set(principals())).toEqual(new Set(['alice']));
  });

  test.each(['file', 'engine'] as const)(
    'that is wrong is answered by 401, and told once with the request (%s)',
    async (provider) => {
      await start(provider, true);
      const answer = await ask(login('müller:falsch ä', 'latin1'));
      expect(answer.status).toBe(401);
      expect(gateway.events.filter(({ type }) => type === 'login-refused')).toEqual([
        {
          type: 'login-refused',
          id: answer.headers['x-request-id'],
          reason: 'rejected',
          why: undefined,
          user: provider === 'file' ? 'müller' : undefined,
          address: expect.stringMatching(/127\.0\.0\.1$/),
        },
      ]);
    },
  );
});

describe('a login that cannot be read', () => {
  const token = (text: string) => Buffer.from(text).toString('base64');

  test.each([
    ['another scheme than Basic', 'Bearer s3cret'],
    ['another scheme than Basic', 'Negotiate s3cret'],
    ['no padded base64', 'Basic s3cret'],
    ['no padded base64', 'Basic'],
    ['no padded base64', 'Basic s3cret, Basic s3cret'],
    ['no user name with a colon behind it', `Basic ${token('s3cret')}`],
    ['no user name with a colon behind it', `Basic ${token(':s3cret')}`],
    ['a control character', `Basic ${token('s3cret\u0007:x')}`],
    ['longer than 4096 characters', `Basic ${token('s3cret:'.repeat(600))}`],
    ['its password is one that cannot be checked', `Basic ${token(`a:${'s3cret'.repeat(13)}`)}`],
  ])('is told with the reason: %s (%s)', async (why, authorization) => {
    await start('file', false);
    const told: unknown[] = [];
    for (const path of ['/mdx/xmla', '/api/roles', '/metrics', '/mdx/xmla/clearCache']) {
      const isXmla = path === '/mdx/xmla';
      const answer = await send(gateway.url, {
        method: isXmla ? 'POST' : 'GET',
        path,
        headers: { authorization, 'content-type': 'text/xml' },
        ...(isXmla && { body: query }),
      });
      expect(answer.status).toBe(401);
      told.push({ reason: 'malformed', why, user: undefined, id: answer.headers['x-request-id'] });
    }
    const lines = gateway.events.filter(({ type }) => type === 'login-refused');
    expect(lines).toMatchObject(told);
    expect(JSON.stringify(lines)).not.toContain('s3cret');
  });

  test('is not told of a first request without one, as browsers and Excel send it', async () => {
    await start('file', false);
    await send(gateway.url, { method: 'POST', body: query });
    await ask('');
    expect(gateway.events.filter(({ type }) => type === 'login-refused')).toEqual([]);
  });
});
