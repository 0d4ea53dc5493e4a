import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { freePort } from '../../support/free-port.ts';
import { portOf, sendRaw, until, type RawAnswer } from '../../support/http-client.ts';
import {
  startRawEngine,
  type RawAnswer as RawServerAnswer,
  type RawEngine,
} from '../../support/raw-engine.ts';
import { gate, startStubEngine, type StubEngine } from '../../support/stub-engine.ts';
import { basic } from '../../support/test-gateway.ts';
import {
  ask,
  CHANGES,
  failureOf,
  openRemoteHouse,
  READS,
  type RemoteHouse,
} from './remote-house.ts';
import { sampled } from '../../support/sizes.ts';

const UNKNOWN =
  '503 [storage-unavailable] The storage did not answer; whether the change was made is not known.';
const NOTHING_DONE =
  '503 [storage-unavailable] The storage cannot be reached; nothing was changed.';

const READ = READS[2];

let remote: RawEngine;
let house: RemoteHouse;
let impatient: RemoteHouse;
/** Waits for so long that a head comes before it is over, also on a busy machine. */
let lessImpatient: RemoteHouse;

beforeAll(async () => {
  remote = await startRawEngine(() => {});
  house = await openRemoteHouse(remote.url);
  impatient = await openRemoteHouse(remote.url, { timeout: 500 });
  lessImpatient = await openRemoteHouse(remote.url, { timeout: 2_000 });
});
afterAll(async () => {
  await house.close();
  await impatient.close();
  await lessImpatient.close();
  await remote.close();
});
afterEach(() => {
  remote.seen.length = 0;
  for (const one of [house, impatient, lessImpatient]) {
    one.invalidated.length = 0;
    one.events.length = 0;
  }
});

const finals = ({ invalidated }: RemoteHouse) =>
  invalidated.filter(([, , state]) => state !== 'before').map(([stale]) => stale);

/** What comes of a change for which there is little time. Where that is over before anything was sent, it is asked again. */
async function askInHaste([method, path, body]: (typeof CHANGES)[number]): Promise<string> {
  for (;;) {
    const failure = failureOf(await ask(impatient, method, path, body));
    await until(() => remote.sockets.size === 0);
    if (remote.seen.length > 0) return failure;
    expect([NOTHING_DONE, UNKNOWN]).toContain(failure);
    impatient.invalidated.length = 0;
  }
}

const OF_A_DATASET = [{ project: 'Mart' }];

