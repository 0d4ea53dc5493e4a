import { expect, test } from '@jest/globals';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { systemClock } from '../../../src/clock.ts';
import { createGatewayServer } from '../../../src/composition/server.ts';
import { portOf, until } from '../../support/http-client.ts';

const CONFIG = {
  listen: {
    host: '127.0.0.1',
    port: 0,
    open: [],
    certificate: undefined,
    key: undefined,
    trusted_proxies: [],
    hot_path: true,
  },
  limits: { connections: 100, head: 16_384, head_timeout: 10_000 },
};
const REQUEST = 'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n';

/** A server whose hot path takes what it is asked for, and answers when a test says so, as the handler does. */
async function house() {
  const hot: ServerResponse[] = [];
  const handled: ServerResponse[] = [];
  /** Each hands what the hot path took on to the handler. */
  const giveBack: (() => void)[] = [];
  const server = createGatewayServer(CONFIG, {
    handler: (_request, response) => void handled.push(response),
    hotPath: () => ({
      take(_request, response, otherwise) {
        hot.push(response);
        giveBack.push(otherwise);
      },
    }),
    clock: systemClock,
    emit() {},
  });
  const port = portOf(await server.listen());
  const socket = connect(port, '127.0.0.1').setNoDelay();
  await once(socket, 'connect');
  let received = '';
  socket.on('data', (chunk: Buffer) => (received += chunk.toString()));
  const ended = once(socket, 'close');
  return { server, hot, handled, giveBack, socket, ended, received: () => received };
}

test('the hot path is asked first, and whatever it does not answer is handled', async () => {
  const { server, hot, handled, socket, received } = await house();
  socket.write(REQUEST);
  await until(() => hot.length === 1);
  hot[0]?.end('hot');
  await until(() => received().endsWith('hot\r\n0\r\n\r\n') || received().endsWith('hot'));
  expect(handled).toEqual([]);
  socket.destroy();
  await server.close();
});

test('what the hot path gives back when its client has gone is neither handled nor waited for', async () => {
  const { server, hot, handled, giveBack, socket } = await house();
  socket.write(REQUEST);
  await until(() => hot.length === 1);
  socket.destroy();
  await until(() => hot[0]?.destroyed === true);
  giveBack[0]?.();
  expect(handled).toEqual([]);
  await server.close();
});

test('while the server closes everything is handled, and told to close its connection', async () => {
  const { server, hot, handled, socket, ended, received } = await house();
  socket.write(REQUEST);
  await until(() => hot.length === 1);
  // It has begun, so that nothing can be told of the connection any more.
  hot[0]?.write('one');
  await until(() => received().includes('one'));
  const closed = server.close();
  socket.write(REQUEST);
  await until(() => handled.length + hot.length === 2);
  expect([hot.length, handled.length]).toEqual([1, 1]);
  hot[0]?.end();
  handled[0]?.end('two');
  await Promise.all([closed, ended]);
  const [, first = '', second = ''] = received().split('HTTP/1.1 200');
  expect(first).not.toContain('onnection: close');
  expect(second).toMatch(/connection: close/i);
  expect(second).toContain('two');
});

test('a connection whose answer came from the hot path while the server closes does not hold it up', async () => {
  const { server, hot, socket, ended, received } = await house();
  socket.write(REQUEST);
  await until(() => hot.length === 1);
  const closed = server.close();
  hot[0]?.end('hot');
  await Promise.all([closed, ended]);
  expect(received()).toContain('hot');
});
