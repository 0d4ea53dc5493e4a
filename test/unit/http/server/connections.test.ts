import { afterEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { systemClock } from '../../../../src/common/clock.ts';
import { createConnections, type Connections } from '../../../../src/http/server.ts';
import { until } from '../../../support/http-client.ts';

const NEVER = 2 ** 31 - 1;
const servers: Server[] = [];
const clients: Socket[] = [];
afterEach(() => {
  for (const client of clients.splice(0)) client.destroy();
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

/** A server that answers each request at once, whatever is still to come of it, and one client of it. */
async function house(
  headers: Record<string, string>,
  patience = { usual: NEVER, closing: NEVER },
): Promise<{
  connections: Connections;
  server: Server;
  client: Socket;
  closed: Promise<unknown>;
  received: () => string;
  handled: IncomingMessage[];
}> {
  const handled: IncomingMessage[] = [];
  const answer = (request: IncomingMessage, response: ServerResponse) => {
    handled.push(request);
    response.writeHead(413, { 'content-length': 2, ...headers }).end('no');
  };
  const server = createServer((_request, response) => connections.take(response, answer));
  const connections = createConnections(server, {
    limit: () => 100,
    isTrusted: () => false,
    clock: systemClock,
    emit() {},
    patience,
  });
  servers.push(server.listen(0, '127.0.0.1'));
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1').setNoDelay();
  clients.push(client);
  let received = '';
  client.setEncoding('latin1').on('data', (text: string) => (received += text));
  const closed = once(client, 'close');
  await once(client, 'connect');
  return { connections, server, client, closed, received: () => received, handled };
}

const CLOSE = { connection: 'close' };
const head = (length: number) => `POST / HTTP/1.1\r\nhost: x\r\ncontent-length: ${length}\r\n\r\n`;
const answers = (text: string) => text.split('HTTP/1.1 413').length - 1;

test('the connection ends when its client has sent the rest', async () => {
  const { client, closed, received } = await house(CLOSE);
  client.write(`${head(10)}123`);
  await until(() => received().endsWith('no'));
  client.write('456');
  client.write('7890');
  await closed;
  expect(answers(received())).toBe(1);
});

test('the connection ends when its client hangs up', async () => {
  const { client, closed, received, server } = await house(CLOSE);
  client.write(`${head(10)}123`);
  await until(() => received().endsWith('no'));
  client.end();
  await closed;
  await new Promise((resolve) => void server.close(resolve));
});

test('the connection ends when its client is not done in time', async () => {
  const { client, closed, received } = await house(CLOSE, { usual: 1, closing: NEVER });
  client.write(`${head(10)}123`);
  await closed;
  expect(answers(received())).toBe(1);
});

test('an answer is over for whoever waits for it as soon as it was sent', async () => {
  const { client, handled, server } = await house(CLOSE);
  const ended = new Promise<boolean>((resolve) => {
    server.prependOnceListener('request', (_request, response: ServerResponse) => {
      response.once('close', () => resolve(response.writableFinished));
    });
  });
  client.write(`${head(10)}123`);
  expect(await ended).toBe(true);
  expect(handled[0]?.complete).toBe(false);
});

test('no request behind the last answer is carried out', async () => {
  const { client, closed, received, handled } = await house(CLOSE);
  client.write(`${head(10)}123`);
  await until(() => received().endsWith('no'));
  client.write(`4567890${head(0)}`);
  await closed;
  expect([handled.length, answers(received())]).toEqual([1, 1]);
});

test('a connection that may be kept serves the next request, however often the one before was not waited for', async () => {
  const { client, closed, received, handled } = await house({});
  for (let turn = 1; turn <= 5; turn += 1) {
    client.write(`${head(10)}123`);
    await until(() => answers(received()) === turn && received().endsWith('no'));
    client.write('4567890');
  }
  client.write('GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n');
  await closed;
  expect([handled.length, answers(received())]).toEqual([6, 6]);
});

test.each([
  ['to be closed', CLOSE],
  ['to be kept', {}],
])('a server that closes waits but shortly for a connection %s', async (_, headers) => {
  const limits = { usual: NEVER, closing: 1 };
  const { connections, server, client, closed, received } = await house(headers, limits);
  client.write(`${head(10)}123`);
  await until(() => received().endsWith('no'));
  const over = new Promise((resolve) => void server.close(resolve));
  connections.close();
  await Promise.all([over, closed]);
});

test('an answer that comes while the server closes is not waited behind for long', async () => {
  const limits = { usual: NEVER, closing: 1 };
  const { connections, client, closed, received } = await house(CLOSE, limits);
  connections.close();
  client.write(`${head(10)}123`);
  await closed;
  expect(answers(received())).toBe(1);
});

test('a request that was read whole closes its connection as ever', async () => {
  const { client, closed, received } = await house(CLOSE);
  client.write(`${head(3)}123`);
  await closed;
  expect(answers(received())).toBe(1);
});

describe('what is no request, behind one that is under way,', () => {
  /** A server that answers when a test says so. */
  async function waiting() {
    const answers: ServerResponse[] = [];
    const server = createServer((_request, response) =>
      connections.take(response, () => answers.push(response)),
    );
    const connections = createConnections(server, {
      limit: () => 100,
      isTrusted: () => false,
      clock: systemClock,
      emit() {},
    });
    servers.push(server.listen(0, '127.0.0.1'));
    await once(server, 'listening');
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1').setNoDelay();
    clients.push(client);
    let received = '';
    client.setEncoding('latin1').on('data', (text: string) => (received += text));
    const closed = once(client, 'close');
    await once(client, 'connect');
    return { client, answers, closed, received: () => received };
  }

  test('is not refused by what would be taken for the answer to that', async () => {
    const { client, answers, closed, received } = await waiting();
    client.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
    await until(() => answers.length === 1);
    client.write('no request\r\n\r\n');
    await closed;
    expect(received()).toBe('');
  });

  test('is refused where it is the body of that', async () => {
    const { client, answers, closed, received } = await waiting();
    client.write('POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n');
    await until(() => answers.length === 1);
    client.write('no chunk\r\n');
    await closed;
    expect(received()).toMatch(/^HTTP\/1\.1 400 /);
  });

  test('is refused where it stands alone', async () => {
    const { client, closed, received } = await waiting();
    client.write('no request\r\n\r\n');
    await closed;
    expect(received()).toMatch(/^HTTP\/1\.1 400 /);
  });
});
