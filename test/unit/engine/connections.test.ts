import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import * as fc from 'fast-check';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import {
  createConnections,
  NotUnderstood,
  type Connections,
  type EngineQuery,
} from '../../../src/engine/queries.ts';
import type { UpstreamAnswer } from '../../../src/proxy/forwarded.ts';
import {
  ClientStall,
  createUpstream,
  NotConnected,
  Silence,
  StaleConnection,
} from '../../../src/proxy/upstream.ts';
import { makeAuthority } from '../../support/certificates.ts';
import { until } from '../../support/http-client.ts';
import { startRawEngine, wholeAnswer, type RawEngine } from '../../support/raw-engine.ts';
import { sizes } from '../../support/sizes.ts';

let engine: RawEngine;
let connections: Connections;
/** How answers ended. */
let over: (Error | null)[];

const open = (url: string, pem: { ca?: string; certificate?: string; key?: string } = {}) => {
  const none = { ca: undefined, certificate: undefined, key: undefined };
  return createConnections(createUpstream({ url, ...none, ...pem }, true));
};

beforeEach(async () => {
  over = [];
  engine = await startRawEngine((socket) => socket.write(wholeAnswer('<a/>')));
  connections = open(engine.url);
});
afterEach(async () => {
  connections.close();
  await engine.close();
});

const LONG = 60_000;
/** So long that a connection is made, and a head comes, before it is over, also on a busy machine (ms). */
const SILENCE = 1_000;

async function send(changed: Partial<EngineQuery> = {}, connectLimit?: number) {
  const query: EngineQuery = {
    path: '/xmla',
    headers: { 'content-type': 'text/xml', 'content-length': '4' },
    body: Buffer.from('<q/>'),
    signal: new AbortController().signal,
    timeout: LONG,
    connectLimit,
    ...changed,
  };
  const answer = await connections.send(query);
  answer.once('close', () => over.push(answer.errored));
  return answer;
}

async function textOf(answer: UpstreamAnswer): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

const ask = async () => textOf(await send());

