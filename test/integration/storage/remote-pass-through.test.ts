import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { gzipSync } from 'node:zlib';
import { portOf } from '../../support/http-client.ts';
import { gate, sendXml, startStubEngine, type StubEngine } from '../../support/stub-engine.ts';
import { basic } from '../../support/test-gateway.ts';
import {
  ask,
  CHANGES,
  DOCUMENT,
  failureOf,
  LIMITS,
  openRemoteHouse,
  READS,
  type RemoteHouse,
} from './remote-house.ts';

let remote: StubEngine;
let house: RemoteHouse;

beforeAll(async () => {
  remote = await startStubEngine(() => {});
  // Its base path is /xmla.
  house = await openRemoteHouse(remote.url);
});
afterAll(async () => {
  await house.close();
  await remote.close();
});
beforeEach(() => {
  remote.answerWith(sendJson('{"status":0,"data":"success"}'));
});
afterEach(() => {
  remote.seen.length = 0;
  house.invalidated.length = 0;
});

const sendJson = (body: Buffer | string, head: Parameters<typeof sendXml>[1] = {}) =>
  sendXml(body, { ...head, headers: { 'content-type': 'application/json', ...head.headers } });

test.each([
  [
    'POST',
    '/role',
    '{"name":"Sales","contains":[{"type":"user","name":"bob"}]}',
    'role Sales, user bob',
  ],
  ['POST', '/role', '{"name":"Sales"}', 'role Sales'],
  ['POST', '/role', '{"name":', 'role'],
  ['PUT', '/role/2', '{"name":"Sales","contains":[7]}', 'role Sales (id 2)'],
  ['DELETE', '/role/2', undefined, 'role (id 2)'],
  ['PUT', '/dataset', DOCUMENT, 'dataset d of project Mart'],
  ['PUT', '/dataset', '{}', ''],
])(
  'the log tells of which role or dataset a change is: %s %s',
  async (method, path, body, subject) => {
    await ask(house, method, path, body);
    expect(house.events.at(-1)).toMatchObject({ type: 'api-answered', changes: true, subject });
  },
);

const SENT_CHANGES = CHANGES.map(([method, path, body]) => [method, path, body] as const);
const EVERYTHING = [...SENT_CHANGES, ...READS.map((path) => ['GET', path, undefined] as const)];

describe.each(EVERYTHING)('%s %s', (method, path, body) => {
  test('reaches the server as it was sent, below its base path, once', async () => {
    const answer = await ask(house, method, path, body);
    expect([answer.status, answer.text]).toEqual([200, '{"status":0,"data":"success"}']);
    expect(remote.seen.map((seen) => [seen.method, seen.url, seen.body.toString()])).toEqual([
      [method, `/xmla/api${path}`, body ?? ''],
    ]);
    const [{ headers }] = remote.seen as [(typeof remote.seen)[0]];
    expect(headers['content-type']).toBe(body && 'application/json;charset=utf8');
    expect(headers['transfer-encoding']).toBeUndefined();
  });

  test('is answered as the server answers, whatever that is', async () => {
    for (const status of [200, 201, 204, 206, 400, 404, 409, 418, 500, 503]) {
      const text = status === 204 ? '' : `{"status":1,"of":${status},"ü":"\\u0000"}`;
      remote.answerWith((response) => {
        response.writeHead(status, 'As It Likes', {
          'content-type': 'application/json; charset=UTF-8',
          'cache-control': 'max-age=60',
          'retry-after': '7',
          'x-more': ['a', 'b'],
        });
        response.end(text);
      });
      const answer = await ask(house, method, path, body);
      expect([answer.status, answer.text, answer.whole]).toEqual([status, text, true]);
      expect(answer.headers).toMatchObject({
        'content-type': 'application/json; charset=UTF-8',
        'cache-control': 'no-store',
        'retry-after': '7',
        'x-more': 'a, b',
      });
    }
    expect(remote.seen).toHaveLength(10);
  });

  test('is 503 when the server redirects it, and does not tell where to', async () => {
    for (const status of [300, 301, 302, 304, 307]) {
      remote.answerWith((response) => {
        response.writeHead(status, { location: 'http://10.0.0.7/api' }).end();
      });
      const answer = await ask(house, method, path, body);
      expect(failureOf(answer)).toMatch(/^503 \[storage-unavailable\] .* correct storage\.url/);
      expect(failureOf(answer).includes('not known')).toBe(method !== 'GET');
      expect(answer.headers).not.toHaveProperty('location');
    }
  });

  test('of nobody whom the gateway knows is 401, and nothing is sent', async () => {
    for (const authorization of ['', 'Basic eDp5', `${basic('ADMIN')}x`]) {
      const answer = await ask(house, method, path, body, { authorization });
      expect(failureOf(answer)).toMatch(/^401 \[unauthenticated\] /);
      expect(answer.headers['www-authenticate']).toMatch(/^Basic /);
    }
    expect(remote.seen).toEqual([]);
  });
});

