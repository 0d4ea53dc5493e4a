import { describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { Agent, request, type ClientRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { createServer, Socket, type AddressInfo, type Server } from 'node:net';
import { text } from 'node:stream/consumers';
import { answerTo, ClientStall, Silence } from '../../../../src/proxy/upstream.ts';

async function listen(answer: (socket: Socket) => void): Promise<{ server: Server; port: number }> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => answer(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, port: (server.address() as AddressInfo).port };
}

const errorOf = async (request: ClientRequest) => (await once(request, 'error'))[0] as unknown;

function endOnSilence(asked: ClientRequest, timeoutMs: number): void {
  answerTo(asked, { timeoutMs }).catch(() => {});
}

/** So long that the head of an answer comes before it is over, also on a busy machine (ms). */
const BODY_SILENCE = 1_000;

function standStill(milliseconds: number): void {
  const until = performance.now() + milliseconds;
  while (performance.now() < until);
}

describe('a request to an upstream that is silent', () => {
  test('ends while the connection is still being made', async () => {
    const asked = request({ createConnection: () => new Socket() });
    endOnSilence(asked, 20);
    expect(await errorOf(asked)).toBeInstanceOf(Silence);
  });

  test('ends while TLS is still being agreed upon', async () => {
    const { server, port } = await listen(() => {});
    const asked = httpsRequest({ port, host: '127.0.0.1' });
    endOnSilence(asked, 20);
    expect(await errorOf(asked)).toBeInstanceOf(Silence);
    server.close();
  });

  test('ends when no head comes', async () => {
    const { server, port } = await listen((socket) => socket.write('HTTP/1.1 2'));
    const asked = request({ port, host: '127.0.0.1' });
    endOnSilence(asked, 50);
    asked.end();
    expect(await errorOf(asked)).toBeInstanceOf(Silence);
    server.close();
  });

  test('is answered when the head came while this process stood still', async () => {
    const limit = 1_000;
    const { server, port } = await listen((socket) => {
      socket.write('HTTP/1.1 204 No Content\r\n\r\n');
      // From here the loop comes to the timer before it comes to the head.
      standStill(limit);
    });
    const asked = request({ port, host: '127.0.0.1', agent: false });
    endOnSilence(asked, limit);
    asked.end();
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    answer.resume();
    expect(answer.statusCode).toBe(204);
    server.close();
  });

  test('is answered whole when the rest of the body came while this process stood still', async () => {
    const { server, port } = await listen((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na');
      rest = () => socket.write('bc');
    });
    let rest = (): unknown => undefined;
    const asked = request({ port, host: '127.0.0.1', agent: false });
    endOnSilence(asked, BODY_SILENCE);
    asked.end();
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    const chunks: string[] = [];
    answer.setEncoding('utf8').on('data', (chunk: string) => chunks.push(chunk));
    const ended = once(answer, 'end');
    rest();
    standStill(BODY_SILENCE);
    await ended;
    expect(chunks.join('')).toBe('abc');
    server.close();
  });

  test('ends when the body stops', async () => {
    const { server, port } = await listen((socket) =>
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc'),
    );
    const asked = request({ port, host: '127.0.0.1' });
    endOnSilence(asked, BODY_SILENCE);
    asked.on('error', () => {});
    asked.end();
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    answer.resume();
    expect((await once(answer, 'error'))[0]).toBeInstanceOf(Silence);
    server.close();
  });

  test('is not blamed for a client that does not take its answer', async () => {
    const { server, port } = await listen((socket) =>
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc'),
    );
    const asked = request({ port, host: '127.0.0.1' });
    endOnSilence(asked, BODY_SILENCE);
    asked.on('error', () => {});
    asked.end();
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    expect((await once(answer, 'error'))[0]).toBeInstanceOf(ClientStall);
    server.close();
  });

  test('waits for a body that comes slowly for longer than that, also on a connection that was used before', async () => {
    const { server, port } = await listen((socket) => {
      const drip = () => {
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n');
        for (let piece = 1; piece <= 15; piece += 1) {
          setTimeout(() => socket.write('x'), (piece * BODY_SILENCE) / 10);
        }
      };
      drip();
      socket.on('data', drip);
    });
    const agent = new Agent({ keepAlive: true });
    for (let turn = 0; turn < 2; turn += 1) {
      const asked = request({ port, host: '127.0.0.1', agent });
      endOnSilence(asked, BODY_SILENCE);
      asked.end();
      const [answer] = (await once(asked, 'response')) as [IncomingMessage];
      expect(await text(answer)).toBe('x'.repeat(15));
      expect(asked.reusedSocket).toBe(turn > 0);
    }
    agent.destroy();
    server.close();
  });

  test('leaves nothing on a connection that is used again', async () => {
    const { server, port } = await listen((socket) => {
      const answer = 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na';
      socket.write(answer);
      socket.on('data', () => socket.write(answer));
    });
    const agent = new Agent({ keepAlive: true });
    const left: string[] = [];
    for (let turn = 0; turn < 3; turn += 1) {
      const asked = request({ port, host: '127.0.0.1', agent });
      endOnSilence(asked, 60_000);
      asked.end();
      const [answer] = (await once(asked, 'response')) as [IncomingMessage];
      const { socket } = answer;
      answer.resume();
      await once(answer, 'close');
      const events = socket.eventNames().map((name) => [name, socket.listenerCount(name)]);
      left.push(JSON.stringify(events.sort()));
    }
    expect(left).toEqual(left.map(() => left[0]));
    agent.destroy();
    server.close();
  });
});