describe('connections for queries', () => {
  test('are used again, the last one first, and one for each query at one time', async () => {
    const used: Socket[] = [];
    engine.answerWith((socket) => {
      used.push(socket);
      socket.write(wholeAnswer('<a/>'));
    });
    expect(await Promise.all([ask(), ask()])).toEqual(['<a/>', '<a/>']);
    expect(new Set(used).size).toBe(2);
    for (let index = 0; index < 3; index += 1) expect(await ask()).toBe('<a/>');
    expect(new Set(used.slice(2)).size).toBe(1);
    expect(engine.sockets.size).toBe(2);
    expect(over).toEqual([null, null, null, null, null]);
  });

  test('carry the head and the body as they are given, with their host', async () => {
    await textOf(await send({ headers: { 'content-type': 'text/xml', 'x-odd': '\u{E9}' } }));
    const { host } = new URL(engine.url);
    expect(engine.seen[0]?.split('\r\n').toSorted()).toEqual(
      [
        'POST /xmla HTTP/1.1',
        `host: ${host}`,
        'connection: keep-alive',
        'content-type: text/xml',
        'x-odd: \u{E9}',
        'content-length: 4',
        '',
        '<q/>',
      ].toSorted(),
    );
  });

  test('that the engine has closed are told apart from those that it closes at once', async () => {
    engine.answerWith((socket) => socket.destroy());
    await expect(send()).rejects.not.toBeInstanceOf(StaleConnection);
    engine.answerWith((socket) => socket.write(wholeAnswer('<a/>')));
    await ask();
    engine.answerWith((socket) => socket.destroy());
    await expect(send()).rejects.toBeInstanceOf(StaleConnection);
    engine.answerWith((socket) => socket.write(wholeAnswer('<a/>')));
    await ask();
    // The engine was at work on it.
    engine.answerWith((socket) => socket.end('HTTP/1.1 200 OK\r\nConte'));
    await expect(send()).rejects.not.toBeInstanceOf(StaleConnection);
  });

  test.each([
    ['says so', 'Connection: close\r\n', true],
    ['says so among others', 'Connection: X-Odd , Close\r\n', true],
    ['gives no length', '', false],
  ])(
    'that the engine ends behind its answer are not used again: it %s',
    async (_how, line, hasLength) => {
      const used: Socket[] = [];
      engine.answerWith((socket) => {
        used.push(socket);
        const length = hasLength ? 'Content-Length: 4\r\n' : '';
        const head = `HTTP/1.1 200 OK\r\n${line}${length}Content-Type: text/xml\r\n\r\n`;
        if (hasLength) socket.write(`${head}<a/>`);
        else socket.end(`${head}<a/>`);
      });
      // In the very turn in which the answer before was over.
      for (let index = 0; index < 5; index += 1) expect(await ask()).toBe('<a/>');
      expect(new Set(used).size).toBe(5);
      expect(over).toEqual([null, null, null, null, null]);
    },
  );

  test('that cannot be made have sent nothing', async () => {
    await engine.close();
    await expect(send()).rejects.toBeInstanceOf(NotConnected);
    engine = await startRawEngine(() => {});
  });

  test('on which TLS is not agreed in time have sent nothing, and are ended', async () => {
    connections.close();
    connections = open(engine.url.replace('http', 'https'));
    await expect(send({}, 50)).rejects.toBeInstanceOf(NotConnected);
    await until(() => engine.sockets.size === 0);
    const silent = send({ timeout: 50 });
    await expect(silent).rejects.toMatchObject({ cause: expect.any(Silence) });
    await until(() => engine.sockets.size === 0);
  });

  test.each([
    ['the head', 0],
    ['the rest of the body', wholeAnswer('<late/>').length - 3],
  ])('read first what came while this process stood still: %s', async (_, from) => {
    const whole = wholeAnswer('<late/>');
    const asked = Promise.withResolvers<Socket>();
    engine.answerWith((socket) => asked.resolve(socket));
    const sent = send({ timeout: SILENCE });
    const socket = await asked.promise;
    if (from > 0) {
      socket.write(whole.slice(0, from));
      await sent;
    }
    socket.write(whole.slice(from));
    const until = performance.now() + SILENCE;
    while (performance.now() < until);
    expect(await textOf(await sent)).toBe('<late/>');
  });

  test('give up an engine that sends on without saying anything', async () => {
    engine.answerWith((socket) => {
      // The name of a chunk extension that never ends.
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x');
      const goOn = () => socket.destroyed || socket.write('x', () => setImmediate(goOn));
      goOn();
    });
    const answer = await send({ timeout: SILENCE });
    await expect(textOf(answer)).rejects.toBeInstanceOf(Silence);
  });

  test('know the engine by its authority, and show the certificate of the gateway', async () => {
    const authority = makeAuthority();
    const { certificate, key } = authority.issue('engine');
    const ca = authority.certificate;
    let shown = 0;
    const server = createSecureServer(
      {
        cert: readFileSync(certificate),
        key: readFileSync(key),
        ca: authority.pem,
        requestCert: true,
        rejectUnauthorized: true,
      },
      (_request, response) => {
        shown += 1;
        response.end('<s/>');
      },
    );
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
    connections.close();
    connections = open(url, { certificate, key, ca });
    expect([await ask(), await ask(), shown]).toEqual(['<s/>', '<s/>', 2]);
    connections.close();
    connections = open(url, { certificate, key });
    await expect(send()).rejects.toBeInstanceOf(NotConnected);
    connections.close();
    server.closeAllConnections();
    server.close();
    authority.remove();
  });
});

