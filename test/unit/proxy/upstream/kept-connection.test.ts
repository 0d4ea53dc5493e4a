import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { request, type ClientRequest, type IncomingMessage } from 'node:http';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { answerTo, createUpstream, type Upstream } from '../../../../src/proxy/upstream.ts';
import { until } from '../../../support/http-client.ts';
import { startRawEngine, wholeAnswer, type RawEngine } from '../../../support/raw-engine.ts';

let engine: RawEngine;
let upstream: Upstream;
let used: Socket[];

beforeEach(async () => {
  used = [];
  engine = await startRawEngine((socket, count) => {
    used.push(socket);
    socket.write(wholeAnswer(`own ${count}`));
  });
  const none = { ca: undefined, certificate: undefined, key: undefined };
  upstream = createUpstream({ url: engine.url, ...none }, true);
});
afterEach(async () => {
  upstream.close();
  await engine.close();
});

function begin(body: Buffer | string = '<q/>', url = engine.url): ClientRequest {
  const asked = request(url, {
    method: 'POST',
    agent: upstream.agent,
    headers: { 'content-length': Buffer.byteLength(body) },
  });
  answerTo(asked, { timeoutMs: 60_000 }).catch(() => {});
  asked.on('error', () => {});
  return asked.end(body);
}

async function answerOf(asked: ClientRequest): Promise<IncomingMessage> {
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  return answer;
}

async function textOf(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of answer as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

async function ask(): Promise<string> {
  await upstream.settled();
  return textOf(await answerOf(begin()));
}

test('a connection is used again', async () => {
  for (let count = 1; count < 5; count += 1) expect(await ask()).toBe(`own ${count}`);
  expect(new Set(used).size).toBe(1);
});

test.each([
  ['another one', wholeAnswer('extra')],
  ['the beginning of another one', 'HTTP/1.1 2'],
  ['a line feed', '\n'],
])(
  'an answer that lies unread is given whole when %s comes behind it, and is the last one of its connection',
  async (_, extra) => {
    const answer = await answerOf(begin());
    await until(() => answer.complete);
    used[0]?.write(extra);
    await until(() => engine.sockets.size === 0);
    expect(await textOf(answer)).toBe('own 1');
    expect([await ask(), await ask()]).toEqual(['own 2', 'own 3']);
  },
);

test('a request does not go out on a connection that was ended in the same turn', async () => {
  await Promise.all([ask(), ask()]);
  await upstream.settled();
  const next = Object.values(upstream.agent.freeSockets).flat().at(-1);
  const atEngine = used.find(({ remotePort }) => remotePort === next?.localPort);
  // Read, and answered by the end of the connection, right before the request is made.
  atEngine?.write('x');
  expect(await ask()).toBe('own 3');
  expect(used[2] === atEngine).toBe(false);
});

test('a connection on which the answer came before all was sent is not used again', async () => {
  const connections: Socket[] = [];
  let received = 0;
  let ended = 0;
  const server = createServer((socket) => {
    connections.push(socket);
    socket.on('error', () => {});
    socket.on('close', () => (ended += 1));
    socket.once('data', () => {
      socket.pause();
      socket.write(wholeAnswer('early'));
    });
    socket.on('data', (piece: Buffer) => (received += piece.length));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const long = Buffer.alloc(20_000_000);
  const askEarly = async () => textOf(await answerOf(begin(long, url)));
  expect(await askEarly()).toBe('early');
  connections[0]?.resume();
  await until(() => received > long.length || ended === 1);
  await upstream.settled();
  expect(await askEarly()).toBe('early');
  expect(connections).toHaveLength(2);
  for (const socket of connections) socket.destroy();
  server.close();
});
