import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { answerHead, bytesPushed, decodedAnswer } from '../../../../src/proxy/forwarded.ts';

let server: Server;
let corrupt: unknown[];
let act: (socket: Socket) => void;

beforeEach(async () => {
  corrupt = [];
  server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => act(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterEach(() => {
  server.close();
});

/** Asks, and gets what the server does to the connection, decoded. */
async function answerTo(does: (socket: Socket) => void, method = 'POST') {
  act = does;
  const { port } = server.address() as AddressInfo;
  const asked = request({ host: '127.0.0.1', port, method, agent: false });
  asked.on('error', () => {});
  asked.end();
  const counting = Promise.withResolvers<() => number>();
  asked.once('response', (incoming) => counting.resolve(bytesPushed(incoming)));
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  answer.on('error', () => {});
  const counted = Object.assign(answer, { received: await counting.promise });
  return { answer, ...decodedAnswer(counted, answerHead(answer), (error) => corrupt.push(error)) };
}

const coded = (coding: string, body: Buffer, length = body.length) =>
  Buffer.concat([
    Buffer.from(
      `HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Encoding: ${coding}\r\nContent-Length: ${length}\r\n\r\n`,
    ),
    body,
  ]);

async function whole(body: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks);
}

const TEXT = Buffer.from('<a>ä</a>'.repeat(50_000));

test.each(['gzip, chunked', 'gzip', 'chunked, identity'])(
  'an answer in the transfer coding %s, which was not asked for, is none',
  (coding) => {
    const answer = { statusCode: 200, headers: { 'transfer-encoding': coding } };
    expect(() => answerHead(answer)).toThrow(`transfer coding ${coding}`);
  },
);

describe('an answer in a content coding', () => {
  test.each([
    ['gzip', gzipSync(TEXT)],
    ['GZip', gzipSync(TEXT)],
    ['x-gzip', gzipSync(TEXT)],
    ['gzip', Buffer.concat([gzipSync(TEXT.subarray(0, 99)), gzipSync(TEXT.subarray(99))])],
    ['deflate', deflateSync(TEXT)],
    ['deflate', deflateRawSync(TEXT)],
  ])(
    '(%s) comes without it, byte for byte, and its head does not speak of it',
    async (name, body) => {
      const {
        head,
        body: decoded,
        length,
      } = await answerTo((socket) => socket.write(coded(name, body)));
      expect(head.headers).toEqual({ 'content-type': 'text/xml' });
      expect((await whole(decoded)).equals(TEXT)).toBe(true);
      expect(length()).toBe(TEXT.length);
      expect(corrupt).toEqual([]);
    },
  );

  test('stays as it is when the coding is another one', async () => {
    for (const [name, body] of [
      ['br', brotliCompressSync(TEXT)],
      ['gzip, gzip', gzipSync(gzipSync(TEXT))],
    ] as const) {
      const {
        head,
        body: kept,
        length,
      } = await answerTo((socket) => socket.write(coded(name, body)));
      expect(head.headers['content-encoding']).toBe(name);
      expect((await whole(kept)).equals(body)).toBe(true);
      expect(length()).toBe(body.length);
    }
  });

  test('and without a body is no broken one', async () => {
    const { body } = await answerTo(
      (socket) => socket.write(coded('gzip', Buffer.alloc(0), 9)),
      'HEAD',
    );
    expect((await whole(body)).length).toBe(0);
  });

  const gzip = gzipSync(TEXT);
  const flipped = Buffer.from(gzip);
  flipped.writeUInt8(flipped.readUInt8(200) ^ 0xff, 200);
  test.each([
    ['ends before its coding does', 'gzip', gzip.subarray(0, -100)],
    ['ends before the checksum', 'gzip', gzip.subarray(0, -3)],
    ['has a wrong byte', 'gzip', flipped],
    ['is followed by other bytes', 'gzip', Buffer.concat([gzip, Buffer.from('more')])],
    ['is plain text', 'gzip', TEXT],
    ['ends before its coding does', 'deflate', deflateSync(TEXT).subarray(0, -2)],
    ['is plain text', 'deflate', TEXT],
  ])('that %s throws, and says so once (%s)', async (_what, name, body) => {
    const { body: decoded } = await answerTo((socket) => socket.write(coded(name, body)));
    await expect(whole(decoded)).rejects.toMatchObject({ message: expect.any(String) });
    expect(corrupt).toHaveLength(1);
  });

  test('throws when the connection breaks off, which the answer itself tells', async () => {
    const { answer, body } = await answerTo((socket) =>
      socket.end(coded('gzip', gzip.subarray(0, 500), gzip.length)),
    );
    await expect(whole(body)).rejects.toMatchObject({ message: expect.any(String) });
    expect(answer.errored).not.toBeNull();
    expect(corrupt).toEqual([]);
  });

  test('throws when the connection breaks off behind the end of the coding', async () => {
    const { body } = await answerTo((socket) => socket.end(coded('gzip', gzip, gzip.length + 9)));
    await expect(whole(body)).rejects.toMatchObject({ message: expect.any(String) });
  });

  test('ends its request when its reader leaves early, also while nothing comes', async () => {
    const closed = Promise.withResolvers<void>();
    const { body } = await answerTo((socket) => {
      socket.on('close', () => closed.resolve());
      socket.write(coded('gzip', gzip.subarray(0, -50), gzip.length));
    });
    for await (const chunk of body) {
      expect(chunk.length).toBeGreaterThan(0);
      break;
    }
    await closed.promise;
    expect(corrupt).toEqual([]);
  });

  test('that is a bomb is unpacked no faster than it is read', async () => {
    const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024));
    const { body } = await answerTo((socket) => socket.write(coded('gzip', bomb)));
    let largest = 0;
    let size = 0;
    for await (const chunk of body) {
      largest = Math.max(largest, chunk.length);
      size += chunk.length;
      if (size > 1024 * 1024) break;
    }
    expect(largest).toBeLessThanOrEqual(64 * 1024);
  });
});