describe('a query on such a connection', () => {
  test.each([
    ['never answers', () => {}],
    ['stops in the head', (socket: Socket) => socket.write('HTTP/1.1 200 OK\r\nConte')],
  ])('ends when the engine %s', async (_what, act) => {
    engine.answerWith(act);
    await expect(send({ timeout: SILENCE })).rejects.toBeInstanceOf(Silence);
    await until(() => engine.sockets.size === 0);
  });

  test('ends when the engine stops in the body', async () => {
    engine.answerWith((socket) => socket.write(wholeAnswer('<a/>').replace(': 4', ': 9')));
    const answer = await send({ timeout: SILENCE });
    await expect(textOf(answer)).rejects.toBeInstanceOf(Silence);
    expect(over).toEqual([expect.any(Silence)]);
  });

  test('ends, and blames its client, when that takes nothing of what is there', async () => {
    const long = 'x'.repeat(1_000_000);
    engine.answerWith((socket) => socket.write(wholeAnswer(long)));
    await send({ timeout: SILENCE });
    await until(() => over.length > 0);
    expect(over).toEqual([expect.any(ClientStall)]);
  });

  test('has all of its own time, whatever went before it on its connection', async () => {
    jest.useFakeTimers({
      doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'performance'],
    });
    try {
      for (const timeout of [5_000, 1_000])
        expect(await textOf(await send({ timeout }))).toBe('<a/>');
      jest.advanceTimersByTime(900);
      let came = false;
      const hasCome = () => came;
      let ended: unknown;
      engine.answerWith(() => void (came = true));
      send({ timeout: 1_000 }).catch((error: unknown) => (ended = error));
      while (!hasCome()) await new Promise((resolve) => setImmediate(resolve));
      expect(engine.sockets.size).toBe(1);
      jest.advanceTimersByTime(999);
      await new Promise((resolve) => setImmediate(resolve));
      expect(ended).toBeUndefined();
      jest.advanceTimersByTime(1);
      await new Promise((resolve) => setImmediate(resolve));
      expect(ended).toBeInstanceOf(Silence);
    } finally {
      jest.useRealTimers();
    }
  });

  test('brings a long answer whole, and leaves its connection to the next', async () => {
    const long = 'x'.repeat(5_000_000);
    engine.answerWith((socket) => socket.write(wholeAnswer(long)));
    expect(await ask()).toHaveLength(long.length);
    expect(await ask()).toHaveLength(long.length);
    expect(engine.sockets.size).toBe(1);
  });

  test.each([
    ['before its answer', () => {}, false],
    [
      'in its answer',
      (socket: Socket) => socket.write(wholeAnswer('<a/>').replace(': 4', ': 9')),
      true,
    ],
  ])('that is given up %s is ended at the engine', async (_when, act, begins) => {
    engine.answerWith(act);
    const abort = new AbortController();
    const sent = send({ signal: abort.signal });
    const answer = begins ? await sent : undefined;
    await until(() => engine.seen.length === 1);
    abort.abort();
    await expect(answer === undefined ? sent : textOf(answer)).rejects.toThrow('aborted');
    await until(() => engine.sockets.size === 0);
  });

  test('whose answer is left in the middle is ended at the engine', async () => {
    engine.answerWith((socket) => socket.write(wholeAnswer('<a/>').replace(': 4', ': 9')));
    for await (const _ of await send()) break;
    await until(() => engine.sockets.size === 0);
    expect(over).toEqual([null]);
  });

  test('is answered with a head of 15 KB, and not with one of 17', async () => {
    const head = (bytes: number) => (socket: Socket) =>
      socket.write(wholeAnswer('<a/>').replace('\r\n', `\r\nx-long: ${'x'.repeat(bytes)}\r\n`));
    engine.answerWith(head(15_000));
    expect((await send()).headers['x-long']).toHaveLength(15_000);
    engine.answerWith(head(17_000));
    await expect(send()).rejects.toMatchObject({ code: 'UND_ERR_HEADERS_OVERFLOW' });
  });

  test.each([
    ['100 Continue', 'HTTP/1.1 100 Continue\r\n\r\n'],
    ['a reason phrase in another alphabet', ''],
  ])('whose answer undici cannot tell to the byte says so: %s', async (_what, before) => {
    const text = wholeAnswer('<a/>').replace('OK', before === '' ? '\u{E9}' : 'OK');
    engine.answerWith((socket) => socket.write(before + text, 'latin1'));
    await expect(send()).rejects.toBeInstanceOf(NotUnderstood);
    await until(() => engine.sockets.size === 0);
  });

  test('passes over other provisional answers, and reads one that ends with its connection', async () => {
    const early = 'HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n';
    engine.answerWith((socket) => socket.end(`${early}HTTP/1.1 200 OK\r\nx-a: b\r\n\r\n<e/>`));
    const answer = await send();
    expect([answer.statusCode, answer.headers]).toEqual([200, { 'x-a': 'b' }]);
    expect(await textOf(answer)).toBe('<e/>');
    await until(() => engine.sockets.size === 0);
    engine.answerWith((socket) => socket.write(wholeAnswer('<a/>')));
    expect(await ask()).toBe('<a/>');
  });
});

test('the head of an answer is the same as node:http reads it', async () => {
  const name = fc.constantFrom(
    ...['set-cookie', 'Set-Cookie', 'cookie', 'vary', 'Vary', 'etag', 'ETag', 'Age', 'server'],
    ...['x-a', 'constructor', 'Content-Type', 'content-language', 'x-as-sessionid', 'expires'],
  );
  const value = fc
    .array(fc.constantFrom('a', ' ', '\t', 'B', ',', ';', '\u{E9}', '\u{A0}', '"'), {
      maxLength: 8,
    })
    .map((signs) => signs.join(''));
  const fields = fc.array(fc.tuple(name, value), { maxLength: 8 });
  const heads = async (lines: readonly (readonly [string, string])[]) => {
    const text = lines.map((line) => `${line.join(':')}\r\n`).join('');
    engine.answerWith((socket) =>
      socket.write(`HTTP/1.1 200 OK\r\n${text}content-length: 0\r\n\r\n`, 'latin1'),
    );
    const answer = await send();
    await textOf(answer);
    const plain = request(engine.url, { method: 'POST' }).end();
    const [response] = await once(plain, 'response');
    response.resume();
    return [{ ...answer.headers }, { ...response.headers }];
  };
  await fc.assert(
    fc.asyncProperty(fields, async (lines) => {
      const [quick, plain] = await heads(lines);
      expect(quick).toEqual(plain);
    }),
    { numRuns: Math.min(sizes.propertyRuns, 300) },
  );
});
