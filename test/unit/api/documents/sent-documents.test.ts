import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { EventEmitter, once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { sendDocument } from '../../../../src/api/documents.ts';

/** More than the buffers of a connection hold. */
const DOCUMENT = Buffer.alloc(24 * 1024 * 1024, 'document ');
const PIECE = 64 * 1024;

let server: Server;
let client: Socket;
/** What became of each answer, in the order in which they ended. */
let ends: string[];
/** What the server has handed to the connection, without heads. */
let pieces: number;

beforeEach(async () => {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'performance'] });
  const mine: string[] = [];
  ends = mine;
  pieces = 0;
  server = createServer((request, response) => {
    const write = response.write.bind(response) as (...given: unknown[]) => boolean;
    response.write = (...given: unknown[]) => {
      pieces += 1;
      return write(...given);
    };
    if (request.url === '/never') return;
    sendDocument(response, DOCUMENT).then(
      () => mine.push(`${request.url} whole`),
      ({ reason }: { reason: string }) => mine.push(`${request.url} ${reason}`),
    );
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  client.on('error', () => {});
  await once(client, 'connect');
});

afterEach(async () => {
  jest.useRealTimers();
  client.destroy();
  await new Promise((resolve) => server.close(resolve));
});

const ask = (path: string, method = 'GET') =>
  client.write(`${method} ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);

/** Time stands still here, so that only turns of the event loop can be waited for. */
async function turnsUntil(condition: () => boolean): Promise<void> {
  while (!condition()) await setImmediate();
}

/** Waits until the connection holds all that it can, which a busy kernel may take in bit by bit. */
async function stuck(): Promise<void> {
  await turnsUntil(() => pieces > 0);
  let before: number;
  do {
    before = pieces;
    const calm = performance.now() + 100;
    for (let turn = 0; turn < 200 || performance.now() < calm; turn += 1) await setImmediate();
  } while (pieces > before);
}

async function received(): Promise<Buffer> {
  const chunks: Buffer[] = [];
  client.on('data', (chunk: Buffer) => chunks.push(chunk));
  await once(client, 'close');
  return Buffer.concat(chunks);
}

test('a document arrives byte by byte, and is held until the connection has taken it', async () => {
  client.pause();
  ask('/a');
  await stuck();
  expect([ends, pieces < DOCUMENT.length / PIECE]).toEqual([[], true]);
  const all = received();
  client.resume();
  await turnsUntil(() => ends.length > 0);
  expect(ends).toEqual(['/a whole']);
  client.end();
  const bytes = await all;
  const head = bytes.indexOf('\r\n\r\n') + 4;
  expect(bytes.subarray(0, head).toString()).toMatch(/content-length: 25165824/i);
  expect(bytes.subarray(head).equals(DOCUMENT)).toBe(true);
  expect(jest.getTimerCount()).toBe(0);
});

/** Reads until the server has gone on; in paused mode a client takes what it asks for. */
async function takeSome(): Promise<void> {
  const before = pieces;
  await turnsUntil(() => {
    client.read();
    return pieces > before;
  });
}

test('a reader that takes nothing in ten seconds is broken off', async () => {
  client.pause();
  ask('/a');
  await stuck();
  // In these it took what the connection holds.
  jest.advanceTimersByTime(10_000);
  await stuck();
  jest.advanceTimersByTime(9_999);
  await stuck();
  expect(ends).toEqual([]);
  jest.advanceTimersByTime(1);
  await turnsUntil(() => ends.length > 0);
  expect(ends).toEqual(['/a client-gone']);
  const all = received();
  client.resume();
  expect((await all).length).toBeLessThan(DOCUMENT.length);
  expect(jest.getTimerCount()).toBe(0);
});

test('a reader that goes on is served to the end, and so is an answer that waits behind its own', async () => {
  client.pause();
  ask('/a');
  ask('/b');
  await stuck();
  for (let window = 0; window < 7; window += 1) {
    jest.advanceTimersByTime(10_000);
    await takeSome();
  }
  expect(ends).toEqual([]);
  client.resume();
  await turnsUntil(() => ends.length === 2);
  expect(ends).toEqual(['/a whole', '/b whole']);
});

test('an answer behind another one on the same connection is broken off with it', async () => {
  client.pause();
  ask('/a');
  ask('/b');
  await stuck();
  jest.advanceTimersByTime(20_000);
  await turnsUntil(() => ends.length === 2);
  expect(ends.toSorted()).toEqual(['/a client-gone', '/b client-gone']);
  expect(jest.getTimerCount()).toBe(0);
});

test('an answer that waits behind one that never comes is broken off too', async () => {
  ask('/never');
  ask('/b');
  await turnsUntil(() => pieces > 0);
  jest.advanceTimersByTime(10_000);
  await turnsUntil(() => ends.length > 0);
  expect(ends).toEqual(['/b client-gone']);
});

test('who goes away holds nothing', async () => {
  client.pause();
  ask('/a');
  ask('/b');
  await stuck();
  client.destroy();
  await turnsUntil(() => ends.length === 2);
  expect(ends.toSorted()).toEqual(['/a client-gone', '/b client-gone']);
  expect(jest.getTimerCount()).toBe(0);
});

test('the answer to HEAD is the head', async () => {
  const all = received();
  ask('/a', 'HEAD');
  await turnsUntil(() => ends.length > 0);
  client.end();
  expect((await all).toString()).toMatch(
    /^HTTP\/1.1 200 OK\r\n[^]*length: 25165824\r\n[^]*\r\n\r\n$/,
  );
  expect([ends, pieces]).toEqual([['/a whole'], 0]);
});

describe('a connection that takes pieces of 64 KiB', () => {
  /** Sends to a connection that takes one piece each so many milliseconds, and resolves to how often it did. */
  async function takenEvery(interval: number): Promise<{ end: string; taken: number }> {
    const socket = { bytesWritten: 0 };
    const response = Object.assign(new EventEmitter(), {
      req: { method: 'GET', socket },
      writeHead() {},
      write(piece: Buffer, done: () => void) {
        socket.bytesWritten += piece.length;
        next = done;
      },
      end() {},
      destroy: () => response.emit('close'),
    });
    let next: (() => void) | undefined;
    const ended: string[] = [];
    sendDocument(response as unknown as ServerResponse, DOCUMENT).then(
      () => ended.push('whole'),
      ({ reason }: { reason: string }) => ended.push(reason),
    );
    let taken = 0;
    for (;;) {
      jest.advanceTimersByTime(interval);
      await setImmediate();
      if (ended.length > 0) return { end: ended.join(), taken };
      taken += 1;
      next?.();
      await setImmediate();
    }
  }

  test('at least every ten seconds gets the whole document', async () => {
    expect(await takenEvery(9_900)).toEqual({ end: 'whole', taken: DOCUMENT.length / PIECE });
  });

  test('less often is broken off', async () => {
    const { end, taken } = await takenEvery(12_000);
    expect([end, taken < 10]).toEqual(['client-gone', true]);
  });
});
