import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { connect } from 'node:net';
import { largeMddatasetAnswer, mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { portOf, until } from '../support/http-client.ts';
import { HITS_UNTIL_REMEMBERED } from '../support/remembered.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { quiet } from '../unit/cache/fakes.ts';

/** Longer than any test may take: whoever waits for it fails. */
const NEVER = 1_000_000_000;
const QUERY = execute({ statement: 'SELECT FROM [Sales]' });
const REQUEST = Buffer.concat([
  Buffer.from(
    `POST /mdx/xmla HTTP/1.1\r\nhost: gateway\r\nauthorization: ${basic('alice')}\r\n` +
      `content-type: text/xml\r\ncontent-length: ${QUERY.length}\r\n\r\n`,
  ),
  QUERY,
]);

let engine: StubEngine;
let gateway: TestGateway;
/** Called once, in the turn in which the next request comes, when the gateway has begun with it. */
let onTaken: (() => void) | undefined;
const CHANNEL = 'http.server.request.start';
function taken(): void {
  const call = onTaken;
  onTaken = undefined;
  if (call !== undefined) queueMicrotask(call);
}

beforeEach(async () => {
  engine = await startStubEngine(() => {});
  gateway = await startTestGateway({
    engine: { url: engine.url },
    limits: { in_flight: '512MiB' },
    cache: { memory: '256MiB', max_entry: '64MiB' },
  });
  subscribe(CHANNEL, taken);
});
afterEach(async () => {
  unsubscribe(CHANNEL, taken);
  await gateway.close();
  await engine.close();
});

const hits = () => gateway.events.filter(({ type }) => type === 'xmla-answered').length;

/** Asks until the query is remembered, and opens one more connection for it. */
async function connected() {
  const first = await connection();
  first.on('data', () => {});
  for (let asked = 0; asked <= HITS_UNTIL_REMEMBERED; asked += 1) {
    const before = hits();
    first.write(REQUEST);
    await until(() => hits() > before);
  }
  first.destroy();
  const socket = await connection();
  const ended = once(socket, 'close');
  return { socket, ended };
}

async function connection() {
  const socket = connect(portOf(gateway.url), '127.0.0.1').setNoDelay();
  await once(socket, 'connect');
  return socket;
}

test('a gateway that closes lets a client that reads slowly have all of an answer that memory holds', async () => {
  const body = largeMddatasetAnswer(12 * 1024 * 1024);
  engine.answerWith(sendXml(body));
  const { socket, ended } = await connected();
  const before = hits();
  const taken = new Promise<void>((resolve) => {
    onTaken = resolve;
  });
  socket.pause();
  socket.write(REQUEST);
  await taken;
  await quiet();
  const closed = gateway.gateway.close(NEVER);
  await quiet();
  // More than the system keeps of it for the client is still here.
  expect(hits()).toBe(before);
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk)).resume();
  await Promise.all([closed, ended]);
  const received = Buffer.concat(chunks);
  const at = received.indexOf('\r\n\r\n') + '\r\n\r\n'.length;
  expect(received.subarray(0, at).toString()).toContain('; hit; ');
  expect(received.length - at).toBe(Buffer.byteLength(body));
  expect(received.subarray(at).equals(Buffer.from(body))).toBe(true);
  expect(gateway.events.at(-1)).toMatchObject({ type: 'xmla-answered', complete: true });
});

test('a gateway that closes when a request has just come answers it, and waits for nothing else', async () => {
  engine.answerWith(sendXml(mddatasetAnswer()));
  const { socket, ended } = await connected();
  let received = '';
  socket.on('data', (chunk: Buffer) => (received += chunk.toString()));
  const closing = new Promise<void>((resolve, reject) => {
    onTaken = () => void gateway.gateway.close(NEVER).then(resolve, reject);
  });
  socket.write(REQUEST);
  await Promise.all([closing, ended]);
  expect(received).toContain('; hit; ');
  expect(received).toContain('</SOAP-ENV:Envelope>');
});
