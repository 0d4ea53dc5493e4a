import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { request, type ClientRequest, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, portOf, send, shortStatus, until } from '../support/http-client.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const MIB = 1024 * 1024;

let engine: StubEngine;
let gateway: TestGateway;

beforeAll(async () => {
  engine = await startStubEngine(sendXml(mddatasetAnswer()));
});
beforeEach(() => {
  engine.seen.length = 0;
});
afterEach(async () => {
  await gateway.close();
});
afterAll(async () => {
  await engine.close();
});

async function start(queue: number): Promise<void> {
  gateway = await startTestGateway({
    engine: { url: engine.url },
    limits: { body: '10MiB', in_flight: '16MiB', queue },
  });
}

/** One of `mdx_gateway_in_flight_…`. */
async function metric(name: string): Promise<number> {
  const headers = { authorization: basic('alice') };
  const page = await send(gateway.url, { path: '/metrics', headers });
  const line = page.text
    .split('\n')
    .find((one) => one.startsWith(`mdx_gateway_in_flight_${name} `));
  return Number(line?.split(' ')[1]);
}

/** Polls, since the gateway reads at its own pace. */
async function untilMetric(name: string, holds: (value: number) => boolean): Promise<void> {
  while (!holds(await metric(name))) await setTimeout(10);
}

/** A statement with a long comment; the first part of it is sent, the rest when the test says so. */
function beginLong(length: number, sent: number, user = 'alice') {
  const body = execute({ statement: `SELECT FROM [Long] /* ${'x'.repeat(length)} */` });
  const begun: ClientRequest = request({
    host: '127.0.0.1',
    port: portOf(gateway.url),
    method: 'POST',
    path: '/mdx/xmla',
    agent: false,
    headers: {
      authorization: basic(user),
      'content-type': 'text/xml',
      'content-length': body.length,
    },
  });
  begun.write(body.subarray(0, sent));
  const answered = once(begun, 'response') as Promise<[IncomingMessage]>;
  return {
    async end() {
      begun.end(body.subarray(sent));
      const [answer] = await answered;
      return { status: answer.statusCode, text: await text(answer) };
    },
    goAway() {
      answered.catch(() => {});
      begun.destroy();
    },
  };
}

test('requests wait for memory in their order, are then refused with a Fault and Retry-After, and none is lost', async () => {
  await start(1);
  const first = beginLong(9 * MIB, 8 * MIB);
  await untilMetric('bytes{use="request"}', (bytes) => bytes >= 8 * MIB);
  // It goes beyond what one user gets, and the next one waits, and is not asked for more.
  const beyond = beginLong(9 * MIB, 8 * MIB);
  await untilMetric('bytes{use="request"}', (bytes) => bytes >= 16 * MIB);
  const next = beginLong(MIB, MIB / 2);
  await untilMetric('queue', (count) => count === 1);
  const long = execute({ statement: `SELECT FROM [Other] /* ${'x'.repeat(MIB / 8)} */` });
  const refused = await askXmla(gateway.url, long);
  expect([refused.status, shortStatus(refused), refused.headers['retry-after']]).toEqual([
    503,
    'gateway overloaded',
    '5',
  ]);
  expect(refused.text).toMatch(/<faultstring>.*Too many requests wait for memory/);
  expect(engine.seen).toEqual([]);

  // The one that is beyond the limit needs nobody.
  for (const one of [beyond, first, next]) {
    expect(await one.end()).toEqual({ status: 200, text: mddatasetAnswer() });
  }
  await until(() => gateway.events.filter(({ type }) => type === 'xmla-answered').length === 4);
  await untilMetric('bytes{use="request"}', (bytes) => bytes === 0);
  expect(await metric('limit_bytes')).toBe(16 * MIB);
});

test('the short queries of all are answered while the long requests of one user wait for memory', async () => {
  await start(256);
  const silent = Array.from({ length: 16 }, () => beginLong(9 * MIB, 8 * MIB, 'bob'));
  // One or two hold what bob gets, and one is beyond that.
  await untilMetric('queue', (count) => count >= 13);
  for (let asked = 0; asked < 40; asked += 1) {
    const statement = `SELECT FROM [Short ${asked}]`;
    const user = asked % 4 === 0 ? 'bob' : 'alice';
    const answer = await askXmla(gateway.url, execute({ statement }), { user });
    expect([answer.status, answer.text]).toEqual([200, mddatasetAnswer()]);
  }
  for (const one of silent) one.goAway();
  await untilMetric('bytes{use="request"}', (bytes) => bytes === 0);
  expect(await metric('queue')).toBe(0);
});
