import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { once } from 'node:events';
import type { Server } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { basic } from '../../auth/support.ts';
import { createTestApi } from '../support-api.ts';

const LENGTH = 256 * 1024;
const HEAD = '{"project":"p","dataset_name":"d","type":"MDX","rows":"';
const DOCUMENT = `${HEAD}${'x'.repeat(LENGTH - HEAD.length - 2)}"}`;

let api: ReturnType<typeof createTestApi>;
let server: Server;
let client: Socket;
/** The server's end of the connection. */
let end: Socket;
let answer: string;

beforeEach(async () => {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'performance'] });
  api = createTestApi();
  server = api.app.listen(0, '127.0.0.1');
  server.once('connection', (socket: Socket) => (end = socket));
  await once(server, 'listening');
  answer = '';
  client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  client.on('error', () => {});
  client.on('data', (piece) => (answer += String(piece)));
  await once(client, 'connect');
});
afterEach(async () => {
  jest.useRealTimers();
  client.destroy();
  await new Promise((resolve) => server.close(resolve));
});

/** Time stands still here, so that only turns of the event loop can be waited for. */
async function turnsUntil(condition: () => boolean): Promise<void> {
  while (!condition()) await setImmediate();
}

let sent = 0;
/** Resolves when the server has seen all of it. */
async function write(text: string): Promise<void> {
  sent += text.length;
  client.write(text);
  await turnsUntil(() => end !== undefined && end.bytesRead >= sent);
  for (let turn = 0; turn < 5; turn += 1) await setImmediate();
}

/** Asks for an import, and waits until its body is asked for. */
async function begin(length: number): Promise<void> {
  sent = 0;
  const lines = [
    'POST /api/dataset?createType=import HTTP/1.1',
    'Host: x',
    `Authorization: ${basic('ADMIN', 'x')}`,
    'Content-Type: application/json',
    `Content-Length: ${length}`,
  ];
  await write(`${lines.join('\r\n')}\r\n\r\n`);
  await turnsUntil(() => jest.getTimerCount() > 0);
}

test.each([
  ['of a short dataset in ten seconds', 5_000, ['{', ' ']],
  ['of a long one', LENGTH, ['x'.repeat(32 * 1024), 'x'.repeat(32 * 1024 - 1)]],
  ['of any, as before it sent enough', LENGTH, ['x'.repeat(32 * 1024), 'x'.repeat(40_000), '', '']],
])(
  'a client that sends less than 64 KiB %s is broken off, and the log says why',
  async (_what, length, pieces) => {
    await begin(length);
    for (const piece of pieces) {
      expect(api.events).toEqual([]);
      await write(piece);
      jest.advanceTimersByTime(5_000);
      await setImmediate();
    }
    await turnsUntil(() => api.events.length > 0);
    expect(api.events).toEqual([
      expect.objectContaining({
        type: 'api-answered',
        operation: 'importDataset',
        status: 499,
        reason: 'client-gone',
        error: expect.objectContaining({ message: expect.stringContaining('too slowly') }),
      }),
    ]);
    expect([answer, jest.getTimerCount()]).toEqual(['', 0]);
  },
);

test('a client that sends 64 KiB in each ten seconds has its dataset imported', async () => {
  await begin(DOCUMENT.length);
  for (let from = 0; from < DOCUMENT.length; from += 64 * 1024) {
    await write(DOCUMENT.slice(from, from + 64 * 1024));
    jest.advanceTimersByTime(10_000);
    await setImmediate();
  }
  await turnsUntil(() => answer.includes('dataset_id'));
  expect(answer).toMatch(/^HTTP\/1.1 200 /);
});

test('a short dataset may come ten seconds after its head', async () => {
  const short = `${HEAD}"}`;
  await begin(short.length);
  jest.advanceTimersByTime(9_999);
  await write(short);
  await turnsUntil(() => answer.includes('dataset_id'));
  expect(answer).toMatch(/^HTTP\/1.1 200 /);
  expect(jest.getTimerCount()).toBe(0);
});