test.each(READS)('HEAD %s has the head of the answer and no body', async (path) => {
  remote.answerWith((response) => {
    response
      .writeHead(200, { 'content-type': 'application/json', 'content-length': '12345' })
      .end();
  });
  const answer = await ask(house, 'HEAD', path);
  expect([answer.status, answer.text, answer.whole]).toEqual([200, '', true]);
  expect(answer.headers['content-length']).toBe('12345');
  expect(remote.seen.map(({ method, url }) => [method, url])).toEqual([
    ['HEAD', `/xmla/api${path}`],
  ]);
});

test('OPTIONS, other methods and other paths are answered by the gateway', async () => {
  const options = await ask(house, 'OPTIONS', '/dataset');
  expect([options.status, options.headers.allow]).toEqual([204, 'GET, HEAD, POST, PUT, OPTIONS']);
  const patch = await ask(house, 'PATCH', '/dataset', '{}');
  expect(failureOf(patch)).toMatch(/^405 \[method-not-allowed\] /);
  expect(patch.headers.allow).toBe('GET, HEAD, POST, PUT, OPTIONS');
  for (const path of [
    '/',
    '/Role/1',
    '/role/1/2',
    '/datasets/mdx/p',
    '/datasets/MDX/a/b',
    '//role/1',
  ]) {
    expect(failureOf(await ask(house, 'GET', path))).toMatch(/^404 \[not-found\] /);
  }
  expect(remote.seen).toEqual([]);
});

