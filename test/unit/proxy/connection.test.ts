import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { Agent, request, type ClientRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { createServer, Socket, type AddressInfo, type Server } from 'node:net';
import { watchConnection } from '../../../src/proxy/connection.ts';

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

const errorOf = async (asked: ClientRequest) => (await once(asked, 'error'))[0] as Error;

describe('a connection', () => {
  test('that is refused has failed', async () => {
    const asked = request({ host: '127.0.0.1', port: 1 });
    const connection = watchConnection(asked);
    await errorOf(asked);
    expect([connection.failed(), connection.made()]).toEqual([true, false]);
  });

  test('that is not made in its time is given up', async () => {
    const asked = request({ createConnection: () => new Socket() });
    const connection = watchConnection(asked, 20);
    expect((await errorOf(asked)).name).toBe('NoConnection');
    expect([connection.failed(), connection.made()]).toEqual([true, false]);
  });

  test('on which no TLS could be agreed has failed', async () => {
    answer = (socket) => socket.end('no TLS here');
    const asked = httpsRequest({ host: '127.0.0.1', port });
    const connection = watchConnection(asked);
    await errorOf(asked);
    expect([connection.failed(), connection.made()]).toEqual([true, false]);
  });

  test('on which TLS hangs is given up in its time', async () => {
    answer = () => {};
    const asked = httpsRequest({ host: '127.0.0.1', port });
    const connection = watchConnection(asked, 50);
    expect((await errorOf(asked)).name).toBe('NoConnection');
    expect([connection.failed(), connection.made()]).toEqual([true, false]);
  });

  test('that breaks after it was made has not failed, since something may have been sent', async () => {
    answer = (socket) => socket.resetAndDestroy();
    const asked = request({ host: '127.0.0.1', port });
    const connection = watchConnection(asked);
    asked.end();
    await errorOf(asked);
    expect([connection.failed(), connection.made()]).toEqual([false, true]);
  });

  test('that is used again and breaks has not failed', async () => {
    answer = (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
    const agent = new Agent({ keepAlive: true });
    const first = request({ host: '127.0.0.1', port, agent });
    first.end();
    const [head] = await once(first, 'response');
    head.resume();
    await once(first, 'close');
    answer = (socket) => socket.resetAndDestroy();
    const second = request({ host: '127.0.0.1', port, agent });
    const connection = watchConnection(second);
    second.end();
    await errorOf(second);
    expect([second.reusedSocket, connection.failed(), connection.made()]).toEqual([
      true,
      false,
      true,
    ]);
    agent.destroy();
  });

  test('that was made is not given up, however long its answer takes', async () => {
    answer = () => {};
    const asked = request({ host: '127.0.0.1', port });
    const connection = watchConnection(asked, 2_000);
    asked.end();
    const [socket] = (await once(asked, 'socket')) as [Socket];
    await once(socket, 'connect');
    expect([connection.failed(), connection.made()]).toEqual([false, true]);
    asked.destroy();
    await errorOf(asked);
    expect([connection.failed(), connection.made()]).toEqual([false, true]);
  });
});
