import { beforeEach, describe, expect, test } from '@jest/globals';
import { deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { execute } from '../support/envelopes.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { askXmla, portOf, send, sendRaw, shortStatus } from '../support/http-client.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const LIMIT = 64 * 1024;

const engine = shared(() => startStubEngine(sendXml(mddatasetAnswer())));
const gateway = shared(() =>
  startTestGateway({
    // Where sessions hold no state, nobody looks for them in answers that pass.
    engine: { url: engine.url, kind: 'mondrian' },
    limits: { body: LIMIT },
  }),
);
/** Never cacheable, so that it is passed through. */
const body = execute({ statement: 'CREATE SESSION CUBE [ä]', prefix: 'soap' });

beforeEach(() => {
  engine.seen.length = 0;
  engine.answerWith(sendXml(mddatasetAnswer()));
});

const lastSeen = () => {
  const last = engine.seen.at(-1);
  if (last === undefined) throw new Error('nothing reached the engine');
  return last;
};

describe('the body of a request', () => {
  test('reaches the engine byte for byte, with its own length', async () => {
    const answer = await askXmla(gateway.url, body);
    expect(shortStatus(answer)).toBe('bypass not-a-query');
    expect(lastSeen().body).toEqual(body);
    expect(lastSeen().headers['content-length']).toBe(String(body.length));
    expect(lastSeen().headers['transfer-encoding']).toBeUndefined();
  });

  test('that came in chunks goes out with a length', async () => {
    const answer = await send(gateway.url, {
      method: 'POST',
      headers: {
        authorization: basic('alice'),
        'content-type': 'text/xml',
        'transfer-encoding': 'chunked',
      },
      body,
    });
    expect(answer.status).toBe(200);
    expect(lastSeen().body).toEqual(body);
    expect(lastSeen().headers['content-length']).toBe(String(body.length));
    expect(lastSeen().headers['transfer-encoding']).toBeUndefined();
  });

  test.each([1, 7, 100, 5_000])(
    'that came in chunks of %i bytes, all in one write, has all of them',
    async (size) => {
      const long = execute({ statement: `CREATE SESSION CUBE [${'ä'.repeat(10_000)}]` });
      const chunks = Array.from({ length: Math.ceil(long.length / size) }, (_, at) =>
        long.subarray(at * size, (at + 1) * size),
      );
      const framed = chunks.flatMap((chunk) => [
        Buffer.from(`${chunk.length.toString(16)}\r\n`),
        chunk,
        Buffer.from('\r\n'),
      ]);
      const head =
        `POST /mdx/xmla HTTP/1.1\r\nhost: x\r\nauthorization: ${basic('alice')}\r\n` +
        `connection: close\r\ncontent-type: text/xml\r\ntransfer-encoding: chunked\r\n\r\n`;
      const whole = Buffer.concat([Buffer.from(head), ...framed, Buffer.from('0\r\n\r\n')]);
      const { bytes } = await sendRaw(portOf(gateway.url), whole);
      expect(bytes.toString('latin1')).toMatch(/^HTTP\/1.1 200 /);
      expect(lastSeen().body.equals(long)).toBe(true);
    },
  );

  test.each([
    ['gzip', gzipSync(body)],
    ['x-gzip', gzipSync(body)],
    ['GZip', gzipSync(body)],
    ['deflate', deflateSync(body)],
    ['deflate', deflateRawSync(body)],
    ['identity', body],
  ])('in the coding %s reaches the engine without it', async (coding, coded) => {
    const answer = await askXmla(gateway.url, coded, { headers: { 'content-encoding': coding } });
    expect(answer.status).toBe(200);
    expect(lastSeen().body).toEqual(body);
    expect(lastSeen().headers['content-encoding']).toBeUndefined();
    expect(lastSeen().headers['content-length']).toBe(String(body.length));
  });

  test.each([
    ['an unknown coding', 'br', body, 415, 'content-coding'],
    ['two codings', 'gzip, gzip', gzipSync(gzipSync(body)), 415, 'content-coding'],
    ['a broken gzip', 'gzip', gzipSync(body).subarray(0, 40), 400, 'bad-request'],
    ['plain text called gzip', 'gzip', body, 400, 'bad-request'],
    ['plain text called deflate', 'deflate', body, 400, 'bad-request'],
    ['a zip bomb', 'gzip', gzipSync(Buffer.alloc(64 * LIMIT)), 413, 'too-big'],
    ['a deflate bomb', 'deflate', deflateSync(Buffer.alloc(64 * LIMIT)), 413, 'too-big'],
    ['a raw deflate bomb', 'deflate', deflateRawSync(Buffer.alloc(64 * LIMIT)), 413, 'too-big'],
    ['more than the limit', 'identity', Buffer.alloc(LIMIT + 1, 'x'), 413, 'too-big'],
  ] as const)('with %s is refused by a Fault', async (_what, coding, coded, status, reason) => {
    const answer = await askXmla(gateway.url, coded, { headers: { 'content-encoding': coding } });
    expect(answer.status).toBe(status);
    expect(shortStatus(answer)).toBe(`gateway ${reason}`);
    expect(answer.headers['content-type']).toBe('text/xml; charset=utf-8');
    expect(answer.text).toContain('<SOAP-ENV:Fault>');
    expect(engine.seen).toEqual([]);
  });

  test('says which codings are allowed when it came in another', async () => {
    const answer = await askXmla(gateway.url, body, { headers: { 'content-encoding': 'br' } });
    expect(answer.headers['accept-encoding']).toBe('gzip, deflate');
  });

  test('in chunks that grow over the limit is answered by 413, not by a broken connection', async () => {
    const answer = await send(gateway.url, {
      method: 'POST',
      headers: {
        authorization: basic('alice'),
        'content-type': 'text/xml',
        'transfer-encoding': 'chunked',
      },
      body: Buffer.alloc(20 * LIMIT, 'x'),
    });
    expect(answer.status).toBe(413);
    expect(answer.text).toContain('limits.body');
  });

  test('announced as larger than the limit is answered by 413, however much of it is sent', async () => {
    const answer = await send(gateway.url, {
      method: 'POST',
      headers: { authorization: basic('alice'), 'content-length': String(200 * LIMIT) },
      body: Buffer.alloc(200 * LIMIT, 'x'),
    });
    expect(answer.status).toBe(413);
  });
});

describe('the answer of the engine', () => {
  test('reaches the client with its status, headers and bytes', async () => {
    const bytes = Buffer.from([0xff, 0x00, 0x3c, 0x80]);
    engine.answerWith((response) => {
      response.writeHead(418, 'Teapot', {
        'content-type': 'application/sx+xpress',
        'x-as-activityid': 'one',
        'mdx-query-id': 'two',
        'content-length': bytes.length,
      });
      response.end(bytes);
    });
    const answer = await askXmla(gateway.url, body);
    expect(answer.status).toBe(418);
    expect(answer.body).toEqual(bytes);
    expect(answer.headers).toMatchObject({
      'content-type': 'application/sx+xpress',
      'x-as-activityid': 'one',
      'mdx-query-id': 'two',
      'content-length': '4',
    });
  });

  test.each([301, 302, 307, 308])('%i is passed on and not followed', async (status) => {
    engine.answerWith((response) => {
      response.writeHead(status, { location: `${engine.url}/elsewhere` });
      response.end();
    });
    const answer = await askXmla(gateway.url, body);
    expect([answer.status, answer.headers.location]).toEqual([status, `${engine.url}/elsewhere`]);
    expect(engine.seen).toHaveLength(1);
  });

  test.each([204, 304])(
    '%i comes without a body, and with no length of its own',
    async (status) => {
      engine.answerWith((response) => {
        response.writeHead(status, { etag: '"a"' });
        response.end();
      });
      for (const asked of [body, execute({ statement: `SELECT FROM [a${status}]` })]) {
        const answer = await askXmla(gateway.url, asked);
        expect([answer.status, answer.headers.etag, answer.body.length]).toEqual([
          status,
          '"a"',
          0,
        ]);
        expect(answer.headers['content-length']).toBeUndefined();
      }
    },
  );

  test('is the last one, whatever provisional answers come before it', async () => {
    engine.answerWith((response) => {
      response.writeEarlyHints({ link: '</style>; rel=preload' });
      response.writeProcessing();
      response.end('done');
    });
    const answer = await askXmla(gateway.url, body);
    expect([answer.status, answer.text]).toEqual([200, 'done']);
  });

  test('in a coding that the client asked for stays in it', async () => {
    const coded = gzipSync('hello');
    engine.answerWith((response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' });
      response.end(coded);
    });
    const answer = await askXmla(gateway.url, body, { headers: { 'accept-encoding': 'gzip' } });
    expect(lastSeen().headers['accept-encoding']).toBe('gzip');
    expect(answer.headers['content-encoding']).toBe('gzip');
    expect(answer.body).toEqual(coded);
  });
});

describe('other methods', () => {
  test.each(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'])('%s is passed through', async (method) => {
    engine.answerWith((response) => {
      response.writeHead(200, { 'content-type': 'text/plain', allow: 'POST' });
      response.end('wsdl');
    });
    const answer = await send(gateway.url, {
      method,
      path: '/mdx/xmla?wsdl',
      headers: { authorization: basic('alice') },
    });
    expect(shortStatus(answer)).toBe('bypass method');
    expect(answer.status).toBe(200);
    expect(answer.headers.allow).toBe('POST');
    expect(answer.text).toBe(method === 'HEAD' ? '' : 'wsdl');
    expect([lastSeen().method, lastSeen().url]).toEqual([method, '/xmla?wsdl']);
  });

  test('PUT keeps its body', async () => {
    await askXmla(gateway.url, body, { method: 'PUT' });
    expect(lastSeen().body).toEqual(body);
  });

  test.each(['TRACE'])(
    '%s is refused, since it would show what the gateway sends',
    async (method) => {
      const answer = await send(gateway.url, {
        method,
        headers: { authorization: basic('alice') },
      });
      expect(answer.status).toBe(405);
      expect(answer.headers.allow).toBe('POST, GET, HEAD, OPTIONS');
      expect(engine.seen).toEqual([]);
    },
  );
});

test('what was not understood of a request is told to the operator', async () => {
  const odd = execute({ statement: 'SELECT FROM [Sales]' })
    .toString()
    .replace('</Command>', '</Command><Hint/>');
  await askXmla(gateway.url, Buffer.from(odd));
  const told = gateway.events.findLast(({ type }) => type === 'xmla-answered');
  expect(told).toMatchObject({ outcome: { kind: 'bypass', detail: 'unknown-shape' } });
  expect(JSON.stringify(told)).toMatch(/"why":"[^"]*Hint/);
});
