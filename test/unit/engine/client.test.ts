import { afterEach, beforeEach, expect, test } from '@jest/globals';
import type { Socket } from 'node:net';
import { createQueryClient, type QueryClient } from '../../../src/engine/queries.ts';
import { createUpstream, StaleConnection, type Upstream } from '../../../src/proxy/upstream.ts';
import { startRawEngine, wholeAnswer, type RawEngine } from '../../support/raw-engine.ts';
import { until } from '../../support/http-client.ts';

let engine: RawEngine;
let sender: QueryClient;
let upstream: Upstream;

const whole = (socket: Socket) => socket.write(wholeAnswer('<a/>'));

beforeEach(async () => {
  engine = await startRawEngine(whole);
  const none = { ca: undefined, certificate: undefined, key: undefined };
  upstream = createUpstream({ url: engine.url, ...none }, true);
  sender = createQueryClient(upstream);
});
afterEach(async () => {
  sender.close();
  upstream.close();
  await engine.close();
});

async function ask(): Promise<string> {
  const query = {
    path: '/xmla',
    headers: { 'content-length': '4', accept: 'text/xml' },
    body: Buffer.from('<q/>'),
    signal: new AbortController().signal,
    timeout: 60_000,
  };
  const chunks: Buffer[] = [];
  for await (const chunk of await sender.send(query)) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

/** By whom each query was sent: undici has the length last. */
const by = () => engine.seen.map((text) => (/length: 4\r\n\r\n/.test(text) ? 'undici' : 'node'));

async function askUntilUndici(): Promise<void> {
  while (by().at(-1) !== 'undici') await ask();
  engine.seen.length = 0;
}

test('the first query goes by node:http, and soon all go by undici', async () => {
  await ask();
  expect(by()).toEqual(['node']);
  await askUntilUndici();
  expect([await ask(), await ask(), by()]).toEqual(['<a/>', '<a/>', ['undici', 'undici']]);
});

test('the engine sees no difference between the first query and the others', async () => {
  await askUntilUndici();
  const other = createQueryClient(upstream);
  for (const client of [other, sender]) {
    const headers = { accept: 'text/xml', 'x-odd': '\u{E9}', 'content-length': '4' };
    const sent = { path: '/a?b', headers, body: Buffer.from('<q/>'), timeout: 60_000 };
    for await (const _ of await client.send(sent));
  }
  const [first, next] = engine.seen;
  expect(next).toContain('\r\nhost: ');
  expect(first).toBe(next);
});

test.each([
  ['says 100 Continue', 'HTTP/1.1 100 Continue\r\n\r\n', 'OK'],
  ['has a reason phrase that is not ASCII', '', '\u{E9}'],
])('a query whose engine %s is answered, and the next ones go by node:http', async (...given) => {
  const [, before, reason] = given;
  await askUntilUndici();
  engine.answerWith((socket) =>
    socket.write(before + wholeAnswer('<b/>').replace('OK', reason), 'latin1'),
  );
  expect(await ask()).toBe('<b/>');
  expect(by()).toEqual(['undici', 'node']);
  expect([await ask(), await ask()]).toEqual(['<b/>', '<b/>']);
  expect(by()).toEqual(['undici', 'node', 'node', 'node']);
});

test.each([
  ['says 100 Continue', 'HTTP/1.1 100 Continue\r\n\r\n', 'OK'],
  ['has a reason phrase that is not ASCII', '', '\u{E9}'],
])('after one answer whose engine %s, queries go by undici again', async (...given) => {
  const [, before, reason] = given;
  await askUntilUndici();
  let odd = true;
  engine.answerWith((socket) => {
    const text = before + wholeAnswer('<b/>').replace('OK', reason);
    socket.write(odd ? text : wholeAnswer('<b/>'), 'latin1');
    odd = false;
  });
  expect(await ask()).toBe('<b/>');
  await new Promise(setImmediate);
  expect([await ask(), await ask()]).toEqual(['<b/>', '<b/>']);
  expect(by()).toEqual(['undici', 'node', 'undici', 'undici']);
});

test.each<[string, (socket: Socket | undefined) => void]>([
  ['is reset', (socket) => socket?.resetAndDestroy()],
  ['is closed', (socket) => socket?.destroy()],
  ['brings what is no answer', (socket) => socket?.write('nonsense')],
])('a query whose connection %s before it is sent goes out on a new one', async (_, act) => {
  await askUntilUndici();
  const used: Socket[] = [];
  engine.answerWith((socket) => {
    used.push(socket);
    whole(socket);
  });
  await ask();
  // From here to the turn in which undici sends the query, the event loop looks for what came.
  await new Promise(setImmediate);
  act(used[0]);
  expect([await ask(), await ask()]).toEqual(['<a/>', '<a/>']);
  expect([used[1] === used[0], used[2] === used[1]]).toEqual([false, true]);
});

test('an engine that says 100 Continue to the first query is never asked by undici', async () => {
  engine.answerWith((socket) =>
    socket.write(`HTTP/1.1 100 Continue\r\n\r\n${wholeAnswer('<b/>')}`),
  );
  for (let index = 0; index < 4; index += 1) {
    expect(await ask()).toBe('<b/>');
    await new Promise(setImmediate);
  }
  expect(new Set(by())).toEqual(new Set(['node']));
});

test('a query on a connection that the engine had closed is told apart, and goes out on a new one when the others are closed', async () => {
  await askUntilUndici();
  // Three at one time, so that three connections are kept.
  const waiting: Socket[] = [];
  engine.answerWith((socket) => {
    waiting.push(socket);
    if (waiting.length === 3) for (const one of waiting) whole(one);
  });
  await Promise.all([ask(), ask(), ask()]);
  engine.seen.length = 0;
  engine.answerWith((socket) => void (waiting.includes(socket) ? socket.destroy() : whole(socket)));
  await expect(ask()).rejects.toBeInstanceOf(StaleConnection);
  sender.closeIdle();
  expect(await ask()).toBe('<a/>');
  expect(engine.seen).toHaveLength(2);
  await until(() => engine.sockets.size === 1);
});
