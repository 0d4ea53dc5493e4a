import { describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import type { RequestListener, ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectSecurely } from 'node:tls';
import { systemClock } from '../../../src/common/clock.ts';
import { createGatewayServer } from '../../../src/http/server.ts';
import { type Certificate, makeAuthority } from '../../support/certificates.ts';
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

/**
 * A server that answers when a test says so.
 * @param own a certificate and its key
 * @param breath for how long idle connections stay while it closes (ms)
 */
async function house(own?: Certificate, breath = 0) {
  const handled: ServerResponse[] = [];
  const closings: string[] = [];
  const listen = { ...CONFIG.listen, certificate: own?.certificate, key: own?.key };
  const answer: RequestListener = (_request, response) => void handled.push(response);
  const server = createGatewayServer(
    { ...CONFIG, listen },
    {
      clock: systemClock,
      breath,
      emit: (event) => event.type === 'connection-closed' && closings.push(event.why),
    },
  );
  server.answerBy(answer);
  const to = { port: portOf(await server.listen()), host: '127.0.0.1' };
  const socket = (own ? connectSecurely({ ...to, ca: own.pem }) : connect(to)).setNoDelay();
  await once(socket, own ? 'secureConnect' : 'connect');
  let received = '';
  socket.on('data', (chunk: Buffer) => (received += chunk.toString()));
  const ended = once(socket, 'close');
  return { server, handled, closings, socket, ended, received: () => received };
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
  handled[0]?.end();
  await until(() => handled.length === 2);
  handled[1]?.end('two');
  await Promise.all([closed, ended]);
  const [, first = '', second = ''] = received().split('HTTP/1.1 200');
  expect(first).not.toContain('onnection: close');
  expect(second).toMatch(/connection: close/i);
  expect(second).toContain('two');
});

test('a request that was on its way on an idle connection when the server closes is answered, as the last', async () => {
  const { server, handled, socket, ended, received } = await house(undefined, 60_000);
  socket.write(REQUEST);
  await until(() => handled.length === 1);
  handled[0]?.end('one');
  await until(() => received().includes('one'));
  const closed = server.close();
  socket.write(REQUEST);
  await until(() => handled.length === 2 || socket.destroyed);
  handled[1]?.end('two');
  await Promise.all([closed, ended]);
  const [, , second = ''] = received().split('HTTP/1.1 200');
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

describe('of the requests of one connection', () => {
  const posts = (count: number) => REQUEST.repeat(count);
  const expecting = (what: string) => REQUEST.replace('host', `expect: ${what}\r\nhost`);
  const answersIn = (text: string) => text.split('HTTP/1.1 ').length - 1;

  test('the next begins when the answer to the one before was handed over', async () => {
    const { server, handled, socket, received, ended } = await house();
    socket.write(posts(5));
    for (let turn = 1; turn <= 5; turn += 1) {
      await until(() => handled.length >= turn);
      expect([handled.length, answersIn(received())]).toEqual([turn, turn - 1]);
      handled[turn - 1]?.end(`answer ${turn}`);
      await until(() => received().includes(`answer ${turn}`));
    }
    await Promise.all([server.close(), ended]);
  });

  test('one in whose place Node.js would answer waits for its turn as well', async () => {
    const { server, handled, socket, received, ended } = await house();
    socket.write(REQUEST + expecting('miracles') + expecting('100-continue'));
    await until(() => handled.length >= 1);
    handled[0]?.end('one');
    await until(() => handled.length >= 2);
    handled[1]?.end('two');
    await until(() => received().includes('two'));
    expect(received().match(/HTTP\/1.1 \d+|one|two/g)).toEqual([
      'HTTP/1.1 200',
      'one',
      'HTTP/1.1 417',
      'HTTP/1.1 100',
      'HTTP/1.1 200',
      'two',
    ]);
    await Promise.all([server.close(), ended]);
  });

  test('nothing more is read while two wait, in however many pieces they come', async () => {
    const { server, handled, socket, ended } = await house();
    const long = REQUEST.replace('host', `x-long: ${'x'.repeat(14_000)}\r\nhost`);
    const write = (text: string) => new Promise((done) => socket.write(text, done));
    await write(REQUEST);
    await until(() => handled.length === 1);
    const read = () => handled[0]?.req.socket.bytesRead ?? 0;
    for (let sent = 0; sent < 20; sent += 1) {
      await write(long);
      await sleep(1);
    }
    expect(read()).toBeLessThan(10 * long.length);
    for (let turn = 0; turn <= 20; turn += 1) {
      await until(() => handled.length > turn);
      handled[turn]?.end();
    }
    await Promise.all([server.close(), ended]);
  });

  test('32 may wait for their answers', async () => {
    const { server, handled, socket, received, ended } = await house();
    socket.write(posts(32));
    for (let turn = 0; turn < 32; turn += 1) {
      await until(() => handled.length > turn);
      handled[turn]?.end();
    }
    await until(() => answersIn(received()) === 32);
    await Promise.all([server.close(), ended]);
  });

  test.each([
    ['more', REQUEST],
    ['more in whose place Node.js would answer', expecting('miracles')],
  ])('%s close it, and none that waits is carried out', async (_what, request) => {
    const { server, handled, closings, socket, received, ended } = await house();
    socket.on('error', () => {});
    socket.write(REQUEST + request.repeat(32));
    await ended;
    handled[0]?.end();
    await server.close();
    expect([handled.length, closings, received()]).toEqual([1, ['pipelined'], '']);
  });

  test('over HTTPS the next begins behind the one before as well, and more close it once', async () => {
    const authority = makeAuthority();
    const own = { ...authority.issue('gateway'), pem: authority.pem };
    const { server, handled, closings, socket, received, ended } = await house(own);
    authority.remove();
    socket.on('error', () => {});
    socket.write(posts(2));
    await until(() => handled.length >= 1);
    handled[0]?.end('one');
    await until(() => handled.length >= 2);
    expect(received()).toContain('one');
    socket.write(posts(200));
    await ended;
    await server.close();
    expect([handled.length, closings]).toEqual([2, ['pipelined']]);
  });

  test('none is read on for while two wait, and those that come later are served all the same', async () => {
    const { server, handled, socket, received, ended } = await house();
    socket.write(posts(3));
    await until(() => handled.length === 1);
    // None of these is among the unanswered ones before it is read.
    socket.write(posts(30));
    for (let turn = 0; turn < 33; turn += 1) {
      await until(() => handled.length > turn);
      handled[turn]?.end();
    }
    await until(() => answersIn(received()) === 33);
    await Promise.all([server.close(), ended]);
  });

  test('none that waits is carried out when its client has gone', async () => {
    const { server, handled, socket } = await house();
    socket.write(posts(2));
    await until(() => handled.length >= 1);
    const gone = once(handled[0] as ServerResponse, 'close');
    socket.resetAndDestroy();
    await gone;
    await server.close();
    expect(handled.length).toBe(1);
  });

  test('none is carried out behind an answer that is the last', async () => {
    const { server, handled, socket, ended, received } = await house();
    socket.write(posts(2));
    await until(() => handled.length >= 1);
    const closed = server.close();
    handled[0]?.end('one');
    await Promise.all([closed, ended]);
    expect(handled.length).toBe(1);
    expect(received()).toMatch(/connection: close.*one$/is);
  });
});
