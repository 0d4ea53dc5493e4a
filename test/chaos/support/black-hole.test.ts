import { once } from 'node:events';
import type { AddressInfo, Server, Socket } from 'node:net';
import { connect, createServer } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { BlackHole } from '../../support/black-hole.ts';
import { startBlackHole } from '../../support/black-hole.ts';

/** Answers every text with `re:` and the text, and remembers what arrived. */
let target: Server;
let arrived: string[];
let hole: BlackHole;
const sockets = new Set<Socket>();

beforeEach(async () => {
  arrived = [];
  target = createServer((socket) => {
    sockets.add(socket);
    socket.setEncoding('utf8').on('data', (text) => {
      arrived.push(String(text));
      socket.write(`re:${text}`);
      target.emit('arrived');
    });
    socket.on('error', () => socket.destroy());
  });
  target.listen(0, '127.0.0.1');
  await once(target, 'listening');
  hole = await startBlackHole(targetPort());
});

afterEach(async () => {
  await hole.close();
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  target.close();
});

function targetPort(): number {
  return (target.address() as AddressInfo).port;
}

async function client(port = hole.port): Promise<Socket> {
  const socket = connect(port, '127.0.0.1').setEncoding('utf8');
  sockets.add(socket);
  socket.on('error', () => socket.destroy());
  await once(socket, 'connect');
  return socket;
}

async function reply(socket: Socket): Promise<string> {
  const [text] = (await once(socket, 'data')) as [string];
  return text;
}

/** A round trip beside the hole: what was let through before it has arrived when it ends. */
async function fence(): Promise<void> {
  const socket = await client(targetPort());
  for (let turn = 0; turn < 20; turn += 1) {
    const answer = reply(socket);
    socket.write('fence');
    await answer;
  }
  arrived = arrived.filter((text) => text !== 'fence');
}

describe('a black hole', () => {
  test('forwards both ways', async () => {
    const socket = await client();
    socket.write('hello');
    expect(await reply(socket)).toBe('re:hello');
    expect(hole).toMatchObject({ mode: 'forward', connections: 1 });
  });

  test('passes the end of one direction and still brings the answer', async () => {
    const socket = await client();
    socket.end('last');
    expect(await reply(socket)).toBe('re:last');
  });

  test('hangs: old and new connections stay open and nothing arrives', async () => {
    const old = await client();
    await hole.set('hang');
    const fresh = await client();
    old.write('old');
    fresh.write('fresh');
    await fence();
    expect(arrived).toEqual([]);
    expect([old.closed, fresh.closed]).toEqual([false, false]);
  });

  test('delivers what it held back when it forwards again', async () => {
    const old = await client();
    await hole.set('hang');
    const fresh = await client();
    old.write('old');
    fresh.write('fresh');
    const replies = Promise.all([reply(old), reply(fresh)]);
    await hole.set('forward');
    expect(await replies).toEqual(['re:old', 're:fresh']);
  });

  test('mutes: the request arrives, its answer does not before it forwards again', async () => {
    const socket = await client();
    await hole.set('mute');
    let heard = '';
    socket.on('data', (text) => (heard += String(text)));
    const requested = once(target, 'arrived');
    socket.write('set');
    await requested;
    await fence();
    expect({ arrived, heard }).toEqual({ arrived: ['set'], heard: '' });
    const answer = reply(socket);
    await hole.set('forward');
    expect(await answer).toBe('re:set');
  });

  test('refuses: open connections break, new ones are refused, the port comes back', async () => {
    const old = await client();
    const broken = once(old, 'close');
    await hole.set('refuse');
    await broken;
    const refused = connect(hole.port, '127.0.0.1');
    await expect(once(refused, 'connect')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    await hole.set('forward');
    const socket = await client();
    socket.write('again');
    expect(await reply(socket)).toBe('re:again');
  });

  test('hangs straight after it refused', async () => {
    await hole.set('refuse');
    await hole.set('hang');
    const socket = await client();
    socket.write('lost');
    await fence();
    expect(arrived).toEqual([]);
  });

  test('cuts open connections and goes on', async () => {
    const old = await client();
    const broken = once(old, 'close');
    hole.cut();
    await broken;
    const socket = await client();
    socket.write('next');
    expect(await reply(socket)).toBe('re:next');
  });

  test('breaks the connection when there is nobody behind it', async () => {
    target.close();
    const socket = connect(hole.port, '127.0.0.1');
    socket.on('error', () => undefined);
    await once(socket, 'close');
    expect(hole.connections).toBe(0);
  });

  test('is closed twice without harm, and while it refuses', async () => {
    await hole.set('refuse');
    await hole.close();
    await hole.close();
    expect(hole.connections).toBe(0);
  });
});
