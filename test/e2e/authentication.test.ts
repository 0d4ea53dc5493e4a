import { afterAll, beforeEach, describe, expect, test } from '@jest/globals';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus, type Answer } from '../support/http-client.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const engine = shared(() => startStubEngine(sendXml(mddatasetAnswer())));
let gateway: TestGateway;
const query = execute({ statement: 'SELECT FROM [Sales]' });

/** A new one each time, so that no test is throttled by the failures of another. */
beforeEach(async () => {
  engine.seen.length = 0;
  await gateway?.close();
  gateway = await startTestGateway({ engine: { url: engine.url }, limits: { head: '64KiB' } });
});
afterAll(() => gateway.close());

const token = (text: string) => Buffer.from(text).toString('base64');
const ask = (authorization: string | undefined, path = '/mdx/xmla') =>
  send(gateway.url, {
    method: 'POST',
    path,
    headers: { 'content-type': 'text/xml', ...(authorization !== undefined && { authorization }) },
    body: query,
  });

const REFUSED: readonly (readonly [what: string, authorization: string | undefined])[] = [
  ['no header', undefined],
  ['an empty header', ''],
  ['a wrong password', `Basic ${token('alice:wrong')}`],
  ['an unknown user', `Basic ${token('nobody:alice')}`],
  ['another spelling of a user', `Basic ${token('Alice:alice')}`],
  ['no colon', `Basic ${token('alice')}`],
  ['no base64', 'Basic !!!!'],
  ['nothing after the scheme', 'Basic'],
  ['Negotiate', 'Negotiate YIIJvwYGKwYBBQUC'],
  ['a Kerberos token of 50 KB', `Negotiate ${'A'.repeat(50_000)}`],
  ['NTLM', 'NTLM TlRMTVNTUAABAAAAB4IIogAAAAAAAAAAAAAAAAAAAAAKALpHAAAADw=='],
  ['Bearer', 'Bearer eyJhbGciOiJub25lIn0.e30.'],
];

describe('a login that is refused', () => {
  const sameForAll = (answers: readonly Answer[]) => {
    const told = answers.map(({ status, body, headers }) => {
      const { date: _now, 'x-request-id': id, ...rest } = headers;
      return JSON.stringify([status, rest, body.toString().replaceAll(String(id), '')]);
    });
    expect(new Set(told).size).toBe(1);
  };

  test('is answered on /mdx/xmla by the same Fault, whatever was wrong', async () => {
    const answers: Answer[] = [];
    for (const [, authorization] of REFUSED) answers.push(await ask(authorization));
    sameForAll(answers);
    const [answer] = answers;
    expect(answer?.status).toBe(401);
    expect(answer?.headers).toMatchObject({
      'content-type': 'text/xml; charset=utf-8',
      'www-authenticate': 'Basic realm="mdx-gateway", charset="UTF-8"',
      'cache-status': 'mdx-gateway; detail=unauthenticated',
      age: '0',
    });
    expect(answer?.text).toContain('<SOAP-ENV:Fault>');
    expect(engine.seen).toEqual([]);
  });

  test('in the query is told where it belongs', async () => {
    const answer = await ask(undefined, '/mdx/xmla?userid=alice&password=alice');
    expect(answer.status).toBe(401);
    expect(answer.text).toContain('in the header Authorization (HTTP Basic authentication)');
    expect(engine.seen).toEqual([]);
  });

  test('is answered on /api by the same envelope, whatever was wrong', async () => {
    const answers: Answer[] = [];
    for (const [, authorization] of REFUSED) answers.push(await ask(authorization, '/api/roles'));
    sameForAll(answers);
    expect(answers[0]?.status).toBe(401);
    expect(answers[0]?.headers['www-authenticate']).toMatch(/^Basic /);
    expect(JSON.parse(answers[0]?.text ?? '')).toEqual({
      status: 1,
      data: 'failure',
      errorMesg: expect.stringMatching(/^\[UNAUTHENTICATED\] /),
      code: 'unauthenticated',
    });
  });

  test.each(['GET', 'HEAD', 'OPTIONS', 'PUT', 'TRACE'])(
    'keeps %s from the engine too',
    async (method) => {
      const answer = await send(gateway.url, { method });
      expect(answer.status).toBe(401);
      expect(engine.seen).toEqual([]);
    },
  );

  test('gives nobody an answer from the cache', async () => {
    await askXmla(gateway.url, query);
    expect(shortStatus(await askXmla(gateway.url, query))).toBe('hit');
    expect((await ask(`Basic ${token('alice:wrong')}`)).status).toBe(401);
    expect((await ask(undefined)).status).toBe(401);
  });

  test('leaves no trace of a project name in the metrics', async () => {
    await ask(undefined, '/mdx/xmla/InventedByNobody');
    await askXmla(gateway.url, query, { path: '/mdx/xmla/KnownProject' });
    const page = await send(gateway.url, {
      path: '/metrics',
      headers: { authorization: basic('alice') },
    });
    expect(page.text.match(/KnownProject|InventedByNobody/g)).toContain('KnownProject');
    expect(page.text.match(/InventedByNobody/g)).toBeNull();
  });
});

describe('guessing', () => {
  const guess = (n: number, headers: Record<string, string> = {}) =>
    send(gateway.url, {
      method: 'POST',
      headers: { authorization: `Basic ${token(`alice:guess-${n}`)}`, ...headers },
      body: query,
    });

  test('is answered by 429 with Retry-After, and does not lock out who knows the password elsewhere', async () => {
    const answers: Answer[] = [];
    for (let n = 0; n < 11; n += 1) answers.push(await guess(n));
    expect(answers.map(({ status }) => status)).toEqual([...Array<number>(10).fill(401), 429]);
    const last = answers.at(-1);
    expect(Number(last?.headers['retry-after'])).toBeGreaterThan(0);
    expect(last?.headers).not.toHaveProperty('www-authenticate');
    expect(shortStatus(last ?? { headers: {} })).toBe('gateway throttled');
    expect(last?.text).toContain('<SOAP-ENV:Fault>');
    expect(engine.seen).toEqual([]);
    expect((await askXmla(gateway.url, query, { user: 'bob' })).status).toBe(200);
  });

  test('gains nothing by invented addresses in X-Forwarded-For', async () => {
    const statuses: number[] = [];
    for (let n = 0; n < 11; n += 1) {
      statuses.push((await guess(n, { 'x-forwarded-for': `10.0.${n}.1` })).status);
    }
    expect(statuses.at(-1)).toBe(429);
  });

  test('is counted by the address that a trusted proxy names', async () => {
    await gateway.reload({
      engine: { url: engine.url },
      listen: { trusted_proxies: ['127.0.0.0/8', '10.9.0.0/16'] },
    });
    const statusFrom = async (n: number, forwarded: string) =>
      (await guess(n, { 'x-forwarded-for': forwarded })).status;
    for (let n = 0; n < 10; n += 1) expect(await statusFrom(n, '192.0.2.1')).toBe(401);
    expect(await statusFrom(10, '192.0.2.1')).toBe(429);
    expect(await statusFrom(11, '198.51.100.7')).toBe(401);
    // Addresses in front of the nearest one that is not trusted are the client's own invention.
    expect(await statusFrom(12, '198.51.100.8, 192.0.2.1')).toBe(429);
    expect(await statusFrom(13, '192.0.2.1, 10.9.1.1')).toBe(429);
    const addresses = gateway.events.flatMap((event) =>
      event.type === 'login-refused' ? [event.address] : [],
    );
    expect(new Set(addresses)).toEqual(new Set(['192.0.2.1', '198.51.100.7']));
  });
});