describe('a change', () => {
  test.each(SENT_CHANGES)(
    '%s %s by somebody who may only read is 403, and nothing is sent',
    async (method, path, body) => {
      const answer = await ask(house, method, path, body, { authorization: basic('alice') });
      expect(failureOf(answer)).toMatch(/^403 \[forbidden\] /);
      expect([remote.seen, house.invalidated]).toEqual([[], []]);
    },
  );

  test.each([
    ['origin', 'http://elsewhere.example'],
    ['referer', 'http://elsewhere.example/page'],
    ['sec-fetch-site', 'cross-site'],
  ])('that a page of another site sends (%s) is 403, and nothing is sent', async (name, value) => {
    const answer = await ask(house, 'PUT', '/dataset', DOCUMENT, { [name]: value });
    expect(failureOf(answer)).toMatch(/^403 \[forbidden\] /);
    expect(remote.seen).toEqual([]);
  });

  test.each(['text/plain', 'application/x-www-form-urlencoded', ''])(
    'as a page of another site could send it (%j) is 415, and nothing is sent',
    async (type) => {
      const answer = await ask(house, 'POST', '/role', '{}', { 'content-type': type });
      expect(failureOf(answer)).toMatch(/^415 \[media-type\] /);
      expect(remote.seen).toEqual([]);
    },
  );

  test('without a body reaches the server without one', async () => {
    for (const [method, path] of [
      ['POST', '/role'],
      ['PUT', '/dataset'],
    ] as const) {
      expect((await ask(house, method, path)).status).toBe(200);
    }
    expect(
      remote.seen.map(({ headers, body }) => [headers['content-length'], body.length]),
    ).toEqual([
      ['0', 0],
      ['0', 0],
    ]);
  });

  test('that is too long is 413, and nothing is sent', async () => {
    const long = (length: number) => JSON.stringify({ name: 'x'.repeat(length) });
    const role = await ask(house, 'POST', '/role', long(LIMITS.body));
    expect(failureOf(role)).toMatch(/^413 \[too-big\] .*\(limits\.body\)/);
    const dataset = await ask(house, 'PUT', '/dataset', long(LIMITS.dataset));
    expect(failureOf(dataset)).toMatch(/^413 \[too-big\] .*\(limits\.dataset\)/);
    expect(remote.seen).toEqual([]);
    expect((await ask(house, 'PUT', '/dataset', long(LIMITS.body))).status).toBe(200);
  });

  test('loses the content coding of its body, and nothing else of it', async () => {
    const body = Buffer.from('\ufeff {"name": "ü", "name": 12345678901234567890} \n');
    const coded = gzipSync(body);
    const headers = { 'content-encoding': 'gzip', 'content-length': String(coded.length) };
    await ask(house, 'POST', '/role', coded, headers);
    await ask(house, 'PUT', '/dataset', coded, headers);
    for (const seen of remote.seen) {
      expect(seen.body).toEqual(body);
      expect(seen.headers['content-encoding']).toBeUndefined();
      expect(seen.headers['content-length']).toBe(String(body.length));
    }
    expect(remote.seen).toHaveLength(2);
  });

  test('in chunks reaches the server with its length', async () => {
    const request = httpRequest({
      port: portOf(house.url),
      path: '/api/role',
      method: 'POST',
      headers: { authorization: basic('ADMIN'), 'content-type': 'application/json' },
    });
    request.write('{"name":');
    request.end('"a"}');
    const [answer] = (await once(request, 'response')) as [IncomingMessage];
    answer.resume();
    expect(remote.seen[0]?.headers['content-length']).toBe('12');
    expect(remote.seen[0]?.body.toString()).toBe('{"name":"a"}');
  });
});

describe('20 MB', () => {
  const text = randomBytes(10_000_000).toString('hex');

  test('reach the server byte for byte', async () => {
    const document = DOCUMENT.replace('}', `,"x":"${text}"}`);
    const answer = await ask(house, 'POST', '/dataset?createType=import', document);
    expect(answer.status).toBe(200);
    expect(remote.seen[0]?.body.equals(Buffer.from(document))).toBe(true);
    expect(house.invalidated).toEqual([[{ project: 'Mart' }, 'ADMIN', 'after']]);
  });

  test('reach the client byte for byte', async () => {
    remote.answerWith(sendJson(text));
    const answer = await ask(house, 'GET', READS[2]);
    expect([answer.status, answer.whole]).toEqual([200, true]);
    expect(answer.body.equals(Buffer.from(text))).toBe(true);
  });
});

test('bytes that are no text reach the client as they are, coded or not', async () => {
  const bytes = randomBytes(3_000);
  remote.answerWith(sendJson(bytes, { headers: { 'content-encoding': 'br', etag: '"x"' } }));
  const answer = await ask(house, 'GET', READS[2], undefined, { 'accept-encoding': 'br' });
  expect(answer.body.equals(bytes)).toBe(true);
  expect(answer.headers).toMatchObject({ 'content-encoding': 'br', etag: '"x"' });
  expect(remote.seen[0]?.headers['accept-encoding']).toBe('br');
});

test('an export reaches the client while the server still sends it', async () => {
  const rest = gate();
  remote.answerWith(async (response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).write('{"first":1,');
    await rest.opened;
    response.end('"last":2}');
  });
  const request = httpRequest({
    port: portOf(house.url),
    path: `/api${READS[2]}`,
    headers: { authorization: basic('alice') },
  }).end();
  const [answer] = (await once(request, 'response')) as [IncomingMessage];
  const [first] = (await once(answer, 'data')) as [Buffer];
  expect(first.toString()).toBe('{"first":1,');
  rest.open();
  const [last] = (await once(answer, 'data')) as [Buffer];
  expect(last.toString()).toBe('"last":2}');
});
