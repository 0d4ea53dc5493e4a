import { expect, test } from '@jest/globals';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { systemClock } from '../../../src/common/clock.ts';
import { createGatewayServer } from '../../../src/http/server.ts';
import { portOf, until } from '../../support/http-client.ts';

const CONFIG = {
  listen: {
    host: '127.0.0.1',
    port: 0,
    open: [],
    certificate: undefined,
    key: undefined,
    trusted_proxies: [],
    cors: { origins: [], max_age: 0 },
  },
  limits: { connections: 100, head: 16_384, head_timeout: 10_000 },
};
const REQUEST = 'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n';

/** A server that answers when a test says so. */
async function house() {
  const handled: ServerResponse[] = [];
  const server = createGatewayServer(CONFIG, (_request, response) => void handled.push(response), {
    clock: systemClock,
    emit() {},
  });
  const port = portOf(await server.listen());
  const socket = connect(port, '127.0.0.1').setNoDelay();
  await once(socket, 'connect');
  let received = '';
  socket.on('data', (chunk: Buffer) => (received += chunk.toString()));
  const ended = once(socket, 'close');
  return { server, handled, socket, ended, received: () => received };
}

test('an answer that has begun when the server closes goes on, and the next one is the last', async () => {
  const { server, handled, socket, ended, received } = await house();
  socket.write(REQUEST);
  await until(() => handled.length === 1);
  // It has begun, so that nothing can be told of the connection any more.
  handled[0]?.write('one');
  await until(() => received().includes('one'));
  const closed = server.close();
  socket.write(REQUEST);
  await until(() => handled.length === 2);
  handled[0]?.end();
  handled[1]?.end('two');
  await Promise.all([closed, ended]);
  const [, first = '', second = ''] = received().split('HTTP/1.1 200');
  expect(first).not.toContain('onnection: close');
  expect(second).toMatch(/connection: close/i);
  expect(second).toContain('two');
});

test('an answer that has not begun when the server closes is the last of its connection', async () => {
  const { server, handled, socket, ended, received } = await house();
  socket.write(REQUEST);
  await until(() => handled.length === 1);
  const closed = server.close();
  handled[0]?.end('one');
  await Promise.all([closed, ended]);
  expect(received()).toMatch(/connection: close/i);
  expect(received()).toContain('one');
});