/** No answer of HTTP, or none that has a head. */
const NO_HEAD: readonly (readonly [string, RawServerAnswer])[] = [
  ['the connection is closed', (socket) => socket.end()],
  ['the connection is reset', (socket) => socket.resetAndDestroy()],
  ['the head breaks off', (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-')],
  ['it is not HTTP', (socket) => socket.end('220 mail.example ESMTP\r\n')],
  [
    'the status is no final one',
    (socket) => socket.end('HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'),
  ],
  [
    'the status is less than any',
    (socket) => socket.end('HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n'),
  ],
  [
    'a header holds a control character',
    (socket) => socket.end('HTTP/1.1 200 OK\r\nx: a\u0007\r\n\r\n'),
  ],
];

const IN_THE_BODY: readonly (readonly [string, RawServerAnswer])[] = [
  [
    'a body with a length',
    (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"st'),
  ],
  [
    'a body in chunks',
    (socket) => socket.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"st\r\n'),
  ],
  [
    'a body in chunks, by a chunk without length,',
    (socket) =>
      socket.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"st\r\nzz\r\n'),
  ],
];

const SILENCES: readonly (readonly [string, RawServerAnswer])[] = [
  ['before the head', () => {}],
  ['in the head', (socket) => socket.write('HTTP/1.1 200 OK\r\nConten')],
  ['in the body', (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"st')],
];

describe.each(sampled(CHANGES))('a change by %s %s', (...change) => {
  const [method, path, body, ofDataset] = change;
  const stale = ofDataset ? OF_A_DATASET : [];

  test.each([...NO_HEAD, ...IN_THE_BODY])(
    'has an unknown outcome when %s breaks off, and is sent once',
    async (_what, answer) => {
      remote.answerWith(answer);
      expect(failureOf(await ask(house, method, path, body))).toBe(UNKNOWN);
      expect(finals(house)).toEqual(stale);
      expect(remote.seen).toHaveLength(1);
    },
  );

  test.each(SILENCES)(
    'has an unknown outcome when the server is silent %s, and is sent once',
    async (_where, answer) => {
      remote.answerWith(answer);
      expect(await askInHaste(change)).toBe(UNKNOWN);
      expect(finals(impatient)).toEqual(stale);
      expect(remote.seen).toHaveLength(1);
    },
  );

  test('was not made when no connection can be made', async () => {
    const nowhere = await openRemoteHouse(`http://127.0.0.1:${await freePort()}`);
    try {
      const answer = await ask(nowhere, method, path, body);
      expect(failureOf(answer)).toBe(NOTHING_DONE);
      expect(answer.headers['retry-after']).toBe('5');
      expect(finals(nowhere)).toEqual([]);
      expect(nowhere.events).toMatchObject([
        {
          type: 'api-answered',
          status: 503,
          reason: 'storage-unavailable',
          error: { code: 'ECONNREFUSED' },
        },
      ]);
    } finally {
      await nowhere.close();
    }
  });

  test('was not made when TLS was never agreed upon', async () => {
    const secure = await openRemoteHouse(remote.url.replace('http:', 'https:'), { timeout: 100 });
    try {
      expect(failureOf(await ask(secure, method, path, body))).toBe(NOTHING_DONE);
      expect(finals(secure)).toEqual([]);
    } finally {
      await secure.close();
    }
  });

  test('never goes out on a connection that was used before', async () => {
    const used: Socket[] = [];
    remote.answerWith((socket) => {
      used.push(socket);
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n{}');
    });
    for (let turn = 0; turn < 3; turn += 1) {
      expect((await ask(house, method, path, body)).status).toBe(200);
    }
    expect(new Set(used).size).toBe(3);
  });

  test('has an unknown outcome when the answer is longer than any', async () => {
    remote.answerWith((socket) => {
      const length = 2 * 1024 * 1024;
      socket.end(`HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n\r\n${'x'.repeat(length)}`);
    });
    expect(failureOf(await ask(house, method, path, body))).toBe(UNKNOWN);
    expect(finals(house)).toEqual(stale);
  });
});

/** Whether a client would take what it got for a whole answer (RFC 9112 §6.3, §8). */
function looksWhole({ bytes, ended }: RawAnswer): boolean {
  const [head = '', body] = bytes.toString('latin1').split('\r\n\r\n', 2);
  if (body === undefined) return false;
  if (/^transfer-encoding: *chunked/im.test(head)) return bytes.subarray(-5).equals(LAST_CHUNK);
  const length = /^content-length: *(\d+)/im.exec(head)?.[1];
  return length === undefined ? ended === 'end' : body.length >= Number(length);
}

const LAST_CHUNK = Buffer.from('0\r\n\r\n');

test('each of the requests gets its own answer, whatever comes behind the one before', async () => {
  const own = (text: string) =>
    `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
  remote.answerWith((socket, count) => socket.write(own(`"own ${count}"`) + own('"extra"')));
  for (let index = 0; index < 3; index += 1) {
    expect((await ask(house, 'GET', READ)).text).toBe(`"own ${remote.seen.length}"`);
  }
  await until(() => remote.sockets.size === 0);
});

describe('a read', () => {
  test.each(NO_HEAD)('is 503 in the envelope when %s', async (_what, answer) => {
    remote.answerWith(answer);
    expect(failureOf(await ask(house, 'GET', READ))).toBe(NOTHING_DONE);
    expect(house.invalidated).toEqual([]);
  });

  test.each(SILENCES.slice(0, 2))(
    'is 503 in the envelope when the server is silent %s',
    async (_where, answer) => {
      remote.answerWith(answer);
      expect(failureOf(await ask(impatient, 'GET', READ))).toBe(NOTHING_DONE);
      await until(() => remote.sockets.size === 0);
    },
  );

  test('is 503 when no connection can be made', async () => {
    const nowhere = await openRemoteHouse(`http://127.0.0.1:${await freePort()}`);
    try {
      expect(failureOf(await ask(nowhere, 'GET', READ))).toBe(NOTHING_DONE);
      expect((await ask(nowhere, 'HEAD', READ)).status).toBe(503);
    } finally {
      await nowhere.close();
    }
  });

  test.each([
    ...IN_THE_BODY.map(([what, answer]) => [what, answer, 'house'] as const),
    [...(SILENCES[2] as (typeof SILENCES)[0]), 'less impatient'] as const,
  ])('never looks whole to any client when it breaks off in %s', async (_what, answer, which) => {
    remote.answerWith(answer);
    const { url, events } = which === 'house' ? house : lessImpatient;
    for (const version of ['HTTP/1.1', 'HTTP/1.0']) {
      const raw = await sendRaw(
        portOf(url),
        `GET /api${READ} ${version}\r\nhost: x\r\nauthorization: ${basic('alice')}\r\n\r\n`,
      );
      expect([version, looksWhole(raw)]).toEqual([version, false]);
    }
    await until(() => events.length === 2);
    for (const event of events) {
      expect(event).toMatchObject({
        type: 'api-answered',
        status: 200,
        reason: 'storage-unavailable',
      });
    }
  });

  test.each(['HTTP/1.1', 'HTTP/1.0'])(
    'never looks whole to a client of %s that has its beginning when it breaks off',
    async (version) => {
      let upstream: Socket | undefined;
      remote.answerWith((socket) => {
        upstream = socket;
        socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"st\r\n');
      });
      const chunks: Buffer[] = [];
      const client = connect(portOf(house.url), '127.0.0.1');
      const ended = new Promise<RawAnswer['ended']>((resolve) => {
        client.on('end', () => resolve('end'));
        client.on('error', () => resolve('broken'));
        client.on('close', () => resolve('broken'));
      });
      client.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        if (Buffer.concat(chunks).includes('{"st')) upstream?.resetAndDestroy();
      });
      client.write(
        `GET /api${READ} ${version}\r\nhost: x\r\nauthorization: ${basic('alice')}\r\n\r\n`,
      );
      const raw = { ended: await ended, bytes: Buffer.concat(chunks) };
      expect(raw.bytes.toString()).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*\{"st/);
      expect(looksWhole(raw)).toBe(false);
    },
  );
});

describe('a server that refuses a long body before it has come', () => {
  test('is heard', async () => {
    const early = await startEarlyServer();
    const over = await openRemoteHouse(early.url);
    try {
      const body = `{"project":"Mart","dataset_name":"d","type":"MDX","x":"${'x'.repeat(5_000_000)}"}`;
      const answer = await ask(over, 'PUT', '/dataset', body);
      expect([answer.status, answer.text]).toEqual([413, '{"status":1}']);
      expect(finals(over)).toEqual([]);
    } finally {
      await over.close();
      await early.close();
    }
  });

  /** Answers as soon as the head of a request is there. */
  async function startEarlyServer() {
    const { createServer } = await import('node:http');
    const server = createServer((request, response) => {
      response.writeHead(413, { 'content-type': 'application/json' }).end('{"status":1}');
      request.resume();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return {
      url: `http://127.0.0.1:${(server.address() as { port: number }).port}`,
      async close() {
        server.closeAllConnections();
        server.close();
        await once(server, 'close');
      },
    };
  }
});

describe('a client that goes away', () => {
  let stub: StubEngine;
  let over: RemoteHouse;
  beforeAll(async () => {
    stub = await startStubEngine(() => {});
    over = await openRemoteHouse(stub.url);
  });
  afterAll(async () => {
    await over.close();
    await stub.close();
  });

  function begin(method: string, path: string, body?: string) {
    const request = httpRequest({
      port: portOf(over.url),
      path: `/api${path}`,
      method,
      headers: {
        authorization: basic('ADMIN'),
        ...(body !== undefined && {
          'content-type': 'application/json',
          'content-length': body.length,
        }),
      },
    });
    request.on('error', () => {});
    request.end(body);
    return request;
  }

  test.each([
    ['before the answer', false],
    ['in the middle of it', true],
  ])('ends a read at the server %s', async (_when, begun) => {
    over.events.length = 0;
    const came = gate();
    const ended = gate();
    stub.answerWith((response) => {
      response.once('close', ended.open);
      if (begun) response.write('{"begun":');
      came.open();
    });
    const request = begin('GET', READ);
    if (begun) ((await once(request, 'response')) as [IncomingMessage])[0].on('error', () => {});
    await came.opened;
    request.destroy();
    await ended.opened;
    await until(() => over.events.length > 0);
    expect(over.events).toMatchObject([{ type: 'api-answered', reason: 'client-gone' }]);
  });

  test('does not end a change, which drops what it made stale', async () => {
    over.events.length = 0;
    const came = gate();
    const goOn = gate();
    let whole = false;
    stub.answerWith(async (response) => {
      response.once('close', () => {
        whole = response.writableFinished;
      });
      came.open();
      await goOn.opened;
      response.end('{}');
    });
    const request = begin('PUT', '/dataset', CHANGES[6][2]);
    await came.opened;
    request.destroy();
    await until(() => over.sockets.size === 0);
    expect(finals(over)).toEqual([]);
    goOn.open();
    await until(() => over.events.length > 0);
    expect([whole, finals(over)]).toEqual([true, OF_A_DATASET]);
  });
});

test('reachable says whether the server takes connections', async () => {
  expect(await house.reachable()).toBe(true);
  const stopped = await startRawEngine(() => {});
  const over = await openRemoteHouse(stopped.url);
  await stopped.close();
  expect(await over.reachable()).toBe(false);
  await over.close();
});
