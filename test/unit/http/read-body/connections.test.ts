import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { readBody } from '../../../../src/http/read-body.ts';
import { bodyAccount, checkpoint } from '../../cache/fakes.ts';

const LIMIT = 200_000;
const account = bodyAccount(10_000_000);
const signal = new AbortController().signal;

/** What became of each body, in the order of the requests. */
let read: { readonly body: string | undefined; readonly reason: string | undefined }[];
/** Passed when the request has come, before its body is asked for. */
let before: (request: IncomingMessage) => Promise<void>;

const server = createServer((request, response) => {
  void (async () => {
    await before(request);
    const room = account.request('alice', () => 30_000);
    let body: string | undefined;
    let reason: string | undefined;
    try {
      const bytes = await readBody(request, LIMIT, { room, signal });
      body = bytes.toString();
      if (account.usage().bytes.request !== bytes.length) reason = 'counted otherwise';
    } catch (error) {
      reason = (error as { reason?: string }).reason;
    }
    room.release();
    read.push({ body, reason });
    response.writeHead(200, reason === undefined ? {} : { connection: 'close' });
    response.end('ok');
  })();
});
let socket: Socket;
let answers = '';

beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
});
beforeEach(async () => {
  read = [];
  answers = '';
  before = async () => {};
  socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  socket.setNoDelay(true).setEncoding('latin1');
  socket.on('data', (piece: string) => (answers += piece)).on('error', () => {});
  await once(socket, 'connect');
});

const head = (length: number, further = '') =>
  `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n${further}\r\n`;

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 2));
}

describe('a body that comes over a connection', () => {
  test.each([0, 1, 1_600, 65_536, 65_537, 150_000])(
    'is read whole: %i bytes with its head',
    async (size) => {
      const body = 'x'.repeat(size);
      for (let round = 1; round <= 3; round += 1) {
        socket.write(head(size) + body);
        await until(() => read.length === round && answers.endsWith('ok\r\n0\r\n\r\n'));
        answers = '';
      }
      expect(read).toEqual(Array.from({ length: 3 }, () => ({ body, reason: undefined })));
      socket.destroy();
    },
  );

  test('is read whole after its head, in one piece or several', async () => {
    let came = 0;
    for (const pieces of [['abc'], ['ab', 'c'], ['a', 'b', 'c'], ['x'.repeat(70_000), 'y']]) {
      const body = pieces.join('');
      const heads = came;
      const seen = checkpoint();
      before = () => seen.arrive();
      socket.write(head(body.length));
      await seen.arrived;
      seen.release();
      for (const piece of pieces) {
        await new Promise((resolve) => socket.write(piece, resolve));
        await new Promise((resolve) => setImmediate(resolve));
      }
      await until(() => read.length === heads + 1);
      came += 1;
      expect(read.at(-1)).toEqual({ body, reason: undefined });
    }
    socket.destroy();
  });

  test('is read whole when two requests come in one piece', async () => {
    socket.write(`${head(3)}abc${head(2)}de`);
    await until(() => read.length === 2);
    expect(read.map(({ body }) => body)).toEqual(['abc', 'de']);
    socket.destroy();
  });

  test('in chunks is read whole, up to its limit', async () => {
    const chunked = 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n';
    socket.write(`${chunked}3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n`);
    await until(() => read.length === 1);
    const long = 'x'.repeat(LIMIT + 1);
    socket.write(`${chunked}${long.length.toString(16)}\r\n${long}\r\n0\r\n\r\n`);
    await until(() => read.length === 2);
    expect(read).toEqual([
      { body: 'abcde', reason: undefined },
      { body: undefined, reason: 'too-big' },
    ]);
    socket.destroy();
  });

  test('in chunks is read whole where all of it is there before anybody asks', async () => {
    before = async (request) => {
      while (!request.complete) await new Promise((resolve) => setImmediate(resolve));
    };
    const chunked = 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n';
    socket.write(`${chunked}3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n`);
    await until(() => read.length === 1);
    expect(read).toEqual([{ body: 'abcde', reason: undefined }]);
    socket.destroy();
  });

  test('in gzip is decoded', async () => {
    const coded = gzipSync('some text');
    socket.write(head(coded.length, 'Content-Encoding: gzip\r\n'));
    socket.write(coded);
    await until(() => read.length === 1);
    expect(read).toEqual([{ body: 'some text', reason: undefined }]);
    socket.destroy();
  });

  test.each([
    ['before its first byte', ''],
    ['after some', 'abc'],
  ])('that breaks off %s is the client’s doing', async (_when, piece) => {
    let came = false;
    before = async () => void (came = true);
    socket.write(head(10) + piece);
    await until(() => came);
    socket.destroy();
    await until(() => read.length === 1);
    expect(read).toEqual([{ body: undefined, reason: 'client-gone' }]);
    expect(account.usage().bytes.request).toBe(0);
  });
});
