import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { Agent, request, type ClientRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { createServer, Socket, type AddressInfo, type Server } from 'node:net';
import {
  answerTo,
  NoAnswer,
  NotConnected,
  StaleConnection,
} from '../../../../src/proxy/upstream.ts';

let server: Server;
let port: number;
let answer: (socket: Socket) => void = () => {};

beforeAll(async () => {
  server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', () => answer(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  port = (server.address() as AddressInfo).port;
});
afterAll(() => {
  server.close();
});

/** What comes instead of an answer. */
const errorOf = (asked: ClientRequest, connectLimitMs?: number): Promise<unknown> =>
  answerTo(asked, { timeoutMs: 60_000, connectLimitMs }).then(
    () => 'an answer',
    (error: unknown) => error,
  );

describe('a connection', () => {
  test('that is refused was not made', async () => {
    expect(await errorOf(request({ host: '127.0.0.1', port: 1 }))).toBeInstanceOf(NotConnected);
  });

  test('that is not made in its time is given up', async () => {
    const asked = request({ createConnection: () => new Socket() });
    expect(await errorOf(asked, 20)).toBeInstanceOf(NotConnected);
  });

  test('on which no TLS could be agreed was not made', async () => {
    answer = (socket) => socket.end('no TLS here');
    const asked = httpsRequest({ host: '127.0.0.1', port });
    expect(await errorOf(asked)).toBeInstanceOf(NotConnected);
  });

  test('on which TLS hangs is given up in its time', async () => {
    answer = () => {};
    const asked = httpsRequest({ host: '127.0.0.1', port });
    expect(await errorOf(asked, 50)).toBeInstanceOf(NotConnected);
  });

  test('that breaks after it was made may have been sent something', async () => {
    answer = (socket) => socket.resetAndDestroy();
    const asked = request({ host: '127.0.0.1', port });
    const failed = errorOf(asked);
    asked.end();
    const error = await failed;
    expect(error).toBeInstanceOf(NoAnswer);
    expect(error).not.toBeInstanceOf(NotConnected);
    expect(error).toMatchObject({ cause: { code: 'ECONNRESET' } });
  });

  test.each([
    ['in the middle of the head', 'HTTP/1.1 200 OK\r\nContent-'],
    ['with something that is no head', 'what?\r\n\r\n'],
  ])('that breaks %s has brought something', async (_what, bytes) => {
    answer = (socket) => socket.end(bytes);
    const asked = request({ host: '127.0.0.1', port });
    const failed = errorOf(asked);
    asked.end();
    expect(await failed).not.toBeInstanceOf(NoAnswer);
  });

  test('that is used again and breaks was stale, and may have been sent something', async () => {
    answer = (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
    const agent = new Agent({ keepAlive: true });
    const first = request({ host: '127.0.0.1', port, agent });
    first.end();
    const [head] = await once(first, 'response');
    head.resume();
    await once(first, 'close');
    answer = (socket) => socket.resetAndDestroy();
    const second = request({ host: '127.0.0.1', port, agent });
    const failed = errorOf(second);
    second.end();
    const error = await failed;
    expect(error).toBeInstanceOf(StaleConnection);
    expect([second.reusedSocket, error]).toMatchObject([true, { cause: { code: 'ECONNRESET' } }]);
    agent.destroy();
  });

  test('that was made is not given up, however long its answer takes', async () => {
    answer = () => {};
    const asked = request({ host: '127.0.0.1', port });
    const failed = errorOf(asked, 2_000);
    asked.end();
    const [socket] = (await once(asked, 'socket')) as [Socket];
    await once(socket, 'connect');
    asked.destroy();
    expect(await failed).toMatchObject({ cause: { code: 'ECONNRESET' } });
  });
});
